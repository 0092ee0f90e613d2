//! The parts of the sample, put together: for a manager, and for a test that runs the controller alone.

use kube::Config;
use trustplane_kit::controller::{Options, Runner, feed};
use trustplane_kit::manager::{Assembly, Context, StartError, Workbench};
use trustplane_kit::queue::Lane;
use trustplane_kit::watch::{Change, Hash, Metadata, Slim, Store, Tuning, WatchSpec};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Keep, ObjectRef};

use crate::admit::{self, Chains};
use crate::api::{MIRROR, SOURCE};
use crate::controller::{MANAGER, Mirrors, Seen};

/// The controller and what feeds its queue.
fn assemble(bench: &Workbench, options: Options) -> Assembly {
    let queue = bench.queue("mirror");
    let home = || [bench.namespace.to_string()];
    let annotated = Keep {
        annotations: true,
        manager: None,
    };
    let mirrors = WatchSpec::new(MIRROR, Slim::<Seen>::new(annotated)).namespaces(home());
    let mirrors = bench.watches.subscribe(mirrors);
    let hash = Hash::new(&["data"], bench.fingerprinter.clone(), Keep::default());
    let sources = WatchSpec::new(SECRET, hash).namespaces(home()).labels(SOURCE);
    let sources = bench.watches.subscribe(sources);
    let secrets = WatchSpec::new(SECRET, Metadata(Keep::owned_by(MANAGER))).namespaces(home());
    let secrets = bench.watches.subscribe(secrets);
    let (all, offered, live) = (mirrors.store(), sources.store(), secrets.store());
    let executor = bench.executor(bench.writer(MANAGER));
    let controller = Mirrors {
        client: bench.clients.call.clone(),
        fingerprinter: bench.fingerprinter.clone(),
        mirrors: all.clone(),
        sources: offered.clone(),
        secrets: live.clone(),
    };
    let runner = Runner::new(controller, queue.clone(), executor, options)
        .after_store(&all)
        .after_store(&offered)
        .after_store(&live)
        .removals_rest_on(&all)
        .removals_rest_on(&live)
        .while_leading(bench.leading.clone());
    let itself = |change: &Change<Seen>| [change.object().clone()];
    let concerned = all.clone();
    let source = move |change: &Change<Box<str>>| mirrors_of(&concerned, change.object());
    let copy = move |change: &Change<()>| mirrors_of(&all, change.object());
    Assembly::default()
        .controller(runner)
        .task(
            "mirror-feed",
            feed(mirrors, queue.clone(), |_| Lane::Normal, itself),
        )
        .task(
            "source-feed",
            feed(sources, queue.clone(), |_| Lane::Normal, source),
        )
        .task("secret-feed", feed(secrets, queue, |_| Lane::Normal, copy))
}

/// The mirrors that a Secret concerns, by its name. One that was a copy and is so no more matters when it is deleted: the
/// mirror that waits for that is on its way out, or names it again.
fn mirrors_of(mirrors: &Store<Seen>, secret: &ObjectRef) -> Vec<ObjectRef> {
    let mut keys = Vec::new();
    mirrors.for_each(|mirror| {
        let same_namespace = mirror.meta.object.namespace() == secret.namespace();
        if same_namespace && (mirror.value.names(secret.name()) || mirror.meta.is_terminating()) {
            keys.push(mirror.meta.object.clone());
        }
    });
    keys
}

/// Starts the controller in a manager.
pub(crate) async fn start(context: Context) -> Result<(), StartError> {
    assemble(&context, Options::default()).start(&context);
    let home = context.namespace.clone();
    context.admit(admit::placement(), admit::is_in_place(home.clone()));
    let client = context.clients.call.clone();
    context.admit(admit::chains(), Chains { client, home });
    context.admit(admit::order(), admit::put_in_order);
    Ok(())
}

/// Runs the controller alone, in the namespace of the configuration: no manager, no lease, no rival. It ends only when it
/// is dropped, or with an error.
pub async fn run_alone(config: Config, options: Options, tuning: Tuning) -> Result<(), StartError> {
    let (bench, publisher) = Workbench::alone(config, "sample", tuning).await?;
    assemble(&bench, options).run_alone(publisher).await
}
