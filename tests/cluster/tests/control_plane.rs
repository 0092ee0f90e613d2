//! The control plane, for real: side by side, after a crash, after an interruption, after a restart.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::control_plane::{Component, ControlPlane, Options};
use trustplane_cluster::daemon;
use trustplane_cluster::identity::Identity;
use trustplane_cluster::site::{self, Site};
use trustplane_cluster::state::ClusterName;
use trustplane_cluster::wait;

const LIMIT: Duration = Duration::from_secs(60);

/// Ends a cluster also when its test fails.
struct Cluster(ClusterName);

impl Cluster {
    fn new(name: &str) -> Self {
        // The process id keeps two runs of the same test apart.
        Self(format!("{name}-{}", std::process::id()).parse().unwrap())
    }

    fn options() -> Options {
        Options {
            owner: Some(Identity::own().unwrap()),
            ..Options::default()
        }
    }

    fn up(&self) -> ControlPlane {
        ControlPlane::up(self.0.as_str(), &Self::options()).unwrap()
    }

    fn down(&self) {
        site::down(&Cache::locate().unwrap(), &self.0).unwrap();
    }

    fn dir(&self) -> PathBuf {
        Site::new(&Cache::locate().unwrap(), self.0.clone()).dir()
    }

    fn leaves_nothing(&self) {
        assert_eq!(daemon::marked(&self.dir()).unwrap(), []);
        assert!(!self.dir().exists());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = site::down(&Cache::locate().unwrap(), &self.0);
    }
}

fn kubectl(control_plane: &ControlPlane, arguments: &[&str]) -> Result<String> {
    let output = Command::new(control_plane.kubernetes().join("kubectl"))
        .arg("--kubeconfig")
        .arg(control_plane.kubeconfig())
        .args(arguments)
        .env("HOME", control_plane.dir())
        .output()
        .context("run kubectl")?;
    anyhow::ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn audited(
    control_plane: &ControlPlane,
    matches: impl Fn(&serde_json::Value) -> bool,
) -> Vec<serde_json::Value> {
    let log = fs::read_to_string(control_plane.audit_log()).unwrap();
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(matches)
        .collect()
}

#[test]
fn two_clusters_live_side_by_side_and_each_audits_its_own() {
    let (one, two) = (Cluster::new("one"), Cluster::new("two"));
    let (first, second) = (one.up(), two.up());
    assert_ne!(first.url(), second.url());
    for plane in [&first, &second] {
        assert_eq!(kubectl(plane, &["get", "--raw=/readyz"]).unwrap(), "ok");
        let version = kubectl(plane, &["version", "--output=json"]).unwrap();
        assert!(version.contains("\"gitVersion\": \"v1.36."), "{version}");
    }
    kubectl(
        &first,
        &["create", "configmap", "mine", "--from-literal=key=visible"],
    )
    .unwrap();
    kubectl(
        &first,
        &[
            "create",
            "secret",
            "generic",
            "quiet",
            "--from-literal=key=canary-8f2e",
        ],
    )
    .unwrap();
    let created = |name: &'static str| {
        move |event: &serde_json::Value| event["verb"] == "create" && event["objectRef"]["name"] == name
    };
    let [configmap] = &audited(&first, created("mine"))[..] else {
        panic!("one line per write")
    };
    assert_eq!(configmap["requestObject"]["data"]["key"], "visible");
    assert_eq!(configmap["user"]["username"], "kubernetes-admin");
    let [secret] = &audited(&first, created("quiet"))[..] else {
        panic!("one line per write")
    };
    assert_eq!(secret["level"], "Metadata");
    assert!(
        !fs::read_to_string(first.audit_log())
            .unwrap()
            .contains("canary-8f2e")
    );
    assert_eq!(audited(&second, created("mine")), Vec::<serde_json::Value>::new());
    one.down();
    one.leaves_nothing();
    assert_eq!(
        kubectl(&second, &["get", "--raw=/readyz"]).unwrap(),
        "ok",
        "down took a neighbour along"
    );
}

