//! A container that runs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use trustplane_testkit::DEADLINE;

use crate::http;
use crate::network::Network;

/// The program of a container. It is killed when this is dropped.
pub struct Program {
    pub child: Child,
    /// What it prints.
    pub log: PathBuf,
    /// Its control group.
    pub group: PathBuf,
    /// How kubelet asks whether it is ready: network, port and path.
    pub probe: Option<(Arc<Network>, u16, String)>,
}

impl Program {
    /// What the container has printed, in all its lives.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks again and again until there is a value, while it runs.
    pub async fn until<T>(
        &mut self,
        what: &str,
        mut ask: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let asked = async {
            loop {
                if let Some(status) = self.child.try_wait()? {
                    bail!("it ended with {status}");
                }
                if let Some(value) = ask().await? {
                    return Ok(value);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let answer = tokio::time::timeout(DEADLINE, asked).await;
        let answer = answer.unwrap_or_else(|_| bail!("waited {DEADLINE:?} in vain"));
        answer.with_context(|| format!("wait for {what}:\n{}", self.log()))
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&mut self) -> Result<()> {
        let (network, port, path) = self.probe.clone().context("no readiness probe")?;
        let ready = async || -> Result<Option<()>> {
            let Ok(stream) = network.connect(port).await else {
                return Ok(None);
            };
            let answer = http::get(stream, "localhost", &path).await;
            Ok(answer.is_ok_and(|answer| answer.status == 200).then_some(()))
        };
        self.until("it to be ready", ready).await
    }

    /// Waits until it has printed this.
    pub async fn prints(&mut self, text: &str) -> Result<()> {
        let log = self.log.clone();
        let printed = async || Ok(fs::read_to_string(&log)?.contains(text).then_some(()));
        self.until(text, printed).await
    }

    /// Ends it, as kubelet does.
    pub async fn end(&mut self) -> Result<()> {
        let id = i32::try_from(self.child.id().context("it has ended")?)?;
        kill_process(Pid::from_raw(id).context("a process")?, Signal::TERM)?;
        tokio::time::timeout(DEADLINE, self.child.wait()).await??;
        drop(fs::remove_dir(&self.group));
        Ok(())
    }
}
