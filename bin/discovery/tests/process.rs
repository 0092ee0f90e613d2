//! The whole program: on a tree of files, with a real API server, as an account that may only patch pods.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "../../../crates/hsm/discovery/src/fake.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod fake;

use std::future::ready;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::json;
use trustplane_testkit::metrics::{are_documented, scrape};
use trustplane_testkit::{Account, DEADLINE, Process, Program, Rules, Sandbox, until, wait_for_some};

use fake::{PICO, Plug, Tree};

const REPORT: &str = "hsm.j5t.io/device-report";

fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Where the admin port is, once the program says so.
async fn admin(process: &Process) -> Result<String> {
    until("the admin port", DEADLINE, || {
        let log = process.log();
        let found = log.map(|log| {
            let at = log.split("\"admin\":\"[").nth(1)?;
            at.split(']').next().map(str::to_owned)
        });
        ready(found)
    })
    .await
}

/// A node with its files, and an account that may only patch pods.
struct Stage {
    sandbox: Sandbox,
    account: Account,
    tree: Tree,
    plugins: tempfile::TempDir,
}

impl Stage {
    async fn new(name: &str) -> Result<Self> {
        let sandbox = Sandbox::new(name).await?;
        let rules = Rules::default().allow("", "pods", &["patch"]);
        Ok(Self {
            account: sandbox.apply_rbac("discovery", &rules).await?,
            sandbox,
            tree: Tree::new(),
            plugins: tempfile::tempdir()?,
        })
    }

    /// Runs the program as a new pod of this name. At most so many tokens are used.
    async fn run(&self, name: &str, most: usize) -> Result<Process> {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"serviceAccountName": "discovery", "containers": [{"name": "discovery", "image": "none"}]},
        });
        let pods = self.sandbox.api::<Pod>();
        let pod = pods
            .create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
        let numbers = r#"[{"vendor":"20a0","product":"4230"}]"#;
        Program::new(env!("CARGO_BIN_EXE_trustplane-discovery"))
            .arg("--device-name=pico")
            .arg(format!(r#"--selection={{"usb":{numbers},"maxDevices":{most}}}"#))
            .arg("--type-resource=hsm.j5t.io/picohsm")
            .arg("--node-name=n1")
            .arg(format!("--pod-uid={}", pod.metadata.uid.context("it has a uid")?))
            .arg(format!("--sysfs-root={}", self.tree.sysfs().display()))
            .arg(format!("--dev-root={}", self.tree.dev().display()))
            .arg(format!("--plugin-dir={}", self.plugins.path().display()))
            .arg("--admin-bind-address=127.0.0.1:0")
            .arg("--log-format=json")
            .start(&self.account.instance(name).await?)
    }

    /// The report of a pod, once it has these words.
    async fn reported(&self, process: &Process, pod: &str, words: &str) -> Result<String> {
        let report = |pod: &Pod| pod.metadata.annotations.as_ref()?.get(REPORT).cloned();
        let pods = self.sandbox.api::<Pod>();
        let live = wait_for_some(&pods, pod, DEADLINE, |pod| {
            report(pod).is_some_and(|report| report.contains(words))
        });
        let live = live.await.with_context(|| process.log().unwrap_or_default())?;
        report(&live).context("it has a report")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_use_keeps_its_place_when_the_pod_is_replaced() -> Result<()> {
    let stage = Stage::new("discovery-rolls").await?;
    stage.tree.plug(PICO);
    let mut old = stage.run("pico-discovery-old", 1).await?;
    stage.reported(&old, "pico-discovery-old", PICO.serial).await?;
    // It would come first if nobody remembered the other.
    stage.tree.plug(Plug {
        port: "1-1.3",
        serial: "aaaa",
        number: 16,
        ..PICO
    });
    stage
        .reported(&old, "pico-discovery-old", "1 more tokens")
        .await?;
    old.terminate()?;
    assert!(old.ended(DEADLINE).await?.success(), "{}", old.log()?);
    let new = stage.run("pico-discovery-new", 1).await?;
    let report = stage.reported(&new, "pico-discovery-new", "completed").await?;
    assert!(
        report.contains(PICO.serial) && !report.contains("aaaa") && report.contains("1 more tokens"),
        "{report}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_reported_and_offered_until_the_program_ends() -> Result<()> {
    let stage = Stage::new("discovery").await?;
    stage.tree.plug(PICO);
    stage.tree.decoys();
    let mut process = stage.run("pico-discovery-x", 10).await?;
    let report = stage.reported(&process, "pico-discovery-x", PICO.serial).await?;
    assert!(
        report.contains(r#""hsmDeviceName":"pico","reportingNode":"n1""#),
        "{report}"
    );

    let admin = admin(&process).await?;
    until("readiness", DEADLINE, || {
        ready(get(&admin, "/readyz").map(|answer| answer.starts_with("HTTP/1.1 200").then_some(())))
    })
    .await?;
    assert!(get(&admin, "/livez")?.starts_with("HTTP/1.1 200"));
    let metrics = get(&admin, "/metrics")?;
    for line in [
        "trustplane_hsm_discovery_devices{state=\"available\"} 1\n",
        "trustplane_hsm_discovery_reports_total{result=\"written\"} ",
        "trustplane_hsm_discovery_looks_total{result=\"whole\"} ",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    are_documented(&scrape(&process)?)?;

    let sockets = [
        "hsm.j5t.io_picohsm.sock",
        "hsm.j5t.io_token-e6614c311b7e6f35.sock",
    ];
    let there = |name: &&str| stage.plugins.path().join(Path::new(name)).exists();
    until("the sockets", DEADLINE, || {
        ready(Ok(sockets.iter().all(there).then_some(())))
    })
    .await?;
    process.terminate()?;
    assert!(process.ended(DEADLINE).await?.success(), "{}", process.log()?);
    assert!(!sockets.iter().any(there));
    Ok(())
}
