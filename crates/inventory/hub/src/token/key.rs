//! The public keys of clients.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::store::identity::ClientKey;

/// The longest PEM text of a public key.
pub const MAX_PEM: usize = 8 * 1024;

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";
/// What the DER of every public key of P-256 with an uncompressed point begins with (RFC 5480).
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The length of an uncompressed point: a 4, and two coordinates.
const POINT: usize = 65;

/// Why a text is no public key that a client may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not PEM, or not of a public key.
    #[error("want one PEM block that begins with {BEGIN}")]
    Pem,
    /// A private key.
    #[error("this is a private key: it must stay with the agent; give the public key (openssl pkey -pubout)")]
    Private,
    /// Another curve or another kind of key.
    #[error("want an ECDSA public key on the curve P-256 (prime256v1): assertions are signed with ES256")]
    Curve,
}

/// Reads a public key from PEM.
pub fn read(pem: &str) -> Result<ClientKey, KeyError> {
    if pem.contains("PRIVATE KEY-----") {
        return Err(KeyError::Private);
    }
    let body = pem.trim();
    let body = body.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    let body = body.filter(|_| pem.len() <= MAX_PEM).ok_or(KeyError::Pem)?;
    let packed: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let der = STANDARD.decode(packed).map_err(|_| KeyError::Pem)?;
    let point = der.strip_prefix(&P256_HEAD).ok_or(KeyError::Curve)?;
    of_point(point).ok_or(KeyError::Curve)
}

/// A key of an uncompressed point, if the point is on the curve.
fn of_point(point: &[u8]) -> Option<ClientKey> {
    ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).ok()?;
    let coordinates = point.strip_prefix(&[4]).filter(|_| point.len() == POINT)?;
    let (x, y) = coordinates.split_at_checked(POINT / 2)?;
    Some(ClientKey {
        kid: thumbprint(x, y),
        point: point.to_vec(),
    })
}

/// The thumbprint of RFC 7638.
fn thumbprint(x: &[u8], y: &[u8]) -> String {
    let [x, y] = [x, y].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate));
    let jwk = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    URL_SAFE_NO_PAD.encode(digest(&SHA256, jwk.as_bytes()))
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData};

    use super::*;

    #[test]
    fn a_key_on_p256_is_read() {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let key = read(&pair.public_key_pem()).unwrap();
        assert_eq!(key.point, pair.der_bytes());
        assert_eq!(key.kid.len(), 43);
        let unix = pair.public_key_pem().replace("\r\n", "\n");
        assert_eq!(
            read(&format!("\n{unix}\n")).unwrap(),
            key,
            "line ends and blanks do not matter"
        );
    }

    #[test]
    fn other_keys_are_refused_with_the_rule() {
        for algorithm in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            assert_eq!(read(&pair.public_key_pem()), Err(KeyError::Curve));
        }
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        assert_eq!(read(&pair.serialize_pem()), Err(KeyError::Private));
        for text in ["", "hello", BEGIN, &format!("{BEGIN}!{END}")] {
            assert_eq!(read(text), Err(KeyError::Pem), "{text}");
        }
    }

    #[test]
    fn a_point_off_the_curve_is_refused() {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let mut point = pair.der_bytes().to_vec();
        *point.last_mut().unwrap() ^= 1;
        assert!(of_point(&point).is_none());
        assert!(of_point(&point[..64]).is_none());
    }
}
