//! The daemon between readers and modules, where the module needs it: started, watched, started again, ended.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use trustplane_process::backoff::Backoff;

use crate::host::Program;

/// Where Debian's pcscd listens.
const SOCKET: &str = "/run/pcscd/pcscd.comm";
/// How often to look whether it listens.
const LOOK: Duration = Duration::from_millis(20);

/// Why it does not run. It is started again.
#[derive(Debug, thiserror::Error)]
enum PcscdError {
    #[error("start {}: {source}", .path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("remove the socket {} that is left over: {source}", .socket.display())]
    Socket { socket: PathBuf, source: io::Error },
    #[error("it does not listen on {} after {patience:?}", .socket.display())]
    Deaf { socket: PathBuf, patience: Duration },
    #[error("it has ended: {0}")]
    Ended(String),
}

/// How pcscd is run.
#[derive(Debug, Clone)]
pub struct Pcscd {
    /// The program; it stays in the foreground.
    pub program: Program,
    /// Where it listens.
    pub socket: PathBuf,
    /// How long it may take to listen.
    pub patience: Duration,
    /// How long it may take to end when it is told to.
    pub grace: Duration,
    /// How long to wait before it is started again.
    pub backoff: Backoff,
}

impl Pcscd {
    /// pcscd as Debian has it.
    pub fn at(path: &Path) -> Self {
        Self {
            program: Program {
                path: path.to_owned(),
                arguments: vec!["--foreground".into()],
                environment: Vec::new(),
            },
            socket: PathBuf::from(SOCKET),
            patience: Duration::from_secs(5),
            grace: Duration::from_secs(5),
            backoff: Backoff {
                first: Duration::from_millis(200),
                max: Duration::from_secs(10),
            },
        }
    }

    /// Has it run until the end, and says whether it does.
    pub async fn run(self, runs: watch::Sender<bool>, stop: CancellationToken) {
        let mut failures = 0;
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let outcome = self.once(&runs, &stop).await;
            runs.send_replace(false);
            let Err(error) = outcome else { return };
            // What has run for long is not what fails to start.
            if begun.elapsed() > self.backoff.max {
                failures = 0;
            }
            let pause = self.backoff.jittered(failures);
            tracing::error!(%error, ?pause, "pcscd does not run; it is started again");
            failures = failures.saturating_add(1);
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Runs it once. Comes back without an error only if it was asked to end.
    async fn once(&self, runs: &watch::Sender<bool>, stop: &CancellationToken) -> Result<(), PcscdError> {
        match tokio::fs::remove_file(&self.socket).await {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                let socket = self.socket.clone();
                return Err(PcscdError::Socket { socket, source });
            }
            _ => {}
        }
        let mut child = self.start()?;
        let outcome = tokio::select! {
            outcome = self.serve(&mut child, runs) => outcome,
            () = stop.cancelled() => Ok(()),
        };
        self.end(child).await;
        outcome
    }

    fn start(&self) -> Result<Child, PcscdError> {
        let program = &self.program;
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .envs(program.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command.spawn().map_err(|source| PcscdError::Start {
            path: program.path.clone(),
            source,
        })
    }

    async fn serve(&self, child: &mut Child, runs: &watch::Sender<bool>) -> Result<(), PcscdError> {
        tokio::select! {
            ended = child.wait() => return Err(told(ended)),
            listening = timeout(self.patience, self.listening()) => {
                if listening.is_err() {
                    let (socket, patience) = (self.socket.clone(), self.patience);
                    return Err(PcscdError::Deaf { socket, patience });
                }
            }
        }
        tracing::info!(socket = %self.socket.display(), "pcscd runs");
        runs.send_replace(true);
        Err(told(child.wait().await))
    }

    async fn listening(&self) {
        while UnixStream::connect(&self.socket).await.is_err() {
            sleep(LOOK).await;
        }
    }

    /// Asks it to end, and has it end if it does not.
    async fn end(&self, mut child: Child) {
        let id = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(id) = id {
            // It may have ended just now.
            let _ = kill_process(id, Signal::TERM);
            if timeout(self.grace, child.wait()).await.is_err() {
                tracing::warn!("pcscd does not end by itself, so it is killed");
                drop(child.kill().await);
            }
        }
    }
}

fn told(ended: io::Result<std::process::ExitStatus>) -> PcscdError {
    PcscdError::Ended(match ended {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    })
}
