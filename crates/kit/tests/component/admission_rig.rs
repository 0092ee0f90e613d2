//! Replicas that serve webhooks: each with its own clients, its own certificate, and the CA that all of them share.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::middleware::map_response;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONNECTION;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use trustplane_kit::admission::{
    AuthorityError, AuthorityOptions, BundleKeeper, Effect, Failure, Judges, MatchCondition, Operation,
    SharedAuthority, Webhook,
};
use trustplane_kit::apply::Writer;
use trustplane_kit::clients::Clients;
use trustplane_kit::controller::{Controller, Executor, Options, Runner, feed};
use trustplane_kit::events::Events;
use trustplane_kit::lease::Fence;
use trustplane_kit::queue::{Lane, Policy as QueuePolicy, Queue};
use trustplane_kit::rights::{Place, Rights};
use trustplane_kit::watch::{Tuning, Watches};
use trustplane_plan::ObjectRef;
use trustplane_process::ca::{LeafKeeper, LeafRequest, Policy, Usage};
use trustplane_process::clock::{Clock, ManualClock};
use trustplane_process::metrics::Metrics;
use trustplane_process::serve::Limits;
use trustplane_process::tls::{CertifiedKeys, ServerTls, serve_tls};
use trustplane_testkit::proxy::Proxy;
use trustplane_testkit::{Account, Instance, Rules, Sandbox, on_writes_of};

use crate::write_rig::clients;

/// The name of the installation: of its configuration, made unique, and of its Secret.
pub const PROCESS: &str = "court";
pub const SECRET: &str = "court-ca";

/// A CA whose whole rotation takes three and a half minutes. A certificate is valid from five minutes before it is made, so
/// a clock may run ahead of the API server's by that much.
pub const POLICY: Policy = Policy {
    ca_life: SignedDuration::from_secs(630),
    leaf_life: SignedDuration::from_mins(3),
    propagation: SignedDuration::from_secs(10),
};
/// When the successor of a CA is announced.
pub const ANNOUNCED: SignedDuration = SignedDuration::from_secs(420);

pub struct Rig {
    pub sandbox: Sandbox,
    pub proxy: Proxy,
    pub account: Account,
}

impl Rig {
    pub async fn new(name: &str) -> Result<Self> {
        let sandbox = Sandbox::new(name).await?;
        let process = sandbox.unique(PROCESS);
        let rights = SharedAuthority::rights(SECRET)
            .and(BundleKeeper::rights(Effect::Validating, &process))
            .and(BundleKeeper::rights(Effect::Mutating, &process));
        Ok(Self {
            proxy: Proxy::start(sandbox.plane()).await?,
            account: sandbox.apply_rbac("court", &rules(rights)).await?,
            sandbox,
        })
    }

    /// An instance behind the proxy.
    pub async fn instance(&self, name: &str) -> Result<Instance> {
        Ok(self.account.instance(name).await?.through(&self.proxy))
    }

    /// Opens the CA as an instance of this name.
    pub async fn open(
        &self,
        name: &str,
        fence: Fence,
        clock: &Arc<ManualClock>,
    ) -> Result<Result<SharedAuthority, AuthorityError>> {
        let clients = clients(&self.instance(name).await?, fence)?;
        let home = (self.sandbox.namespace(), SECRET);
        Ok(SharedAuthority::open(&clients, home, options(clock), &Metrics::new()).await)
    }

    pub fn secrets(&self) -> Api<Secret> {
        self.sandbox.api()
    }
}

pub fn rules(rights: Rights) -> Rules {
    Rules {
        cluster: rights.wide(),
        namespaced: rights.of(Place::Home),
    }
}

pub fn options(clock: &Arc<ManualClock>) -> AuthorityOptions {
    AuthorityOptions {
        policy: POLICY,
        clock: clock.clone(),
    }
}

/// A clock that stands at the present.
pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::now()))
}

/// A webhook as a capability declares it.
pub fn webhook(name: &str, effect: Effect) -> Webhook {
    Webhook {
        name: format!("{name}.test.trustplane.io"),
        effect,
        path: format!("/{name}"),
        group: String::new(),
        versions: vec!["v1".to_owned()],
        resources: vec!["configmaps".to_owned()],
        operations: vec![Operation::Create, Operation::Update],
        match_conditions: vec![MatchCondition::new(
            "not-exempt",
            "object.metadata.name != 'exempt'",
        )],
        failure: Failure::Fail,
        timeout_seconds: 3,
    }
}

/// Its entry in a configuration, without a bundle.
pub fn entry(webhook: &Webhook, at: SocketAddr) -> trustplane_testkit::Webhook {
    trustplane_testkit::Webhook {
        name: webhook.name.clone(),
        url: format!("https://{at}{}", webhook.path),
        ca_bundle: None,
        rule: on_writes_of(&webhook.group, &webhook.versions[0], &webhook.resources[0]),
        match_conditions: serde_json::json!(webhook.match_conditions),
    }
}

