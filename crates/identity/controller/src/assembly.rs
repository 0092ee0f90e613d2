//! The parts of the capability, put together: for a manager, and for a test that runs it alone.

use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_api::identity::OperandKind;
use trustplane_identity_core::Settings;
use trustplane_kit::controller::{Options, Runner};
use trustplane_kit::manager::{Assembly, Context, StartError, Workbench};
use trustplane_kit::queue::{Debounce, Lane, Policy, Queue};
use trustplane_kit::watch::Tuning;
use trustplane_plan::ObjectRef;
use trustplane_process::ca::Authority;

use crate::admit;
use crate::config::{self, ChangeClock};
use crate::metrics::IdentityMetrics;
use crate::operands::{self, Operands};
use crate::pki::Pki;
use crate::world::{World, key_of};

/// Edits that follow each other within `quiet` roll pods out once. However many there are, the first of them waits no longer than
/// `longest`.
pub const DEBOUNCE: Debounce = Debounce {
    quiet: Duration::from_secs(2),
    longest: Duration::from_secs(6),
};

/// How the controllers run.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Rules of both controllers.
    pub options: Options,
    /// Rules of the watches.
    pub tuning: Tuning,
    /// How long edits are gathered before the objects of an operand follow.
    pub debounce: Debounce,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            options: Options::default(),
            tuning: Tuning::default(),
            debounce: DEBOUNCE,
        }
    }
}

/// The controllers and what feeds their queues.
fn assemble(bench: &Workbench, settings: Settings, pki: &Pki, pace: &Pace) -> Assembly {
    let options = &pace.options;
    let metrics = IdentityMetrics::shared(&bench.metrics);
    let config_queue = bench.queue("identity");
    let policy = Policy {
        debounce: Some(pace.debounce),
        ..Policy::default()
    };
    let operand_queue = Queue::new("identity-operands", policy, rand::random(), &bench.metrics);
    let (world, feeds) = World::watch(bench, Arc::new(settings), &config_queue, &operand_queue);
    let config = config::Config {
        world: world.clone(),
        metrics: metrics.clone(),
        started: ChangeClock::default(),
    };
    let writer = bench.writer(config::MANAGER);
    let config = Runner::new(config, config_queue, bench.executor(writer), options.clone());
    let writer = bench.writer(operands::MANAGER);
    let operands = Operands {
        world: world.clone(),
        writer: writer.clone(),
        fingerprinter: bench.fingerprinter.clone(),
        authority: pki.authority.clone(),
        clock: options.clock.clone(),
        metrics,
    };
    let executor = bench.executor(writer);
    let operands = Runner::new(operands, operand_queue.clone(), executor, options.clone());
    let leading = || bench.leading.clone();
    let assembly = Assembly::default()
        .controller(world.gate_config(config).while_leading(leading()))
        .controller(world.gate(operands).while_leading(leading()))
        .task("identity-authority", follow(pki.authority.clone(), operand_queue));
    let feeds = feeds.into_iter();
    feeds.fold(assembly, |assembly, (name, feed)| assembly.task(name, feed))
}

/// Has the operand look that has a certificate, whenever the CA changes.
async fn follow(mut authority: watch::Receiver<Arc<Authority>>, queue: Queue<ObjectRef>) {
    while authority.changed().await.is_ok() {
        queue.add(key_of(OperandKind::SpireOidcDiscoveryProvider), Lane::Normal);
    }
    // Without a CA that changes there is nothing to follow.
    std::future::pending::<()>().await;
}

/// Starts the capability in a manager.
pub(crate) async fn start(context: &Context, settings: Settings) -> Result<(), StartError> {
    let pace = Pace::default();
    tracing::info!(namespaces = settings.namespaces.join(","), "running SPIRE");
    let pki = Pki::open(context, pace.options.clock.clone()).await?;
    admit::serve(context, &settings);
    let assembly = assemble(context, settings, &pki, &pace);
    if let Some(shared) = pki.shared {
        let followed = shared.run(&context.watches, context.leading.clone(), context.stop());
        context.spawn("identity-ca", followed);
    }
    assembly.start(context);
    Ok(())
}

/// Runs the controllers alone: no manager, no lease, no rival, no webhook. It ends only when it is dropped, or with an error.
pub async fn run_alone(config: Config, settings: Settings, pace: Pace) -> Result<(), StartError> {
    let (bench, publisher) = Workbench::alone(config, "identity", pace.tuning.clone()).await?;
    let pki = Pki::open(&bench, pace.options.clock.clone()).await?;
    let assembly = assemble(&bench, settings, &pki, &pace);
    let assembly = match pki.shared {
        Some(shared) => {
            let followed = shared.run(&bench.watches, bench.leading.clone(), CancellationToken::new());
            assembly.task("identity-ca", followed)
        }
        None => assembly,
    };
    assembly.run_alone(publisher).await
}
