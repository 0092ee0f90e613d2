//! The parts of the capability, put together: for a manager, and for a test that runs it alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, join_all};
use kube::Config;
use tokio_util::sync::CancellationToken;
use trustplane_kit::controller::{Options, Runner, feed};
use trustplane_kit::manager::{Context, StartError, Workbench};
use trustplane_kit::queue::{Lane, Queue};
use trustplane_kit::watch::{Change, Metadata, Project, Store, Tuning, WatchSpec};
use trustplane_plan::{Keep, ObjectRef};
use trustplane_sync_core::pod::Asks;
use trustplane_sync_core::situation::Settings;
use trustplane_sync_core::state::{MANAGED_BY, POD, SECRET};
use trustplane_sync_providers::file::Files;
use trustplane_sync_providers::{Exchange, Registry};

use crate::args::PolicyMode;
use crate::asks::PodAsks;
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

/// The controllers, ready to run, and what feeds their queues.
struct Assembly {
    secrets: Runner<Secrets>,
    complaints: Runner<Complaints>,
    feeds: Vec<(&'static str, BoxFuture<'static, ()>)>,
}

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
    let asks = || {
        let providers = exchange.names();
        let mut alive = WatchSpec::new(POD, PodAsks { providers }).fields(ALIVE);
        if let Some(selector) = &pod_selector {
            alive = alive.labels(selector);
        }
        bench.watches.subscribe(within(alive, namespaces.as_deref()))
    };
    let (pods, pods_again) = (asks(), asks());
    let ours = format!("{MANAGED_BY} in ({})", labels(&settings.managed_by));
    let secrets = WatchSpec::new(SECRET, Metadata(Keep::owned_by(MANAGER))).labels(ours);
    let secrets = bench.watches.subscribe(within(secrets, namespaces.as_deref()));
    let (all_pods, all_secrets) = (pods.store(), secrets.store());
    let writer = bench.writer(MANAGER);
    let (of_secrets, of_pods) = (bench.queue("sync"), bench.queue("sync-annotations"));
    let (ledger, accounts, named) = (
        Ledger::default(),
        Arc::<Accounts>::default(),
        Arc::<Named>::default(),
    );
    let authority = world.authority();
    let controller = Secrets {
        writer: writer.clone(),
        exchange: exchange.clone(),
        settings,
        fingerprinter: bench.fingerprinter.clone(),
        clock: options.clock.clone(),
        pods: all_pods.clone(),
        secrets: all_secrets.clone(),
        ledger: ledger.clone(),
        authority,
        accounts: accounts.clone(),
        quotas: Quotas::default(),
        metrics: SyncMetrics::new(&bench.metrics, &ledger, options.clock.clone()),
    };
    let complaints = Complaints {
        pods: all_pods.clone(),
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
    .after_store(&all_secrets);
    let secrets_runner = world
        .awaited_by(secrets_runner)
        .while_leading(bench.leading.clone());
    let complaints_runner = Runner::new(complaints, of_pods.clone(), bench.executor(writer), few)
        .after_store(&all_pods)
        .while_leading(bench.leading.clone());
    let concerned = {
        let (named, accounts) = (named.clone(), accounts);
        move |change: &Change<Option<Box<Asks>>>| {
            if let Change::Deleted { object, .. } = change {
                accounts.forget(object);
            }
            named.concerned(change)
        }
    };
    let itself = |change: &Change<()>| [change.object().clone()];
    let pod = |change: &Change<Option<Box<Asks>>>| [change.object().clone()];
    // A pod cannot start before its Secret is there: it comes before every refresh, and those before what has failed.
    let urgent = |_: &Change<Option<Box<Asks>>>| Lane::Urgent;
    let news = heed(exchange.clone(), all_pods, ledger, of_secrets.clone());
    let mut feeds: Vec<(&'static str, BoxFuture<'static, ()>)> = vec![
        ("sync-news", Box::pin(news)),
        (
            "sync-pods",
            Box::pin(feed(pods, of_secrets.clone(), urgent, concerned)),
        ),
        (
            "sync-secrets",
            Box::pin(feed(secrets, of_secrets.clone(), |_| Lane::Normal, itself)),
        ),
        (
            "sync-annotated",
            Box::pin(feed(pods_again, of_pods, |_| Lane::Normal, pod)),
        ),
    ];
    feeds.extend(world.feeds(&of_secrets, &named, &exchange));
    Assembly {
        secrets: secrets_runner,
        complaints: complaints_runner,
        feeds,
    }
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

/// Looks at every Secret again of which a provider says that its secret has changed.
async fn heed(exchange: Exchange, pods: Store<Option<Box<Asks>>>, ledger: Ledger, queue: Queue<ObjectRef>) {
    loop {
        let news = exchange.news().await;
        let mut concerned = BTreeSet::new();
        pods.for_each(|pod| {
            let requests = pod.value.iter().flat_map(|asks| asks.requests());
            let about = requests.filter(|request| news.iter().any(|news| news.is_about(&request.source)));
            concerned
                .extend(about.map(|request| {
                    ObjectRef::new(pod.meta.object.namespace(), request.secret_name.as_str())
                }));
        });
        for secret in concerned {
            ledger.hear(&secret);
            queue.add(secret, Lane::Normal);
        }
    }
}

/// Which Secrets each pod named when it was last heard of: one that it names no more may have a new owner.
#[derive(Default)]
pub(crate) struct Named(Mutex<BTreeMap<ObjectRef, Vec<ObjectRef>>>);

impl Named {
    /// All Secrets that are named, or those of one namespace.
    pub fn all(&self, namespace: Option<&str>) -> BTreeSet<ObjectRef> {
        let named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = ObjectRef::new(namespace, "");
        let of_namespace = named
            .range(first..)
            .take_while(|(pod, _)| namespace.is_none() || pod.namespace() == namespace);
        of_namespace.flat_map(|(_, secrets)| secrets.clone()).collect()
    }

    fn concerned(&self, change: &Change<Option<Box<Asks>>>) -> BTreeSet<ObjectRef> {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = match change {
            Change::Applied { object, .. } => PodAsks::names(&object.meta, &object.value),
            Change::Deleted { .. } => Vec::new(),
        };
        let before = match now.is_empty() {
            true => named.remove(change.object()),
            false => named.insert(change.object().clone(), now.clone()),
        };
        now.into_iter().chain(before.into_iter().flatten()).collect()
    }
}

/// Starts the capability in a manager.
pub(crate) fn start(context: &Context, setup: Setup) {
    if setup.policy != PolicyMode::Enforce {
        tracing::warn!(mode = ?setup.policy, "--sync-policy: every pod may have every secret that this process can read");
    }
    let Assembly {
        secrets,
        complaints,
        feeds,
    } = assemble(context, setup, options());
    for (name, feed) in feeds {
        let stop = context.stop();
        // What a provider tells has no end of its own.
        context.spawn(name, async move {
            stop.run_until_cancelled(feed).await;
        });
    }
    let secrets = secrets.report_to(&context.readiness, &context.liveness, &context.state);
    context.spawn("sync", secrets.run(context.stop()));
    let complaints = complaints.report_to(&context.readiness, &context.liveness, &context.state);
    context.spawn("sync-annotations", complaints.run(context.stop()));
}

/// Runs the capability alone: no manager, no lease, no rival. It ends only when it is dropped, or with an error.
pub async fn run_alone(
    config: Config,
    setup: Setup,
    options: Options,
    tuning: Tuning,
) -> Result<(), StartError> {
    let (bench, publisher) = Workbench::alone(config, "sync", tuning).await?;
    let Assembly {
        secrets,
        complaints,
        feeds,
    } = assemble(&bench, setup, options);
    let stop = CancellationToken::new();
    let feeds = join_all(feeds.into_iter().map(|(_, feed)| feed));
    tokio::select! {
        ended = secrets.run(stop.clone()) => Ok(ended?),
        ended = complaints.run(stop.clone()) => Ok(ended?),
        _ = feeds => Err("the feeds ended".into()),
        () = publisher.run(stop.clone()) => Err("the publisher of events ended".into()),
    }
}
