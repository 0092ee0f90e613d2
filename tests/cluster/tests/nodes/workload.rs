//! What runs on a test's cluster, and what it is asked.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use trustplane_cluster::cache::Cache;
use trustplane_cluster::control_plane::Component;
use trustplane_cluster::identity::Identity;
use trustplane_cluster::image_archive::{self, Entry, ImageSpec, Layer};
use trustplane_cluster::node::{Cluster, PROBE_IMAGE};
use trustplane_cluster::tools::{Tool, Toolchain};
use trustplane_cluster::wait;

use crate::LIMIT;

pub fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let output = cluster
        .kubectl()
        .args(arguments)
        .output()
        .context("run kubectl")?;
    ensure!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn apply(cluster: &Cluster, objects: &[Value]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    fs::write(file.path(), list.to_string()).unwrap();
    kubectl(cluster, &["apply", "--filename", file.path().to_str().unwrap()]).unwrap();
}

pub fn pod(name: &str, node: &str, arguments: &[&str]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main",
                "image": PROBE_IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "args": arguments,
            }],
        },
    })
}

pub fn await_pods(cluster: &Cluster) {
    kubectl(
        cluster,
        &["wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s"],
    )
    .unwrap_or_else(|error| {
        let seen = kubectl(cluster, &["describe", "pods"]).unwrap_or_default();
        panic!("{error:#}\n{seen}")
    });
}

/// Runs `probe` in the pod on the second node.
fn from_client(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    kubectl(
        cluster,
        &[&["exec", "client", "--", "/probe"], arguments].concat(),
    )
}

/// kube-proxy and the endpoints follow the pods, so the first calls may come too early.
fn eventually(what: &str, mut call: impl FnMut() -> Result<String>) -> String {
    let mut last = None;
    let answer = wait::until(what, LIMIT, || match call() {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => {
            last = Some(error);
            Ok(None)
        }
    });
    answer.unwrap_or_else(|error| panic!("{error:#}: {last:?}"))
}

pub fn start(cluster: &Cluster) {
    let mut client = pod("client", "node-2", &["pause"]);
    client["spec"]["volumes"] = json!([{ "name": "secret", "secret": { "secretName": "word" } }]);
    client["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "secret", "mountPath": "/secret" }]);
    let mut driver = pod("driver", "node-2", &["pause"]);
    driver["spec"]["volumes"] = json!([{ "name": "state", "hostPath": { "path": "/var/lib/kubelet" } }]);
    let container = &mut driver["spec"]["containers"][0];
    container["securityContext"] = json!({ "privileged": true, "runAsUser": 0 });
    container["volumeMounts"] =
        json!([{ "name": "state", "mountPath": "/state", "mountPropagation": "Bidirectional" }]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "word" }, "stringData": { "word": "sesame" },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "greeter" },
        "spec": { "selector": { "app": "server" }, "ports": [{ "port": 80, "targetPort": 8080 }] },
    });
    let server = pod("server", "node-1", &["serve", ":8080", "good morning"]);
    apply(cluster, &[secret, service, server, client, driver]);
    await_pods(cluster);
}

pub fn pods_talk(cluster: &Cluster) {
    let address = kubectl(cluster, &["get", "pod", "server", "-o=jsonpath={.status.podIP}"]).unwrap();
    let direct = format!("http://{address}:8080/direct");
    assert_eq!(
        from_client(cluster, &["get", &direct]).unwrap(),
        "good morning\n",
        "from node to node"
    );
    let served = eventually("the Service", || {
        from_client(cluster, &["get", "http://greeter/named"])
    });
    assert_eq!(served, "good morning\n");
    let log = kubectl(cluster, &["logs", "server"]).unwrap();
    assert!(
        log.contains("GET /direct from 10.244.2.") && log.contains("GET /named"),
        "{log}"
    );

    let address = kubectl(
        cluster,
        &["get", "service", "greeter", "-o=jsonpath={.spec.clusterIP}"],
    )
    .unwrap();
    let name = "greeter.default.svc.cluster.local";
    assert_eq!(from_client(cluster, &["resolve", name]).unwrap().trim(), address);
    assert!(from_client(cluster, &["resolve", "absent.default.svc.cluster.local"]).is_err());

    // Where the API server is, for its webhooks.
    let namespace = format!("--net=/proc/{}/ns/net", api_server(cluster).pid());
    let probe = Toolchain::new(&Cache::locate().unwrap())
        .ensure(Tool::Probe)
        .unwrap()
        .join("probe");
    let mut inside = Command::new("nsenter");
    inside
        .arg(namespace)
        .arg(probe)
        .args(["get", &format!("http://{address}/")]);
    let output = inside.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "good morning\n",
        "{output:?}"
    );
}

