//! The parts of the capability, put together: for a manager, and for a test that runs it alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kube::Config;
use trustplane_kit::controller::{Options, Runner, feed};
use trustplane_kit::manager::{Assembly, Context, StartError, Workbench};
use trustplane_kit::queue::{Lane, Queue};
use trustplane_kit::watch::{Change, Metadata, Stopped, Tuning, WatchSpec};
use trustplane_plan::kinds::{POD, SECRET};
use trustplane_plan::{Keep, ObjectRef};
use trustplane_sync_core::situation::Settings;
use trustplane_sync_core::state::MANAGED_BY;
use trustplane_sync_providers::file::Files;
use trustplane_sync_providers::{Exchange, Registry};

use crate::args::PolicyMode;
use crate::asks::{Kept, PodAnnotations, PodRequests};
use crate::authority::{Accounts, Quotas};
use crate::complaints::Complaints;
use crate::ledger::Ledger;
use crate::metrics::SyncMetrics;
use crate::secrets::{MANAGER, Secrets};
use crate::stores::Doors;
use crate::world::World;

/// Finished pods need no Secret: the API server leaves them out.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// How many Secrets are worked on at once. Mostly they wait for a provider, and those that wait together share its answer.
const WORKERS: usize = 128;

/// What the admin chose.
#[derive(Clone)]
pub struct Setup {
    /// The rules.
    pub settings: Settings,
    /// What decides about requests.
    pub policy: PolicyMode,
    /// The namespaces to serve; all if none is named.
    pub namespaces: Option<Vec<String>>,
    /// A label selector for the pods to look at; all if there is none.
    pub pod_selector: Option<String>,
    /// Whom to ask.
    pub registry: Registry,
    /// The files that stores may read.
    pub files: Option<Arc<Files>>,
}

/// The controllers, and what feeds their queues.
fn assemble(bench: &Workbench, setup: Setup, options: Options) -> Assembly {
    let Setup {
        settings,
        policy,
        namespaces,
        pod_selector,
        registry,
        files,
    } = setup;
    let world = World::watch(bench, policy, namespaces.is_none());
    let doors = Doors {
        stores: world.stores.store(),
        writer: bench.writer(MANAGER),
        namespace: bench.namespace.clone(),
        client: bench.clients.call.clone(),
        watches: bench.watches.clone(),
        files,
        metrics: bench.metrics.clone(),
    };
    let exchange = Exchange::new(registry, Some(Arc::new(doors)), &bench.metrics);
    let annotated = || {
        let mut alive = WatchSpec::new(POD, PodAnnotations::default()).fields(ALIVE);
        if let Some(selector) = &pod_selector {
            alive = alive.labels(selector);
        }
        bench.watches.subscribe(within(alive, namespaces.as_deref()))
    };
    let (pods, pods_again) = (annotated(), annotated());
    let ours = format!("{MANAGED_BY} in ({})", labels(&settings.managed_by));
    let secrets = WatchSpec::new(SECRET, Metadata(Keep::owned_by(MANAGER))).labels(ours);
    let secrets = bench.watches.subscribe(within(secrets, namespaces.as_deref()));
    let (all_pods, all_secrets) = (pods.store(), secrets.store());
    let requests = Arc::new(PodRequests::new(all_pods.clone(), exchange.names()));
    let writer = bench.writer(MANAGER);
    let (of_secrets, of_pods) = (bench.queue("sync"), bench.queue("sync-annotations"));
    let (ledger, accounts) = (Ledger::default(), Arc::<Accounts>::default());
    let authority = world.authority();
    let controller = Secrets {
        writer: writer.clone(),
        exchange: exchange.clone(),
        settings,
        fingerprinter: bench.fingerprinter.clone(),
        clock: options.clock.clone(),
        pods: requests.clone(),
        secrets: all_secrets.clone(),
        ledger: ledger.clone(),
        authority,
        accounts: accounts.clone(),
        quotas: Quotas::default(),
        metrics: SyncMetrics::new(&bench.metrics, &ledger, options.clock.clone()),
    };
    let complaints = Complaints {
        pods: requests.clone(),
        told: Mutex::default(),
    };
    let few = Options {
        workers: 1,
        resync: None,
        ..options.clone()
    };
    let secrets_runner = Runner::new(
        controller,
        of_secrets.clone(),
        bench.executor(writer.clone()),
        options,
    )
    .after_store(&all_pods)
    .after(all_known(requests.clone()))
    .after_store(&all_secrets)
    .removals_rest_on(&all_pods)
    .removals_rest_on(&all_secrets);
    let secrets_runner = world
        .awaited_by(secrets_runner)
        .while_leading(bench.leading.clone());
    let complaints_runner = Runner::new(complaints, of_pods.clone(), bench.executor(writer), few)
        .after_store(&all_pods)
        .while_leading(bench.leading.clone());
    let concerned = {
        let requests = requests.clone();
        move |change: &Change<Kept>| {
            if let Change::Deleted { object, .. } = change {
                accounts.forget(object);
            }
            requests.hear(change.object())
        }
    };
    let itself = |change: &Change<()>| [change.object().clone()];
    let pod = |change: &Change<Kept>| [change.object().clone()];
    // A pod cannot start before its Secret is there: it comes before every refresh, and those before what has failed.
    let urgent = |_: &Change<Kept>| Lane::Urgent;
    let news = heed(exchange.clone(), requests.clone(), ledger, of_secrets.clone());
    let assembly = Assembly::default()
        .controller(secrets_runner)
        .controller(complaints_runner)
        .task("sync-news", news)
        .task("sync-pods", feed(pods, of_secrets.clone(), urgent, concerned))
        .task(
            "sync-secrets",
            feed(secrets, of_secrets.clone(), |_| Lane::Normal, itself),
        )
        .task("sync-annotated", feed(pods_again, of_pods, |_| Lane::Normal, pod));
    let feeds = world.feeds(&of_secrets, &requests, &exchange).into_iter();
    feeds.fold(assembly, |assembly, (name, feed)| assembly.task(name, feed))
}

