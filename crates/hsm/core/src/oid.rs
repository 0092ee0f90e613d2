//! The type that the original notes beside each value, as an object identifier. Nothing reads it back; it is written so that an
//! object of ours is like one of the original.

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectType {
    /// Text.
    Plaintext,
    /// A JSON object or list.
    Json,
    /// A PEM block.
    Pem,
    /// Bytes that are no text.
    Binary,
    /// Base64; also every other word of its letters, if its length is a multiple of four.
    Base64,
    /// An X.509 certificate. Never inferred.
    X509Certificate,
    /// A private key. Never inferred.
    PrivateKey,
    /// Credentials of an image registry. Never inferred.
    DockerConfig,
}

impl ObjectType {
    /// The type that the original would note for this value. The first rule that fits counts.
    pub fn infer(value: &[u8]) -> Self {
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
        let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
        match value {
            [] => Self::Plaintext,
            _ if value.len() > 20 && value.starts_with(b"-----") => Self::Pem,
            [b'{' | b'[', ..] => Self::Json,
            _ if value.len().is_multiple_of(4) && value.iter().all(is_base64) => Self::Base64,
            _ if value.iter().any(is_control) => Self::Binary,
            _ => Self::Plaintext,
        }
    }

    /// The object identifier 1.3.6.1.4.1.99999.1.N in DER, for `CKA_OBJECT_ID`.
    pub fn der(self) -> [u8; 12] {
        let last = match self {
            Self::Plaintext => 1,
            Self::Json => 2,
            Self::Pem => 3,
            Self::Binary => 4,
            Self::Base64 => 5,
            Self::X509Certificate => 6,
            Self::PrivateKey => 7,
            Self::DockerConfig => 8,
        };
        [
            0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x86, 0x8d, 0x1f, 0x01, last,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let cases: [(&[u8], ObjectType); 18] = [
            (b"", ObjectType::Plaintext),
            (b"hello world", ObjectType::Plaintext),
            (b"-----BEGIN X-----\nabc", ObjectType::Pem),
            // Twenty bytes are not enough.
            (b"-----BEGIN XY-----\nab"[..20].as_ref(), ObjectType::Plaintext),
            (b"-----BEGIN XY-----\na\0b", ObjectType::Pem),
            (b"{", ObjectType::Json),
            (b"[1, 2]", ObjectType::Json),
            (b"{\0", ObjectType::Json),
            (b" {}", ObjectType::Plaintext),
            (b"password", ObjectType::Base64),
            (b"YWI=", ObjectType::Base64),
            (b"====", ObjectType::Base64),
            (b"admin", ObjectType::Plaintext),
            (b"a-b_", ObjectType::Plaintext),
            (b"a\tb\r\n", ObjectType::Plaintext),
            (b"a\0b", ObjectType::Binary),
            // Only what is below a space counts as control.
            (b"\xff\x7f\x80", ObjectType::Plaintext),
            (b"\x1b", ObjectType::Binary),
        ];
        for (value, expected) in cases {
            assert_eq!(ObjectType::infer(value), expected, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn the_identifier_is_der() {
        let all = [
            ObjectType::Plaintext,
            ObjectType::Json,
            ObjectType::Pem,
            ObjectType::Binary,
            ObjectType::Base64,
            ObjectType::X509Certificate,
            ObjectType::PrivateKey,
            ObjectType::DockerConfig,
        ];
        for (number, of) in (1..).zip(all) {
            let text = crate::checksum::hex(&of.der());
            assert_eq!(text, format!("060a2b06010401868d1f01{number:02x}"));
        }
    }
}
