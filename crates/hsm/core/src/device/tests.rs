use serde_json::{Value, json};

use super::*;
use crate::decide::world::{rules, spec};
use crate::examples::senseless_selectors;
use crate::usb::{UsbId, UsbMatch};

mod module;

fn device(value: Value) -> Result<Device, Faults> {
    read("hsm", "pico", &spec(value), &rules())
}

fn faults(value: Value) -> Vec<String> {
    device(value).unwrap_err().texts().to_vec()
}

fn usb(usb: Value) -> Value {
    json!({"deviceType": "PicoHSM", "discovery": {"usb": usb}})
}

fn fixed(change: Value) -> Value {
    let mut token = json!({"name": "a", "tokenLabel": "dev-a"});
    for (key, value) in change.as_object().unwrap() {
        token[key] = value.clone();
    }
    json!({"deviceType": "Generic", "discovery": {"static": [token]}, "pkcs11": {
        "libraryPath": "/usr/lib/p11.so", "pinSecret": {"name": "pin", "key": "pin"},
    }})
}

fn selection(value: Value) -> Selection {
    match device(value).unwrap().search {
        Search::Nodes(selection) => selection,
        Search::Fixed(_) => panic!("expected a selection"),
    }
}

#[test]
fn all_generations_of_a_usb_selector_mean_the_same() {
    let wanted = vec![UsbMatch {
        vendor: UsbId(0x20a0),
        product: UsbId(0x4230),
        serial: Some("E6".to_owned()),
    }];
    let one = json!({"vendorId": "20A0", "productId": "4230", "serialNumber": "E6"});
    assert_eq!(selection(usb(one.clone())).usb, wanted);
    assert_eq!(selection(usb(json!([one]))).usb, wanted);
    assert_eq!(selection(usb(json!([one]))).auto, None);
}

#[test]
fn a_usb_selector_is_checked_field_by_field() {
    for (selector, fault, _) in senseless_selectors() {
        assert_eq!(faults(usb(selector.clone())), [fault], "{selector}");
    }
}

#[test]
fn what_is_empty_in_a_manifest_of_the_original_says_nothing() {
    let any = json!({"vendorId": "20a0", "productId": "4230", "serialNumber": ""});
    assert_eq!(
        selection(usb(json!([any])))
            .usb
            .iter()
            .map(|usb| usb.serial.clone())
            .collect::<Vec<_>>(),
        [None]
    );
    let none = json!({"deviceType": "PicoHSM", "discovery": {"usb": [], "autoDiscovery": true}});
    let auto = json!({"deviceType": "PicoHSM", "discovery": {"autoDiscovery": true}});
    assert_eq!(selection(none), selection(auto));
    let none = json!({"deviceType": "PicoHSM", "discovery": {"usb": [], "devicePath": {"path": "/dev/a"}}});
    assert_eq!(
        (selection(none.clone()).usb, selection(none).auto),
        (vec![], None)
    );
}

#[test]
fn a_path_that_no_node_understands_is_a_fault() {
    let path = |path: &str| json!({"deviceType": "PicoHSM", "discovery": {"devicePath": {"path": path}}});
    let steps = "must have 1 to 16 steps below /dev, none of them empty, `.` or `..`";
    let deep = format!("/dev{}", "/a".repeat(17));
    for (given, rule) in [
        ("/dev/tty[", "must close each bracket in its step"),
        ("/dev/a//b", steps),
        ("/dev/a/", steps),
        ("/dev/../etc", steps),
        (deep.as_str(), steps),
        ("/etc/passwd", "must be a path below /dev"),
    ] {
        let fault = format!("spec.discovery.devicePath.path: {rule}");
        assert_eq!(faults(path(given)), [fault], "{given}");
    }
}

