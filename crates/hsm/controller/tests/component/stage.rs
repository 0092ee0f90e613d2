//! What every test here stands on: a namespace, the account, a node in the shape of its discovery pod, and what it reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trustplane_api::hsm::names::REPORT_ANNOTATION;
use trustplane_api::hsm::{HsmDevice, HsmPool, HsmPoolStatus};
use trustplane_hsm_controller::{DeliveryRules, Lives, Rules as Chosen, Setup, kinds, rights, run_alone};
use trustplane_kit::controller::Options;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::Place;
use trustplane_kit::watch::Tuning;
use trustplane_process::clock::{Clock, SystemClock};
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::proxy::Proxy;
use trustplane_testkit::{
    Account, ControlPlane, DEADLINE, Instance, Rules, Sandbox, Select, eventually, wait_for, wait_for_some,
};

/// The serial number that most tests use, and the agent that it makes.
pub const SERIAL: &str = "e66";
pub const AGENT: &str = "hsm-agent-pico-e66";

/// The shipped rights, all of them in the namespace alone: nothing that the capability does needs more.
pub fn rules() -> Rules {
    let rights = process_rights("trustplane-manager").and(rights());
    Rules {
        cluster: Vec::new(),
        namespaced: [rights.wide(), rights.of(Place::Home)].concat(),
    }
}

/// What the admin chose.
pub fn setup() -> Setup {
    Setup {
        rules: Chosen {
            host_directories: vec!["/var/lib/tokens".to_owned()],
            agent_image: "agent:test".to_owned(),
            discovery_image: "discovery:test".to_owned(),
            ..Chosen::default()
        },
        lives: Lives::default(),
        delivery: DeliveryRules::default(),
    }
}

/// The capability in this process, serving the namespace that its configuration names, and perhaps more.
pub fn play(setup: Setup, options: Options) -> InProcess {
    InProcess::new(move |config| {
        let mut setup = setup.clone();
        let home = config.default_namespace.clone();
        setup.rules.namespaces.insert(home.clone());
        setup.delivery.namespaces.insert(home);
        let options = Options {
            resync: Some(Duration::from_secs(1)),
            ..options.clone()
        };
        async move {
            let ended = run_alone(config, setup, options, Tuning::default(), None).await;
            ended.map_err(|error| anyhow::anyhow!("{error}"))
        }
    })
}

/// A clock that counts how often it is read: at least once for each look.
#[derive(Debug, Clone, Default)]
pub struct Looks(Arc<AtomicUsize>);

impl Looks {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock for Looks {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, Ordering::SeqCst);
        SystemClock.now()
    }
}

pub struct Stage {
    pub sandbox: Sandbox,
    pub account: Account,
    pub setup: Setup,
    pub options: Options,
}

impl Stage {
    pub async fn new(name: &str) -> Result<Self> {
        let plane = ControlPlane::shared().await?;
        plane.install(&kinds()).await?;
        let sandbox = Sandbox::on(plane, name).await?;
        Ok(Self {
            account: sandbox.apply_rbac("hsm", &rules()).await?,
            sandbox,
            setup: setup(),
            options: Options::default(),
        })
    }

    /// Lets the capability count its looks.
    pub fn count_looks(&mut self) -> Looks {
        let looks = Looks::default();
        self.options.clock = Arc::new(looks.clone());
        looks
    }

    fn capability(&self) -> InProcess {
        play(self.setup.clone(), self.options.clone())
    }

    pub async fn start(&self, name: &str) -> Result<(Instance, Thread)> {
        let instance = self.account.instance(name).await?;
        let running = self.start_as(&instance).await?;
        Ok((instance, running))
    }

    pub async fn start_as(&self, instance: &Instance) -> Result<Thread> {
        self.capability().start(instance).await
    }

    /// Starts it with a proxy before the API server.
    pub async fn start_through(&self, name: &str, proxy: &Proxy) -> Result<Thread> {
        let instance = self.account.instance(name).await?.through(proxy);
        self.start_as(&instance).await
    }

    pub async fn kill(&self, running: Thread) -> Result<()> {
        self.capability().kill(running).await
    }

    /// A stage with one token on one node, and its agent.
    pub async fn serving(name: &str) -> Result<(Self, Instance, Thread)> {
        let stage = Self::new(name).await?;
        let (instance, running) = stage.start("first").await?;
        device(&stage.sandbox, "pico", pico()).await?;
        node(
            &stage.sandbox,
            "pico",
            "node-1",
            &report("pico", &[token(SERIAL)]),
        )
        .await?;
        stage.there::<Deployment>(AGENT).await?;
        Ok((stage, instance, running))
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        self.sandbox.api()
    }

