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

use crate::frame::{self, FrameError, Message};
use crate::wire::Reply;

/// A program whose main calls [`child::run`](crate::child::run).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What its environment has beside our own.
    pub environment: Vec<(OsString, OsString)>,
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
        let child = Command::new(&program.path)
            .args(&program.arguments)
            .envs(program.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            child,
            socket: UnixStream::from_std(ours)?,
        })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks, and waits so long for the answer.
    pub async fn ask(&mut self, request: &[u8], within: Duration) -> Result<Message<Reply>, Broken> {
        match timeout(within, frame::exchange(&mut self.socket, request)).await {
            Ok(answer) => answer.map_err(Broken::Socket),
            Err(_) => Err(Broken::Late),
        }
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills it if it has not ended yet.
    pub async fn kill(mut self) -> io::Result<ExitStatus> {
        self.child.start_kill()?;
        self.child.wait().await
    }

    /// Lets it take leave of the module, for so long.
    pub async fn end(mut self, grace: Duration) -> io::Result<ExitStatus> {
        drop(self.socket);
        match timeout(grace, self.child.wait()).await {
            Ok(ended) => ended,
            Err(_) => {
                self.child.start_kill()?;
                self.child.wait().await
            }
        }
    }
}
