//! The HSMDevices of the test.

use serde_json::{Value, json};

use crate::bus::Key;

/// Where the tokens are.
pub const TOKENS: &str = "tokens";
/// The token that moves from node to node.
pub const PICO: Key = Key {
    port: "1-1",
    product: "4230",
    serial: "DC6A33145E23A42A",
};
/// Its agent.
pub const MOVED: &str = "hsm-agent-pico-dc6a33145e23a42a";
/// One of the same type, of which another HSMDevice speaks.
pub const TWIN: Key = Key {
    port: "1-2",
    product: "4231",
    serial: "E466ED6F1B2C0D35",
};
/// Its agent.
pub const BESIDE: &str = "hsm-agent-twin-e466ed6f1b2c0d35";
/// A reader of smart cards, in which there is none.
pub const READER: Key = Key {
    port: "1-3",
    product: "5816",
    serial: "53311522600451",
};
/// The label of nodes that are looked at.
pub const SELECTED: &str = "test.trustplane.io/tokens=here";
/// The modules, as the image of agents has them.
pub const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
pub const OPENSC: &str = "/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so";

/// Two tokens that are named.
pub fn static_device() -> Value {
    let token = |name: &str| {
        json!({
            "name": name, "nodeName": "node-1", "tokenLabel": name,
            "environment": [{"name": "SOFTHSM2_CONF", "value": format!("/var/lib/softhsm/{name}/softhsm2.conf")}],
            "hostDirectories": [{"path": format!("/var/lib/softhsm/{name}")}],
        })
    };
    let opening = json!({
        "libraryPath": SOFTHSM, "autoProvision": true,
        "pinSecret": {"name": "pin", "key": "pin"},
    });
    device(
        "softhsm",
        "SoftHSM",
        json!({"static": [token("a"), token("b")]}),
        opening,
    )
}

/// The token behind the device is one of SoftHSM: there is no other that needs no hardware. Its files move with the device.
pub fn usb_device(name: &str, key: &Key) -> Value {
    let home = format!("/var/lib/softhsm/{name}");
    let opening = json!({
        "libraryPath": SOFTHSM, "autoProvision": true, "tokenLabel": name,
        "pinSecret": {"name": "pin", "key": "pin"},
        "environment": [{"name": "SOFTHSM2_CONF", "value": format!("{home}/softhsm2.conf")}],
        "hostDirectories": [{"path": home}],
    });
    let mut device = device(name, "PicoHSM", on_the_bus(key), opening);
    let (label, value) = SELECTED.split_once('=').unwrap();
    device["spec"]["nodeSelector"] = json!({ label: value });
    device
}

/// The module of a reader speaks to it through a daemon.
pub fn reader() -> Value {
    let opening = json!({"libraryPath": OPENSC, "pinSecret": {"name": "pin", "key": "pin"}});
    device("reader", "SmartCard-HSM", on_the_bus(&READER), opening)
}

fn on_the_bus(key: &Key) -> Value {
    json!({"usb": {"vendorId": "20A0", "productId": key.product}})
}

/// An HSMDevice.
pub fn device(name: &str, kind: &str, discovery: Value, pkcs11: Value) -> Value {
    json!({
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice",
        "metadata": {"name": name, "namespace": TOKENS},
        "spec": {"deviceType": kind, "discovery": discovery, "pkcs11": pkcs11},
    })
}