    /// Waits until an object is there.
    pub async fn there<K>(&self, name: &str) -> Result<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Serialize
            + std::fmt::Debug,
    {
        there(&self.sandbox, name).await
    }

    /// Waits until an object is gone.
    pub async fn gone<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Serialize
            + std::fmt::Debug,
    {
        let what = format!("{} {name} to go", K::kind(&()));
        let gone = wait_for(&self.api::<K>(), name, DEADLINE, |live| live.is_none()).await;
        gone.context(what).map(drop)
    }

    /// Waits until the status of a pool is so.
    pub async fn pool(&self, name: &str, wanted: impl Fn(&HsmPoolStatus) -> bool) -> Result<HsmPoolStatus> {
        pool(&self.sandbox, name, wanted).await
    }

    /// Waits for an event on an object, with these words in it.
    pub async fn told(&self, about: &str, reason: &str, words: &str) -> Result<Event> {
        let events: Api<Event> = self.sandbox.api();
        let says = |event: &&Event| {
            let regarding = event.regarding.as_ref().and_then(|object| object.name.as_deref());
            let note = event.note.as_deref().unwrap_or_default();
            regarding == Some(about) && event.reason.as_deref() == Some(reason) && note.contains(words)
        };
        let all = Select::default();
        let found = eventually(&events, &all, DEADLINE, |found| {
            found.values().find(says).cloned()
        });
        found
            .await
            .with_context(|| format!("{reason} on {about} with {words:?}"))
    }

    /// What an agent writes into its record.
    pub async fn record(&self, agent: &str, data: Value) -> Result<()> {
        record(&self.sandbox, agent, data).await
    }
}

/// What an agent writes into its record.
pub async fn record(sandbox: &Sandbox, agent: &str, data: Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "data": data }));
    let records: Api<ConfigMap> = sandbox.api();
    records.patch(agent, &PatchParams::apply("agent"), &patch).await?;
    Ok(())
}

/// An agent has found a blank token, and gets an SO-PIN for it.
pub async fn blank(sandbox: &Sandbox, agent: &str) -> Result<Secret> {
    there::<ConfigMap>(sandbox, agent).await?;
    let state = json!({ "phase": "SoPinWanted", "since": Timestamp::now() });
    record(sandbox, agent, json!({ "state": state.to_string() })).await?;
    there(sandbox, &format!("{agent}-so-pin")).await
}

pub async fn there<K>(sandbox: &Sandbox, name: &str) -> Result<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let found = wait_for_some(&sandbox.api::<K>(), name, DEADLINE, |_| true).await;
    found.with_context(|| format!("{} {name}", K::kind(&())))
}

pub async fn pool(
    sandbox: &Sandbox,
    name: &str,
    wanted: impl Fn(&HsmPoolStatus) -> bool,
) -> Result<HsmPoolStatus> {
    let pools: Api<HsmPool> = sandbox.api();
    let found = wait_for_some(&pools, name, DEADLINE, |pool| {
        pool.status.as_ref().is_some_and(&wanted)
    });
    let found = found.await.with_context(|| format!("the status of {name}"))?;
    found.status.context("a status")
}

/// An HSMDevice that looks for tokens on the bus.
pub fn pico() -> Value {
    json!({
        "deviceType": "PicoHSM",
        "discovery": { "usb": [{ "vendorId": "2e8a", "productId": "10fd" }] },
        "pkcs11": {
            "libraryPath": "/usr/lib/opensc-pkcs11.so",
            "pinSecret": { "name": "pin", "key": "pin" },
        },
    })
}

/// An HSMDevice with static tokens.
pub fn fixed(tokens: Value) -> Value {
    json!({
        "deviceType": "Generic",
        "discovery": { "static": tokens },
        "pkcs11": {
            "libraryPath": "/usr/lib/softhsm/libsofthsm2.so",
            "pinSecret": { "name": "pin", "key": "pin" },
        },
    })
}

/// Makes or changes an HSMDevice, with strict validation.
pub async fn device(sandbox: &Sandbox, name: &str, spec: Value) -> Result<HsmDevice> {
    let wish = json!({
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice", "metadata": { "name": name }, "spec": spec,
    });
    let devices: Api<HsmDevice> = sandbox.api();
    let hand = PatchParams::apply("hand").force().validation_strict();
    let made = devices.patch(name, &hand, &Patch::Apply(&wish)).await;
    made.with_context(|| format!("make the HSMDevice {name}"))
}

