//! What every test here stands on: a borrowed control plane with all that the chart makes, and managers behind a service.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Parser;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use trustplane_api::identity::names::{INHERITED, SINGLETON};
use trustplane_api::identity::{
    ClusterFederatedTrustDomain, ClusterSpiffeId, ClusterStaticEntry, SPIFFE_CSI_DRIVER, SPIRE_AGENT,
    SPIRE_OIDC, SPIRE_SERVER, SpiffeCsiDriver, SpireAgent, SpireOidcDiscoveryProvider, SpireServer, ZTWIM,
    ZeroTrustWorkloadIdentityManager,
};
use trustplane_identity_controller::{IdentityArgs, capability, roles};
use trustplane_kit::manager::{Capability, process_rights};
use trustplane_kit::rights::Place;
use trustplane_plan::{Kind, Scope};
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{
    Account, ControlPlane, DEADLINE, INSTALLER, Instance, Leftovers, Process, Program, Rules, Sandbox, until,
    wait_for, wait_for_some,
};

use crate::hand::{Ask, Hand};
use crate::service::Service;

/// The name that the chart would give it.
pub const MANAGER: &str = "tp-trustplane-manager";
/// The five kinds that people write.
pub const KINDS: [Kind; 5] = [ZTWIM, SPIRE_SERVER, SPIRE_AGENT, SPIFFE_CSI_DRIVER, SPIRE_OIDC];

pub const QUICKSTART: &str = include_str!("../../../../docs/guide/examples/identity/quickstart.yaml");

/// The only arguments of the capability are its defaults.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    identity: IdentityArgs,
}

/// The capability as it is shipped.
pub fn shipped() -> Capability {
    capability(Arguments::parse_from(["manager"]).identity)
}

/// What a borrower of the control plane leaves besides its namespace.
fn leftovers() -> Leftovers {
    Leftovers::default()
        .of::<SpireServer>()
        .of::<SpireAgent>()
        .of::<SpiffeCsiDriver>()
        .of::<SpireOidcDiscoveryProvider>()
        .of::<ZeroTrustWorkloadIdentityManager>()
        .of::<ClusterSpiffeId>()
        .of::<ClusterFederatedTrustDomain>()
        .of::<ClusterStaticEntry>()
        .of::<CSIDriver>()
}

/// One replica of the manager.
pub struct Manager {
    pub process: Process,
    /// Where its webhooks are.
    pub address: SocketAddr,
}

pub struct Stage {
    pub sandbox: Sandbox,
    pub account: Account,
    pub service: Service,
    /// A person who may do anything.
    pub hand: Hand,
    begun: Mark,
}

