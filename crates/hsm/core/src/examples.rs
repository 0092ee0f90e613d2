//! Secrets, tokens and selectors for tests, of this crate and of those above it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use strum::IntoEnumIterator;

use crate::limits::Profile;
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

/// The names of all profiles, as an HSMDevice has them in `spec.pkcs11.limits`.
pub fn profiles() -> Vec<&'static str> {
    Profile::iter().map(Into::into).collect()
}

/// Selectors that make no sense in `discovery.usb`: each with the fault that the code finds, and with words of the refusal of the
/// policy that ships. Both know the rule, and this holds them together.
pub fn senseless_selectors() -> Vec<(Json, &'static str, &'static str)> {
    let shape =
        "spec.discovery.usb: must be an object with vendorId and productId, or a list of 1 to 64 of them";
    let fields = "spec.discovery.usb: each must have the fields vendorId and productId";
    let vendor = "spec.discovery.usb.vendorId: must be four hexadecimal digits";
    let product = "spec.discovery.usb.productId: must be four hexadecimal digits";
    let serial = "spec.discovery.usb.serialNumber: must be a text of at most 128 characters";
    let long = "spec.discovery.usb.serialNumber: must have at most 128 characters";
    let first = "spec.discovery.usb[0]: must be an object with vendorId and productId";
    let second = "spec.discovery.usb[1]: must be an object with vendorId and productId";
    let second_vendor = "spec.discovery.usb[1].vendorId: must be four hexadecimal digits";
    let second_product = "spec.discovery.usb[1].productId: must be four hexadecimal digits";
    let good = json!({"vendorId": "20a0", "productId": "4230"});
    let with = |field: &str, value: Json| {
        let mut selector = good.clone();
        selector[field] = value;
        selector
    };
    vec![
        (json!([]), shape, shape),
        (Json::Array(vec![good.clone(); 65]), shape, shape),
        (json!("20a0:4230"), shape, fields),
        (json!(7), shape, fields),
        (json!(["20a0"]), first, fields),
        (json!([good, "20a0:4230"]), second, fields),
        (json!({"vendorId": "20a0"}), product, fields),
        (with("vendorId", json!(20)), vendor, fields),
        (
            json!([good, with("productId", json!(4230))]),
            second_product,
            fields,
        ),
        (with("vendorId", json!("0x20a0")), vendor, vendor),
        (with("vendorId", json!("20a")), vendor, vendor),
        (
            json!([good, with("vendorId", json!("20a"))]),
            second_vendor,
            vendor,
        ),
        (
            json!([good, with("productId", json!("423g"))]),
            second_product,
            product,
        ),
        (
            with("serial", json!("x")),
            "spec.discovery.usb.serial: no such field",
            fields,
        ),
        (with("serialNumber", json!("x".repeat(129))), serial, long),
        (with("serialNumber", json!(7)), serial, fields),
    ]
}
