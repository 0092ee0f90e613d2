//! A control plane with the kinds, the objects of the quickstart, and an account with the shipped rights.

use anyhow::{Context, Result};
use clap::Parser;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use trustplane_api::identity::names::SINGLETON;
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM};
use trustplane_identity_controller::{IdentityArgs, Pace, Settings, capability, rights, roles, run_alone};
use trustplane_identity_core::examples;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::Place;
use trustplane_plan::Kind;
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::{Account, ControlPlane, Instance, Rules, Sandbox};

/// The kinds that people write.
pub const KINDS: [Kind; 5] = [ZTWIM, SPIRE_SERVER, SPIRE_AGENT, SPIFFE_CSI_DRIVER, SPIRE_OIDC];

const QUICKSTART: &str = include_str!("../../../../../docs/guide/examples/identity/quickstart.yaml");
/// Names the control plane that `cargo xtask bench` has started.
const VARIABLE: &str = "TRUSTPLANE_TEST_CLUSTER";

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    identity: IdentityArgs,
}

pub struct Stage {
    pub sandbox: Sandbox,
    account: Account,
    capability: InProcess,
}

/// The capability while it runs.
pub struct Running {
    pub instance: Instance,
    thread: Thread,
}

impl Stage {
    /// The capability does not run yet.
    pub async fn open() -> Result<Self> {
        let plane = match std::env::var_os(VARIABLE) {
            Some(_) => ControlPlane::shared().await?,
            None => ControlPlane::own().await?,
        };
        let capability = capability(Arguments::parse_from(["manager"]).identity);
        plane.install(&(capability.crds)()).await?;
        let sandbox = Sandbox::on(plane, "bench").await?;
        for role in roles() {
            let wish = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": role.name }, "rules": role.rules,
            });
            let shipped: Api<ClusterRole> = Api::all(sandbox.client());
            shipped.patch(&role.name, &hand(), &Patch::Apply(wish)).await?;
        }
        let rights = process_rights("trustplane-manager").and(rights());
        let rules = Rules {
            cluster: rights.of(Place::Cluster),
            namespaced: [rights.of(Place::Home), rights.of(Place::Served)].concat(),
        };
        let account = sandbox.apply_rbac("identity", &rules).await?;
        sandbox
            .grant_in("default", &account, &rights.of(Place::Default))
            .await?;
        let settings = Settings {
            namespaces: vec![sandbox.namespace().to_owned()],
            ..examples::settings()
        };
        let capability = InProcess::new(move |config| {
            let ended = run_alone(config, settings.clone(), Pace::default());
            async move { ended.await.map_err(|error| anyhow::anyhow!("{error}")) }
        });
        let objects: Vec<Value> = serde_saphyr::from_multiple(QUICKSTART)?;
        for object in objects {
            let kind = KINDS.into_iter().find(|kind| object["kind"] == *kind.kind);
            let api = api(&sandbox.client(), &kind.context("a kind of ours")?);
            api.patch(SINGLETON, &hand(), &Patch::Apply(object)).await?;
        }
        Ok(Self {
            sandbox,
            account,
            capability,
        })
    }

    /// One process with the rights of the capability.
    pub async fn instance(&self, name: &str) -> Result<Instance> {
        self.account.instance(name).await
    }

    /// Starts the capability.
    pub async fn start(&self, name: &str) -> Result<Running> {
        let instance = self.instance(name).await?;
        let thread = self.capability.start(&instance).await?;
        Ok(Running { instance, thread })
    }

    /// Ends it.
    pub async fn stop(&self, running: Running) -> Result<()> {
        self.capability.kill(running.thread).await
    }

    /// Changes the name of the cluster where it is said.
    pub async fn rename(&self, name: &str) -> Result<()> {
        let patch = json!({ "spec": { "clusterName": name } });
        let ztwim = api(&self.sandbox.client(), &ZTWIM);
        let changed = ztwim
            .patch(SINGLETON, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        changed.context("change the name of the cluster")?;
        Ok(())
    }
}

fn hand() -> PatchParams {
    PatchParams::apply("hand").force()
}

/// The objects of a kind without namespaces.
pub fn api(client: &Client, kind: &Kind) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    Api::all_with(
        client.clone(),
        &ApiResource::from_gvk_with_plural(&gvk, &kind.plural),
    )
}
