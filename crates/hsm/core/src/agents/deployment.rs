//! The Deployment of an agent.

use std::path::Path;

use serde_json::{Map, Value, json};
use trustplane_plan::Manifest;
use trustplane_plan::kinds::DEPLOYMENT;

use super::Agent;
use crate::limits::Profile;
use crate::module;
use crate::objects::{
    APP_LABEL, NODE_ANNOTATION, PATH_ANNOTATION, label_value, record_key_secret_name, so_pin_secret_name,
    tls_secret_name,
};
use crate::pod::{argument, container_security, identity, literal, pod_security, pod_spec, probe};
use crate::resource::token_resource;
use crate::rules::Rules;
use crate::usb::DeviceType;

/// Where the daemon is that speaks to readers of smart cards.
const PCSCD: &str = "/usr/sbin/pcscd";

/// The Deployment: one pod, on the node of the token, with that token and no other.
pub(super) fn manifest(agent: &Agent<'_>, rules: &Rules, so_pin: bool) -> Manifest {
    let (mounts, volumes) = volumes(agent, so_pin);
    let container = json!({
        "name": "agent",
        "image": rules.agent_image,
        "imagePullPolicy": rules.pull_policy,
        "args": arguments(agent),
        "env": environment(agent),
        "ports": [
            { "name": "grpc", "containerPort": 9090, "protocol": "TCP" },
            { "name": "health", "containerPort": 8093, "protocol": "TCP" },
        ],
        "livenessProbe": probe("/livez", "health", [15, 20, 3, 3]),
        // Ready soon, but not unready because one request takes its time: the probe waits behind it.
        "readinessProbe": probe("/readyz", "health", [1, 3, 3, 7]),
        "resources": resources(agent),
        "securityContext": container_security(),
        "volumeMounts": mounts,
    });
    let mut spec = pod_spec(rules, &agent.name, container, volumes);
    // Nobody but root may open device files on most nodes; there it is root, without capabilities.
    let (user, groups) = agent.access.identity();
    spec["securityContext"] = pod_security(user, &groups);
    place(agent, &mut spec);
    let labels: Map<String, Value> = agent
        .labels()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    let mut metadata = json!({ "labels": labels });
    if !agent.path.is_empty() {
        // The kubelet gives a device to a container when that starts: a token at a new place needs a new pod.
        metadata["annotations"] = json!({ PATH_ANNOTATION: agent.path });
    }
    let bare = Manifest::new(DEPLOYMENT, Some(&agent.device.namespace), &agent.name)
        .annotation(NODE_ANNOTATION, agent.node.as_deref().unwrap_or_default())
        .with(
            "spec",
            json!({
                "replicas": 1,
                "revisionHistoryLimit": 1,
                "selector": { "matchLabels": { APP_LABEL: agent.name } },
                // Two agents of one token would be one too many.
                "strategy": { "type": "Recreate" },
                "template": { "metadata": metadata, "spec": spec },
            }),
        );
    let labels = agent.labels();
    labels
        .iter()
        .fold(bare, |wish, (key, value)| wish.label(key, value))
}

fn resources(agent: &Agent<'_>) -> Value {
    let mut resources = json!({
        "requests": { "cpu": "100m", "memory": "128Mi" },
        "limits": { "cpu": "500m", "memory": "256Mi" },
    });
    if agent.fixed.is_none() {
        for part in ["requests", "limits"] {
            resources[part][token_resource(&agent.serial)] = "1".into();
        }
    }
    resources
}

