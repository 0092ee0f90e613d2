//! The same against a real API server.

use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, CustomResourceExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use trustplane_api::identity::{
    SpiffeCsiDriver, SpireAgent, SpireOidcDiscoveryProvider, SpireServer, ZeroTrustWorkloadIdentityManager,
};
use trustplane_kit::admission::{Effect, Failure, Judges, Operation, Request, Verdict, Webhook};
use trustplane_process::ca::{Authority, LeafRequest, Policy, Usage};
use trustplane_process::metrics::Metrics;
use trustplane_process::serve::Limits;
use trustplane_process::tls::{CertifiedKeys, ServerTls, serve_tls};
use trustplane_testkit::{ControlPlane, DEADLINE, Leftovers, Rules, Sandbox, on_writes_of, until};

use super::super::admission::{self, DryRun, FILL};
use super::*;

async fn stage(name: &str) -> Result<Sandbox> {
    let leftovers = Leftovers::default()
        .of::<ZeroTrustWorkloadIdentityManager>()
        .of::<SpireServer>()
        .of::<SpireAgent>()
        .of::<SpiffeCsiDriver>()
        .of::<SpireOidcDiscoveryProvider>();
    let plane = ControlPlane::borrowed(&leftovers).await?;
    let kinds = [
        ZeroTrustWorkloadIdentityManager::crd(),
        SpireServer::crd(),
        SpireAgent::crd(),
        SpiffeCsiDriver::crd(),
        SpireOidcDiscoveryProvider::crd(),
    ];
    plane.install(&kinds).await?;
    Sandbox::on(plane, name).await
}

/// Applies an object, with its status.
async fn apply<K>(api: &Api<K>, name: &str, object: Value) -> Result<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let hand = PatchParams::apply("test").force();
    let mut wish = object.clone();
    wish["apiVersion"] = json!(K::api_version(&()));
    wish["kind"] = json!(K::kind(&()));
    wish["metadata"]["name"] = json!(name);
    let made = api.patch(name, &hand, &Patch::Apply(&wish)).await?;
    if object["status"].is_null() {
        return Ok(made);
    }
    Ok(api.patch_status(name, &hand, &Patch::Apply(&wish)).await?)
}

/// A webhook that refuses everything, as `fill` refuses a ZTWIM without a trust domain.
struct Refusal {
    entry: trustplane_testkit::Webhook,
    _stop: DropGuard,
}

impl Refusal {
    async fn serve() -> Result<Self> {
        let policy = Policy {
            ca_life: DAY * 30,
            leaf_life: DAY,
            propagation: SignedDuration::from_secs(10),
        };
        let authority = Authority::create("test", policy, Timestamp::now())?;
        let tcp = TcpListener::bind("127.0.0.1:0").await?;
        let at = tcp.local_addr()?;
        let request = LeafRequest {
            addresses: vec![at.ip()],
            usage: Usage::Server,
            ..LeafRequest::default()
        };
        let keys: Arc<CertifiedKeys> = CertifiedKeys::new();
        keys.swap(authority.issue(&request, Timestamp::now())?.certified_key()?);
        let mut judges = Judges::default();
        let webhook = Webhook {
            name: FILL.to_owned(),
            effect: Effect::Mutating,
            path: "/identity/fill".to_owned(),
            group: "operator.openshift.io".to_owned(),
            versions: vec!["v1alpha1".to_owned()],
            resources: vec![ZTWIM.plural.to_string()],
            operations: vec![Operation::Create],
            match_conditions: Vec::new(),
            failure: Failure::Fail,
            timeout_seconds: 5,
        };
        judges.add(webhook, |_: &Request| {
            Verdict::deny("spec.trustDomain", "TrustDomain required in ZTWIM")
        });
        let stop = CancellationToken::new();
        let router = judges.router(&Metrics::new());
        let config = ServerTls::new(keys).build()?;
        tokio::spawn(serve_tls(tcp, config, router, Limits::default(), stop.clone()));
        Ok(Self {
            entry: trustplane_testkit::Webhook {
                name: FILL.to_owned(),
                url: format!("https://{at}/identity/fill"),
                ca_bundle: Some(authority.bundle_pem()),
                rule: on_writes_of("operator.openshift.io", "v1alpha1", &ZTWIM.plural),
                match_conditions: json!([]),
            },
            _stop: stop.drop_guard(),
        })
    }
}

async fn becomes(cluster: &Cluster, what: &str, is_it: impl Fn(&Seen<DryRun>) -> bool) -> Result<()> {
    until(what, DEADLINE, || async {
        let seen = admission::look(cluster).await;
        Ok(is_it(&seen).then_some(()))
    })
    .await
}

