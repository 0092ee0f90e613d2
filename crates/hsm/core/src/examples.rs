//! Secrets for tests, of this crate and of those above it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::metadata::Metadata;
use crate::path::{KeyName, SecretPath};
use crate::secret::{Data, Secret, Value};
use crate::version::Stamp;

/// A path, which has to be one.
pub fn path(text: &str) -> SecretPath {
    SecretPath::parse(text).unwrap()
}

/// Keys, which have to be some, and values.
pub fn data(pairs: &[(&str, &[u8])]) -> Data {
    let pair = |(key, value): &(&str, &[u8])| (KeyName::parse(key).unwrap(), Value::new(*value));
    pairs.iter().map(pair).collect()
}

/// The stamp of a version, always of the same time.
pub fn stamp(version: u64) -> Stamp {
    Stamp {
        version,
        timestamp: Some("2026-07-07T08:00:00Z".parse().unwrap()),
        ..Stamp::default()
    }
}

/// A secret with this version and with these keys and values.
pub fn secret(version: u64, pairs: &[(&str, &[u8])]) -> Secret {
    Secret {
        data: data(pairs),
        metadata: Metadata {
            stamp: stamp(version),
            ..Metadata::default()
        },
    }
}
