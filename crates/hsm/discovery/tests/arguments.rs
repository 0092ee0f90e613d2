//! What the manager tells discovery is what discovery understands.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use trustplane_hsm_core::device::read;
use trustplane_hsm_core::discovery_set::manifest;
use trustplane_hsm_core::rules::Rules;
use trustplane_hsm_discovery::Arguments;
use trustplane_plan::Owner;
use trustplane_process::args::parse_from;

/// The arguments of the pods for an HSMDevice, as discovery reads them.
fn understood(discovery: Value) -> Arguments {
    let rules = Rules {
        namespaces: ["vault".to_owned()].into(),
        dev: "/srv/dev".to_owned(),
        ..Rules::default()
    };
    let spec = json!({"deviceType": "PicoHSM", "discovery": discovery, "maxDevices": 3});
    let spec = serde_json::from_value(spec).unwrap();
    let device = read("vault", "pico", "u", &spec, &rules).unwrap();
    let owner = Owner {
        api_version: "hsm.j5t.io/v1alpha1".to_owned(),
        kind: "HSMDevice".to_owned(),
        name: "pico".to_owned(),
        uid: "u".to_owned(),
        controller: true,
    };
    let made = manifest(&device, owner, &rules, Duration::from_secs(90), false).unwrap();
    let container = &made.body()["spec"]["template"]["spec"]["containers"][0];
    let given = container["args"].as_array().unwrap().iter();
    // The kubelet takes two of these for one.
    let given = given.map(|argument| argument.as_str().unwrap().replace("$$", "$"));
    let argv: Vec<String> = std::iter::once("discovery".to_owned()).chain(given).collect();
    let told = |name: &str| {
        let mut variables = container["env"].as_array().unwrap().iter();
        variables
            .any(|variable| variable["name"] == name)
            .then(|| "x".to_owned())
    };
    parse_from(argv.clone(), told).unwrap_or_else(|error| panic!("{argv:?}: {error}"))
}

#[test]
fn discovery_understands_what_it_is_told() {
    let serial = "a $(b) \"c\"";
    let usb = json!([{"vendorId": "20A0", "productId": "4230", "serialNumber": serial}]);
    let args = understood(json!({"usb": usb})).discovery;
    assert_eq!(
        (args.device_name.as_str(), args.resource.as_str()),
        ("pico", "hsm.j5t.io/picohsm")
    );
    assert_eq!(args.selection.usb[0].serial.as_deref(), Some(serial));
    assert_eq!(args.selection.limit(), Some(3));
    assert_eq!(args.grace_period, Duration::from_secs(90));
    assert_eq!(args.sysfs_root, [PathBuf::from("/host/sys")]);
    assert_eq!(args.dev_host_path, "/srv/dev");
    let path = json!({"path": "/dev/ttyUSB*", "permissions": "0666"});
    let args = understood(json!({"devicePath": path})).discovery;
    assert_eq!(args.selection.path.unwrap().glob, "/dev/ttyUSB*");
    assert!(
        understood(json!({"autoDiscovery": true}))
            .discovery
            .selection
            .auto
            .is_some()
    );
}
