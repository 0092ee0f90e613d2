//! The parts of the capability, put together: for a manager, and for a test that runs it alone.

use std::future::Future;
use std::sync::Mutex;

use kube::Config;
use tokio_util::sync::CancellationToken;
use trustplane_api::inventory::OBSYK_AGENT;
use trustplane_inventory_core::InventoryKind;
use trustplane_kit::controller::{Options, Runner, feed};
use trustplane_kit::manager::{Assembly, Context, StartError, Workbench};
use trustplane_kit::queue::Lane;
use trustplane_kit::watch::{Change, Slim, Tuning, WatchSpec};

use crate::agents::{Agents, MANAGER, Seen};
use crate::peers::Peers;
use crate::reading::read;
use crate::secrets::Secrets;
use crate::shared::Shared;

/// The controller and what feeds it, and the task that serves platforms, which ends after `stop` when all is sent.
fn assemble(
    bench: &Workbench,
    kinds: Vec<InventoryKind>,
    options: Options,
    stop: CancellationToken,
) -> (Assembly, impl Future<Output = ()> + Send + 'static) {
    let queue = bench.queue("inventory");
    let agents = bench
        .watches
        .subscribe(WatchSpec::new(OBSYK_AGENT, Slim::<Seen>::default()));
    let store = agents.store();
    let shared = Shared::new(kinds);
    let call = || bench.clients.call.clone();
    let (peers, platforms) = Peers::new(shared.clone(), call(), queue.clone(), &bench.metrics, stop);
    let (secrets, secret_feeds) = Secrets::new(
        bench.watches.clone(),
        call(),
        bench.namespace.clone(),
        queue.clone(),
        store.clone(),
    );
    let controller = Agents {
        agents: store.clone(),
        secrets,
        peers,
        shared: shared.clone(),
        home: bench.namespace.clone(),
        wanted: Mutex::default(),
    };
    let runner = Runner::new(
        controller,
        queue.clone(),
        bench.executor(bench.writer(MANAGER)),
        options,
    )
    .after_store(&store)
    .while_leading(bench.leading.clone());
    let itself = |change: &Change<Seen>| [change.object().clone()];
    let assembly = Assembly::default()
        .controller(runner)
        .task("inventory-agents", feed(agents, queue, |_| Lane::Normal, itself))
        .task("inventory-credentials", secret_feeds)
        .task("inventory-kinds", read(shared, bench.watches.clone()));
    (assembly, platforms)
}

/// Starts the capability in a manager.
pub(crate) fn start(context: &Context, kinds: Vec<InventoryKind>) {
    let (assembly, platforms) = assemble(context, kinds, Options::default(), context.stop());
    context.spawn("inventory-platforms", platforms);
    assembly.start(context);
}

/// Runs the capability alone: no manager, no lease, no rival. It ends only when it is dropped, or with an error.
pub async fn run_alone(
    config: Config,
    kinds: Vec<InventoryKind>,
    options: Options,
    tuning: Tuning,
) -> Result<(), StartError> {
    let (bench, publisher) = Workbench::alone(config, "inventory", tuning).await?;
    let (assembly, platforms) = assemble(&bench, kinds, options, CancellationToken::new());
    assembly
        .task("inventory-platforms", platforms)
        .run_alone(publisher)
        .await
}