#[test]
fn tokens_are_real_and_rbac_is_on() {
    let cluster = Cluster::new("tokens");
    let plane = cluster.up();
    let token = kubectl(&plane, &["create", "token", "default", "--audience=elsewhere"]).unwrap();
    assert_eq!(token.trim().split('.').count(), 3);
    let own = kubectl(&plane, &["create", "token", "default"]).unwrap();
    // A kubeconfig without the client certificate of the administrator, which would win over the token.
    let anonymous = plane.dir().join("anonymous.kubeconfig");
    let mut config: serde_json::Value =
        serde_json::from_slice(&fs::read(plane.kubeconfig()).unwrap()).unwrap();
    config["users"][0]["user"] = serde_json::json!({ "token": own.trim() });
    fs::write(&anonymous, config.to_string()).unwrap();
    let path = anonymous.to_str().unwrap();
    let who = kubectl(&plane, &["--kubeconfig", path, "auth", "whoami"]).unwrap();
    assert!(who.contains("system:serviceaccount:default:default"), "{who}");
    let refused = kubectl(&plane, &["--kubeconfig", path, "get", "secrets"])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("Forbidden"), "{refused}");
}

#[test]
fn a_crash_of_etcd_is_cleared_away_and_the_next_up_works() {
    let cluster = Cluster::new("crash");
    let plane = cluster.up();
    let etcd = plane.process(Component::Etcd).unwrap().unwrap();
    let api_server = plane.process(Component::ApiServer).unwrap().unwrap();
    assert!(etcd.signal(Signal::KILL).unwrap());
    wait::until("etcd to end", LIMIT, || Ok((!etcd.alive()?).then_some(()))).unwrap();
    cluster.down();
    assert!(!api_server.alive().unwrap());
    cluster.leaves_nothing();
    let again = cluster.up();
    assert_eq!(kubectl(&again, &["get", "--raw=/readyz"]).unwrap(), "ok");
    // A crash without `down` in between is cleared by `up` itself.
    let api_server = again.process(Component::ApiServer).unwrap().unwrap();
    api_server.signal(Signal::KILL).unwrap();
    wait::until("the API server to end", LIMIT, || {
        Ok((!api_server.alive()?).then_some(()))
    })
    .unwrap();
    let third = cluster.up();
    assert_eq!(kubectl(&third, &["get", "--raw=/readyz"]).unwrap(), "ok");
}

#[test]
fn a_component_restarts_with_its_data_and_its_address() {
    let cluster = Cluster::new("restart");
    let plane = cluster.up();
    kubectl(&plane, &["create", "namespace", "kept"]).unwrap();
    let before = plane.process(Component::ApiServer).unwrap().unwrap();
    plane.restart(Component::ApiServer).unwrap();
    assert_ne!(plane.process(Component::ApiServer).unwrap().unwrap(), before);
    kubectl(&plane, &["get", "namespace", "kept"]).unwrap();
    plane.stop(Component::Etcd, Duration::ZERO).unwrap();
    plane.restart(Component::Etcd).unwrap();
    wait::until("the API server to find etcd again", LIMIT, || {
        Ok(kubectl(&plane, &["get", "namespace", "kept", "--request-timeout=5s"]).ok())
    })
    .unwrap();
    let running = ControlPlane::up(cluster.0.as_str(), &Cluster::options()).unwrap();
    assert_eq!(
        running.url(),
        plane.url(),
        "up of a running cluster is the running cluster"
    );
}

/// Not a test by itself: what the next one starts as a process of its own, to interrupt it.
#[test]
fn up_as_a_process() {
    if let Ok(name) = std::env::var("TRUSTPLANE_TEST_UP") {
        ControlPlane::up(&name, &Options::default()).unwrap();
    }
}

fn interrupted(name: &str, signal: Signal) -> Cluster {
    let cluster = Cluster::new(name);
    // The tools are built by a run that is not to be interrupted.
    cluster.up();
    cluster.down();
    let mut up = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "up_as_a_process", "--nocapture"])
        .env("TRUSTPLANE_TEST_UP", cluster.0.as_str())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let own = Site::new(&Cache::locate().unwrap(), cluster.0.clone());
    wait::until("the API server to be started", LIMIT, || {
        Ok(own
            .state()?
            .filter(|state| state.process(Component::ApiServer.name()).is_some()))
    })
    .unwrap();
    Identity::of(up.id().cast_signed())
        .unwrap()
        .unwrap()
        .signal(signal)
        .unwrap();
    assert!(!up.wait().unwrap().success(), "the interruption came too late");
    cluster
}

#[test]
fn an_interrupted_up_leaves_nothing() {
    interrupted("term", Signal::TERM).leaves_nothing();
    interrupted("int", Signal::INT).leaves_nothing();
}

#[test]
fn a_killed_up_leaves_nothing_that_down_does_not_end() {
    let cluster = interrupted("killed", Signal::KILL);
    assert!(
        !daemon::marked(&cluster.dir()).unwrap().is_empty(),
        "SIGKILL left no process to test with"
    );
    cluster.down();
    cluster.leaves_nothing();
}
