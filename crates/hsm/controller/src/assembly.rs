//! The parts of the capability, put together: for a manager, and for a test that runs it alone.

use std::sync::Arc;

use futures::future::join_all;
use kube::Config;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_hsm_core::rules::Rules;
use trustplane_kit::controller::{Controller, Options, Runner};
use trustplane_kit::manager::{Context, StartError, Workbench};
use trustplane_kit::queue::Queue;
use trustplane_kit::watch::Tuning;
use trustplane_plan::ObjectRef;

use crate::agents::{self, AgentObjects};
use crate::client::Agents;
use crate::devices::{self, Devices};
use crate::feeds::{Feed, Queues, feeds};
use crate::pki::{Lives, Pki};
use crate::pools::{self, Pools};
use crate::world::World;

/// What the admin chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The rules.
    pub rules: Rules,
    /// How long certificates live.
    pub lives: Lives,
}

/// The controllers, ready to run, and what feeds their queues.
struct Assembly {
    devices: Runner<Devices>,
    pools: Runner<Pools>,
    agents: Runner<AgentObjects>,
    feeds: Vec<Feed>,
    world: World,
}

fn assemble(bench: &Workbench, setup: Setup, pki: &Pki, options: &Options) -> Assembly {
    let (world, news) = World::watch(bench, Arc::new(setup.rules));
    let queues = Queues {
        devices: bench.queue("hsm-devices"),
        pools: bench.queue("hsm-pools"),
        agents: bench.queue("hsm-agents"),
    };
    let devices = Devices {
        world: world.clone(),
        fingerprinter: bench.fingerprinter.clone(),
    };
    let pools = Pools { world: world.clone() };
    let agents = AgentObjects {
        world: world.clone(),
        writer: bench.writer(agents::MANAGER),
        fingerprinter: bench.fingerprinter.clone(),
        authority: pki.authority(),
        lives: setup.lives,
        clock: options.clock.clone(),
    };
    let hands = (bench, &world, options);
    Assembly {
        devices: runner(hands, devices, &queues.devices, devices::MANAGER),
        pools: runner(hands, pools, &queues.pools, pools::MANAGER),
        agents: runner(hands, agents, &queues.agents, agents::MANAGER),
        feeds: feeds(&world, news, &queues, pki.authority()),
        world,
    }
}

/// A runner that waits for everything that is known: they look at the same world.
fn runner<C: Controller<Key = ObjectRef>>(
    (bench, world, options): (&Workbench, &World, &Options),
    controller: C,
    queue: &Queue<ObjectRef>,
    manager: &'static str,
) -> Runner<C> {
    let executor = bench.executor(bench.writer(manager));
    let runner = Runner::new(controller, queue.clone(), executor, options.clone())
        .after_store(&world.devices)
        .after_store(&world.pools)
        .after_store(&world.daemon_sets)
        .after_store(&world.pods)
        .after_store(&world.records);
    let runner = world.parts.iter().fold(runner, Runner::after_store);
    // An outage ends for one watch after the other: what is removed was not seen by a watch that has yet to catch up.
    let runner = runner
        .removals_rest_on(&world.devices)
        .removals_rest_on(&world.pools)
        .removals_rest_on(&world.daemon_sets)
        .removals_rest_on(&world.pods)
        .removals_rest_on(&world.records);
    let runner = world.parts.iter().fold(runner, Runner::removals_rest_on);
    runner.while_leading(bench.leading.clone())
}

/// Starts the capability in a manager.
pub(crate) async fn start(context: &Context, setup: Setup) -> Result<(), StartError> {
    let options = Options::default();
    let namespaces: Vec<_> = setup.rules.namespaces.iter().cloned().collect();
    tracing::info!(namespaces = namespaces.join(","), "serving HSMDevices");
    let pki = Pki::open(context, setup.lives, options.clock.clone()).await?;
    let Assembly {
        devices,
        pools,
        agents,
        feeds,
        ..
    } = assemble(context, setup, &pki, &options);
    for (name, feed) in feeds {
        let stop = context.stop();
        // That of the CA has no end of its own.
        context.spawn(name, async move {
            stop.run_until_cancelled(feed).await;
        });
    }
    let followed = pki.run(&context.watches, context.leading.clone(), context.stop());
    context.spawn("hsm-pki", followed);
    let (readiness, liveness, state) = (&context.readiness, &context.liveness, &context.state);
    let devices = devices.report_to(readiness, liveness, state);
    context.spawn("hsm-devices", devices.run(context.stop()));
    let pools = pools.report_to(readiness, liveness, state);
    context.spawn("hsm-pools", pools.run(context.stop()));
    let agents = agents.report_to(readiness, liveness, state);
    context.spawn("hsm-agents", agents.run(context.stop()));
    Ok(())
}

/// Runs the capability alone: no manager, no lease, no rival. It ends only when it is dropped, or with an error. Whoever wants to
/// call agents is given the means once they are there.
pub async fn run_alone(
    config: Config,
    setup: Setup,
    options: Options,
    tuning: Tuning,
    callers: Option<watch::Sender<Option<Arc<Agents>>>>,
) -> Result<(), StartError> {
    let (bench, publisher) = Workbench::alone(config, "hsm", tuning).await?;
    let pki = Pki::open(&bench, setup.lives, options.clock.clone()).await?;
    let Assembly {
        devices,
        pools,
        agents,
        feeds,
        world,
    } = assemble(&bench, setup, &pki, &options);
    if let Some(callers) = &callers {
        let agents = Agents::new(world.pods.clone(), pki.client.clone());
        callers.send_replace(Some(Arc::new(agents)));
    }
    let stop = CancellationToken::new();
    let feeds = join_all(feeds.into_iter().map(|(_, feed)| feed));
    let followed = Box::pin(pki.run(&bench.watches, bench.leading.clone(), stop.clone()));
    tokio::select! {
        ended = devices.run(stop.clone()) => Ok(ended?),
        ended = pools.run(stop.clone()) => Ok(ended?),
        ended = agents.run(stop.clone()) => Ok(ended?),
        _ = feeds => Err("the feeds ended".into()),
        () = followed => Err("the keeper of certificates ended".into()),
        () = publisher.run(stop.clone()) => Err("the publisher of events ended".into()),
    }
}
