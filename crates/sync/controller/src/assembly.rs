//! The parts of the capability, put together: for a manager, and for a test that runs it alone.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use futures::future::{BoxFuture, join_all};
use kube::Config;
use tokio_util::sync::CancellationToken;
use trustplane_kit::controller::{Options, Runner, feed};
use trustplane_kit::manager::{Context, StartError, Workbench};
use trustplane_kit::queue::Lane;
use trustplane_kit::watch::{Change, Metadata, Project, Tuning, WatchSpec};
use trustplane_plan::{Keep, ObjectRef};
use trustplane_sync_core::pod::Asks;
use trustplane_sync_core::policy::Policy;
use trustplane_sync_core::situation::Settings;
use trustplane_sync_core::state::{MANAGED_BY, POD, SECRET};
use trustplane_sync_providers::Exchange;

use crate::asks::PodAsks;
use crate::complaints::Complaints;
use crate::ledger::Ledger;
use crate::secrets::{MANAGER, Secrets};

/// Finished pods need no Secret: the API server leaves them out.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// How many Secrets are worked on at once. Mostly they wait for a provider, and those that wait together share its answer.
const WORKERS: usize = 128;

/// What the admin chose.
#[derive(Clone)]
pub struct Setup {
    /// The rules.
    pub settings: Settings,
    /// The namespaces to serve; all if none is named.
    pub namespaces: Option<Vec<String>>,
    /// Whom to ask.
    pub exchange: Exchange,
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
        namespaces,
        exchange,
    } = setup;
    let asks = || {
        let providers = exchange.names();
        let alive = WatchSpec::new(POD, PodAsks { providers }).fields(ALIVE);
        bench.watches.subscribe(within(alive, namespaces.as_deref()))
    };
    let (pods, pods_again) = (asks(), asks());
    let ours = format!("{MANAGED_BY} in ({})", labels(&settings.managed_by));
    let secrets = WatchSpec::new(SECRET, Metadata(Keep::owned_by(MANAGER))).labels(ours);
    let secrets = bench.watches.subscribe(within(secrets, namespaces.as_deref()));
    let (all_pods, all_secrets) = (pods.store(), secrets.store());
    let writer = bench.writer(MANAGER);
    let (of_secrets, of_pods) = (bench.queue("sync"), bench.queue("sync-annotations"));
    let controller = Secrets {
        writer: writer.clone(),
        exchange,
        settings,
        fingerprinter: bench.fingerprinter.clone(),
        clock: options.clock.clone(),
        pods: all_pods.clone(),
        secrets: all_secrets.clone(),
        ledger: Ledger::default(),
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
    .after_store(&all_secrets)
    .while_leading(bench.leading.clone());
    let complaints_runner = Runner::new(complaints, of_pods.clone(), bench.executor(writer), few)
        .after_store(&all_pods)
        .while_leading(bench.leading.clone());
    let named = Named::default();
    let concerned = move |change: &Change<Option<Box<Asks>>>| named.concerned(change);
    let itself = |change: &Change<()>| [change.object().clone()];
    let pod = |change: &Change<Option<Box<Asks>>>| [change.object().clone()];
    let normal = |_: &Change<Option<Box<Asks>>>| Lane::Normal;
    let feeds: Vec<(&'static str, BoxFuture<'static, ()>)> = vec![
        (
            "sync-pods",
            Box::pin(feed(pods, of_secrets.clone(), normal, concerned)),
        ),
        (
            "sync-secrets",
            Box::pin(feed(secrets, of_secrets, |_| Lane::Normal, itself)),
        ),
        ("sync-annotated", Box::pin(feed(pods_again, of_pods, normal, pod))),
    ];
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

/// Which Secrets each pod named when it was last heard of: one that it names no more may have a new owner.
#[derive(Default)]
struct Named(Mutex<HashMap<ObjectRef, Vec<ObjectRef>>>);

impl Named {
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
    if setup.settings.policy == Policy::Off {
        tracing::warn!("--sync-policy=off: every pod may have every secret that this process can read");
    }
    let Assembly {
        secrets,
        complaints,
        feeds,
    } = assemble(context, setup, options());
    for (name, feed) in feeds {
        context.spawn(name, feed);
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