/// The bundles of a configuration's entries, by name.
pub fn bundles(live: &ValidatingWebhookConfiguration) -> Vec<(String, Option<String>)> {
    let entries = live.webhooks.iter().flatten();
    let bundle = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    entries
        .map(|entry| {
            let ca = entry.client_config.ca_bundle.clone();
            (entry.name.clone(), ca.map(|ca| bundle(ca.0)))
        })
        .collect()
}

/// Runs the keeper of a configuration until it is dropped.
pub async fn keep_bundle(
    clients: Clients,
    effect: Effect,
    name: String,
    webhooks: Vec<Webhook>,
    authority: SharedAuthority,
) -> Result<()> {
    let metrics = Metrics::new();
    let watches = Watches::new(clients.watch.clone(), Tuning::default(), &metrics);
    let subscription = watches.subscribe(BundleKeeper::watch(effect, &name));
    let (store, mut changes) = (subscription.store(), authority.subscribe());
    let keeper = BundleKeeper::new(effect, &webhooks, store.clone(), authority, clients.call.clone());
    let queue = Queue::new(keeper.name(), QueuePolicy::default(), 7, &metrics);
    let writer = Writer::new(clients.call.clone(), BundleKeeper::MANAGER, &metrics);
    let (events, _publisher) = Events::new(clients.call, "test", "test", &metrics);
    let executor = Executor::new(writer, events, &metrics);
    let runner = Runner::new(keeper, queue.clone(), executor, Options::default()).after_store(&store);
    let rotated = async {
        while changes.changed().await.is_ok() {
            queue.add(ObjectRef::new(None, &name), Lane::Urgent);
        }
    };
    tokio::select! {
        ended = runner.run(CancellationToken::new()) => ended.context("keep a bundle"),
        () = feed(subscription, queue.clone(), |_| Lane::Urgent, |change| [change.object().clone()]) => Ok(()),
        () = rotated => Ok(()),
    }
}

/// One replica. It ends when it is dropped.
pub struct Replica {
    pub instance: Instance,
    pub clients: Clients,
    pub authority: SharedAuthority,
    pub leaf: LeafKeeper,
    pub keys: Arc<CertifiedKeys>,
    pub at: SocketAddr,
    stop: DropGuard,
}

impl Replica {
    pub async fn start(rig: &Rig, name: &str, clock: &Arc<ManualClock>, judges: Judges) -> Result<Self> {
        let instance = rig.instance(name).await?;
        let (clients, metrics) = (clients(&instance, Fence::always())?, Metrics::new());
        let home = (rig.sandbox.namespace(), SECRET);
        let authority = SharedAuthority::open(&clients, home, options(clock), &metrics).await?;
        let tcp = TcpListener::bind("127.0.0.1:0").await?;
        let (at, keys) = (tcp.local_addr()?, CertifiedKeys::new());
        let request = LeafRequest {
            name: name.to_owned(),
            addresses: vec![at.ip()],
            usage: Usage::Server,
            ..LeafRequest::default()
        };
        let shared: Arc<dyn Clock> = clock.clone();
        let leaf = LeafKeeper::new(authority.subscribe(), request, vec![keys.clone()]);
        let mut leaf = leaf.clock(shared);
        leaf.tick()?;
        let stop = CancellationToken::new();
        // Every call shakes hands anew, so that a certificate which is not trusted shows at once.
        let router = judges.router(&metrics).layer(map_response(once));
        let config = ServerTls::new(keys.clone()).build()?;
        tokio::spawn(serve_tls(tcp, config, router, Limits::default(), stop.clone()));
        Ok(Self {
            instance,
            clients,
            authority,
            leaf,
            keys,
            at,
            stop: stop.drop_guard(),
        })
    }

    /// Keeps the bundle of the installation's configuration, as a leader does.
    pub fn keep_bundle(&self, rig: &Rig, effect: Effect, webhooks: &[Webhook]) {
        let (clients, name) = (self.clients.clone(), rig.sandbox.unique(PROCESS));
        let keeping = keep_bundle(clients, effect, name, webhooks.to_vec(), self.authority.clone());
        let stop = self.stop_token();
        tokio::spawn(async move { stop.run_until_cancelled(keeping).await });
    }

    fn stop_token(&self) -> CancellationToken {
        self.stop.token().clone()
    }

    /// What the CA of this replica makes others trust.
    pub fn bundle(&self) -> String {
        self.authority.subscribe().borrow().bundle_pem()
    }
}

async fn once(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