fn arguments(agent: &Agent<'_>) -> Vec<String> {
    let (device, opening) = (agent.device, agent.opening);
    let fixed = agent.fixed;
    let pin = &opening.pin;
    let mut arguments = vec![
        "serve".to_owned(),
        argument("device-name", &device.name),
        argument("agent-name", &agent.name),
        "--port=9090".to_owned(),
        "--health-port=8093".to_owned(),
        argument(
            "pin-secret",
            &format!("{}/{}/{}", pin.namespace, pin.name, pin.key),
        ),
        argument("record", &format!("{}/{}", device.namespace, agent.name)),
        argument("limits", profile(agent).into()),
        argument("pcscd", pcscd(agent)),
    ];
    let library = library(agent);
    let label = fixed.and_then(|fixed| fixed.token_label.as_ref());
    // The label of the HSMDevice would be that of all its static tokens.
    let label = label.or(opening.token_label.as_ref().filter(|_| fixed.is_none()));
    let given = [
        ("pkcs11-library", library),
        ("token-label", label),
        (
            "token-serial",
            fixed.and_then(|fixed| fixed.token_serial.as_ref()),
        ),
        // Not every reader has the serial number of the bus in its name; whoever gives a label need not rely on it.
        (
            "reader-serial",
            (fixed.is_none() && label.is_none()).then_some(&agent.serial),
        ),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
    arguments.extend(given.map(|(name, value)| argument(name, value)));
    arguments.extend(opening.slot.map(|slot| format!("--slot-id={slot}")));
    let interval = opening.pass_interval;
    arguments.extend(interval.map(|seconds| format!("--pass-interval={seconds}s")));
    if opening.exclusive {
        arguments.push("--exclusive".to_owned());
    }
    if opening.auto_provision {
        arguments.push("--auto-provision".to_owned());
        arguments.push("--so-pin-file=/etc/hsm/so-pin/so-pin".to_owned());
    }
    arguments
}

/// The module that opens the token.
fn library<'a>(agent: &'a Agent<'_>) -> Option<&'a String> {
    let own = agent.fixed.and_then(|fixed| fixed.library.as_ref());
    own.or(agent.opening.library.as_ref())
}

/// The daemon that the module needs, if it does. A static token is in no reader of this node.
fn pcscd(agent: &Agent<'_>) -> &'static str {
    let needed = library(agent).is_none_or(|library| module::may_need_pcscd(Path::new(library)));
    match agent.fixed {
        None if needed => PCSCD,
        _ => "off",
    }
}

/// The limits of the token: what the admin says, or else as far as its type and its module tell.
fn profile(agent: &Agent<'_>) -> Profile {
    if let Some(declared) = agent.opening.limits {
        return declared;
    }
    let library = library(agent).map(Path::new);
    match DeviceType::named(&agent.device.device_type) {
        Some(DeviceType::PicoHsm) => Profile::PicoHsm,
        Some(DeviceType::SmartCardHsm | DeviceType::NitrokeyHsm) => Profile::SmartcardHsm,
        Some(DeviceType::YubiHsm) => Profile::YubiHsm2,
        None if agent.fixed.is_some() => library.map_or(Profile::Software, module::profile),
        None => Profile::Opensc,
    }
}

fn environment(agent: &Agent<'_>) -> Vec<Value> {
    let mut environment = identity();
    let mut variables = agent.opening.environment.clone();
    variables.extend(agent.fixed.iter().flat_map(|fixed| fixed.environment.clone()));
    let variable = |(name, value): (String, String)| json!({ "name": name, "value": literal(&value) });
    environment.extend(variables.into_iter().map(variable));
    environment
}

/// What the container mounts, and where that comes from.
fn volumes(agent: &Agent<'_>, so_pin: bool) -> (Vec<Value>, Value) {
    let (mut mounts, mut volumes) = (Vec::new(), Vec::new());
    // What runs here keeps locks and sockets there, and no more: whatever fills them is evicted before the node is full.
    for (name, path, most) in [
        ("tmp", "/tmp", "64Mi"),
        ("run-pcscd", "/run/pcscd", "8Mi"),
        ("lock-pcsc", "/var/lock/pcsc", "8Mi"),
    ] {
        mounts.push(json!({ "name": name, "mountPath": path }));
        volumes.push(json!({ "name": name, "emptyDir": { "sizeLimit": most } }));
    }
    let mut mount = |volume: &str, secret: Value, path: &str| {
        mounts.push(json!({ "name": volume, "mountPath": path, "readOnly": true }));
        volumes.push(json!({ "name": volume, "secret": secret }));
    };
    let secret = |name: String| json!({ "secretName": name, "defaultMode": 0o400 });
    mount("agent-mtls", secret(tls_secret_name(&agent.name)), "/etc/hsm/tls");
    mount(
        "record-key",
        secret(record_key_secret_name(&agent.name)),
        "/etc/hsm/record",
    );
    if agent.opening.auto_provision && so_pin {
        let mut so_pin = secret(so_pin_secret_name(&agent.name));
        // A token that was set up is served without it.
        so_pin["optional"] = true.into();
        mount("so-pin", so_pin, "/etc/hsm/so-pin");
    }
    let own: Vec<_> = agent
        .fixed
        .iter()
        .flat_map(|fixed| &fixed.host_directories)
        .collect();
    // What a token says of a directory itself counts.
    let shared = agent.opening.host_directories.iter();
    let shared = shared.filter(|shared| own.iter().all(|own| own.path != shared.path));
    let directories = own.iter().copied().chain(shared);
    for (n, directory) in directories.enumerate() {
        let name = format!("host-{n}");
        mounts.push(json!({ "name": name, "mountPath": directory.path, "readOnly": directory.read_only }));
        volumes.push(json!({ "name": name, "hostPath": { "path": directory.path, "type": "Directory" } }));
    }
    (mounts, volumes.into())
}

/// Where the pod runs: on the node of its token, or where the HSMDevice says.
fn place(agent: &Agent<'_>, spec: &mut Value) {
    let Some(node) = &agent.node else {
        if !agent.device.node_selector.is_empty() {
            spec["nodeSelector"] = json!(agent.device.node_selector);
        }
        return;
    };
    // A name that is too long for a label is not in that label of the node either.
    if label_value(node) == *node {
        spec["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
    }
    spec["affinity"] = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
            "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }],
        }]},
    }});
}
