//! Tokens as resources of a node, with a kubelet that plays its part of the protocol over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod stub;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use trustplane_hsm_core::examples::tracked;
use trustplane_hsm_discovery::Counts;
use trustplane_hsm_discovery::plugin::{Broken, Plugin};
use trustplane_hsm_discovery::watch::Picture;
use trustplane_process::backoff::Backoff;

use stub::{DEADLINE, Kubelet, Resource};

const TYPE: &str = "hsm.j5t.io/picohsm";
const A: &str = "n1-_dev_a-a";
const B: &str = "n1-_dev_b-b";

/// A process of ours.
struct Process {
    picture: watch::Sender<Picture>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Broken>>,
}

impl Process {
    /// A process as it runs by default: it offers tokens, and no type.
    fn start(dir: &Path, owner: &str) -> Self {
        Self::checking(dir, owner, Duration::from_millis(20), None)
    }

    /// A process that offers the type as well.
    fn with_type(dir: &Path, owner: &str) -> Self {
        Self::checking(dir, owner, Duration::from_millis(20), Some(TYPE))
    }

    /// A process that looks so often by itself.
    fn checking(dir: &Path, owner: &str, check: Duration, offered_type: Option<&str>) -> Self {
        let quick = Duration::from_millis(20);
        let plugin = Plugin {
            dir: dir.to_owned(),
            dev: "/dev".to_owned(),
            type_resource: offered_type.map(str::to_owned),
            node: "n1".to_owned(),
            owner: owner.to_owned(),
            check,
            backoff: Backoff {
                first: quick,
                max: quick,
            },
            counts: Counts::default(),
        };
        let (picture, stop) = (watch::Sender::default(), CancellationToken::new());
        let task = tokio::spawn(plugin.run(picture.subscribe(), stop.clone()));
        Self { picture, stop, task }
    }

    /// Serial numbers and whether they are there. A device file is named after its serial number.
    fn show(&self, tokens: &[(&str, bool)]) {
        let devices = tokens
            .iter()
            .map(|(serial, available)| tracked(Some(serial), &format!("/dev/{serial}"), *available, 0));
        let devices = devices.collect();
        self.picture.send_modify(|picture| picture.devices = devices);
    }

    async fn end(self) -> Result<()> {
        self.stop.cancel();
        timeout(DEADLINE, self.task)
            .await
            .context("the process does not end")???;
        Ok(())
    }
}

fn sockets(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("hsm.j5t.io_")).collect();
    names.sort();
    names
}

/// The locks of resources.
fn locks(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir.join("hsm.j5t.io")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".lock")).collect()
}

fn stage() -> Result<(TempDir, Kubelet)> {
    let dir = tempfile::tempdir()?;
    let kubelet = Kubelet::start(dir.path())?;
    Ok((dir, kubelet))
}

/// The original tells changes each half minute. Here nothing looks by itself within an hour.
#[tokio::test]
async fn w16_a_type_counts_its_tokens_and_changes_are_told_at_once() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let process = Process::checking(dir.path(), "one", Duration::from_secs(3600), Some(TYPE));
    let mut picohsm = kubelet.resource(TYPE).await?;
    picohsm.lists(&[]).await?;
    process.show(&[("a", true)]);
    picohsm.lists(&[(A, "Healthy")]).await?;
    process.show(&[("a", false), ("b", true)]);
    picohsm.lists(&[(A, "Unhealthy"), (B, "Healthy")]).await?;
    process.show(&[("b", true)]);
    picohsm.lists(&[(B, "Healthy")]).await?;
    Ok(())
}

#[tokio::test]
async fn each_token_is_a_resource_that_gives_that_token_and_no_other() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let process = Process::start(dir.path(), "one");
    process.show(&[("a", true), ("b", true)]);
    let mut token = kubelet.resource("hsm.j5t.io/token-b").await?;
    token.lists(&[(B, "Healthy")]).await?;
    let given = token.allocate(&[B]).await?;
    assert_eq!(given.container_responses.len(), 1);
    let container = &given.container_responses[0];
    assert_eq!(container.devices.len(), 1);
    assert_eq!(container.devices[0].host_path, "/dev/b");
    assert_eq!(container.devices[0].permissions, "rw");
    assert_eq!(container.envs["HSM_SERIAL_N1__DEV_B_B"], "b");
    assert_eq!(container.envs["HSM_DEVICE_N1__DEV_B_B"], "/dev/b");
    assert_eq!(token.allocate(&[A]).await.unwrap_err().code(), Code::NotFound);
    process.show(&[("a", true), ("b", false)]);
    token.lists(&[(B, "Unhealthy")]).await?;
    assert_eq!(
        token.allocate(&[B]).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    Ok(())
}

/// Whoever has the resource of a type has a device file beside the agent that serves the token.
#[tokio::test]
async fn plugin_offers_no_type_by_default() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let process = Process::start(dir.path(), "one");
    process.show(&[("a", true)]);
    // The socket of a type is made at the start, before that of any token.
    let mut token = kubelet.resource("hsm.j5t.io/token-a").await?;
    token.lists(&[(A, "Healthy")]).await?;
    assert_eq!(sockets(dir.path()), ["hsm.j5t.io_token-a.sock"]);
    assert_eq!(kubelet.pending(), Vec::<String>::new());
    process.end().await
}