#[tokio::test]
async fn dry_run_tells_whether_the_api_server_can_ask_and_writes_nothing() -> Result<()> {
    let sandbox = stage("cli-dry-run").await?;
    let rules = Rules::default().allow_everywhere(&ZTWIM.group, &ZTWIM.plural, &["create"]);
    let person = sandbox.instance("person", &rules).await?;
    let cluster = Cluster::of(person.client()?, sandbox.namespace());
    let all: Api<ZeroTrustWorkloadIdentityManager> = Api::all(sandbox.client());
    assert_eq!(admission::look(&cluster).await, Ok(DryRun::Passed));
    assert!(
        all.get_opt(SINGLETON).await?.is_none(),
        "a dry run creates nothing"
    );

    // A ZTWIM that exists does not answer for the webhook.
    let spec = json!({"trustDomain": "example.org", "clusterName": "test"});
    let made = apply(&all, SINGLETON, json!({ "spec": spec })).await?;
    assert_eq!(admission::look(&cluster).await, Ok(DryRun::Passed));
    let refusal = Refusal::serve().await?;
    sandbox
        .register_mutating("fill", std::slice::from_ref(&refusal.entry))
        .await?;
    becomes(&cluster, "the webhook to be asked", |seen| {
        *seen == Ok(DryRun::Judged)
    })
    .await?;

    let another = Refusal::serve().await?;
    let untrusted = trustplane_testkit::Webhook {
        ca_bundle: another.entry.ca_bundle.clone(),
        ..refusal.entry.clone()
    };
    sandbox.register_mutating("fill", &[untrusted]).await?;
    let is_uncalled =
        |seen: &Seen<DryRun>| matches!(seen, Ok(DryRun::NotCalled(why)) if why.contains("x509"));
    becomes(&cluster, "the certificate not to be trusted", is_uncalled).await?;

    let stranger = sandbox.instance("stranger", &Rules::default()).await?;
    let stranger = Cluster::of(stranger.client()?, sandbox.namespace());
    assert_eq!(admission::look(&stranger).await, Err(Obstacle::Forbidden));
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(sandbox.client());
    webhooks
        .delete(&sandbox.unique("fill"), &DeleteParams::default())
        .await?;
    let live = all.get(SINGLETON).await?;
    assert_eq!(live.metadata, made.metadata, "a dry run changes nothing");
    Ok(())
}

/// A workload with one container for each image.
fn workload(images: &[(&str, &str)]) -> Value {
    let containers: Vec<Value> = images
        .iter()
        .map(|(name, image)| json!({ "name": name, "image": image }))
        .collect();
    json!({ "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": containers } },
    } })
}

/// SPIRE as it should be; `u1` stands for the uid of ZTWIM.
async fn furnish(sandbox: &Sandbox) -> Result<()> {
    let client = sandbox.client();
    let all: Api<ZeroTrustWorkloadIdentityManager> = Api::all(client.clone());
    let status = |type_| json!({ "conditions": [condition(type_, "True", "Ready", "", 1)] });
    let spec = json!({ "trustDomain": "example.org", "clusterName": "test" });
    let manager = json!({ "spec": spec, "status": status("ConfigurationValid") });
    let uid = apply(&all, SINGLETON, manager).await?.metadata.uid;
    let operand = json!({
        "metadata": { "ownerReferences": [{
            "apiVersion": ZTWIM.api_version(), "kind": ZTWIM.kind, "name": SINGLETON, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }] },
        "spec": {}, "status": status("Ready"),
    });
    apply::<SpireServer>(&Api::all(client.clone()), SINGLETON, operand.clone()).await?;
    apply::<SpireAgent>(&Api::all(client.clone()), SINGLETON, operand.clone()).await?;
    apply::<SpiffeCsiDriver>(&Api::all(client.clone()), SINGLETON, operand.clone()).await?;
    apply::<SpireOidcDiscoveryProvider>(&Api::all(client), SINGLETON, operand).await?;
    let certificate = certificate("spiffe://example.org", DAY, DAY / 4);
    apply::<ConfigMap>(
        &sandbox.api(),
        "spire-bundle",
        json!({ "data": { "bundle.crt": certificate } }),
    )
    .await?;
    let server = workload(&[
        ("spire-server", "s:1.15.3"),
        ("spire-controller-manager", "c:0.6.4"),
    ]);
    apply::<StatefulSet>(&sandbox.api(), "spire-server", server).await?;
    apply::<DaemonSet>(
        &sandbox.api(),
        "spire-agent",
        workload(&[("spire-agent", "a:1.15.3")]),
    )
    .await?;
    let oidc = workload(&[("anything", "o:1.15.3")]);
    apply::<Deployment>(&sandbox.api(), "spire-spiffe-oidc-discovery-provider", oidc).await?;
    Ok(())
}

#[tokio::test]
async fn identity_is_seen_with_the_rights_that_are_named_and_told_without() -> Result<()> {
    let sandbox = stage("cli-identity").await?;
    furnish(&sandbox).await?;
    let view = || ProcessView {
        process: Process {
            namespace: sandbox.namespace().to_owned(),
            name: "trustplane-manager".to_owned(),
            capabilities: vec![CAPABILITY.to_owned()],
            ..Process::default()
        },
        pods: Ok(Vec::new()),
        lease: None,
        webhooks: std::collections::BTreeMap::new(),
    };
    let ztwim = ZTWIM;
    let kinds = [&ztwim]
        .into_iter()
        .chain(OperandKind::ALL.map(OperandKind::kind));
    let rules = Rules::default()
        .allow("", "configmaps", &["get"])
        .allow("apps", "statefulsets", &["get"])
        .allow("apps", "daemonsets", &["get"])
        .allow("apps", "deployments", &["get"]);
    let rules = kinds.fold(rules, |rules, kind| {
        rules.allow_everywhere(&kind.group, &kind.plural, &["get"])
    });
    let person = sandbox.instance("person", &rules).await?;
    let cluster = Cluster::of(person.client()?, sandbox.namespace());
    let seen = look(&cluster, &Ok(vec![view()])).await.unwrap();
    let told = shown(&seen).replace(sandbox.namespace(), "spire");
    assert_eq!(told.matches('✓').count(), 10, "{told}");
    assert!(told.ends_with("all is well\n"), "{told}");

    let stranger = sandbox.instance("stranger", &Rules::default()).await?;
    let cluster = Cluster::of(stranger.client()?, sandbox.namespace());
    let seen = look(&cluster, &Ok(vec![view()])).await.unwrap();
    assert!(
        shown(&seen).contains("✗ ztwim/cluster  could not be seen: you may not look at it"),
        "{}",
        shown(&seen)
    );
    assert!(
        look(&cluster, &Ok(Vec::new())).await.is_none(),
        "what does not run is not missed"
    );
    Ok(())
}
