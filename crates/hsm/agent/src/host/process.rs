//! The child process, as the agent sees it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::output::{Output, drain};
use crate::frame::{self, FrameError, Message};
use crate::wire::Answer;

/// A program whose main calls [`child::run`](crate::child::run).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What its environment has beside our own.
    pub environment: Vec<(OsString, OsString)>,
    /// What becomes of what it prints.
    pub output: Output,
}

/// A child that runs.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    socket: UnixStream,
}

/// Why there was no answer.
#[derive(Debug)]
pub(super) enum Broken {
    /// It took too long.
    Late,
    /// The socket has ended, or makes no sense.
    Socket(FrameError),
}

impl Process {
    pub fn start(program: &Program) -> io::Result<Self> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .envs(program.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        tokio::spawn(drain("module", child.stderr.take(), program.output));
        Ok(Self {
            child,
            socket: UnixStream::from_std(ours)?,
        })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks, and waits so long for the answer.
    pub async fn ask(&mut self, request: &[u8], within: Duration) -> Result<Message<Answer>, Broken> {
        match timeout(within, frame::exchange(&mut self.socket, request)).await {
            Ok(answer) => answer.map_err(Broken::Socket),
            Err(_) => Err(Broken::Late),
        }
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills it if it has not ended yet, and says how it has ended.
    pub async fn kill(mut self, grace: Duration) -> Option<ExitStatus> {
        self.child.start_kill().ok()?;
        last_words(self.child.wait(), grace).await
    }

    /// Lets it take leave of the module, for so long.
    pub async fn end(self, grace: Duration) {
        let Self { mut child, socket } = self;
        drop(socket);
        if timeout(grace, child.wait()).await.is_err() && child.start_kill().is_ok() {
            last_words(child.wait(), grace).await;
        }
    }
}

/// How a process has ended that was killed, if it does so in time. One in a call of the kernel that nothing interrupts ends when that
/// call does; nobody waits for it. Until then it holds the token, if it did.
async fn last_words(
    end: impl Future<Output = io::Result<ExitStatus>>,
    grace: Duration,
) -> Option<ExitStatus> {
    match timeout(grace, end).await {
        Ok(ended) => ended.ok(),
        Err(_) => {
            tracing::error!("the module's process was killed and does not end; it is left behind");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_process_that_no_signal_reaches() {
        let grace = Duration::from_secs(1);
        let killed = ExitStatus::from_raw(9);
        assert_eq!(last_words(ready(Ok(killed)), grace).await, Some(killed));
        let bounded = timeout(Duration::from_secs(3600), last_words(pending(), grace));
        assert_eq!(bounded.await, Ok(None));
    }
}
