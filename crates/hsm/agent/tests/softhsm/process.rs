//! The child as a process: what it is protected from, and when it ends.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use trustplane_hsm_core::version::Expected;
use trustplane_pkcs11_shim::{Action, Control, Fault};

use crate::stage::{PATIENCE, PIN, Stage, eventually, list, open, serving, start};
use trustplane_hsm_core::examples::{path, secret};

const NOBODY: u32 = 65534;

/// Kills a process.
pub fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// Whether a process still does something. One that nobody has waited for does not.
pub fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn dropping_the_host_ends_the_child_also_when_it_hangs() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    let child = host.health().borrow().process.unwrap();
    let health = host.health();
    assert!(lives(child));
    drop(host);
    assert!(!lives(child));
    assert_eq!(health.borrow().phase, trustplane_hsm_agent::Phase::Ended);
    // It has taken leave of the module.
    assert_eq!(stage.answers("C_Finalize"), [Some(0)]);

    let host = std::sync::Arc::new(open(stage.settings()).await);
    let child = host.health().borrow().process.unwrap();
    stage.set(Control::fault(Fault::before(1, Action::Freeze)));
    let asking = tokio::spawn({
        let host = host.clone();
        async move { list(&host).await }
    });
    stage.failed().await;
    asking.abort();
    drop(asking.await);
    host.stop().await;
    assert!(!lives(child));
}

#[tokio::test]
async fn a_child_ends_with_the_one_that_started_it_also_when_it_hangs() {
    let stage = Stage::new();
    let mut parent = stage.command("host").spawn().unwrap();
    let told = stage.folder().join("child");
    eventually("the child is told", || told.exists()).await;
    stage.failed().await;
    let child: u32 = fs::read_to_string(told).unwrap().parse().unwrap();
    assert!(lives(child));
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("the child ends", || !lives(child)).await;
}

/// A process with a host whose module hangs.
pub fn host(stage: &Stage) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut settings = stage.settings();
        settings.deadline = 3 * PATIENCE;
        let host = start(settings, PIN);
        let health = serving(&host).await;
        stage.set(Control::fault(Fault::before(1, Action::Freeze)));
        let partial = stage.folder().join("child.partial");
        fs::write(&partial, health.process.unwrap().to_string()).unwrap();
        fs::rename(partial, stage.folder().join("child")).unwrap();
        drop(list(&host).await);
    });
}

/// A child without an agent, and our end of its socket.
fn bare(mut command: Command) -> (std::process::Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    command.stderr(Stdio::null());
    (command.spawn().unwrap(), ours)
}

#[test]
fn a_frame_that_makes_no_sense_ends_the_child() {
    let stage = Stage::new();
    for frame in [
        b"\0\0\0\x05\0\0\0\x01x".as_slice(),
        b"\xff\xff\xff\xff",
        b"\0\0\0\x02\0\0",
    ] {
        let (mut child, mut socket) = bare(stage.command("module"));
        socket.write_all(frame).unwrap();
        assert_eq!(socket.read(&mut [0]).unwrap(), 0);
        assert!(!child.wait().unwrap().success());
    }
}

/// The files of a process in `/proc` belong to root if it cannot be dumped, whoever runs it.
#[tokio::test]
async fn nobody_can_read_the_memory_of_a_child() {
    let stage = Stage::new();
    // Root reads everything: the child is somebody else then, who may run a copy of this binary.
    let program = stage.program("module");
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("child");
    fs::copy(&program.path, &copy).unwrap();
    let is_root = rustix::process::getuid().is_root();
    let user = if is_root {
        NOBODY
    } else {
        rustix::process::getuid().as_raw()
    };
    let owner = |process: u32| fs::metadata(format!("/proc/{process}/mem")).unwrap().uid();

    let mut other = Command::new("sleep");
    other.arg("60");
    let mut module = Command::new(copy);
    module
        .args(program.arguments)
        .envs(program.environment)
        .stdout(Stdio::null());
    if is_root {
        other.uid(user);
        module.uid(user);
    }
    let (mut other, _socket) = bare(other);
    eventually("another process is its user's", || owner(other.id()) == user).await;
    other.kill().unwrap();
    other.wait().unwrap();

    let (mut child, mut socket) = bare(module);
    // It answers once it has set itself up.
    let request = br#""Info""#;
    socket
        .write_all(&[&[0, 0, 0, 10, 0, 0, 0, 6], request.as_slice()].concat())
        .unwrap();
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(owner(child.id()), 0);
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    drop(socket);
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn an_idle_child_is_asked_whether_its_token_is_there_and_survives_it() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.probe = Duration::from_millis(1);
    let host = open(settings).await;
    host.write(&path("a"), secret(1, &[("k", b"v")]), Expected::Absent)
        .await
        .unwrap();
    stage.heal();
    eventually("it was asked", || stage.answers("C_GetTokenInfo").len() > 5).await;
    assert_eq!(host.health().borrow().starts, 1);
    assert_eq!(list(&host).await.unwrap().len(), 1);
}
