//! The DaemonSet that looks for the tokens of an HSMDevice.

use std::time::Duration;

use serde_json::{Value, json};
use trustplane_api::hsm::names::{DEVICE_LABEL, OPERATOR};
use trustplane_plan::kinds::DAEMON_SET;
use trustplane_plan::{Manifest, Owner};

use crate::device::{Device, Search};
use crate::objects::{COMPONENT_LABEL, DISCOVERY, discovery_name, label_value};
use crate::pod::{argument, container_security, identity, pod_security, pod_spec, probe, restricted};
use crate::resource::type_resource;
use crate::rules::Rules;
use crate::usb::Selection;

/// Where pods see the sysfs of their node.
const SYSFS: &str = "/host/sys";
/// Where pods see the device files of their node.
const DEV: &str = "/host/dev";
/// Where pods see the directory of device plugins.
const PLUGINS: &str = "/var/lib/kubelet/device-plugins";

/// The labels of the DaemonSet and of its pods, by which it selects them.
pub fn labels(device: &str) -> [(&'static str, String); 3] {
    [
        ("app.kubernetes.io/name", OPERATOR.to_owned()),
        (COMPONENT_LABEL, DISCOVERY.to_owned()),
        (DEVICE_LABEL, label_value(device)),
    ]
}

/// The DaemonSet; none for static tokens, and none where nothing is looked for.
///
/// It runs as root, without any capability: the directory of device plugins belongs to root on every node, and a socket has to be
/// made in it. In test mode it has nothing of the node, and so needs no root.
pub fn manifest(
    device: &Device,
    owner: Owner,
    rules: &Rules,
    grace: Duration,
    test_mode: bool,
) -> Option<Manifest> {
    let Search::Nodes(selection) = &device.search else {
        return None;
    };
    if selection.is_empty() {
        return None;
    }
    let mut spec = pod_spec(
        rules,
        &rules.discovery_account,
        container(device, selection, rules, grace),
        volumes(selection, rules, test_mode),
    );
    spec["securityContext"] = if test_mode {
        restricted()
    } else {
        pod_security(0, &[])
    };
    if !device.node_selector.is_empty() {
        spec["nodeSelector"] = json!(device.node_selector);
    }
    let labels = labels(&device.name);
    let as_json: Value = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str())))
        .collect();
    let mut wish = Manifest::new(DAEMON_SET, Some(&device.namespace), &discovery_name(&device.name))
        .owner(owner)
        .with(
            "spec",
            json!({
                "selector": { "matchLabels": as_json },
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "50%" } },
                "template": { "metadata": { "labels": as_json }, "spec": spec },
            }),
        );
    for (key, value) in &labels {
        wish = wish.label(key, value);
    }
    Some(wish)
}

fn arguments(device: &Device, selection: &Selection, rules: &Rules, grace: Duration) -> Vec<String> {
    let mut arguments = vec![
        argument("device-name", &device.name),
        // Numbers and texts always have a JSON form.
        argument("selection", &serde_json::to_string(selection).unwrap_or_default()),
        format!("--grace-period={}", grace.as_secs()),
        format!("--sysfs-root={SYSFS}"),
        format!("--dev-root={DEV}"),
        argument("dev-host-path", &rules.dev),
        format!("--plugin-dir={PLUGINS}"),
    ];
    if rules.offer_types {
        arguments.push(argument("type-resource", &type_resource(&device.device_type)));
    }
    arguments
}

fn container(device: &Device, selection: &Selection, rules: &Rules, grace: Duration) -> Value {
    json!({
        "name": "discovery",
        "image": rules.discovery_image,
        "imagePullPolicy": rules.pull_policy,
        "args": arguments(device, selection, rules, grace),
        "env": identity(),
        "ports": [{ "name": "admin", "containerPort": 8080, "protocol": "TCP" }],
        "livenessProbe": probe("/livez", "admin", [15, 20, 3, 3]),
        "readinessProbe": probe("/readyz", "admin", [1, 10, 3, 2]),
        "resources": {
            "requests": { "cpu": "50m", "memory": "64Mi" },
            "limits": { "cpu": "100m", "memory": "128Mi" },
        },
        "securityContext": container_security(),
        "volumeMounts": mounts(selection),
    })
}

/// A directory of the node that a pod reads.
struct Tree {
    volume: &'static str,
    /// Where it is below the root of sysfs or of the device files.
    below: &'static str,
    of: Root,
    /// Kubernetes' word for a directory that has to be there, or is made.
    kind: &'static str,
}

#[derive(Clone, Copy)]
enum Root {
    Sysfs,
    Dev,
}

/// The directories that discovery reads for a selection, and no others.
///
/// The kernel lists USB devices in `bus/usb` as links into `devices`, where they hang below their controller. A node without USB has
/// no `bus/usb` and no `/dev/bus/usb`; nothing can be made in sysfs, so all of `bus` is mounted. Which device files a `devicePath`
/// names is known only by a look at all of them.
fn trees(selection: &Selection) -> Vec<Tree> {
    let tree = |volume, of, below, kind| Tree {
        volume,
        below,
        of,
        kind,
    };
    let mut trees = Vec::new();
    if selection.wants_usb() {
        trees.push(tree("sys-bus", Root::Sysfs, "/bus", "Directory"));
        trees.push(tree("sys-devices", Root::Sysfs, "/devices", "Directory"));
    }
    trees.push(match &selection.path {
        Some(_) => tree("dev", Root::Dev, "", "Directory"),
        None => tree("dev-usb", Root::Dev, "/bus/usb", "DirectoryOrCreate"),
    });
    trees
}

/// What the container mounts. What is mounted below a directory of the node is as little writable as the directory.
fn mounts(selection: &Selection) -> Value {
    let read = trees(selection).into_iter().map(|tree| {
        let root = match tree.of {
            Root::Sysfs => SYSFS,
            Root::Dev => DEV,
        };
        json!({
            "name": tree.volume, "mountPath": format!("{root}{}", tree.below), "readOnly": true,
            "recursiveReadOnly": "IfPossible",
        })
    });
    let plugins = json!({ "name": "device-plugins", "mountPath": PLUGINS });
    read.chain([plugins]).collect()
}

/// The volumes that the container mounts: all of them, in test mode too.
fn volumes(selection: &Selection, rules: &Rules, test_mode: bool) -> Value {
    let read = trees(selection).into_iter().map(|tree| {
        let root = match tree.of {
            Root::Sysfs => &rules.sysfs,
            Root::Dev => &rules.dev,
        };
        (tree.volume, format!("{root}{}", tree.below), tree.kind)
    });
    let plugins = ("device-plugins", rules.plugin_dir.clone(), "Directory");
    let volume = |(name, path, kind): (&str, String, &str)| match test_mode {
        true => json!({ "name": name, "emptyDir": {} }),
        false => json!({ "name": name, "hostPath": { "path": path, "type": kind } }),
    };
    read.chain([plugins]).map(volume).collect()
}
