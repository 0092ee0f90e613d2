//! What the pods look like that run on every node.

use super::pods::{container, probe, restricted, workload};
use super::*;

#[test]
fn the_agent_runs_on_every_node_and_waits_for_the_bundle() {
    let spec = workload(&empty(), &DAEMON_SET, "spire-agent");
    let one_by_one =
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } });
    assert_eq!(spec["updateStrategy"], one_by_one);
    let expected = json!({
        "serviceAccountName": "spire-agent",
        "enableServiceLinks": false,
        "hostNetwork": true,
        "hostPID": true,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "securityContext": { "runAsUser": 0, "runAsGroup": 0, "seccompProfile": { "type": "RuntimeDefault" } },
        "tolerations": [{ "operator": "Exists" }],
        "containers": [{
            "name": "spire-agent",
            "image": "ghcr.io/spiffe/spire-agent:1.15.3",
            "imagePullPolicy": "IfNotPresent",
            "args": ["-config", "/opt/spire/conf/agent/agent.conf"],
            "securityContext": restricted(),
            "ports": [{ "name": "healthz", "containerPort": 9982, "protocol": "TCP" }],
            "livenessProbe": probe("/live", "healthz", 15, 60),
            "readinessProbe": probe("/ready", "healthz", 2, 5),
            "volumeMounts": [
                { "name": "spire-config", "mountPath": "/opt/spire/conf/agent", "readOnly": true },
                { "name": "spire-agent-persistence", "mountPath": "/var/lib/spire" },
                { "name": "spire-bundle", "mountPath": "/run/spire/bundle", "readOnly": true },
                { "name": "spire-agent-socket-dir", "mountPath": "/tmp/spire-agent/public" },
                { "name": "spire-token", "mountPath": "/var/run/secrets/tokens", "readOnly": true },
            ],
        }],
        "volumes": [
            { "name": "spire-config", "configMap": { "name": "spire-agent" } },
            { "name": "spire-agent-persistence", "emptyDir": {} },
            { "name": "spire-bundle", "configMap": {
                "name": "spire-bundle", "items": [{ "key": "bundle.crt", "path": "bundle.crt" }],
            } },
            { "name": "spire-agent-socket-dir", "hostPath": {
                "path": "/run/spire/agent-sockets", "type": "DirectoryOrCreate",
            } },
            { "name": "spire-token", "projected": { "sources": [{ "serviceAccountToken": {
                "audience": "spire-server", "expirationSeconds": 7200, "path": "spire-agent",
            } }] } },
        ],
    });
    assert_eq!(spec["template"]["spec"], expected);
}

#[test]
fn the_agent_gets_the_ca_of_kubelet_when_it_is_a_file_of_the_node() {
    let volume = |verification: Verification| {
        let mut example = example("empty");
        example.agent.workload_attestors = Some(WorkloadAttestors {
            workload_attestors_verification: Some(verification),
            ..WorkloadAttestors::default()
        });
        let objects = agent(&example.agent, &CommonConfig::default(), &shared(), &settings());
        let pod = workload(&objects, &DAEMON_SET, "spire-agent")["template"]["spec"].clone();
        let is_it = |part: &&Value| part["name"] == "kubelet-ca";
        let mounts = container(&pod, "spire-agent")["volumeMounts"].as_array().unwrap();
        let volume = pod["volumes"].as_array().unwrap().iter().find(is_it).cloned();
        assert_eq!(mounts.iter().filter(is_it).count(), usize::from(volume.is_some()));
        volume.map(|volume| volume["hostPath"].clone())
    };
    let given = |r#type| Verification {
        r#type,
        host_cert_base_path: Some("/etc/kubernetes/".into()),
        host_cert_file_name: Some("kubelet-ca.crt".into()),
    };
    let directory = Some(json!({ "path": "/etc/kubernetes", "type": "Directory" }));
    assert_eq!(volume(given(VerificationType::HostCert)), directory);
    assert_eq!(volume(given(VerificationType::Auto)), directory);
    assert_eq!(volume(given(VerificationType::Skip)), None);
    assert_eq!(volume(Verification::default()), None);
}

#[test]
fn the_agent_has_no_name_of_its_node() {
    // With one it would ask kubelet by that name.
    for example in matrix() {
        let objects = agent(&example.agent, &CommonConfig::default(), &shared(), &settings());
        let pod = workload(&objects, &DAEMON_SET, "spire-agent")["template"]["spec"].to_string();
        assert!(!pod.contains("MY_NODE_NAME"), "{pod}");
    }
}