impl Stage {
    /// A control plane with all that the chart makes but the webhook configurations.
    pub async fn new(name: &str) -> Result<Self> {
        let plane = ControlPlane::borrowed(&leftovers()).await?;
        let capability = shipped();
        plane.install(&(capability.crds)()).await?;
        let begun = Mark::now(&plane).await?;
        let sandbox = Sandbox::on(plane, name).await?;
        let shipped: Api<ClusterRole> = Api::all(sandbox.client());
        for role in roles() {
            let wish = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": role.name }, "rules": role.rules,
            });
            let installer = PatchParams::apply(INSTALLER).force();
            shipped.patch(&role.name, &installer, &Patch::Apply(wish)).await?;
        }
        let rights = process_rights(MANAGER).and(capability.rights_in(MANAGER));
        let rules = Rules {
            cluster: rights.of(Place::Cluster),
            namespaced: [rights.of(Place::Home), rights.of(Place::Served)].concat(),
        };
        let account = sandbox.apply_rbac(MANAGER, &rules).await?;
        sandbox
            .grant_in("default", &account, &rights.of(Place::Default))
            .await?;
        Ok(Self {
            hand: Hand(sandbox.client()),
            service: Service::start().await?,
            account,
            begun,
            sandbox,
        })
    }

    /// The same with a manager and its webhooks in force.
    pub async fn with_manager(name: &str) -> Result<(Self, Manager)> {
        let stage = Self::new(name).await?;
        let manager = stage.start(&stage.account.instance("first").await?).await?;
        stage.service.forward_to(manager.address);
        stage.install_webhooks().await?;
        Ok((stage, manager))
    }

    /// Starts a replica, and returns when its webhooks answer.
    pub async fn start(&self, instance: &Instance) -> Result<Manager> {
        let program = Program::new(env!("CARGO_BIN_EXE_trustplane-manager"))
            .arg("--capabilities=identity")
            .arg(format!("--name={MANAGER}"))
            .arg("--admin-bind-address=127.0.0.1:0")
            .arg("--webhook-bind-address=127.0.0.1:0")
            .arg("--log-format=json")
            .arg("--log=info");
        let process = program.start(instance)?;
        let served = until("the webhooks to be served", DEADLINE, || async {
            let log = process.log()?;
            let mut lines = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let served = lines.find(|line| line["message"] == "serving webhooks");
            Ok(served.and_then(|line| line["address"].as_str()?.parse().ok()))
        });
        Ok(Manager {
            address: served.await.with_context(|| process.log().unwrap_or_default())?,
            process,
        })
    }

    /// A person with the shipped role for editors and no other right.
    pub async fn editor(&self) -> Result<Hand> {
        const NAME: &str = "edith";
        let binding = json!({
            "metadata": { "name": NAME },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "trustplane-identity-editor",
            },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": NAME }],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(self.sandbox.client());
        let binding = serde_json::from_value(binding)?;
        bindings.create(&PostParams::default(), &binding).await?;
        let hand = self.hand_of(NAME)?;
        let reviews: Api<SelfSubjectAccessReview> = Api::all(hand.0.clone());
        let review = serde_json::from_value(json!({ "spec": { "resourceAttributes": {
            "group": ZTWIM.group, "resource": ZTWIM.plural, "verb": "create",
        } } }))?;
        until("the role to be granted", DEADLINE, || async {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            Ok(answer.status.is_some_and(|status| status.allowed).then_some(()))
        })
        .await?;
        Ok(hand)
    }

    /// The manager's own hand, which admission does not ask about: what it writes is stored as it is.
    pub fn past_admission(&self) -> Result<Hand> {
        self.hand_of(&self.account.user())
    }

    fn hand_of(&self, user: &str) -> Result<Hand> {
        let mut config = self.sandbox.plane().config().clone();
        config.auth_info.impersonate = Some(user.to_owned());
        Ok(Hand(Client::try_from(config)?))
    }

    /// Makes the objects of the quickstart, one after the other.
    pub async fn apply_quickstart(&self) -> Result<()> {
        for (kind, spec) in documents(QUICKSTART)? {
            self.hand.ask(&Ask::apply(&kind, spec)).await?.passed()?;
        }
        Ok(())
    }

    /// Objects of a kind, for the hand of the test: those in the namespace of SPIRE, if the kind has namespaces.
    pub fn api(&self, kind: &Kind) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.plural);
        match kind.scope {
            Scope::Namespaced => {
                Api::namespaced_with(self.sandbox.client(), self.sandbox.namespace(), &resource)
            }
            Scope::Cluster => Api::all_with(self.sandbox.client(), &resource),
        }
    }

    /// Reads one of the five objects, which must exist.
    pub async fn read(&self, kind: &Kind) -> Result<Value> {
        self.hand
            .read(kind)
            .await?
            .with_context(|| format!("there is no {}", kind.kind))
    }

    /// Waits until an object is as it should be.
    pub async fn until(&self, kind: &Kind, name: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let api = self.api(kind);
        let live = wait_for_some(&api, name, DEADLINE, |live| {
            serde_json::to_value(live).is_ok_and(|live| is_so(&live))
        });
        let live = live.await.with_context(|| format!("{} {name}", kind.kind))?;
        Ok(serde_json::to_value(live)?)
    }

    /// Waits until one of the five objects has this value, and records it as inherited.
    pub async fn follows(&self, kind: &Kind, field: &str, value: &str) -> Result<Value> {
        let is_so = |live: &Value| live["spec"][field] == value && record(live)[field] == value;
        let live = self.until(kind, SINGLETON, is_so);
        live.await.with_context(|| format!("{field} to become {value}"))
    }

    /// Deletes one of the five objects, and waits until it is gone.
    pub async fn remove(&self, kind: &Kind) -> Result<()> {
        self.hand.ask(&Ask::delete(kind, "Background")).await?;
        self.gone(kind).await
    }

    /// Waits until one of the five objects is gone.
    pub async fn gone(&self, kind: &Kind) -> Result<()> {
        let gone = wait_for(&self.api(kind), SINGLETON, DEADLINE, |live| live.is_none()).await;
        gone.with_context(|| format!("the {} to go", kind.kind))?;
        Ok(())
    }

    /// Waits until one of the five objects says this of its present spec; gives the message.
    pub async fn says(&self, kind: &Kind, type_: &str, status: &str, reason: &str) -> Result<String> {
        let told = self.until(kind, SINGLETON, |live| {
            condition(live, type_).is_some_and(|told| {
                told["status"] == status
                    && told["reason"] == reason
                    && told["observedGeneration"] == live["metadata"]["generation"]
            })
        });
        let told = told
            .await
            .with_context(|| format!("{type_} to be {status}, {reason}"))?;
        let told = condition(&told, type_).context("a condition")?;
        Ok(told["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Fails the test if a manager has asked for anything without a right to it.
    pub async fn assert_nothing_denied(&self) -> Result<()> {
        let asked = self.begun.since().await?;
        asked.by_account(&self.account).assert_nothing_denied();
        Ok(())
    }
}

/// The objects of a manifest, in order: kind and spec.
pub fn documents(manifest: &str) -> Result<Vec<(Kind, Value)>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest)?;
    let known = objects.into_iter().map(|object| {
        let kind = KINDS.into_iter().find(|kind| object["kind"] == *kind.kind);
        Ok((kind.context("a kind of ours")?, object["spec"].clone()))
    });
    known.collect()
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)
}

/// Whether an object has this condition about its present spec.
pub fn is_told(object: &Value, type_: &str, status: &str) -> bool {
    let is_so = |told: &Value| {
        told["status"] == status && told["observedGeneration"] == object["metadata"]["generation"]
    };
    condition(object, type_).is_some_and(is_so)
}

/// What an operand has inherited, as its annotation says.
pub fn record(object: &Value) -> Value {
    let record = object["metadata"]["annotations"][INHERITED].as_str();
    record
        .and_then(|record| serde_json::from_str(record).ok())
        .unwrap_or_default()
}