#[test]
fn a_node_selector_has_keys_and_values_of_labels() {
    let with = |key: &str, value: &str| json!({"deviceType": "PicoHSM", "nodeSelector": {key: value}});
    for (key, value) in [("a", ""), ("kubernetes.io/hostname", "n1"), ("a.b-c/d_e.f", "G")] {
        assert!(device(with(key, value)).is_ok(), "{key}");
    }
    let long = format!("{}/x", "a".repeat(254));
    for (key, value) in [
        ("", ""),
        ("/a", ""),
        ("a/", ""),
        ("a/b/c", ""),
        ("A b/c", ""),
        ("-a/b", ""),
        ("UPPER/b", ""),
        (long.as_str(), ""),
        ("a", "b c"),
    ] {
        let told = faults(with(key, value));
        assert!(told[0].starts_with("spec.nodeSelector: "), "{key}: {told:?}");
    }
}

#[test]
fn a_device_without_discovery_looks_for_its_type() {
    let wanted = Some(AutoMatch::of_type("PicoHSM"));
    assert_eq!(selection(json!({"deviceType": "PicoHSM"})).auto, wanted);
    assert_eq!(
        selection(json!({"deviceType": "PicoHSM", "discovery": null})).auto,
        wanted
    );
    let both = json!({"autoDiscovery": true, "usb": [{"vendorId": "20a0", "productId": "4230"}]});
    let both = selection(json!({"deviceType": "PicoHSM", "discovery": both}));
    assert_eq!((both.usb.len(), both.auto), (1, wanted));
    let path = json!({"devicePath": {"path": "/dev/ttyACM*", "permissions": "0600"}});
    let path = selection(json!({"deviceType": "PicoHSM", "discovery": path}));
    assert_eq!(
        (path.path.unwrap().glob.as_str(), path.auto),
        ("/dev/ttyACM*", None)
    );
}

#[test]
fn a_discovery_that_is_switched_off_looks_for_nothing_and_is_warned_of() {
    let wanted = "spec.discovery names nothing to look for, so no token is found: set usb, devicePath, static or autoDiscovery";
    for discovery in [json!({}), json!({"autoDiscovery": false})] {
        let off = json!({"deviceType": "PicoHSM", "discovery": discovery});
        assert!(selection(off.clone()).is_empty(), "{off}");
        let warnings = device(off).unwrap().warnings;
        assert!(warnings.iter().any(|warning| warning == wanted), "{warnings:?}");
    }
    for on in [
        json!({"deviceType": "PicoHSM"}),
        json!({"deviceType": "PicoHSM", "discovery": {"autoDiscovery": true}}),
        json!({"deviceType": "PicoHSM", "discovery": {"devicePath": {"path": "/dev/a"}}}),
        usb(json!([{"vendorId": "20a0", "productId": "4230"}])),
        fixed(json!({})),
    ] {
        let warnings = device(on.clone()).unwrap().warnings;
        assert!(!warnings.iter().any(|warning| warning == wanted), "{on}");
    }
}

#[test]
fn a_type_is_looked_for_by_any_of_its_names_and_keeps_the_one_that_was_given() {
    for (given, known) in [
        ("SmartCardHSM", "SmartCard-HSM"),
        ("SmartCard-HSM", "SmartCard-HSM"),
        ("pico-hsm", "PicoHSM"),
        ("Generic", "Generic"),
        ("Acme 3000", "Acme 3000"),
    ] {
        assert_eq!(device(json!({"deviceType": given})).unwrap().device_type, given);
        let auto = selection(json!({"deviceType": given})).auto;
        assert_eq!(auto, Some(AutoMatch::of_type(known)));
    }
    assert_eq!(
        faults(json!({"deviceType": " "})),
        ["spec.deviceType: must have 1 to 63 characters"]
    );
}

#[test]
fn the_old_field_for_the_library_is_taken_and_the_new_one_wins() {
    let pin = json!({"name": "pin", "key": "pin"});
    let old = json!({"deviceType": "PicoHSM", "pkcs11LibraryPath": "/old.so", "pkcs11": {"pinSecret": pin}});
    let read = device(old.clone()).unwrap();
    assert_eq!(read.opening.unwrap().library.as_deref(), Some("/old.so"));
    assert_eq!(
        read.warnings,
        ["spec.pkcs11LibraryPath is deprecated: use spec.pkcs11.libraryPath"]
    );
    let mut both = old;
    both["pkcs11"]["libraryPath"] = "/new.so".into();
    let read = device(both).unwrap();
    assert_eq!(read.opening.unwrap().library.as_deref(), Some("/new.so"));
}

