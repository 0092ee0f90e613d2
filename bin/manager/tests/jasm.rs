//! The shipped binary in the place of JASM: its arguments, its rights and nothing else, its Lease.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::fs;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod, Secret, ServiceAccount};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::metrics;
use trustplane_testkit::proxy::{Match, Proxy, Verb};
use trustplane_testkit::{DEADLINE, Program, Rules, Sandbox, Select, eventually, wait_for_some};

const LEASE: &str = "jasm.codnod.io";

/// What JASM's ClusterRole grants.
fn jasms_rights() -> Rules {
    let mut rules = Rules::default();
    for (group, resource, verbs) in [
        ("", "pods", &["get", "list", "watch"][..]),
        (
            "",
            "secrets",
            &["get", "list", "watch", "create", "update", "patch"],
        ),
        ("", "events", &["create", "patch"]),
        (
            "coordination.k8s.io",
            "leases",
            &["get", "list", "watch", "create", "update", "patch"],
        ),
    ] {
        rules = rules.allow_everywhere(group, resource, verbs);
    }
    rules
}

#[tokio::test]
async fn jasms_manifest_runs_with_another_image_and_waits_for_jasm_to_go() -> Result<()> {
    let sandbox = Sandbox::new("jasm").await?;
    let account = sandbox.apply_rbac("jasm", &jasms_rights()).await?;
    let proxy = Proxy::start(sandbox.plane()).await?;
    let files = tempfile::tempdir()?;
    fs::write(files.path().join("db"), r#"{"user":"u"}"#)?;
    // JASM leads.
    let leases = sandbox.api::<Lease>();
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    let held = json!({
        "metadata": {"name": LEASE},
        "spec": {"holderIdentity": "jasm-0", "leaseDurationSeconds": 600, "acquireTime": now, "renewTime": now,
                 "leaseTransitions": 0},
    });
    leases
        .create(&PostParams::default(), &serde_json::from_value(held)?)
        .await?;
    let mark = Mark::now(sandbox.plane()).await?;
    let program = Program::new(env!("CARGO_BIN_EXE_trustplane-manager"))
        .arg("--leader-elect")
        .arg("--metrics-bind-address=127.0.0.1:0")
        .arg("--health-probe-bind-address=127.0.0.1:0")
        .arg("--zap-encoder=json")
        .arg("--zap-log-level=info")
        .arg("--zap-time-encoding=iso8601")
        // Beyond JASM's own: a test cannot have the usual ports, and must leave other namespaces alone.
        .arg("--admin-bind-address=0")
        .arg("--webhook-bind-address=0")
        .arg(format!("--sync-namespaces={}", sandbox.namespace()))
        .arg(format!("--sync-file-root={}", files.path().display()))
        .arg("--sync-policy=off");
    let instance = account.instance("ours").await?.through(&proxy);
    let running = program.start(&instance)?;
    wait_for_some(&sandbox.api::<ServiceAccount>(), "default", DEADLINE, |_| true).await?;
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "annotations": {
            "jasm.codnod.io/secret-sync": "provider: file\npath: db\nsecretName: db\n",
        }},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }))?;
    sandbox.api::<Pod>().create(&PostParams::default(), &pod).await?;
    // It has looked at the Lease, and the pod is known to it; it writes nothing but its own key.
    let looked = Match::verb(Verb::Get).resource("leases").name(LEASE);
    proxy.wait_for(&looked, 3, DEADLINE).await?;
    let audit = mark.since().await?.by(&instance);
    let writes = audit.writes();
    assert!(
        writes
            .iter()
            .all(|write| write.name() == "trustplane-fingerprint"),
        "{}",
        audit.story()
    );

    // JASM goes.
    let released = Patch::Merge(json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}));
    leases.patch(LEASE, &PatchParams::default(), &released).await?;
    let secret = wait_for_some(&sandbox.api::<Secret>(), "db", DEADLINE, |_| true).await?;
    assert_eq!(secret.data.unwrap_or_default()["user"].0, b"u");
    let events = sandbox.api::<Event>();
    eventually(&events, &Select::default(), DEADLINE, |found| {
        let told = found
            .values()
            .any(|event| event.reason.as_deref() == Some("SecretSyncSuccess"));
        told.then_some(())
    })
    .await?;
    metrics::are_documented(&metrics::scrape(&running)?)?;
    let log = running.log()?;
    assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
    running.kill().await
}
