//! A control plane with the objects of all operands: what the capability would have made.

use anyhow::{Context, Result};
use clap::Parser;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use trustplane_api::identity::{
    ClusterFederatedTrustDomain, ClusterSpiffeId, ClusterStaticEntry, CommonConfig, SpireAgentSpec,
    SpireOidcDiscoveryProviderSpec, SpireServerSpec,
};
use trustplane_identity_controller::{IdentityArgs, Settings, capability, roles};
use trustplane_identity_core::{Shared, children, examples};
use trustplane_plan::kinds::CLUSTER_ROLE;
use trustplane_plan::{Kind, Manifest, Scope};
use trustplane_testkit::{ControlPlane, Leftovers, Sandbox};

/// The field manager of what is applied.
const MANAGER: &str = "hand";

/// The only arguments of the capability are its defaults.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    identity: IdentityArgs,
}

pub struct Stage {
    pub sandbox: Sandbox,
    pub client: Client,
    pub shared: Shared,
    pub settings: Settings,
}

impl Stage {
    /// A control plane with the kinds and the ClusterRoles of the capability, and a namespace for SPIRE.
    pub async fn new() -> Result<Self> {
        let leftovers = Leftovers::default()
            .of::<ClusterSpiffeId>()
            .of::<ClusterStaticEntry>()
            .of::<ClusterFederatedTrustDomain>()
            .of::<CSIDriver>()
            .of::<Node>();
        let plane = ControlPlane::borrowed(&leftovers).await?;
        let capability = capability(Arguments::parse_from(["manager"]).identity);
        plane.install(&(capability.crds)()).await?;
        let sandbox = Sandbox::on(plane, "spire").await?;
        let client = sandbox.client();
        for role in roles() {
            let role = Manifest::new(CLUSTER_ROLE, None, &role.name).with("rules", json!(role.rules));
            applied(&client, &role).await?;
        }
        let shared = Shared {
            namespace: sandbox.namespace().to_owned(),
            // Dots, which other names have not.
            cluster_name: "eu.prod-1".to_owned(),
            ..examples::shared()
        };
        Ok(Self {
            shared,
            settings: examples::settings(),
            client,
            sandbox,
        })
    }

    /// The objects of SpireServer without a spec.
    pub fn server(&self) -> Vec<Manifest> {
        let (spec, common) = (SpireServerSpec::default(), CommonConfig::default());
        let mut objects = children::server(&spec, &common, &self.shared, &self.settings);
        objects.push(children::bundle(&common, &self.shared));
        objects
    }

    /// The objects of SpireAgent without a spec.
    pub fn agent(&self) -> Vec<Manifest> {
        let (spec, common) = (SpireAgentSpec::default(), CommonConfig::default());
        children::agent(&spec, &common, &self.shared, &self.settings)
    }

    /// The objects of SpireOIDCDiscoveryProvider with this issuer.
    pub fn oidc(&self, spec: &SpireOidcDiscoveryProviderSpec, issuer: &str) -> Vec<Manifest> {
        let common = CommonConfig::default();
        children::oidc(spec, &common, &self.shared, &self.settings, issuer)
    }

    /// Makes objects, or changes them.
    pub async fn apply(&self, mut objects: Vec<Manifest>) -> Result<()> {
        // Once it is there, the API server asks the webhook about some of the others.
        objects.sort_by_key(|object| object.kind().kind == "ValidatingWebhookConfiguration");
        for object in objects {
            applied(&self.client, &object).await?;
        }
        Ok(())
    }

    /// An object in the namespace of SPIRE, or one without a namespace.
    pub async fn read(&self, kind: &Kind, name: &str) -> Result<Value> {
        let live = api(&self.client, kind, &self.shared.namespace).get(name).await;
        let live = live.with_context(|| format!("read the {} {name}", kind.kind))?;
        Ok(serde_json::to_value(live)?)
    }
}

/// The pod that the controller of a workload makes: of its template, and of its claims.
pub fn pod_of(objects: &[Manifest], kind: &Kind) -> Result<Value> {
    let workload = objects.iter().find(|object| object.kind() == kind);
    let workload = workload.with_context(|| format!("no {}", kind.kind))?.body();
    let mut pod = workload["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["namespace"] = workload["metadata"]["namespace"].clone();
    pod["metadata"]["name"] =
        format!("{}-0", workload["metadata"]["name"].as_str().unwrap_or_default()).into();
    for claim in workload["spec"]["volumeClaimTemplates"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let name = &claim["metadata"]["name"];
        let volume = json!({ "name": name, "persistentVolumeClaim": { "claimName": name } });
        pod["spec"]["volumes"]
            .as_array_mut()
            .context("volumes")?
            .push(volume);
    }
    Ok(pod)
}

/// Makes an object, or changes it, with strict validation.
pub async fn applied(client: &Client, object: &Manifest) -> Result<Value> {
    let name = object.object();
    let objects = api(client, object.kind(), name.namespace().unwrap_or_default());
    let hand = PatchParams::apply(MANAGER).force().validation_strict();
    let made = objects
        .patch(name.name(), &hand, &Patch::Apply(object.body()))
        .await;
    let made = made.with_context(|| format!("apply the {} {name}", object.kind().kind))?;
    Ok(serde_json::to_value(made)?)
}

/// Objects of a kind: those in a namespace, if the kind has namespaces.
pub fn api(client: &Client, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.plural);
    match kind.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    }
}
