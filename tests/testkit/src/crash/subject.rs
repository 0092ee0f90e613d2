//! What can be crashed: a controller in this process, or a real binary.

use std::future::Future;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use futures::future::BoxFuture;
use kube::Config;
use tokio::sync::oneshot;

use crate::{Instance, Process, Program};

/// A controller that can be started and killed.
pub trait Subject: Sync {
    /// A running copy.
    type Running: Send;

    /// Starts a copy that runs as this instance.
    fn start(&self, instance: &Instance) -> impl Future<Output = Result<Self::Running>> + Send;

    /// Kills a copy. When this returns, nothing of it runs any more.
    fn kill(&self, running: Self::Running) -> impl Future<Output = Result<()>> + Send;
}

impl Subject for Program {
    type Running = Process;

    async fn start(&self, instance: &Instance) -> Result<Process> {
        self.start(instance)
    }

    async fn kill(&self, running: Process) -> Result<()> {
        running.kill().await
    }
}

/// A controller that runs in this process, on a runtime of its own which is torn down when it is killed.
#[derive(Clone)]
pub struct InProcess {
    run: Arc<dyn Fn(Config) -> BoxFuture<'static, Result<()>> + Send + Sync>,
}

impl InProcess {
    /// A controller that runs until its future is dropped. An end of its own accord is a failure.
    pub fn new<F>(run: impl Fn(Config) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Self {
            run: Arc::new(move |config| Box::pin(run(config))),
        }
    }
}

/// A controller on its own thread.
#[derive(Debug)]
pub struct Thread {
    kill: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Subject for InProcess {
    type Running = Thread;

    async fn start(&self, instance: &Instance) -> Result<Thread> {
        let (config, run) = (instance.config()?, self.run.clone());
        let (kill, killed) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(instance.name().to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build()
                    .context("make a runtime")?;
                let outcome = runtime.block_on(async {
                    // On a worker, so that nothing of it runs on the thread that is told of the kill.
                    let running = tokio::spawn(run(config));
                    tokio::select! {
                        _ = killed => Ok(()),
                        ended = running => match ended {
                            Ok(Ok(())) => Err(anyhow!("the controller ended by itself")),
                            Ok(Err(error)) => Err(error.context("the controller failed")),
                            Err(error) => Err(anyhow!("the controller panicked: {error}")),
                        },
                    }
                });
                // Every task is dropped where it stands, as a killed process drops them.
                runtime.shutdown_timeout(std::time::Duration::from_secs(5));
                outcome
            })
            .context("start a thread")?;
        Ok(Thread { kill, thread })
    }

    async fn kill(&self, running: Thread) -> Result<()> {
        // It may have ended by itself; joining tells.
        let _ = running.kill.send(());
        tokio::task::spawn_blocking(move || running.thread.join())
            .await
            .context("join a thread")?
            .map_err(|_| anyhow!("the thread of a controller panicked"))?
    }
}
