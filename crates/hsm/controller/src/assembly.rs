//! The parts of the capability, put together: for a manager, and for a test that runs it alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Config;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_hsm_core::delivery::{Operator, Tenancy};
use trustplane_hsm_core::rules::Rules;
use trustplane_kit::controller::{Controller, Options, Runner};
use trustplane_kit::manager::{Assembly, Context, StartError, Workbench};
use trustplane_kit::queue::Queue;
use trustplane_kit::watch::{Subscription, Tuning};
use trustplane_plan::ObjectRef;

use crate::agents::{self, AgentObjects};
use crate::client::Agents;
use crate::delivery::{self, Deliveries, LocationKeeper, PATIENCE, Poller, TokenLists};
use crate::devices::{self, Devices};
use crate::feeds::{Queues, feeds};
use crate::pki::{Lives, Pki};
use crate::pools::{self, Pools};
use crate::seen::SeenDevice;
use crate::world::World;

/// What the admin chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The rules.
    pub rules: Rules,
    /// How long certificates live.
    pub lives: Lives,
    /// Which HSMSecrets are served, and how.
    pub delivery: DeliveryRules,
}

/// Which HSMSecrets are served, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRules {
    /// The namespaces whose HSMSecrets are served; all if there is none.
    pub namespaces: BTreeSet<String>,
    /// Who we are to `parentRef`.
    pub operator: Operator,
    /// To whom a path on the tokens belongs.
    pub tenancy: Tenancy,
    /// How long an agent may be silent until its token counts as away.
    pub patience: Duration,
}

impl Default for DeliveryRules {
    fn default() -> Self {
        Self {
            namespaces: BTreeSet::new(),
            operator: Operator {
                names: BTreeSet::new(),
                namespace: String::new(),
                requires_ref: false,
            },
            tenancy: Tenancy::Flat,
            patience: PATIENCE,
        }
    }
}

/// The controllers, what feeds their queues, and what they look at.
fn assemble(bench: &Workbench, setup: Setup, pki: &Pki, options: &Options) -> (Assembly, Arc<Agents>) {
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
    let callers = Arc::new(Agents::new(world.pods.clone(), pki.client.clone()));
    let hands = (bench, &world, options);
    let assembly = Assembly::default()
        .controller(runner(hands, devices, &queues.devices, devices::MANAGER))
        .controller(runner(hands, pools, &queues.pools, pools::MANAGER))
        .controller(runner(hands, agents, &queues.agents, agents::MANAGER));
    let (feeds, of_secrets) = feeds(&world, news, &queues, pki.authority());
    let feeds = feeds.into_iter();
    let assembly = feeds.fold(assembly, |assembly, (name, feed)| assembly.task(name, feed));
    let assembly = deliveries(assembly, hands, &setup.delivery, &callers, of_secrets);
    (assembly, callers)
}

/// The controller of HSMSecrets, and the task that asks the agents.
fn deliveries(
    assembly: Assembly,
    (bench, world, options): (&Workbench, &World, &Options),
    rules: &DeliveryRules,
    agents: &Arc<Agents>,
    devices: Subscription<SeenDevice>,
) -> Assembly {
    let (stores, news) = delivery::watch(bench, rules);
    let queue = bench.queue("hsm-secrets");
    let writer = bench.writer(trustplane_hsm_core::delivery::MANAGER);
    let lists = TokenLists::new(rules.patience);
    let poller = Poller {
        lists: lists.clone(),
        world: world.clone(),
        agents: agents.clone(),
        secrets: stores.secrets.clone(),
        queue: queue.clone(),
        leading: bench.leading.clone(),
    };
    let locations = LocationKeeper::new(stores.claims.clone(), writer.clone(), &bench.namespace);
    let controller = Deliveries {
        world: world.clone(),
        secrets: stores.secrets.clone(),
        delivered: stores.delivered.clone(),
        locations: Arc::new(locations),
        lists,
        agents: agents.clone(),
        writer: writer.clone(),
        fingerprinter: bench.fingerprinter.clone(),
        tenancy: rules.tenancy,
        troubles: Mutex::default(),
        unconfirmed: Mutex::default(),
    };
    let runner = Runner::new(controller, queue.clone(), bench.executor(writer), options.clone())
        .after_store(&world.devices)
        .after_store(&stores.secrets)
        .after_store(&stores.delivered)
        .after_store(&stores.claims)
        .removals_rest_on(&stores.secrets)
        .removals_rest_on(&stores.delivered)
        .while_leading(bench.leading.clone());
    let feeds = news.into_feeds(devices, &stores.secrets, &queue).into_iter();
    feeds
        .fold(assembly.controller(runner), |assembly, (name, feed)| {
            assembly.task(name, feed)
        })
        .task("hsm-lists", poller.run())
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
    let (assembly, _) = assemble(context, setup, &pki, &options);
    let followed = pki.run(&context.watches, context.leading.clone(), context.stop());
    context.spawn("hsm-pki", followed);
    assembly.start(context);
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
    let (assembly, agents) = assemble(&bench, setup, &pki, &options);
    if let Some(callers) = &callers {
        callers.send_replace(Some(agents));
    }
    let followed = pki.run(&bench.watches, bench.leading.clone(), CancellationToken::new());
    assembly.task("hsm-pki", followed).run_alone(publisher).await
}