/// A token as a node reports it.
pub fn token(serial: &str) -> Value {
    json!({
        "devicePath": "/dev/bus/usb/001/004", "serialNumber": serial, "available": true,
        "lastSeen": Timestamp::now(), "deviceInfo": { "vendor-id": "2e8a", "product-id": "10fd" },
    })
}

pub fn report(device: &str, tokens: &[Value]) -> Value {
    json!({
        "hsmDeviceName": device, "discoveredDevices": tokens, "lastReportTime": Timestamp::now(),
        "discoveryStatus": "completed",
    })
}

/// The name of a node that no other test has: no node is there, and the control plane removes all pods of a name that it has
/// missed for a while.
pub fn at(sandbox: &Sandbox, node: &str) -> String {
    format!("{node}.{}", sandbox.namespace())
}

/// Puts a discovery pod on a node, as the DaemonSet controller would if there were nodes, and lets it report.
pub async fn node(sandbox: &Sandbox, device: &str, node: &str, report: &Value) -> Result<String> {
    let set: DaemonSet = there(sandbox, &format!("{device}-discovery")).await?;
    let spec = set.spec.context("the DaemonSet has a spec")?;
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": set.metadata.name, "uid": set.metadata.uid,
        "controller": true,
    });
    let name = format!("{device}-discovery-{node}");
    let labels = spec.selector.match_labels.unwrap_or_default();
    let metadata = json!({ "name": name, "labels": labels, "ownerReferences": [owner] });
    pod(sandbox, metadata, node).await?;
    says(sandbox, &name, report).await?;
    Ok(name)
}

/// A pod that runs on a node.
pub async fn pod(sandbox: &Sandbox, metadata: Value, node: &str) -> Result<()> {
    // The account without which no pod is let in comes a moment after its namespace.
    there::<ServiceAccount>(sandbox, "default").await?;
    let name = metadata["name"].as_str().context("a name")?.to_owned();
    let pod = json!({
        "metadata": metadata,
        "spec": { "nodeName": at(sandbox, node), "containers": [{ "name": "main", "image": "none" }] },
    });
    let pods: Api<Pod> = sandbox.api();
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
        .await
        .with_context(|| format!("create the pod {name}"))?;
    phase(sandbox, &name, "Running", "").await
}

pub async fn phase(sandbox: &Sandbox, pod: &str, phase: &str, reason: &str) -> Result<()> {
    let status =
        Patch::Merge(json!({ "status": { "phase": phase, "reason": reason, "podIP": "127.0.0.9" } }));
    let pods: Api<Pod> = sandbox.api();
    pods.patch_status(pod, &PatchParams::default(), &status).await?;
    Ok(())
}

/// A discovery pod reports.
pub async fn says(sandbox: &Sandbox, pod: &str, report: &Value) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": { REPORT_ANNOTATION: report.to_string() } } });
    let pods: Api<Pod> = sandbox.api();
    pods.patch(pod, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

pub async fn remove_device(sandbox: &Sandbox, name: &str) -> Result<()> {
    let devices: Api<HsmDevice> = sandbox.api();
    devices.delete(name, &DeleteParams::default()).await?;
    wait_for(&devices, name, DEADLINE, |live| live.is_none()).await?;
    Ok(())
}

/// Another namespace in which the account has the same rights.
pub async fn second(stage: &Stage, name: &str) -> Result<Sandbox> {
    let sandbox = Sandbox::on(stage.sandbox.plane().clone(), name).await?;
    let rules: Vec<PolicyRule> = rights().of(Place::Served);
    let role = Role {
        metadata: kube::core::ObjectMeta {
            name: Some("hsm".into()),
            ..Default::default()
        },
        rules: Some(rules),
    };
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "hsm" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hsm" },
        "subjects": [{
            "kind": "ServiceAccount", "name": "hsm", "namespace": stage.sandbox.namespace(),
        }],
    }))?;
    sandbox
        .api::<Role>()
        .create(&PostParams::default(), &role)
        .await?;
    sandbox
        .api::<RoleBinding>()
        .create(&PostParams::default(), &binding)
        .await?;
    Ok(sandbox)
}

/// A part of a Secret.
pub fn entry(secret: &Secret, key: &str) -> Vec<u8> {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    data.map(|value| value.0.clone()).unwrap_or_default()
}
