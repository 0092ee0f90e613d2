//! What a module is given of its node: variables and directories.

use super::*;

/// What nobody may ask for, and what is said of it.
fn refused() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({"environment": [{"name": "LD_PRELOAD", "value": "x"}]}),
            "environment[0].name: must not change how programs are loaded",
        ),
        (
            json!({"environment": [{"name": "TRUSTPLANE_PIN_FILE", "value": "x"}]}),
            "environment[0].name: must not change how the agent works",
        ),
        (
            json!({"environment": [{"name": "OPENSC_DEBUG", "value": "9"}]}),
            "environment[0].name: must not make the module print what it is told, which may be a PIN",
        ),
        (
            json!({"environment": [{"name": "YUBIHSM_PKCS11_DBG", "value": "1"}]}),
            "environment[0].name: must not make the module print what it is told, which may be a PIN",
        ),
        (
            json!({"environment": [{"name": "https_proxy", "value": "x"}]}),
            "environment[0].name: must not change how the agent works",
        ),
        (
            json!({"environment": [{"name": "POD_NAME", "value": "x"}]}),
            "environment[0].name: must not be one that is set already",
        ),
        (
            json!({"environment": [{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]}),
            "environment[1].name: must not be one that is set already",
        ),
        (
            json!({"environment": [{"name": "1A", "value": "x"}]}),
            "environment[0].name: must have letters, digits and underscores, and begin with no digit",
        ),
        (
            json!({"hostDirectories": [{"path": "/opt"}]}),
            "hostDirectories[0].path: the admin has not allowed /opt",
        ),
        (
            json!({"hostDirectories": [{"path": "/var/lib/softhsm/../../../etc"}]}),
            "hostDirectories[0].path: must be a path from the root without '.' and '..'",
        ),
        (
            json!({"hostDirectories": [{"path": "/var/lib/softhsm"}, {"path": "/var/lib/softhsm/"}]}),
            "hostDirectories[1].path: must be there once",
        ),
    ]
}

/// A token on the bus, with this in `spec.pkcs11`.
fn on_the_bus(change: &Value) -> Value {
    let mut spec = usb(json!([{"vendorId": "20a0", "productId": "4230"}]));
    spec["pkcs11"] = json!({"libraryPath": "/usr/lib/p11.so", "pinSecret": {"name": "pin", "key": "pin"}});
    for (key, value) in change.as_object().unwrap() {
        spec["pkcs11"][key] = value.clone();
    }
    spec
}

#[test]
fn what_a_module_is_given_is_checked_wherever_it_is_asked_for() {
    for (change, fault) in refused() {
        let of_token = format!("spec.discovery.static[0].{fault}");
        assert_eq!(faults(fixed(change.clone())), [of_token], "{change}");
        let of_all = format!("spec.pkcs11.{fault}");
        assert_eq!(faults(on_the_bus(&change)), [of_all.as_str()], "{change}");
        // Static tokens have it from there, too.
        let mut both = fixed(json!({}));
        both["pkcs11"] = on_the_bus(&change)["pkcs11"].clone();
        assert_eq!(faults(both), [of_all], "{change}");
    }
    for change in [
        json!({"environment": [{"name": "SOFTHSM2_CONF", "value": "/var/lib/softhsm/a.conf"}]}),
        json!({"hostDirectories": [{"path": "/var/lib/softhsm/a"}]}),
    ] {
        assert!(device(fixed(change.clone())).is_ok(), "{change}");
        assert!(device(on_the_bus(&change)).is_ok(), "{change}");
    }
}

#[test]
fn a_directory_of_the_node_is_never_in_the_way_of_the_agent() {
    let everything = Rules {
        host_directories: vec!["/".to_owned()],
        ..rules()
    };
    for path in [
        "/etc",
        "/etc/hsm",
        "/etc/hsm/tls",
        "/run",
        "/var/run/secrets",
        "/tmp",
        "/proc/1",
    ] {
        let directory = json!({"hostDirectories": [{"path": path}]});
        let fault = "hostDirectories[0].path: must not be in the way of directories of the agent";
        for (given, field) in [
            (fixed(directory.clone()), "spec.discovery.static[0]"),
            (on_the_bus(&directory), "spec.pkcs11"),
        ] {
            let faults = read("hsm", "d", &spec(given), &everything).unwrap_err();
            assert_eq!(faults.texts(), [format!("{field}.{fault}")], "{path}");
        }
    }
    for path in ["/srv/tokens", "/tmp/tokens", "/run/tpm"] {
        let spec = spec(fixed(json!({"hostDirectories": [{"path": path}]})));
        assert!(read("hsm", "d", &spec, &everything).is_ok(), "{path}");
    }
}
