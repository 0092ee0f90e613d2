//! Secrets for tests.

use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Data, Secret, Value};
use trustplane_hsm_core::version::Stamp;
use trustplane_hsm_token::{Module, Store};

use crate::stage::log_in;

pub fn path(text: &str) -> SecretPath {
    SecretPath::parse(text).unwrap()
}

pub fn data(pairs: &[(&str, &[u8])]) -> Data {
    let pair = |(key, value): &(&str, &[u8])| (KeyName::parse(key).unwrap(), Value::new(*value));
    pairs.iter().map(pair).collect()
}

pub fn stamp(version: u64) -> Stamp {
    Stamp {
        version,
        timestamp: Some("2026-07-07T08:00:00Z".parse().unwrap()),
        ..Stamp::default()
    }
}

pub fn secret(version: u64, pairs: &[(&str, &[u8])]) -> Secret {
    Secret {
        data: data(pairs),
        metadata: Metadata {
            stamp: stamp(version),
            ..Metadata::default()
        },
    }
}

/// The store on the token with a label, without limits.
pub fn store<'module>(module: &'module Module, label: &str) -> Store<'module> {
    Store::open(log_in(module, label), Limits::default()).unwrap()
}
