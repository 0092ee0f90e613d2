//! The process: everything put together.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::Timestamp;
use trustplane_hsm_core::usb::report::{Cadence, Reporter};
use trustplane_hsm_core::usb::{PatternError, Tracker};
use trustplane_kit::clients::{ClientError, Clients, KubeArgs};
use trustplane_kit::lease::{Fence, Identity};
use trustplane_process::backoff::Backoff;
use trustplane_process::clock::SystemClock;
use trustplane_process::frame::{self, Frame, Program};

use crate::args::{Arguments, DiscoveryArgs};
use crate::eye::Eye;
use crate::memory::Memory;
use crate::metrics::Counts;
use crate::plugin::{Plugin, state_dir};
use crate::pod::OwnPod;
use crate::report::Herald;
use crate::uevent::Kernel;
use crate::watch::Watcher;

/// A look takes milliseconds; one that takes this long hangs.
const LONGEST_LOOK: Duration = Duration::from_secs(60);
/// How long to wait for what an earlier process of this pod has reported.
const EARLIER: Duration = Duration::from_secs(5);

/// Why the process does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The API server cannot be reached, whenever.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The pattern for device files.
    #[error("the pattern for device files {0}")]
    Pattern(#[from] PatternError),
}

/// The whole program.
pub fn main(program: Program) -> ExitCode {
    frame::main(program, async |arguments: Arguments| {
        let frame = Frame::start(&arguments.common, program).await?;
        start(&frame, program, &arguments.discovery, &arguments.kube).await?;
        Ok(frame.run().await)
    })
}

/// Starts all parts in a process.
async fn start(
    frame: &Frame,
    program: Program,
    told: &DiscoveryArgs,
    kube: &KubeArgs,
) -> Result<(), StartError> {
    let counts = Counts::register(frame.metrics());
    let eye = Eye::new(
        told.sysfs_root.clone(),
        told.dev_root.clone(),
        told.selection.clone(),
    )?;
    let identity = Identity::new(program.component, program.version, Some(&told.pod_name));
    let client = Clients::new(kube.config().await?, identity, Fence::always())?.call;
    let pod = OwnPod::new(client, &told.pod_namespace, &told.pod_name, &told.pod_uid);

    let grace = SignedDuration::try_from(told.grace_period).unwrap_or(SignedDuration::MAX);
    let mut tracker = Tracker::new(told.selection.limit(), grace);
    let reporter = Reporter {
        device: told.device_name.clone(),
        node: told.node_name.clone(),
    };
    let state = state_dir(&told.plugin_dir);
    let memory = Memory::new(&state, &told.pod_namespace, reporter.clone(), &told.pod_uid);
    resume(&mut tracker, &pod, &reporter, &memory).await;
    let heartbeat = frame.liveness().heartbeat("look", LONGEST_LOOK);
    let watcher = Watcher::new(eye, tracker, Arc::new(SystemClock), counts.clone()).beating(heartbeat);

    let herald = Herald {
        reporter,
        sink: pod,
        cadence: Cadence::new(told.grace_period),
        backoff: Backoff::default(),
        clock: Arc::new(SystemClock),
        counts: counts.clone(),
    };
    let plugin = Plugin {
        dir: told.plugin_dir.clone(),
        dev: told.dev_host_path.trim_end_matches('/').to_owned(),
        type_resource: told.type_resource.clone(),
        node: told.node_name.clone(),
        owner: format!("{}_{}_{}", told.pod_namespace, told.device_name, told.pod_uid),
        check: Plugin::CHECK,
        backoff: Backoff::default(),
        counts,
    };
    let check = frame.readiness().check("report");
    let (supervisor, shutdown) = (frame.supervisor(), frame.shutdown());
    let (pictures, offered, kept) = (watcher.picture(), watcher.picture(), watcher.picture());
    supervisor.spawn("report", herald.run(pictures, Some(check), shutdown.token()));
    supervisor.spawn("plugin", plugin.run(offered, shutdown.token()));
    supervisor.spawn(
        "memory",
        memory.run(kept, Arc::new(SystemClock), shutdown.token()),
    );
    supervisor.spawn("watch", watcher.run(Kernel, shutdown.token()));
    Ok(())
}

/// Goes on where an earlier process of this pod ended, or else the pod before it. Without either, lost tokens are forgotten, which is
/// no reason not to start.
async fn resume(tracker: &mut Tracker, pod: &OwnPod, reporter: &Reporter, memory: &Memory) {
    let earlier = match tokio::time::timeout(EARLIER, pod.earlier(reporter)).await {
        Ok(Ok(earlier)) => earlier,
        Ok(Err(error)) => {
            tracing::info!(%error, "starts without an earlier report");
            None
        }
        Err(_) => {
            tracing::info!("starts without an earlier report: no answer");
            None
        }
    };
    if let Some(known) = earlier.or_else(|| memory.recall()) {
        tracker.restore(&known, Timestamp::now());
    }
}
