//! Serves the webhooks of the running capabilities, with certificates of our own.

use std::{
    mem,
    net::SocketAddr,
    sync::{Arc, PoisonError},
    time::Duration,
};

use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use trustplane_plan::ObjectRef;
use trustplane_process::{
    ca::{LeafKeeper, LeafRequest, Usage},
    serve::Limits,
    tls::{CertifiedKeys, ServerTls, serve_tls},
};

use super::{Capability, Context, ManagerArgs, StartError};
use crate::{
    admission::{AuthorityOptions, BundleKeeper, Effect, SharedAuthority, Webhook},
    apply::Writer,
    controller::{Controller, Executor, Options, Runner, feed},
    queue::{Lane, Policy as QueuePolicy, Queue},
    rights::Rights,
};

/// How long a process that ends goes on answering: the API server hears a moment later that it should call another replica.
const LINGER: Duration = Duration::from_secs(5);
/// How long running reviews may take after that. Both together stay below the deadline of a shutdown.
const DRAIN: Duration = Duration::from_secs(10);

/// The Secret with the CA of a process. The installation makes it, empty.
fn authority_name(process: &str) -> String {
    format!("{process}-ca")
}

fn effects(webhooks: &[Webhook]) -> impl Iterator<Item = Effect> {
    let has = |effect: &Effect| webhooks.iter().any(|webhook| webhook.effect == *effect);
    [Effect::Validating, Effect::Mutating].into_iter().filter(has)
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

/// Whether webhooks are served at all. In a dry run they are not: to serve them takes a CA, and that is written.
pub fn are_served(arguments: &ManagerArgs) -> bool {
    arguments.webhook_bind_address.port().is_some() && !arguments.dry_run
}

/// Serves what the capabilities have registered; nothing is opened where there is nothing to serve.
pub async fn serve(
    context: &Context,
    arguments: &ManagerArgs,
    chosen: &[Capability],
) -> Result<(), StartError> {
    let judges = mem::take(&mut *context.judges.lock().unwrap_or_else(PoisonError::into_inner));
    let webhooks: Vec<_> = chosen
        .iter()
        .flat_map(|capability| (capability.webhooks)())
        .collect();
    judges.check(&webhooks)?;
    if judges.is_empty() || !are_served(arguments) {
        return Ok(());
    }
    let Some(listener) = arguments.webhook_bind_address.listen().await? else {
        return Ok(());
    };
    let (namespace, name) = (arguments.namespace(), arguments.name.as_str());
    let authority = SharedAuthority::open(
        &context.clients,
        (namespace, &authority_name(name)),
        AuthorityOptions::default(),
        &context.metrics,
    )
    .await?;
    let address = listener.local_addr()?;
    let (keys, request) = (CertifiedKeys::new(), leaf_request(namespace, name, address));
    let leaf = LeafKeeper::new(authority.subscribe(), request, vec![keys.clone()]);
    let mut leaf = leaf.metrics(&context.metrics);
    // The first certificate is there before the first connection.
    leaf.tick()?;
    let config = ServerTls::new(keys).build()?;
    let router = judges.router(&context.metrics);
    tracing::info!(%address, webhooks = webhooks.len(), "serving webhooks");
    context
        .supervisor
        .spawn("webhook", answer(listener, config, router, context.stop()));
    context.supervisor.spawn("webhook-leaf", leaf.run(context.stop()));
    context.spawn(
        "authority",
        authority
            .clone()
            .run(&context.watches, context.leading.clone(), context.stop()),
    );
    for effect in effects(&webhooks) {
        keep_bundle(context, effect, name, &webhooks, authority.clone());
    }
    Ok(())
}

fn leaf_request(namespace: &str, name: &str, address: SocketAddr) -> LeafRequest {
    let address = address.ip();
    LeafRequest {
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
    }
}

/// Answers until a moment after `stop`.
async fn answer(listener: TcpListener, config: Arc<ServerConfig>, router: Router, stop: CancellationToken) {
    let limits = Limits {
        drain: DRAIN,
        ..Limits::default()
    };
    let silent = CancellationToken::new();
    let server = serve_tls(listener, config, router, limits, silent.clone());
    let lingering = async {
        stop.cancelled().await;
        tokio::time::sleep(LINGER).await;
        silent.cancel();
    };
    tokio::join!(server, lingering);
}

fn keep_bundle(
    context: &Context,
    effect: Effect,
    name: &str,
    webhooks: &[Webhook],
    authority: SharedAuthority,
) {
    let subscription = context.watches.subscribe(BundleKeeper::watch(effect, name));
    let (store, client) = (subscription.store(), context.clients.call.clone());
    let mut changes = authority.subscribe();
    let keeper = BundleKeeper::new(effect, webhooks, store.clone(), authority, client.clone());
    let task = keeper.name();
    let queue = Queue::new(task, QueuePolicy::default(), rand::random(), &context.metrics);
    let writer = Writer::new(client, BundleKeeper::MANAGER, &context.metrics);
    let executor = Executor::new(writer, context.events.clone(), &context.metrics).dry_run(context.dry_run);
    let runner = Runner::new(keeper, queue.clone(), executor, Options::default())
        .after_store(&store)
        .while_leading(context.leading.clone())
        .report_to(&context.readiness, &context.liveness, &context.state);
    // A new bundle concerns the configuration although the configuration did not change.
    let (object, changed, stop) = (ObjectRef::new(None, name), queue.clone(), context.stop());
    context.spawn(format!("{task}-authority"), async move {
        while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_process_that_ends_is_reachable_for_a_moment_longer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let config = ServerTls::new(CertifiedKeys::new()).build().unwrap();
        let server = tokio::spawn(answer(listener, config, Router::new(), stop.clone()));
        // Without waiting for it: the clock moves whenever everybody waits.
        let reachable = || std::net::TcpStream::connect(at).is_ok();
        stop.cancel();
        tokio::time::sleep(LINGER - Duration::from_millis(1)).await;
        assert!(reachable());
        server.await.unwrap();
        assert!(!reachable());
    }
}