#[tokio::test]
async fn a_token_that_is_forgotten_takes_its_resource_with_it() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let process = Process::start(dir.path(), "one");
    process.show(&[("a", true)]);
    let token = kubelet.resource("hsm.j5t.io/token-a").await?;
    assert_eq!(sockets(dir.path()), ["hsm.j5t.io_token-a.sock"]);
    process.show(&[]);
    token.ended().await?;
    process.end().await?;
    assert_eq!(sockets(dir.path()), Vec::<String>::new());
    assert_eq!(locks(dir.path()), Vec::<String>::new());
    Ok(())
}

/// The original is never heard of again after kubelet has restarted.
#[tokio::test]
async fn w16_a_kubelet_that_starts_anew_is_told_again() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let process = Process::start(dir.path(), "one");
    process.show(&[("a", true)]);
    kubelet.resource("hsm.j5t.io/token-a").await?;
    drop(kubelet);
    let mut kubelet = Kubelet::start_clean(dir.path())?;
    let mut token = kubelet.resource("hsm.j5t.io/token-a").await?;
    token.lists(&[(A, "Healthy")]).await?;
    drop(kubelet);
    // Some leave the sockets of plugins alone.
    let mut kubelet = Kubelet::start(dir.path())?;
    let mut token = kubelet.resource("hsm.j5t.io/token-a").await?;
    token.lists(&[(A, "Healthy")]).await?;
    Ok(())
}

#[tokio::test]
async fn a_kubelet_that_comes_later_is_told() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let process = Process::start(dir.path(), "one");
    process.show(&[("a", true)]);
    let mut kubelet = Kubelet::start(dir.path())?;
    let mut token = kubelet.resource("hsm.j5t.io/token-a").await?;
    token.lists(&[(A, "Healthy")]).await
}

#[tokio::test]
async fn a_socket_that_vanished_is_made_anew_and_told() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let process = Process::start(dir.path(), "one");
    process.show(&[("a", true)]);
    let token = kubelet.resource("hsm.j5t.io/token-a").await?;
    fs::remove_file(dir.path().join("hsm.j5t.io_token-a.sock"))?;
    token.ended().await?;
    let mut token = kubelet.resource("hsm.j5t.io/token-a").await?;
    token.lists(&[(A, "Healthy")]).await
}

/// In the original two processes of one type take each other's socket away.
#[tokio::test]
async fn w12_of_two_processes_one_serves_the_type_with_the_tokens_of_both() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let first = Process::with_type(dir.path(), "first");
    first.show(&[("a", true)]);
    let mut picohsm = kubelet.resource(TYPE).await?;
    picohsm.lists(&[(A, "Healthy")]).await?;
    let second = Process::with_type(dir.path(), "second");
    second.show(&[("b", true)]);
    picohsm.lists(&[(A, "Healthy"), (B, "Healthy")]).await?;
    // Its own token it offers itself.
    kubelet.resource("hsm.j5t.io/token-b").await?;
    let given = picohsm.allocate(&[B]).await?;
    assert_eq!(given.container_responses[0].devices[0].host_path, "/dev/b");
    let again = kubelet.pending();
    assert!(!again.contains(&TYPE.to_owned()), "{again:?}");

    first.end().await?;
    let mut picohsm = kubelet.resource(TYPE).await?;
    picohsm.lists(&[(B, "Healthy")]).await?;
    second.end().await
}

#[tokio::test]
async fn a_token_that_two_processes_found_is_offered_once() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let first = Process::start(dir.path(), "first");
    first.show(&[("a", true)]);
    let mut token = kubelet.resource("hsm.j5t.io/token-a").await?;
    token.lists(&[(A, "Healthy")]).await?;
    let second = Process::start(dir.path(), "second");
    second.show(&[("a", true), ("b", true)]);
    kubelet.resource("hsm.j5t.io/token-b").await?;
    first.end().await?;
    token.ended().await?;
    let mut token = kubelet.resource("hsm.j5t.io/token-a").await?;
    token.lists(&[(A, "Healthy")]).await
}

#[tokio::test]
async fn a_socket_that_a_killed_process_left_is_taken_over() -> Result<()> {
    let (dir, mut kubelet) = stage()?;
    let left = std::os::unix::net::UnixListener::bind(dir.path().join("hsm.j5t.io_picohsm.sock"))?;
    drop(left);
    let process = Process::with_type(dir.path(), "one");
    process.show(&[("a", true)]);
    let mut picohsm = kubelet.resource(TYPE).await?;
    picohsm.lists(&[(A, "Healthy")]).await?;
    let mut direct = Resource::reach(dir.path(), "hsm.j5t.io_picohsm.sock").await?;
    direct.lists(&[(A, "Healthy")]).await
}