fn csi_pod(path: &str, root: &str, selinux: bool) -> Value {
    let mut settings = settings();
    settings.kubelet_root = root.into();
    settings.selinux = selinux;
    let spec = SpiffeCsiDriverSpec {
        agent_socket_path: path.into(),
        ..SpiffeCsiDriverSpec::default()
    };
    let objects = csi(&spec, &CommonConfig::default(), &shared(), &settings);
    workload(&objects, &DAEMON_SET, "spire-spiffe-csi-driver")["template"]["spec"].clone()
}

#[test]
fn the_csi_driver_mounts_where_kubelet_has_its_pods() {
    let expected = json!({
        "serviceAccountName": "spire-spiffe-csi-driver",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": { "runAsUser": 0, "runAsGroup": 0, "seccompProfile": { "type": "RuntimeDefault" } },
        "tolerations": [{ "operator": "Exists" }],
        "containers": [
            {
                "name": "spiffe-csi-driver",
                "image": "ghcr.io/spiffe/spiffe-csi-driver:0.2.8",
                "imagePullPolicy": "IfNotPresent",
                "args": [
                    "-workload-api-socket-dir", "/spire-agent-socket",
                    "-plugin-name", "csi.spiffe.io",
                    "-csi-socket-path", "/spiffe-csi/csi.sock",
                ],
                "env": [{ "name": "MY_NODE_NAME", "valueFrom": { "fieldRef": {
                    "apiVersion": "v1", "fieldPath": "spec.nodeName",
                } } }],
                "securityContext": {
                    "capabilities": { "drop": ["ALL"] }, "privileged": true, "readOnlyRootFilesystem": true,
                },
                "volumeMounts": [
                    { "name": "spire-agent-socket-dir", "mountPath": "/spire-agent-socket", "readOnly": true },
                    { "name": "spiffe-csi-socket-dir", "mountPath": "/spiffe-csi" },
                    { "name": "mountpoint-dir", "mountPath": "/data/kubelet/pods", "mountPropagation": "Bidirectional" },
                ],
            },
            {
                "name": "node-driver-registrar",
                "image": "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.9.4",
                "imagePullPolicy": "IfNotPresent",
                "args": [
                    "-csi-address", "/spiffe-csi/csi.sock",
                    "-kubelet-registration-path", "/data/kubelet/plugins/csi.spiffe.io/csi.sock",
                    "-health-port", "9809",
                ],
                "securityContext": restricted(),
                "ports": [{ "name": "healthz", "containerPort": 9809, "protocol": "TCP" }],
                "livenessProbe": probe("/healthz", "healthz", 5, 10),
                "volumeMounts": [
                    { "name": "spiffe-csi-socket-dir", "mountPath": "/spiffe-csi" },
                    { "name": "kubelet-plugin-registration-dir", "mountPath": "/registration" },
                ],
            },
        ],
        "volumes": [
            { "name": "spire-agent-socket-dir", "hostPath": {
                "path": "/run/spire/agent-sockets", "type": "DirectoryOrCreate",
            } },
            { "name": "spiffe-csi-socket-dir", "hostPath": {
                "path": "/data/kubelet/plugins/csi.spiffe.io", "type": "DirectoryOrCreate",
            } },
            { "name": "mountpoint-dir", "hostPath": { "path": "/data/kubelet/pods", "type": "Directory" } },
            { "name": "kubelet-plugin-registration-dir", "hostPath": {
                "path": "/data/kubelet/plugins_registry", "type": "Directory",
            } },
        ],
    });
    assert_eq!(
        csi_pod("/run/spire/agent-sockets", "/data/kubelet/", false),
        expected
    );
}

#[test]
fn the_socket_is_relabelled_only_where_nodes_run_selinux() {
    let pod = csi_pod("/run/spire/agent-sockets", "/var/lib/kubelet", true);
    let init = container(&pod, "set-context");
    assert_eq!(init["command"], json!(["chcon"]));
    assert_eq!(
        init["args"],
        json!(["-Rvt", "container_file_t", "/spire-agent-socket"])
    );
    assert_eq!(init["securityContext"]["privileged"], true);
    assert_eq!(init["imagePullPolicy"], "IfNotPresent");
}

#[test]
fn the_name_of_a_socket_is_left_out_of_its_directory() {
    for (path, directory) in [
        ("/run/spire/agent-sockets", "/run/spire/agent-sockets"),
        ("/run/spire/agent-sockets/", "/run/spire/agent-sockets"),
        (
            "/run/spire/agent-sockets/spire-agent.sock",
            "/run/spire/agent-sockets",
        ),
        ("/agent.sock", "/"),
        ("/", "/"),
    ] {
        assert_eq!(socket_directory(path), directory, "{path}");
    }
    let pod = csi_pod(
        "/run/spire/agent-sockets/spire-agent.sock",
        "/var/lib/kubelet",
        false,
    );
    assert_eq!(pod["volumes"][0]["hostPath"]["path"], "/run/spire/agent-sockets");
}
