//! What the manager tells discovery is what discovery understands.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use trustplane_hsm_core::device::{Device, Search, read};
use trustplane_hsm_core::discovery_set::manifest;
use trustplane_hsm_core::rules::Rules;
use trustplane_hsm_discovery::Arguments;
use trustplane_plan::Owner;
use trustplane_process::args::parse_from;

fn rules() -> Rules {
    Rules {
        namespaces: ["vault".to_owned()].into(),
        dev: "/srv/dev".to_owned(),
        ..Rules::default()
    }
}

/// The arguments of the pods for an HSMDevice, as discovery reads them.
fn understood(discovery: Value) -> Arguments {
    let spec = json!({"deviceType": "PicoHSM", "discovery": discovery, "maxDevices": 3});
    let spec = serde_json::from_value(spec).unwrap();
    let device = read("vault", "pico", &spec, &rules()).unwrap();
    told(&device).unwrap_or_else(|error| panic!("{error}"))
}

/// The arguments of the pods for an HSMDevice, as discovery reads them or refuses them.
fn told(device: &Device) -> Result<Arguments, String> {
    let rules = rules();
    let owner = Owner {
        api_version: "hsm.j5t.io/v1alpha1".to_owned(),
        kind: "HSMDevice".to_owned(),
        name: "pico".to_owned(),
        uid: "u".to_owned(),
        controller: true,
        block_owner_deletion: false,
    };
    let made = manifest(device, owner, &rules, Duration::from_secs(90), false).unwrap();
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
    parse_from(argv.clone(), told).map_err(|error| format!("{argv:?}: {error}"))
}

/// Whether pods look for its tokens: where nothing is named, there are none.
fn is_looked_for(device: &Device) -> bool {
    matches!(&device.search, Search::Nodes(selection) if !selection.is_empty())
}

/// A path, mostly one that could be meant as a pattern.
fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        "/dev(/[a-c*?!^.\\[\\]-]{0,4}){0,18}",
        "/dev/[ -~]{0,20}",
        "(/host)?/dev/.{0,12}",
        "/dev/[a-z]{240,260}",
    ]
}

fn discovery() -> impl Strategy<Value = Value> {
    let id = || prop_oneof!["[0-9a-fA-F]{4}", "(0x)?[0-9a-g]{3,5}"];
    let serial = prop::option::of(prop_oneof![Just(String::new()), ".{0,130}"]);
    let usb = (id(), id(), serial).prop_map(|(vendor, product, serial)| {
        let mut usb = json!({"vendorId": vendor, "productId": product});
        if let Some(serial) = serial {
            usb["serialNumber"] = serial.into();
        }
        usb
    });
    let usb = prop::option::of(prop::collection::vec(usb, 0..4));
    let path = prop::option::of(path());
    (usb, path, any::<bool>()).prop_map(|(usb, path, auto)| {
        let mut discovery = json!({"autoDiscovery": auto});
        if let Some(usb) = usb {
            discovery["usb"] = usb.into();
        }
        if let Some(path) = path {
            discovery["devicePath"] = json!({"path": path});
        }
        discovery
    })
}

proptest! {
    #[test]
    fn whatever_an_hsm_device_may_say_discovery_understands(
        device_type in prop_oneof!["[A-Za-z -]{1,12}", ".{1,70}"], discovery in discovery(), most in any::<i32>(),
    ) {
        let spec = json!({"deviceType": device_type, "discovery": discovery, "maxDevices": most});
        let spec = serde_json::from_value(spec).unwrap();
        let read = read("vault", "pico", &spec, &rules());
        if let Some(device) = read.ok().filter(is_looked_for) {
            let told = told(&device);
            prop_assert!(told.is_ok(), "{}", told.unwrap_err());
        }
    }

    #[test]
    fn a_pattern_that_discovery_refuses_is_a_fault_of_its_device(path in path()) {
        let spec = json!({"deviceType": "PicoHSM", "discovery": {"devicePath": {"path": path}}});
        let spec = serde_json::from_value(spec).unwrap();
        let read = read("vault", "pico", &spec, &rules());
        prop_assert_eq!(read.is_ok(), trustplane_hsm_core::usb::Pattern::parse(&path).is_ok());
        if let Ok(device) = read {
            prop_assert_eq!(told(&device).unwrap().discovery.selection.path.unwrap().glob, path);
        }
    }
}

#[test]
fn discovery_understands_what_it_is_told() {
    let serial = "a $(b) \"c\"";
    let usb = json!([{"vendorId": "20A0", "productId": "4230", "serialNumber": serial}]);
    let args = understood(json!({"usb": usb})).discovery;
    assert_eq!((args.device_name.as_str(), args.type_resource), ("pico", None));
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
