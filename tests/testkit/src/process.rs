//! Controllers as real binaries: started, frozen, ended and killed like any process.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::{Credentials, Instance};

/// A binary and how it is started.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// A binary, such as `env!("CARGO_BIN_EXE_…")` names it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arguments: Vec::new(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts it as an instance: the kubeconfig comes by `KUBECONFIG`, the names of pod and namespace as a pod gets them.
    pub fn start(&self, instance: &Instance) -> Result<Process> {
        let credentials = instance.credentials()?;
        let log = credentials.dir().join("log");
        let output = File::create(&log).context("make a log file")?;
        let child = Command::new(&self.path)
            .args(&self.arguments)
            .env_clear()
            .env("KUBECONFIG", credentials.kubeconfig())
            .env("POD_NAME", instance.name())
            .env("POD_NAMESPACE", instance.account().namespace())
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("share a log file")?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", self.path.display()))?;
        Ok(Process {
            child,
            credentials,
            log,
        })
    }
}

/// A running binary. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    credentials: Credentials,
    log: PathBuf,
}

impl Process {
    /// The files by which it is an instance.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// What it has printed so far.
    pub fn log(&self) -> Result<String> {
        let bytes = std::fs::read(&self.log).context("read a log file")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Result<u32> {
        self.child.id().context("the process has ended")
    }

    /// Kills it: it gets no chance to say goodbye.
    pub async fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        let status = self.child.wait().await.context("wait for a killed process")?;
        match status.signal() {
            Some(9) => Ok(()),
            _ => Err(anyhow!(
                "the process ended with {status} before it was killed:\n{}",
                self.log()?
            )),
        }
    }

    /// Freezes it, as a machine that hangs.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self, deadline: Duration) -> Result<ExitStatus> {
        match tokio::time::timeout(deadline, self.child.wait()).await {
            Ok(status) => status.context("wait for a process"),
            Err(_) => Err(anyhow!(
                "waited {deadline:?} in vain for a process to end:\n{}",
                self.log()?
            )),
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.id()?).context("signal a process")?;
        let pid = Pid::from_raw(id).context("signal a process")?;
        kill_process(pid, signal).context("signal a process")
    }
}