fn api_server(cluster: &Cluster) -> Identity {
    cluster
        .control_plane()
        .process(Component::ApiServer)
        .unwrap()
        .unwrap()
}

pub fn pods_reach_the_api_server_and_the_machine(cluster: &Cluster) {
    assert_eq!(from_client(cluster, &["cat", "/secret/word"]).unwrap(), "sesame");
    let credentials = "/var/run/secrets/kubernetes.io/serviceaccount";
    let (authority, token) = (format!("{credentials}/ca.crt"), format!("{credentials}/token"));
    let url = "https://kubernetes.default.svc/version";
    let version = from_client(cluster, &["get", "-ca", &authority, "-bearer", &token, url]).unwrap();
    assert!(version.contains("\"gitVersion\": \"v1.36."), "{version}");
    let secrets = "https://kubernetes.default.svc/api/v1/namespaces/default/secrets";
    let refused = from_client(cluster, &["get", "-ca", &authority, "-bearer", &token, secrets]).unwrap_err();
    assert!(refused.to_string().contains("403"), "{refused:#}");

    let listener = TcpListener::bind((cluster.machine_address(), 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let machine = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let asked = stream.read(&mut [0; 1024]).unwrap();
        assert_ne!(asked, 0, "nothing was asked");
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nmachine").unwrap();
    });
    assert_eq!(from_client(cluster, &["get", &url]).unwrap(), "machine");
    machine.join().unwrap();
    assert!(
        from_client(cluster, &["get", "-timeout", "2s", "http://192.0.2.1/"]).is_err(),
        "a way out"
    );
}

pub fn images_load(cluster: &Cluster) {
    let probe = Toolchain::new(&Cache::locate().unwrap())
        .ensure(Tool::Probe)
        .unwrap()
        .join("probe");
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("greeting.tar");
    let spec = ImageSpec {
        reference: "trustplane.local/greeting:v1".into(),
        layers: vec![
            Layer::new([Entry::file("/bin/probe", probe, 0o755)]),
            Layer::new([Entry::bytes("/etc/greeting", "hello", 0o400).owned_by(65532, 65532)]),
        ],
        entrypoint: vec!["/bin/probe".into()],
        user: "65532:65532".into(),
        ..ImageSpec::default()
    };
    image_archive::write(&spec, &archive).unwrap();
    cluster.load_image(&archive).unwrap();
    let loaded = |node: &str| {
        let mut pod = pod(&format!("loaded-{node}"), node, &["cat", "/etc/greeting"]);
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["spec"]["securityContext"] = json!({ "runAsNonRoot": true });
        pod["spec"]["containers"][0]["image"] = json!(spec.reference);
        pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
        pod
    };
    apply(cluster, &[loaded("node-1"), loaded("node-2")]);
    for node in ["node-1", "node-2"] {
        let name = format!("pod/loaded-{node}");
        kubectl(
            cluster,
            &[
                "wait",
                "--for=jsonpath={.status.phase}=Succeeded",
                "--timeout=60s",
                &name,
            ],
        )
        .unwrap();
        assert_eq!(kubectl(cluster, &["logs", &name]).unwrap(), "hello");
    }
}

pub fn device_plugins_are_apart(cluster: &Cluster) {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let sockets: BTreeSet<u64> = cluster
        .nodes()
        .iter()
        .map(|node| {
            let socket = node.state_directory().join("kubelet/device-plugins/kubelet.sock");
            let metadata = fs::metadata(&socket).unwrap();
            assert!(metadata.file_type().is_socket());
            metadata.ino()
        })
        .collect();
    assert_eq!(sockets.len(), 2);
    assert!(
        !Path::new("/var/lib/kubelet/device-plugins/kubelet.sock").exists(),
        "the machine's own"
    );
}
