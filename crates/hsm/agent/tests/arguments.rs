//! What the manager tells an agent is what the agent understands.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::time::Duration;

use serde_json::{Value, json};
use trustplane_api::hsm::{HsmPoolSpec, HsmPoolStatus};
use trustplane_hsm_agent::serve::ServeArgs;
use trustplane_hsm_core::agents::agents;
use trustplane_hsm_core::decide::PoolView;
use trustplane_hsm_core::device::read;
use trustplane_hsm_core::rules::Rules;
use trustplane_plan::{Keep, Meta, Owner};
use trustplane_process::args::parse_from;

/// The arguments of the agent of one token, as its container gets them.
fn arguments(spec: Value, token: Value) -> Vec<String> {
    let rules = Rules {
        namespaces: ["vault".to_owned()].into(),
        ..Rules::default()
    };
    let spec = serde_json::from_value(spec).unwrap();
    let device = read("vault", "pico", &spec, &rules).unwrap();
    let mut token = token;
    token["lastSeen"] = "2026-07-07T08:00:00Z".into();
    token["available"] = true.into();
    let status: HsmPoolStatus = serde_json::from_value(json!({
        "totalDevices": 1, "availableDevices": 1, "expectedPods": 1, "phase": "Ready", "aggregatedDevices": [token],
    }))
    .unwrap();
    let meta =
        json!({"metadata": {"name": "pico-pool", "namespace": "vault", "uid": "p", "resourceVersion": "1"}});
    let pool = PoolView {
        meta: Meta::decode(&meta.to_string(), &Keep::default()).unwrap(),
        spec: HsmPoolSpec::default(),
        status,
        watched: Duration::MAX,
    };
    let owner = Owner {
        api_version: "hsm.j5t.io/v1alpha1".to_owned(),
        kind: "HSMDevice".to_owned(),
        name: "pico".to_owned(),
        uid: "u".to_owned(),
        controller: true,
        block_owner_deletion: false,
    };
    let made = agents(&device, &[pool]);
    let agent = made.values().next().unwrap();
    let wishes = agent.wishes(&owner, &rules, true);
    let deployment = wishes
        .iter()
        .find(|wish| wish.kind().kind == "Deployment")
        .unwrap();
    let container = &deployment.body()["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter();
    // The kubelet takes two of these for one.
    arguments
        .map(|argument| argument.as_str().unwrap().replace("$$", "$"))
        .collect()
}

fn understood(arguments: &[String]) -> ServeArgs {
    assert_eq!(arguments[0], "serve");
    let identity =
        |name: &str| matches!(name, "POD_NAME" | "POD_NAMESPACE" | "NODE_NAME").then(|| "x".to_owned());
    parse_from(arguments.to_vec(), identity).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

#[test]
fn an_agent_of_a_usb_token_understands_what_it_is_told() {
    let spec = json!({
        "deviceType": "PicoHSM", "discovery": {"usb": {"vendorId": "20a0", "productId": "4230"}},
        "pkcs11": {
            "libraryPath": "/lib/opensc-pkcs11.so", "slotId": 3, "autoProvision": true, "exclusive": true,
            "pinSecret": {"name": "pin", "key": "pin"},
        },
    });
    let info = json!({"hsm-device": "pico"});
    let token = json!({
        "devicePath": "/dev/bus/usb/001/015", "serialNumber": "DENK $(01)", "nodeName": "n1", "deviceInfo": info,
    });
    let args = understood(&arguments(spec, token));
    assert_eq!(args.device_name, "pico");
    assert_eq!(
        args.wanted().unwrap().reader_serial.as_deref(),
        Some("DENK $(01)")
    );
    assert_eq!((args.slot_id, args.port, args.health_port), (Some(3), 9090, 8093));
    assert!(args.exclusive && args.auto_provision);
    assert!(args.pin_secret.is_some() && args.record.is_some());
}

#[test]
fn an_agent_of_a_static_token_understands_what_it_is_told() {
    let spec = json!({
        "deviceType": "SoftHSM", "discovery": {"static": [{"name": "a", "tokenLabel": "dev a", "tokenSerial": "42"}]},
        "pkcs11": {"libraryPath": "/lib/softhsm.so", "pinSecret": {"name": "pin", "key": "pin"}},
    });
    let info = json!({"hsm-device": "pico", "discovery-type": "static"});
    let token = json!({"devicePath": "", "serialNumber": "a", "nodeName": "", "deviceInfo": info});
    let args = understood(&arguments(spec, token));
    let wanted = args.wanted().unwrap();
    assert_eq!(
        (wanted.label.as_deref(), wanted.serial.as_deref()),
        (Some("dev a"), Some("42"))
    );
    assert!(!args.exclusive && !args.auto_provision);
    assert_eq!(args.pcscd.to_str(), Some("off"));
}
