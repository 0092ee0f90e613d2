//! What pods look like.

use super::*;

pub(super) fn workload(objects: &[Manifest], kind: &Kind, name: &str) -> Value {
    find(objects, kind, name)["spec"].clone()
}

pub(super) fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let containers = pod["containers"].as_array().unwrap().iter();
    containers
        .chain(pod["initContainers"].as_array().into_iter().flatten())
        .find(|container| container["name"] == name)
        .unwrap()
}

pub(super) fn probe(path: &str, port: &str, delay: u32, period: u32) -> Value {
    json!({
        "httpGet": { "path": path, "port": port, "scheme": "HTTP" },
        "initialDelaySeconds": delay, "periodSeconds": period, "timeoutSeconds": 3,
        "failureThreshold": 3, "successThreshold": 1,
    })
}

pub(super) fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
    })
}

fn ordinary_user() -> Value {
    json!({
        "runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": true,
        "fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

#[test]
fn the_server_runs_beside_the_controller_manager() {
    let spec = workload(&empty(), &STATEFUL_SET, "spire-server");
    assert_eq!(
        (&spec["replicas"], &spec["serviceName"]),
        (&json!(1), &json!("spire-server"))
    );
    assert_eq!(spec["updateStrategy"], json!({ "type": "RollingUpdate" }));
    let keep = json!({ "whenDeleted": "Retain", "whenScaled": "Retain" });
    assert_eq!(spec["persistentVolumeClaimRetentionPolicy"], keep);
    let claim = json!([{ "metadata": { "name": "spire-data" }, "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
        "volumeMode": "Filesystem",
    } }]);
    assert_eq!(spec["volumeClaimTemplates"], claim);
    let expected = json!({
        "serviceAccountName": "spire-server",
        "enableServiceLinks": false,
        "securityContext": ordinary_user(),
        "containers": [
            {
                "name": "spire-server",
                "image": "ghcr.io/spiffe/spire-server:1.15.3",
                "imagePullPolicy": "IfNotPresent",
                "args": ["-expandEnv", "-config", "/run/spire/config/server.conf"],
                "securityContext": restricted(),
                "ports": [
                    { "name": "grpc", "containerPort": 8081, "protocol": "TCP" },
                    { "name": "server-healthz", "containerPort": 8080, "protocol": "TCP" },
                    { "name": "federation", "containerPort": 8443, "protocol": "TCP" },
                ],
                "livenessProbe": probe("/live", "server-healthz", 15, 60),
                "readinessProbe": probe("/ready", "server-healthz", 2, 5),
                "volumeMounts": [
                    { "name": "server-tmp", "mountPath": "/tmp" },
                    { "name": "spire-config", "mountPath": "/run/spire/config", "readOnly": true },
                    { "name": "spire-server-socket", "mountPath": "/tmp/spire-server/private" },
                    { "name": "spire-data", "mountPath": "/run/spire/data" },
                ],
            },
            {
                "name": "spire-controller-manager",
                "image": "ghcr.io/spiffe/spire-controller-manager:0.6.4",
                "imagePullPolicy": "IfNotPresent",
                "args": ["--config=/controller-manager-config.yaml"],
                "env": [{ "name": "ENABLE_WEBHOOKS", "value": "true" }],
                "securityContext": restricted(),
                "ports": [
                    { "name": "https", "containerPort": 9443, "protocol": "TCP" },
                    { "name": "ctrlmgr-healthz", "containerPort": 8083, "protocol": "TCP" },
                ],
                "livenessProbe": probe("/healthz", "ctrlmgr-healthz", 15, 60),
                "readinessProbe": probe("/readyz", "ctrlmgr-healthz", 2, 5),
                "volumeMounts": [
                    { "name": "spire-server-socket", "mountPath": "/tmp/spire-server/private", "readOnly": true },
                    {
                        "name": "controller-manager-config", "mountPath": "/controller-manager-config.yaml",
                        "subPath": "controller-manager-config.yaml", "readOnly": true,
                    },
                    { "name": "spire-controller-manager-tmp", "mountPath": "/tmp" },
                ],
            },
        ],
        "volumes": [
            { "name": "server-tmp", "emptyDir": {} },
            { "name": "spire-config", "configMap": { "name": "spire-server" } },
            { "name": "spire-server-socket", "emptyDir": {} },
            { "name": "controller-manager-config", "configMap": { "name": "spire-controller-manager" } },
            { "name": "spire-controller-manager-tmp", "emptyDir": {} },
        ],
    });
    assert_eq!(spec["template"]["spec"], expected);
}

#[test]
fn the_server_gets_the_volume_and_the_certificates_of_its_spec() {
    let mut example = example("federation-by-certificate");
    example.server.datastore = super::example("mysql-with-tls").server.datastore;
    example.server.persistence = Some(Persistence {
        size: "5Gi".into(),
        storage_class: "fast".into(),
        ..Persistence::default()
    });
    let objects =
        |example: &Example| server(&example.server, &CommonConfig::default(), &shared(), &settings());
    let spec = workload(&objects(&example), &STATEFUL_SET, "spire-server");
    let claim = &spec["volumeClaimTemplates"][0]["spec"];
    assert_eq!(claim["storageClassName"], "fast");
    assert_eq!(claim["resources"]["requests"]["storage"], "5Gi");
    let pod = &spec["template"]["spec"];
    let secret = |volume: &str, name: &str| json!({ "name": volume, "secret": { "secretName": name, "defaultMode": 0o440 } });
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(volumes.contains(&secret("db-certs", "db-tls")));
    assert!(volumes.contains(&secret("spire-server-tls", "spire-server-serving-cert")));
    let mounts = container(pod, "spire-server")["volumeMounts"].as_array().unwrap();
    for (name, path) in [
        ("db-certs", "/run/spire/db/certs"),
        ("spire-server-tls", "/run/spire/server-tls"),
    ] {
        let mount = json!({ "name": name, "mountPath": path, "readOnly": true });
        assert!(mounts.contains(&mount), "{mounts:?}");
    }
    let web = &mut example
        .server
        .federation
        .as_mut()
        .unwrap()
        .bundle_endpoint
        .https_web;
    let certificate = web.as_mut().unwrap().serving_cert.as_mut().unwrap();
    certificate.external_secret_ref = Some("web-pki".into());
    let spec = workload(&objects(&example), &STATEFUL_SET, "spire-server");
    let volumes = spec["template"]["spec"]["volumes"].as_array().unwrap();
    assert!(volumes.contains(&secret("spire-server-tls", "web-pki")));
}

#[test]
fn the_discovery_provider_gets_socket_and_certificate() {
    let spec = workload(&empty(), &DEPLOYMENT, "spire-spiffe-oidc-discovery-provider");
    assert_eq!(spec["replicas"], 1);
    let expected = json!({
        "serviceAccountName": "spire-spiffe-oidc-discovery-provider",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": ordinary_user(),
        "containers": [{
            "name": "spiffe-oidc-discovery-provider",
            "image": "ghcr.io/spiffe/oidc-discovery-provider:1.15.3",
            "imagePullPolicy": "IfNotPresent",
            "args": ["-config", "/run/spire/oidc/config/oidc-discovery-provider.conf"],
            "securityContext": restricted(),
            "ports": [
                { "name": "healthz", "containerPort": 8008, "protocol": "TCP" },
                { "name": "https", "containerPort": 8443, "protocol": "TCP" },
            ],
            "livenessProbe": probe("/live", "healthz", 15, 60),
            "readinessProbe": probe("/ready", "healthz", 2, 5),
            "volumeMounts": [
                { "name": "spiffe-workload-api", "mountPath": "/spiffe-workload-api", "readOnly": true },
                { "name": "tls-certs", "mountPath": "/etc/oidc/tls", "readOnly": true },
                {
                    "name": "spire-oidc-config",
                    "mountPath": "/run/spire/oidc/config/oidc-discovery-provider.conf",
                    "subPath": "oidc-discovery-provider.conf", "readOnly": true,
                },
            ],
        }],
        "volumes": [
            { "name": "spiffe-workload-api", "csi": { "driver": "csi.spiffe.io", "readOnly": true } },
            { "name": "tls-certs", "secret": { "secretName": "oidc-serving-cert", "defaultMode": 0o440 } },
            { "name": "spire-oidc-config", "configMap": { "name": "spire-spiffe-oidc-discovery-provider" } },
        ],
    });
    assert_eq!(spec["template"]["spec"], expected);
}

#[test]
fn pods_run_as_the_common_configuration_says() {
    let common: CommonConfig = serde_json::from_value(json!({
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        "resources": {"requests": {"cpu": "100m"}},
    }))
    .unwrap();
    let objects: Vec<_> = all(&example("empty"), &common).into_values().flatten().collect();
    let workloads = objects.iter().filter_map(|object| {
        let pod = object.body()["spec"]["template"]["spec"].clone();
        (!pod.is_null()).then_some(pod)
    });
    let mut count = 0;
    for pod in workloads {
        count += 1;
        assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
        assert_eq!(
            pod["tolerations"],
            json!([{"key": "infra", "operator": "Exists"}])
        );
        assert_eq!(pod["affinity"], json!(common.affinity));
        for container in pod["containers"].as_array().unwrap() {
            assert_eq!(container["resources"], json!({"requests": {"cpu": "100m"}}));
        }
    }
    assert_eq!(count, 4);
}

#[test]
fn a_side_container_has_its_own_size_when_the_spec_gives_one() {
    let common: CommonConfig =
        serde_json::from_value(json!({"resources": {"limits": {"cpu": "1"}}})).unwrap();
    let own: Resources = serde_json::from_value(json!({"limits": {"cpu": "2"}})).unwrap();
    let mut example = example("empty");
    example.server.controller_manager_resources = Some(own.clone());
    let driver = SpiffeCsiDriverSpec {
        registrar_resources: Some(own),
        ..SpiffeCsiDriverSpec::default()
    };
    let objects = [
        server(&example.server, &common, &shared(), &settings()),
        csi(&driver, &common, &shared(), &settings()),
    ]
    .concat();
    for (kind, name, main, side) in [
        (
            STATEFUL_SET,
            "spire-server",
            "spire-server",
            "spire-controller-manager",
        ),
        (
            DAEMON_SET,
            "spire-spiffe-csi-driver",
            "spiffe-csi-driver",
            "node-driver-registrar",
        ),
    ] {
        let pod = workload(&objects, &kind, name)["template"]["spec"].clone();
        assert_eq!(container(&pod, main)["resources"]["limits"]["cpu"], "1");
        assert_eq!(container(&pod, side)["resources"]["limits"]["cpu"], "2");
    }
}

#[test]
fn pods_restart_when_their_file_changes_and_only_then() {
    let annotations = |name: &str| {
        let objects: Vec<_> = all(&example(name), &CommonConfig::default())
            .into_values()
            .flatten()
            .collect();
        let of = |kind, name| {
            let object = find(&objects, &kind, name);
            (
                object["spec"]["template"]["metadata"]["annotations"].clone(),
                object["metadata"]["annotations"].clone(),
            )
        };
        [
            of(STATEFUL_SET, "spire-server"),
            of(DAEMON_SET, "spire-agent"),
            of(DAEMON_SET, "spire-spiffe-csi-driver"),
            of(DEPLOYMENT, "spire-spiffe-oidc-discovery-provider"),
        ]
    };
    let [server, agent, csi, oidc] = annotations("empty");
    let hash = |value: &Value| value.as_str().is_some_and(|text| text.len() == 64);
    assert!(hash(&server.0["ztwim.openshift.io/spire-server-config-hash"]));
    assert!(hash(
        &server.0["ztwim.openshift.io/spire-controller-manager-config-hash"]
    ));
    assert!(hash(&agent.0["ztwim.openshift.io/spire-agent-config-hash"]));
    assert!(hash(
        &oidc.0["ztwim.openshift.io/spire-oidc-discovery-provider-config-hash"]
    ));
    assert!(hash(&server.1["trustplane.io/config-hash"]) && hash(&agent.1["trustplane.io/config-hash"]));
    assert_eq!(
        server.0["kubectl.kubernetes.io/default-container"],
        "spire-server"
    );

    let changed = annotations("keys-rsa");
    assert_ne!(changed[0], server);
    let same = "ztwim.openshift.io/spire-controller-manager-config-hash";
    assert_eq!(changed[0].0[same], server.0[same]);
    assert_eq!(changed[1..], [agent.clone(), csi.clone(), oidc.clone()]);
    let changed = annotations("attestors-said");
    assert_ne!(changed[1], agent);
    assert_eq!([&changed[0], &changed[2], &changed[3]], [&server, &csi, &oidc]);
    let changed = annotations("cluster-name-with-dots");
    assert_ne!(changed[0].0[same], server.0[same]);
    assert_eq!(changed[2..], [csi, oidc]);
}
