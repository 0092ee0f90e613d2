//! The rules of Kubernetes for names, keys and values.

/// Whether it can be the value of a label. It may be empty.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// Whether it can be the key of a label, or of a taint: a name, perhaps after a DNS name and a slash.
pub(super) fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Letters, digits and `-_.`, with a letter or a digit at both ends, at most 63.
fn is_name(name: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let bytes = name.as_bytes();
    bytes.len() <= 63 && ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(inner)
}

/// Whether it can be a part of a DNS name.
pub(super) fn is_dns_label(label: &str) -> bool {
    let ends =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let bytes = label.as_bytes();
    bytes.len() <= 63 && ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(inner)
}

/// Whether it can be a DNS name, as Kubernetes takes it: its parts may be longer than those of DNS.
pub(super) fn is_dns_subdomain(name: &str) -> bool {
    let ends =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(inner)
    };
    name.len() <= 253 && name.split('.').all(is_part)
}
