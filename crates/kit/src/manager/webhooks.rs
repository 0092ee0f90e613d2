//! Serves the webhooks of the running capabilities, with certificates of our own.

use std::{
    mem,
    sync::{Arc, PoisonError},
};

use tokio::sync::watch;
use trustplane_plan::ObjectRef;
use trustplane_process::{
    ca::{Authority, LeafKeeper, LeafRequest, Policy, Usage},
    serve::Limits,
    tls::{CertifiedKeys, ServerTls, serve_tls},
};

use super::{Capability, Context, ManagerArgs, StartError};
use crate::{
    admission::{BundleKeeper, Effect, SharedAuthority, Webhook},
    apply::Writer,
    controller::{Executor, Options, Runner, feed},
    queue::{Lane, Policy as QueuePolicy, Queue},
    rights::Rights,
};

const MANAGER: &str = "trustplane-webhook-bundle";

/// The Secret with the CA of a process. The installation makes it, empty.
fn authority_name(process: &str) -> String {
    format!("{process}-ca")
}

fn effects(webhooks: &[Webhook]) -> impl Iterator<Item = Effect> {
    let has = |effect| webhooks.iter().any(move |webhook| webhook.effect == effect);
    let (validating, mutating) = (has(Effect::Validating), has(Effect::Mutating));
    [(Effect::Validating, validating), (Effect::Mutating, mutating)]
        .into_iter()
        .filter(|(_, has)| *has)
        .map(|(e, _)| e)
}

/// What serving these webhooks needs in a process of this name.
pub fn rights(process: &str, webhooks: &[Webhook]) -> Rights {
    if webhooks.is_empty() {
        return Rights::none();
    }
    let authority = SharedAuthority::rights(&authority_name(process));
    effects(webhooks).fold(authority, |rights, effect| {
        rights.and(BundleKeeper::rights(effect, process))
    })
}

/// Serves what the capabilities have registered; nothing is opened where there is nothing to serve.
pub async fn serve(
    context: &Context,
    arguments: &ManagerArgs,
    chosen: &[Capability],
) -> Result<(), StartError> {
    let judges = mem::take(&mut *context.judges.lock().unwrap_or_else(PoisonError::into_inner));
    if judges.is_empty() {
        return Ok(());
    }
    let Some(listener) = arguments.webhook_bind_address.listen().await? else {
        return Ok(());
    };
    let (namespace, name) = (arguments.namespace.as_str(), arguments.name.as_str());
    let authority_name = authority_name(name);
    let shared = SharedAuthority::open(
        &context.clients,
        (namespace, &authority_name),
        Policy::default(),
        &context.metrics,
    )
    .await?;
    let authority = shared.subscribe();

    let keys = CertifiedKeys::new();
    let address = listener.local_addr()?.ip();
    let request = LeafRequest {
        name: name.to_owned(),
        dns: vec![
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
        ],
        // Bound to one address, it is reached by that address: outside a cluster, in tests.
        addresses: (!address.is_unspecified())
            .then_some(address)
            .into_iter()
            .collect(),
        usage: Usage::Server,
        ..LeafRequest::default()
    };
    let mut leaf = LeafKeeper::new(authority.clone(), request, vec![keys.clone()]);
    // The first certificate is there before the first connection.
    leaf.tick()?;
    let config = ServerTls::new(keys).build()?;
    let router = judges.router(&context.metrics);

    context.supervisor.spawn(
        "webhook",
        serve_tls(listener, config, router, Limits::default(), context.stop()),
    );
    context.supervisor.spawn("webhook-leaf", leaf.run(context.stop()));
    context.spawn("authority", shared.run(context.leading.clone(), context.stop()));
    let webhooks: Vec<_> = chosen
        .iter()
        .flat_map(|capability| (capability.webhooks)())
        .collect();
    for effect in effects(&webhooks) {
        keep_bundle(context, effect, name, authority.clone());
    }
    Ok(())
}

fn keep_bundle(
    context: &Context,
    effect: Effect,
    name: &str,
    mut authority: watch::Receiver<Arc<Authority>>,
) {
    let task = match effect {
        Effect::Validating => "validating-bundle",
        Effect::Mutating => "mutating-bundle",
    };
    let subscription = context.watches.subscribe(BundleKeeper::watch(effect, name));
    let store = subscription.store();
    let queue = Queue::new(task, QueuePolicy::default(), rand::random(), &context.metrics);
    let writer = Writer::new(context.clients.call.clone(), MANAGER, &context.metrics);
    let executor = Executor::new(writer, context.events.clone(), &context.metrics).dry_run(context.dry_run);
    let keeper = BundleKeeper::new(effect, store.clone(), authority.clone());
    let runner = Runner::new(keeper, queue.clone(), executor, Options::default())
        .after_store(&store)
        .while_leading(context.leading.clone())
        .report_to(&context.readiness, &context.liveness, &context.state);
    // A new bundle concerns the configuration although the configuration did not change.
    let (object, changed) = (ObjectRef::new(None, name), queue.clone());
    context.spawn(format!("{task}-authority"), async move {
        while authority.changed().await.is_ok() {
            changed.add(object.clone(), Lane::Urgent);
        }
    });
    context.spawn(
        format!("{task}-feed"),
        feed(
            subscription,
            queue,
            |_| Lane::Urgent,
            |change| [change.object().clone()],
        ),
    );
    context.spawn(task, runner.run(context.stop()));
}
