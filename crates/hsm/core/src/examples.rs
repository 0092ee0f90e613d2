//! Secrets and tokens for tests, of this crate and of those above it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use jiff::Timestamp;

use crate::metadata::Metadata;
use crate::path::{KeyName, SecretPath};
use crate::secret::{Data, Secret, Value};
use crate::usb::{Found, Tracked};
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

/// A token with this serial number at a path, and whether it is there, since so many milliseconds after the beginning of time.
pub fn tracked(serial: Option<&str>, path: &str, available: bool, since: i64) -> Tracked {
    Tracked {
        found: Found {
            device_path: path.to_owned(),
            node: path.to_owned(),
            serial: serial.map(str::to_owned),
            info: [].into(),
        },
        available,
        since: Timestamp::from_millisecond(since).unwrap(),
    }
}
