//! The start of a binary: arguments, logs, crypto, metrics, admin port, supervision, shutdown, in this order.
//!
//! ```no_run
//! use clap::Parser;
//! use trustplane_process::{args, args::CommonArgs, frame::{self, Frame}};
//!
//! #[derive(Parser)]
//! struct Args {
//!     #[command(flatten)]
//!     common: CommonArgs,
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let args: Args = args::parse().unwrap_or_else(|error| error.exit());
//!     frame::runtime()?.block_on(async {
//!         let frame = Frame::start(&args.common, "manager").await?;
//!         let stop = frame.shutdown().token();
//!         frame.supervisor().spawn("work", async move { stop.cancelled().await });
//!         Ok(frame.run().await?)
//!     })
//! }
//! ```

use std::net::SocketAddr;

use serde_json::json;

use crate::admin::{Admin, AdminAddresses, Check, Liveness, Readiness, Sources, StateEntry, StateSource};
use crate::args::{BindError, CommonArgs};
use crate::crypto;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::supervise::{Supervisor, SupervisorError};
use crate::telemetry::{self, TelemetryError};

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Logging.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
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
    /// Starts what every process of ours has. `component` is its name in logs and state.
    ///
    /// The process is not ready before [`Frame::run`].
    pub async fn start(args: &CommonArgs, component: &'static str) -> Result<Self, FrameError> {
        telemetry::init(args)?;
        crypto::install();
        let shutdown = Shutdown::on_signals(args.shutdown_deadline).map_err(FrameError::Signals)?;
        let sources = Sources::default();
        let started = sources.readiness.check("process");
        let supervisor = Supervisor::new(&sources.metrics, shutdown.clone());
        let admin = Admin::bind(&AdminAddresses::from(args), sources.clone()).await?;
        let addresses = admin.local_addresses();
        tracing::info!(component, version = env!("CARGO_PKG_VERSION"), admin = ?addresses, "started");
        let watched = supervisor.clone();
        let state = sources.state.register("process", move || {
            json!({
                "component": component,
                "version": env!("CARGO_PKG_VERSION"),
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

    /// Lets the process be ready, and waits for its end.
    pub async fn run(self) -> Result<(), SupervisorError> {
        self.started.ready();
        let end = self.supervisor.run_until_shutdown();
        let unready = async {
            self.shutdown.requested().await;
            self.started.not_ready("shutting down");
        };
        let (result, ()) = tokio::join!(end, unready);
        match &result {
            Ok(()) => tracing::info!("ended"),
            Err(error) => tracing::error!(%error, "ended"),
        }
        result
    }
}

/// A runtime for a process that mostly waits: two workers keep memory and start time small.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("trustplane")
        .enable_all()
        .build()
}
