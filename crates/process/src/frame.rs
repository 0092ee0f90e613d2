//! The frame of a binary: [`main`] begins and ends it, [`Frame`] is what runs in between: metrics, admin port, supervision, shutdown.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use clap::Parser;
//! use trustplane_process::args::CommonArgs;
//! use trustplane_process::frame::{self, Frame, Program};
//!
//! #[derive(Parser)]
//! struct Args {
//!     #[command(flatten)]
//!     common: CommonArgs,
//! }
//!
//! impl AsRef<CommonArgs> for Args {
//!     fn as_ref(&self) -> &CommonArgs {
//!         &self.common
//!     }
//! }
//!
//! const PROGRAM: Program = Program {
//!     name: env!("CARGO_PKG_NAME"),
//!     component: "manager",
//!     version: env!("CARGO_PKG_VERSION"),
//! };
//!
//! fn main() -> ExitCode {
//!     frame::main(PROGRAM, async |args: Args| {
//!         let frame = Frame::start(&args.common, PROGRAM).await?;
//!         let stop = frame.shutdown().token();
//!         frame.supervisor().spawn("work", async move { stop.cancelled().await });
//!         Ok(frame.run().await)
//!     })
//! }
//! ```

mod program;

use std::net::SocketAddr;
use std::process::ExitCode;

use serde_json::json;

use crate::admin::{Admin, AdminAddresses, Check, Liveness, Readiness, Sources, StateEntry, StateSource};
use crate::args::{BindError, CommonArgs};
use crate::metrics::Metrics;
use crate::protection;
use crate::shutdown::Shutdown;
use crate::supervise::Supervisor;
pub use program::{Program, main, main_from, tool};

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The admin port.
    #[error(transparent)]
    Admin(#[from] BindError),
    /// Signals.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
}

/// A running process that has no work yet.
#[derive(Debug)]
pub struct Frame {
    sources: Sources,
    supervisor: Supervisor,
    shutdown: Shutdown,
    admin: Vec<SocketAddr>,
    /// Holds back readiness until the binary has registered its own checks, and again when it ends.
    started: Check,
    _state: StateEntry,
}

impl Frame {
    /// Starts what every process that serves has. Call it within [`main`], which starts logs and crypto.
    ///
    /// The process is not ready before [`Frame::run`].
    pub async fn start(args: &CommonArgs, program: Program) -> Result<Self, FrameError> {
        let shutdown = Shutdown::on_signals(args.shutdown_deadline).map_err(FrameError::Signals)?;
        let sources = Sources::default();
        let started = sources.readiness.check("process");
        let supervisor = Supervisor::new(&sources.metrics, shutdown.clone());
        let admin = Admin::bind(&AdminAddresses::from(args), sources.clone()).await?;
        let addresses = admin.local_addresses();
        let Program {
            component, version, ..
        } = program;
        tracing::info!(component, version, admin = ?addresses, "started");
        let watched = supervisor.clone();
        let state = sources.state.register("process", move || {
            json!({
                "component": component,
                "version": version,
                "memoryProtected": protection::is_protected(),
                "tasks": watched.running(),
            })
        });
        supervisor.spawn_attendant("admin", |stop| admin.serve(stop));
        Ok(Self {
            sources,
            supervisor,
            shutdown,
            admin: addresses,
            started,
            _state: state,
        })
    }

    /// The metrics of the process.
    pub fn metrics(&self) -> &Metrics {
        &self.sources.metrics
    }

    /// What must be ready before the process takes work.
    pub fn readiness(&self) -> &Readiness {
        &self.sources.readiness
    }

    /// What must keep moving.
    pub fn liveness(&self) -> &Liveness {
        &self.sources.liveness
    }

    /// What parts of the process say of themselves.
    pub fn state(&self) -> &StateSource {
        &self.sources.state
    }

    /// Who watches the tasks.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// The end of the process.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Where the admin endpoints are, as bound.
    pub fn admin_addresses(&self) -> &[SocketAddr] {
        &self.admin
    }

    /// Lets the process be ready, waits for its end, logs why it came, and gives the exit code: 0 after a signal, 1 after a fault.
    pub async fn run(self) -> ExitCode {
        self.started.ready();
        let end = self.supervisor.run_until_shutdown();
        let unready = async {
            self.shutdown.requested().await;
            self.started.not_ready("shutting down");
        };
        let (result, ()) = tokio::join!(end, unready);
        match result {
            Ok(()) => {
                tracing::info!("ended");
                ExitCode::SUCCESS
            }
            Err(error) => {
                tracing::error!(%error, "ended");
                ExitCode::FAILURE
            }
        }
    }
}

/// A runtime for a process that mostly waits: two workers keep memory and start time small.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("trustplane")
        .enable_all()
        .build()
}