/// How a manager's capability runs.
fn options() -> Options {
    Options {
        workers: WORKERS,
        ..Options::default()
    }
}

fn within<P>(spec: WatchSpec<P>, namespaces: Option<&[String]>) -> WatchSpec<P> {
    match namespaces {
        None => spec,
        Some(namespaces) => spec.namespaces(namespaces.iter().cloned()),
    }
}

fn labels(ours: &str) -> String {
    let all: BTreeSet<&str> = [ours, "jasm", "caronte"].into();
    all.into_iter().collect::<Vec<_>>().join(",")
}

async fn all_known(requests: Arc<PodRequests>) -> Result<(), Stopped> {
    requests.ready().await
}

/// Looks at every Secret again of which a provider says that its secret has changed.
async fn heed(exchange: Exchange, requests: Arc<PodRequests>, ledger: Ledger, queue: Queue<ObjectRef>) {
    loop {
        let news = exchange.news().await;
        let concerned: BTreeSet<ObjectRef> = requests
            .fed_by(|source| news.iter().any(|news| news.is_about(source)))
            .await;
        for secret in concerned {
            ledger.hear(&secret);
            queue.add(secret, Lane::Normal);
        }
    }
}

/// Starts the capability in a manager.
pub(crate) fn start(context: &Context, setup: Setup) {
    if setup.policy != PolicyMode::Enforce {
        tracing::warn!(mode = ?setup.policy, "--sync-policy: every pod may have every secret that this process can read");
    }
    assemble(context, setup, options()).start(context);
}

/// Runs the capability alone: no manager, no lease, no rival. It ends only when it is dropped, or with an error.
pub async fn run_alone(
    config: Config,
    setup: Setup,
    options: Options,
    tuning: Tuning,
) -> Result<(), StartError> {
    let (bench, publisher) = Workbench::alone(config, "sync", tuning).await?;
    assemble(&bench, setup, options).run_alone(publisher).await
}
