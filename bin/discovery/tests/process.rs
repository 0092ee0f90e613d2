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
use trustplane_testkit::{DEADLINE, Process, Program, Rules, Sandbox, until, wait_for_some};

use fake::{PICO, Tree};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_reported_and_offered_until_the_program_ends() -> Result<()> {
    let sandbox = Sandbox::new("discovery").await?;
    let rules = Rules::default().allow("", "pods", &["patch"]);
    let account = sandbox.apply_rbac("discovery", &rules).await?;
    let instance = account.instance("pico-discovery-x").await?;
    let pods = sandbox.api::<Pod>();
    let pod = json!({
        "metadata": {"name": "pico-discovery-x"},
        "spec": {"serviceAccountName": "discovery", "containers": [{"name": "discovery", "image": "none"}]},
    });
    let pod = pods
        .create(&PostParams::default(), &serde_json::from_value(pod)?)
        .await?;
    let tree = Tree::new();
    tree.plug(PICO);
    tree.decoys();
    let plugins = tempfile::tempdir()?;

    let mut process = Program::new(env!("CARGO_BIN_EXE_trustplane-discovery"))
        .arg("--device-name=pico")
        .arg("--resource=hsm.j5t.io/picohsm")
        .arg(r#"--selection={"usb":[{"vendor":"20a0","product":"4230"}],"maxDevices":10}"#)
        .arg("--node-name=n1")
        .arg(format!("--pod-uid={}", pod.metadata.uid.context("it has a uid")?))
        .arg(format!("--sysfs-root={}", tree.sysfs().display()))
        .arg(format!("--dev-root={}", tree.dev().display()))
        .arg(format!("--plugin-dir={}", plugins.path().display()))
        .arg("--admin-bind-address=127.0.0.1:0")
        .arg("--log-format=json")
        .start(&instance)?;
    let live = wait_for_some(&pods, "pico-discovery-x", DEADLINE, |pod| {
        let annotations = pod.metadata.annotations.iter().flatten();
        annotations
            .filter(|(key, _)| *key == REPORT)
            .any(|(_, text)| text.contains(PICO.serial))
    })
    .await
    .with_context(|| process.log().unwrap_or_default())?;
    let report = &live.metadata.annotations.context("it has annotations")?[REPORT];
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

    let sockets = [
        "hsm.j5t.io_picohsm.sock",
        "hsm.j5t.io_token-e6614c311b7e6f35.sock",
    ];
    let there = |name: &&str| plugins.path().join(Path::new(name)).exists();
    until("the sockets", DEADLINE, || {
        ready(Ok(sockets.iter().all(there).then_some(())))
    })
    .await?;
    process.terminate()?;
    assert!(process.ended(DEADLINE).await?.success(), "{}", process.log()?);
    assert!(!sockets.iter().any(there));
    Ok(())
}
