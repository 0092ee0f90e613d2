//! What the pods of the capability have in common.

use serde_json::{Value, json};

use crate::rules::{Rules, USER};

/// The taint that keeps other pods off nodes with tokens.
const TAINT: &str = "hsm-node";

/// A text that the kubelet takes as it is: it would replace `$(NAME)` otherwise.
pub(crate) fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// An argument with a value of somebody else.
pub(crate) fn argument(name: &str, value: &str) -> String {
    format!("--{name}={}", literal(value))
}

/// Who the pod is, as the processes are told.
pub(crate) fn identity() -> Vec<Value> {
    let fields = [
        ("NODE_NAME", "spec.nodeName"),
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
        ("POD_UID", "metadata.uid"),
    ];
    let variable = |(name, path): (&str, &str)| json!({ "name": name, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": path } } });
    fields.into_iter().map(variable).collect()
}

/// What no container of ours needs.
pub(crate) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "privileged": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

/// The user that a pod runs as. Root has no capabilities either, so it can do what the owner of a file can, and no more.
pub(crate) fn pod_security(user: i64, groups: &[i64]) -> Value {
    let mut security = json!({
        "runAsUser": user,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    if user != 0 {
        security["runAsNonRoot"] = true.into();
        security["runAsGroup"] = user.into();
        // Secrets are mounted for root; this lets the group read them.
        security["fsGroup"] = user.into();
    }
    if !groups.is_empty() {
        security["supplementalGroups"] = groups.into();
    }
    security
}

/// The same for a pod that needs nothing of its node.
pub(crate) fn restricted() -> Value {
    pod_security(USER, &[])
}

/// The fields of every pod spec of ours.
pub(crate) fn pod_spec(rules: &Rules, account: &str, container: Value, volumes: Value) -> Value {
    let mut spec = json!({
        "serviceAccountName": account,
        "automountServiceAccountToken": true,
        "enableServiceLinks": false,
        "tolerations": [{ "key": TAINT, "operator": "Exists", "effect": "NoSchedule" }],
        "containers": [container],
        "volumes": volumes,
    });
    if !rules.pull_secrets.is_empty() {
        let secrets = rules.pull_secrets.iter().map(|name| json!({ "name": name }));
        spec["imagePullSecrets"] = secrets.collect();
    }
    if let Some(class) = &rules.priority_class {
        spec["priorityClassName"] = class.as_str().into();
    }
    spec
}

/// A look at a process, as the kubelet makes it: seconds before the first, between two, for one, and how many may fail.
pub(crate) fn probe(path: &str, port: &str, [delay, period, timeout, failures]: [u32; 4]) -> Value {
    json!({
        "httpGet": { "path": path, "port": port, "scheme": "HTTP" },
        "initialDelaySeconds": delay, "periodSeconds": period, "timeoutSeconds": timeout,
        "failureThreshold": failures, "successThreshold": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_somebody_else_is_not_replaced_by_the_kubelet() {
        assert_eq!(
            argument("token-label", "$(POD_UID)$"),
            "--token-label=$$(POD_UID)$$"
        );
    }

    #[test]
    fn nobody_but_root_needs_a_group_for_secrets() {
        assert_eq!(pod_security(0, &[7])["supplementalGroups"], json!([7]));
        assert_eq!(pod_security(0, &[]).get("runAsNonRoot"), None);
        assert_eq!(restricted()["runAsNonRoot"], true);
        assert_eq!(restricted()["fsGroup"], USER);
    }
}
