//! Pods as those of the original: whoever watches, scrapes or selects them finds what was there.

use std::time::Duration;

use serde_json::{Value, json};
use trustplane_api::hsm::{DEVICE, HsmPoolStatus};
use trustplane_plan::Owner;
use trustplane_plan::kinds::DEPLOYMENT;

use super::agents;
use crate::decide::world::{device_meta, pico, pool_view, rules, view};
use crate::device::Device;
use crate::discovery_set;
use crate::rules::Rules;

fn chosen() -> Rules {
    Rules {
        agent_image: "registry/agent:7".to_owned(),
        discovery_image: "registry/discovery:7".to_owned(),
        ..rules()
    }
}

fn device() -> Device {
    view("hsm", "pico", &pico()).read.unwrap()
}

fn device_of(library: &str) -> Device {
    let mut spec = pico();
    spec.pkcs11.as_mut().unwrap().library_path = Some(library.to_owned());
    view("hsm", "pico", &spec).read.unwrap()
}

fn owner() -> Owner {
    Owner::controller(&DEVICE, &device_meta("hsm", "pico"), Some("hsm")).unwrap()
}

/// The spec of the pod of the one agent.
fn agent() -> Value {
    agent_of(&device())
}

fn agent_of(device: &Device) -> Value {
    let status: HsmPoolStatus = serde_json::from_value(json!({
        "phase": "Ready", "totalDevices": 1, "availableDevices": 1, "expectedPods": 1,
        "aggregatedDevices": [{
            "devicePath": "/dev/bus/usb/001/015", "serialNumber": "e6", "nodeName": "n1", "available": true,
            "lastSeen": "2026-07-07T08:00:00Z", "deviceInfo": {crate::pool::info::DEVICE: "pico"},
        }],
    }))
    .unwrap();
    let made = agents(device, &[pool_view("hsm", "pico", status)]);
    let wishes = made["hsm-agent-pico-e6"].wishes(&owner(), &chosen(), false);
    let deployment = wishes.iter().find(|wish| *wish.kind() == DEPLOYMENT).unwrap();
    deployment.body()["spec"]["template"]["spec"].clone()
}

/// The spec of the pods of the DaemonSet.
fn discovery() -> Value {
    let made = discovery_set::manifest(&device(), owner(), &chosen(), Duration::from_secs(300), false);
    made.unwrap().body()["spec"]["template"]["spec"].clone()
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn an_agent_has_the_ports_and_probes_of_the_original_but_is_ready_sooner_and_unready_as_late() {
    let pod = agent();
    let container = &pod["containers"][0];
    assert_eq!(container["name"], "agent");
    let ports = container["ports"].as_array().unwrap().iter();
    let ports: Vec<_> = ports
        .map(|port| (&port["name"], &port["containerPort"]))
        .collect();
    assert_eq!(
        ports,
        [(&json!("grpc"), &json!(9090)), (&json!("health"), &json!(8093))]
    );
    let times = |probe: &Value| {
        [
            "initialDelaySeconds",
            "periodSeconds",
            "timeoutSeconds",
            "failureThreshold",
        ]
        .map(|time| probe[time].clone())
    };
    assert_eq!(
        times(&container["livenessProbe"]),
        [15, 20, 3, 3].map(Value::from)
    );
    // The original is asked after 5 s, and then each 10: two failures, so 20 s, make it unready.
    let readiness = times(&container["readinessProbe"]);
    assert_eq!(readiness, [1, 3, 3, 7].map(Value::from));
    let [_, period, _, failures] = readiness.map(|time| time.as_u64().unwrap());
    assert!(period * failures >= 20, "{period} * {failures}");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
}

#[test]
fn f47_an_agent_runs_pcscd_for_a_usb_token_unless_its_module_does_without() {
    for (library, wanted) in [
        ("/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so", "/usr/sbin/pcscd"),
        ("/usr/lib/libsc-hsm-pkcs11.so", "/usr/sbin/pcscd"),
        ("/usr/lib/softhsm/libsofthsm2.so", "off"),
        ("/usr/lib/libkryoptic_pkcs11.so", "off"),
    ] {
        let pod = agent_of(&device_of(library));
        let arguments = pod["containers"][0]["args"].as_array().unwrap();
        let told = json!(format!("--pcscd={wanted}"));
        assert!(arguments.contains(&told), "{library}: {arguments:?}");
    }
}

#[test]
fn an_agent_has_the_directories_of_the_original() {
    let pod = agent();
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap().iter();
    let paths: Vec<_> = mounts.map(|mount| mount["mountPath"].as_str().unwrap()).collect();
    let (original, ours) = paths.split_at(4);
    assert_eq!(original, ["/tmp", "/run/pcscd", "/var/lock/pcsc", "/etc/hsm/tls"]);
    assert_eq!(ours, ["/etc/hsm/record"]);
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(
        volumes[..3].iter().all(|volume| volume["emptyDir"].is_object()),
        "{volumes:?}"
    );
    let certificates = &volumes[3];
    assert_eq!(certificates["name"], "agent-mtls");
    let secret = json!({"secretName": "hsm-agent-pico-e6-tls", "defaultMode": 0o400});
    assert_eq!(certificates["secret"], secret);
}

#[test]
fn w32_images_and_sizes_are_those_that_were_chosen() {
    let (agent, discovery) = (agent(), discovery());
    let (agent, discovery) = (&agent["containers"][0], &discovery["containers"][0]);
    assert_eq!(agent["image"], "registry/agent:7");
    assert_eq!(discovery["image"], "registry/discovery:7");
    let size = |container: &Value, part: &str| {
        let part = &container["resources"][part];
        (part["cpu"].clone(), part["memory"].clone())
    };
    let is = |cpu: &str, memory: &str| (json!(cpu), json!(memory));
    assert_eq!(size(agent, "requests"), is("100m", "128Mi"));
    assert_eq!(size(agent, "limits"), is("500m", "256Mi"));
    assert_eq!(size(discovery, "requests"), is("50m", "64Mi"));
    assert_eq!(size(discovery, "limits"), is("100m", "128Mi"));
}

#[test]
fn discovery_is_told_its_node_and_its_pod_by_the_names_of_the_original() {
    let pod = discovery();
    let container = &pod["containers"][0];
    assert_eq!(container["name"], "discovery");
    let told = names(&container["env"]);
    for name in ["NODE_NAME", "POD_NAME", "POD_NAMESPACE"] {
        assert!(told.contains(&name), "{told:?}");
    }
    let fields = container["env"].to_string();
    for field in ["spec.nodeName", "metadata.name", "metadata.namespace"] {
        assert!(fields.contains(&format!("\"fieldPath\":\"{field}\"")), "{fields}");
    }
    let plugins = pod["volumes"].as_array().unwrap().iter();
    let mut plugins =
        plugins.filter(|volume| volume["hostPath"]["path"] == "/var/lib/kubelet/device-plugins");
    assert!(plugins.next().is_some());
}