#[test]
fn what_is_deprecated_or_not_enough_is_warned_of() {
    let old = json!({
        "deviceType": "PicoHSM",
        "discovery": {"usb": {"vendorId": "20a0", "productId": "4230"}},
        "mirroring": {"enabled": true},
    });
    assert_eq!(
        device(old).unwrap().warnings,
        [
            "spec.discovery.usb as an object is deprecated: use a list",
            "spec.mirroring.enabled and primaryRole are deprecated: use policy and primaryNode",
            "spec.pkcs11.libraryPath is absent, so no agent is made",
        ]
    );
    let no_pin = json!({"deviceType": "PicoHSM", "pkcs11": {"libraryPath": "/l.so"}});
    let no_pin = device(no_pin).unwrap();
    assert_eq!(
        no_pin.warnings,
        ["spec.pkcs11.pinSecret is absent, so no agent is made"]
    );
    assert_eq!(no_pin.opening, None);
}

#[test]
fn w20_the_namespace_of_the_pin_is_honoured_if_it_is_served() {
    let with = |namespace: Value| {
        json!({"deviceType": "PicoHSM", "pkcs11": {
            "libraryPath": "/l.so", "pinSecret": {"name": "pin", "key": "pin", "namespace": namespace},
        }})
    };
    assert_eq!(
        device(with(json!("pins")))
            .unwrap()
            .opening
            .unwrap()
            .pin
            .namespace,
        "pins"
    );
    assert_eq!(
        device(with(Value::Null)).unwrap().opening.unwrap().pin.namespace,
        "hsm"
    );
    assert_eq!(
        faults(with(json!("kube-system"))),
        [r#"spec.pkcs11.pinSecret.namespace: "kube-system" is no namespace that is served"#]
    );
}

#[test]
fn a_pin_is_in_a_key_of_a_secret_that_there_can_be() {
    let with = |name: &str, key: &str| {
        json!({"deviceType": "PicoHSM", "pkcs11": {
            "libraryPath": "/l.so", "pinSecret": {"name": name, "key": key},
        }})
    };
    for name in ["", "Pin", "-pin", "a..b", "a.-b", "a.b_c", &"n".repeat(254)] {
        let fault = "spec.pkcs11.pinSecret.name: must be the name of a Secret";
        assert_eq!(faults(with(name, "pin")), [fault], "{name}");
    }
    for key in ["", "a b", "a/b", &"k".repeat(254)] {
        let fault = "spec.pkcs11.pinSecret.key: must be a key of a Secret";
        assert_eq!(faults(with("pin", key)), [fault], "{key}");
    }
    device(with(&"n".repeat(253), &"k".repeat(253))).unwrap();
    device(with("a.b-c.0", "A_b.c-0")).unwrap();
}

#[test]
fn a_type_has_characters_that_can_be_shown() {
    for wrong in ["", "  ", "Pico\u{7}HSM", &"t".repeat(64)] {
        let fault = "spec.deviceType: must have 1 to 63 characters";
        assert_eq!(faults(json!({"deviceType": wrong})), [fault], "{wrong:?}");
    }
}

#[test]
fn a_static_token_is_checked_field_by_field() {
    for (change, fault) in [
        (
            json!({"name": "A"}),
            "[0].name: must have 1 to 32 lower case letters, digits and dashes inside",
        ),
        (
            json!({"name": "a.b"}),
            "[0].name: must have 1 to 32 lower case letters, digits and dashes inside",
        ),
        (
            json!({"tokenLabel": ""}),
            "[0]: must have tokenLabel or tokenSerial: a token is never chosen by its slot",
        ),
        (
            json!({"libraryPath": "lib.so"}),
            "[0].libraryPath: must be a path from the root without '.' and '..'",
        ),
        (
            json!({"libraryPath": "/a/../b"}),
            "[0].libraryPath: must be a path from the root without '.' and '..'",
        ),
        (
            json!({"nodeName": "Node 1"}),
            "[0].nodeName: must be the name of a node",
        ),
    ] {
        assert_eq!(
            faults(fixed(change.clone())),
            [format!("spec.discovery.static{fault}")],
            "{change}"
        );
    }
}

#[test]
fn a_static_token_takes_the_library_of_the_device_or_its_own() {
    let library = |change| match device(fixed(change)).unwrap().search {
        Search::Fixed(tokens) => tokens[0].library.clone(),
        Search::Nodes(_) => None,
    };
    assert_eq!(library(json!({})).as_deref(), Some("/usr/lib/p11.so"));
    assert_eq!(
        library(json!({"libraryPath": "/own.so"})).as_deref(),
        Some("/own.so")
    );
    let mut none = fixed(json!({}));
    none["pkcs11"]["libraryPath"] = Value::Null;
    let none: HsmDeviceSpec = spec(none);
    let faults = read("hsm", "d", &none, &rules()).unwrap_err();
    let wanted = "spec.discovery.static[0].libraryPath: must be given, here or as spec.pkcs11.libraryPath";
    assert_eq!(faults.texts(), [wanted]);
    let with_default = Rules {
        library: Some("/default.so".to_owned()),
        ..rules()
    };
    assert!(read("hsm", "d", &none, &with_default).is_ok());
}

#[test]
fn static_tokens_are_not_looked_for() {
    let mut both = fixed(json!({}));
    both["discovery"]["usb"] = json!([{"vendorId": "20a0", "productId": "4230"}]);
    both["discovery"]["autoDiscovery"] = true.into();
    assert_eq!(
        faults(both),
        [
            "spec.discovery: static cannot be combined with usb",
            "spec.discovery: static cannot be combined with autoDiscovery",
        ]
    );
    let mut twice = fixed(json!({}));
    let token = twice["discovery"]["static"][0].clone();
    twice["discovery"]["static"].as_array_mut().unwrap().push(token);
    assert_eq!(
        faults(twice),
        ["spec.discovery.static[1].name: must be there once"]
    );
}

#[test]
fn a_limit_of_zero_or_less_is_none() {
    for (given, limit) in [
        (json!(0), None),
        (json!(-1), None),
        (json!(3), Some(3)),
        (Value::Null, Some(10)),
    ] {
        let mut value = json!({"deviceType": "PicoHSM", "maxDevices": given});
        if given.is_null() {
            value.as_object_mut().unwrap().remove("maxDevices");
        }
        let device = device(value).unwrap();
        assert_eq!(device.max_devices, limit);
        let Search::Nodes(selection) = device.search else {
            panic!()
        };
        assert_eq!(selection.limit(), limit);
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let value = json!({
        "deviceType": "PicoHSM",
        "discovery": {"usb": [{"vendorId": "x", "productId": "y"}]},
        "nodeSelector": {"a b": "c"},
        "pkcs11": {"libraryPath": "lib.so"},
    });
    assert_eq!(faults(value).len(), 4);
}

#[test]
fn limits_and_the_interval_of_passes_are_checked() {
    let with = |pkcs11: Value| {
        let mut spec = fixed(json!({}));
        for (key, value) in pkcs11.as_object().unwrap() {
            spec["pkcs11"][key] = value.clone();
        }
        spec
    };
    let opening = device(with(json!({"limits": "smartcard-hsm", "passInterval": 5})))
        .unwrap()
        .opening
        .unwrap();
    assert_eq!(opening.limits, Some(crate::limits::Profile::SmartcardHsm));
    assert_eq!(opening.pass_interval, Some(5));
    assert_eq!(
        faults(with(json!({"limits": "endless", "passInterval": 4}))),
        [
            "spec.pkcs11.limits: must be one of software, opensc, opensc-64, pico-hsm, smartcard-hsm, yubihsm2",
            "spec.pkcs11.passInterval: must be at least 5 seconds",
        ]
    );
}
