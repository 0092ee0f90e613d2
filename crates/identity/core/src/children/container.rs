//! What the containers of the capability have in common.

use serde_json::{Value, json};
use trustplane_api::identity::Resources;

use crate::Settings;

/// The user and the group of programs that need nothing of their node.
pub(super) const USER: i64 = 1000;

/// A container without ports and probes.
pub(super) fn container(name: &str, image: &str, args: &[&str], settings: &Settings) -> Value {
    json!({
        "name": name,
        "image": image,
        "imagePullPolicy": settings.pull_policy,
        "args": args,
        "securityContext": restricted(),
    })
}

/// What no program of ours needs but the CSI driver.
fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
    })
}

/// The same for a program that mounts file systems: it is root with all rights, but its own file system stays as it is.
pub(super) fn privileged() -> Value {
    json!({
        "capabilities": { "drop": ["ALL"] },
        "privileged": true,
        "readOnlyRootFilesystem": true,
    })
}

/// A pod whose programs need nothing of their node.
pub(super) fn ordinary_user() -> Value {
    json!({
        "runAsUser": USER,
        "runAsGroup": USER,
        "runAsNonRoot": true,
        // Volumes belong to root otherwise.
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// A pod whose programs use files of root on their node.
pub(super) fn root() -> Value {
    json!({
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// Sets what a container requests and may use, if that is said: for itself, or else for all containers.
pub(super) fn size(container: &mut Value, own: Option<&Resources>, all: Option<&Resources>) {
    if let Some(resources) = own.or(all) {
        container["resources"] = json!(resources);
    }
}

pub(super) fn port(name: &str, port: u16) -> Value {
    json!({ "name": name, "containerPort": port, "protocol": "TCP" })
}

pub(super) fn mount(volume: &str, path: &str) -> Value {
    json!({ "name": volume, "mountPath": path })
}

pub(super) fn read_only(volume: &str, path: &str) -> Value {
    json!({ "name": volume, "mountPath": path, "readOnly": true })
}

/// One file of a volume.
pub(super) fn file(volume: &str, path: &str, name: &str) -> Value {
    json!({ "name": volume, "mountPath": path, "subPath": name, "readOnly": true })
}

pub(super) fn config_map_volume(volume: &str, name: &str) -> Value {
    json!({ "name": volume, "configMap": { "name": name } })
}

pub(super) fn empty_dir(volume: &str) -> Value {
    json!({ "name": volume, "emptyDir": {} })
}

/// Files that only their user and group may read.
pub(super) fn secret_volume(volume: &str, name: &str) -> Value {
    json!({ "name": volume, "secret": { "secretName": name, "defaultMode": 0o440 } })
}

pub(super) fn host_path(volume: &str, path: &str, kind: &str) -> Value {
    json!({ "name": volume, "hostPath": { "path": path, "type": kind } })
}

/// The name of the node, in a variable.
pub(super) fn node_name(variable: &str) -> Value {
    json!({ "name": variable, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "spec.nodeName" } } })
}

/// How kubelet finds out whether a program works, by HTTP: seconds before the first look and between two, and how many may fail.
pub(super) fn probe(path: &str, port: &str, [delay, period, failures]: [u32; 3]) -> Value {
    json!({
        "httpGet": { "path": path, "port": port, "scheme": "HTTP" },
        "initialDelaySeconds": delay,
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
        "successThreshold": 1,
    })
}
