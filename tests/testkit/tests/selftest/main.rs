//! The instruments, tried on a real API server: an instrument that cannot show a fault proves nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and tells what it saw"
)]

mod audit;
mod lent;
mod moto;
mod platform;
mod proxy;
mod sandbox;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A ConfigMap with one entry.
pub fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// The entry of a ConfigMap.
pub fn value(live: &ConfigMap) -> Option<&str> {
    live.data.as_ref()?.get("key").map(String::as_str)
}
