//! pcscd is kept running. What runs here is a stand-in that listens and nothing else.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_hsm_agent::Phase;
use trustplane_hsm_agent::pcscd::{Pcscd, Signs, read_signs};
use trustplane_pkcs11_shim::{Action, Control, Duration as Lasting, Fault};
use trustplane_process::backoff::Backoff;
use trustplane_process::metrics::Metrics;
use trustplane_process::shutdown::Shutdown;
use trustplane_process::supervise::Supervisor;

use crate::process::{kill, lives};
use crate::stage::{PATIENCE, PIN, Stage, eventually, open, serving, start};

/// What the stand-in does.
pub fn daemon(stage: &Stage) {
    // Whoever looks finds all of it or nothing.
    let [half, whole] = ["pcscd.pid.half", "pcscd.pid"].map(|name| stage.folder().join(name));
    fs::write(&half, std::process::id().to_string()).unwrap();
    fs::rename(half, whole).unwrap();
    let stubborn = stage.folder().join("stubborn").exists();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _runtime = runtime.enter();
    // From here on the signal does nothing.
    let kind = tokio::signal::unix::SignalKind::terminate();
    let _deaf = stubborn.then(|| tokio::signal::unix::signal(kind).unwrap());
    if stage.folder().join("mute").exists() {
        std::thread::sleep(PATIENCE);
    }
    let listener = UnixListener::bind(stage.folder().join("pcscd.comm")).unwrap();
    for connection in listener.incoming() {
        drop(connection);
    }
}

struct Run {
    signs: watch::Sender<Signs>,
    runs: watch::Receiver<bool>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn pcscd(stage: &Stage, patience: Duration, grace: Duration) -> Pcscd {
    Pcscd {
        program: stage.program("pcscd"),
        socket: stage.folder().join("pcscd.comm"),
        patience,
        grace,
        backoff: Backoff {
            first: Duration::from_millis(10),
            max: Duration::from_millis(50),
        },
        bus: stage.folder().join("bus"),
        look: Duration::from_millis(10),
    }
}

fn run(stage: &Stage, patience: Duration, grace: Duration) -> Run {
    let pcscd = pcscd(stage, patience, grace);
    let (signs, seen) = watch::channel(Signs::default());
    let (told, runs) = watch::channel(false);
    let stop = CancellationToken::new();
    let task = tokio::spawn(pcscd.run(seen, told, stop.clone()));
    Run {
        signs,
        runs,
        stop,
        task,
    }
}

impl Run {
    async fn until(&mut self, wanted: bool) {
        let reached = tokio::time::timeout(PATIENCE, self.runs.wait_for(|runs| *runs == wanted)).await;
        assert!(reached.is_ok(), "waited for pcscd to be {wanted}");
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
        assert!(!*self.runs.borrow());
    }
}

fn id(stage: &Stage) -> u32 {
    let file: PathBuf = stage.folder().join("pcscd.pid");
    fs::read_to_string(file).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_daemon_that_dies_is_missed_and_started_again_and_ends_with_us() {
    let stage = Stage::new();
    // What an earlier one has left over is no listener.
    drop(UnixListener::bind(stage.folder().join("pcscd.comm")).unwrap());
    let mut run = run(&stage, PATIENCE, PATIENCE);
    run.until(true).await;
    for _ in 0..3 {
        let before = id(&stage);
        kill(before);
        run.until(false).await;
        run.until(true).await;
        assert_ne!(id(&stage), before);
    }
    let last = id(&stage);
    assert!(lives(last));
    run.end().await;
    assert!(!lives(last));
}

#[tokio::test]
async fn a_daemon_that_does_not_end_by_itself_is_killed() {
    let stage = Stage::new();
    fs::write(stage.folder().join("stubborn"), "").unwrap();
    let mut run = run(&stage, PATIENCE, Duration::from_millis(200));
    run.until(true).await;
    let last = id(&stage);
    run.end().await;
    assert!(!lives(last));
}

#[tokio::test]
async fn a_daemon_that_does_not_listen_is_no_daemon() {
    let stage = Stage::new();
    fs::write(stage.folder().join("mute"), "").unwrap();
    let mut run = run(&stage, Duration::from_secs(2), PATIENCE);
    eventually("it is started", || stage.folder().join("pcscd.pid").exists()).await;
    let first = id(&stage);
    fs::remove_file(stage.folder().join("mute")).unwrap();
    run.until(true).await;
    assert_ne!(id(&stage), first);
    assert!(!lives(first));
    run.end().await;
}

#[tokio::test]
async fn a_daemon_that_cannot_know_of_a_reader_is_started_again_while_the_token_is_missed() {
    let stage = Stage::new();
    let plug = |name: &str| fs::create_dir_all(stage.folder().join("bus").join(name)).unwrap();
    plug("1-1");
    let mut run = run(&stage, PATIENCE, PATIENCE);
    run.until(true).await;
    let first = id(&stage);
    plug("1-2");
    run.signs.send_modify(|signs| signs.missed = true);
    eventually("another one runs", || id(&stage) != first).await;
    run.until(true).await;
    assert!(!lives(first));
    run.end().await;
}

#[tokio::test]
async fn a_daemon_on_which_one_child_after_the_other_hangs_is_started_again() {
    let stage = Stage::new();
    let mut run = run(&stage, PATIENCE, PATIENCE);
    run.until(true).await;
    let first = id(&stage);
    // Whatever a module asks for, nobody answers.
    let frozen = Fault::before(1, Action::Freeze).lasting(Lasting::Always);
    stage.set(Control::fault(frozen));
    let mut settings = stage.settings();
    settings.opening = Duration::from_millis(300);
    let host = start(settings, PIN);
    tokio::spawn(read_signs(host.health(), run.signs.clone()));
    eventually("another one runs", || id(&stage) != first).await;
    assert!(host.health().borrow().hangs >= 2);
    run.until(true).await;
    assert!(!lives(first));
    stage.heal();
    serving(&host).await;
    run.end().await;
}

#[tokio::test]
async fn it_ends_after_the_module_that_needs_it_was_given_back() {
    let stage = Stage::new();
    let shutdown = Shutdown::new(PATIENCE);
    let supervisor = Supervisor::new(&Metrics::new(), shutdown.clone());
    let given_back = CancellationToken::new();
    let (_signs, signs) = watch::channel(Signs::default());
    let mut runs = pcscd(&stage, PATIENCE, PATIENCE).attend(&supervisor, signs, given_back.clone());
    let host = Arc::new(open(stage.settings()).await);
    host.attend(&supervisor, given_back);
    let reached = tokio::time::timeout(PATIENCE, runs.wait_for(|runs| *runs)).await;
    reached.unwrap().unwrap();
    // A module that takes its time over the end.
    stage.set(Control::fault(Fault::before(1, Action::Freeze)));
    shutdown.request();
    let ended = tokio::spawn(async move { supervisor.run_until_shutdown().await });
    runs.wait_for(|runs| !*runs).await.unwrap();
    assert_eq!(host.health().borrow().phase, Phase::Ended);
    assert!(stage.shim.has_failed().unwrap());
    ended.await.unwrap().unwrap();
}
