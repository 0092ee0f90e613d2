//! What every test here stands on: a namespace with an HSMDevice, its tokens with their agents, and the capability.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use trustplane_api::hsm::v1::WriteSecretRequest;
use trustplane_api::hsm::{HsmDevice, HsmSecret, HsmSecretStatus};
use trustplane_hsm_controller::{
    Agents, DeliveryRules, Lives, Operator, Rules as Chosen, Setup, kinds, rights, run_alone,
};
use trustplane_kit::controller::Options;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::Place;
use trustplane_kit::watch::Tuning;
use trustplane_plan::ObjectRef;
use trustplane_process::clock::{Clock, SystemClock};
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::proxy::Proxy;
use trustplane_testkit::{
    Account, ControlPlane, DEADLINE, Instance, Rules, Sandbox, Select, eventually, until, wait_for,
    wait_for_some,
};

use crate::token::{PATIENCE, Token};

/// The HSMDevice of these tests.
pub const DEVICE: &str = "soft";
/// The name of the installation to `parentRef`.
pub const OPERATOR: &str = "hsm-secrets-operator-controller-manager";

/// The shipped rights, all of them in the namespace alone: nothing that the capability does needs more.
pub fn rules() -> Rules {
    let rights = process_rights("trustplane-manager").and(rights());
    Rules {
        cluster: Vec::new(),
        namespaced: [rights.wide(), rights.of(Place::Home)].concat(),
    }
}

/// What the admin chose, for an installation in this namespace.
pub fn setup(home: &str) -> Setup {
    Setup {
        rules: Chosen {
            namespaces: [home.to_owned()].into(),
            agent_image: "agent:test".to_owned(),
            discovery_image: "discovery:test".to_owned(),
            ..Chosen::default()
        },
        lives: Lives::default(),
        delivery: DeliveryRules {
            namespaces: [home.to_owned()].into(),
            operator: Operator {
                names: [OPERATOR.to_owned()].into(),
                namespace: home.to_owned(),
                requires_ref: false,
            },
            patience: PATIENCE,
            ..DeliveryRules::default()
        },
    }
}

/// The capability in this process. It hands out the means to call agents.
pub fn capability(setup: Setup, options: Options, callers: Callers) -> InProcess {
    InProcess::new(move |config| {
        let run = run_alone(
            config,
            setup.clone(),
            options.clone(),
            Tuning::default(),
            Some(callers.clone()),
        );
        async move { run.await.map_err(|error| anyhow::anyhow!("{error}")) }
    })
}

/// Where the capability puts the means to call agents when it starts.
pub type Callers = watch::Sender<Option<Arc<Agents>>>;

/// A clock that counts how often it is read: at least once for each look.
#[derive(Debug, Clone, Default)]
pub struct Looks(Arc<AtomicUsize>);

impl Looks {
    /// Waits until so many looks were begun, at anything.
    pub async fn more(&self, times: usize) -> Result<()> {
        let before = self.0.load(Ordering::SeqCst);
        until("everything to be looked at", DEADLINE, || async {
            Ok((self.0.load(Ordering::SeqCst) > before + times).then_some(()))
        })
        .await
    }
}

impl Clock for Looks {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, Ordering::SeqCst);
        SystemClock.now()
    }
}

/// A namespace, the account, and tokens with their agents.
pub struct Stage {
    pub sandbox: Sandbox,
    pub account: Account,
    pub setup: Setup,
    pub options: Options,
    pub callers: Callers,
    pub tokens: Vec<Token>,
}

impl Stage {
    /// A stage whose HSMDevice has these tokens, with agents that serve. The capability does not run.
    pub async fn new(name: &str, tokens: Vec<Token>) -> Result<Self> {
        let plane = ControlPlane::shared().await?;
        plane.install(&kinds()).await?;
        let sandbox = Sandbox::on(plane, name).await?;
        let account = sandbox.apply_rbac("hsm", &rules()).await?;
        let mut stage = Self {
            setup: setup(sandbox.namespace()),
            account,
            sandbox,
            // Each HSMSecret is looked at every second, whether or not anything happens.
            options: Options {
                resync: Some(Duration::from_secs(1)),
                ..Options::default()
            },
            callers: Callers::new(None),
            tokens,
        };
        let (_, running) = stage.start("builder").await?;
        prepare(&stage.sandbox, &mut stage.tokens).await?;
        stage.kill(running).await?;
        Ok(stage)
    }

    /// A stage with one token, which has the secret `shop/db`, and with the capability running.
    pub async fn with_token(name: &str) -> Result<(Self, Instance, Thread)> {
        let stage = Self::new(name, vec![Token::new("a").await?]).await?;
        stage.token().write("shop/db", &PAIRS)?;
        let (instance, running) = stage.start("first").await?;
        Ok((stage, instance, running))
    }

    /// Its only token.
    pub fn token(&self) -> &Token {
        &self.tokens[0]
    }

    pub fn token_mut(&mut self) -> &mut Token {
        &mut self.tokens[0]
    }

    /// Lets the capability count its looks.
    pub fn count_looks(&mut self) -> Looks {
        let looks = Looks::default();
        self.options.clock = Arc::new(looks.clone());
        looks
    }

    pub async fn start(&self, name: &str) -> Result<(Instance, Thread)> {
        let instance = self.account.instance(name).await?;
        let running = self.start_as(&instance).await?;
        Ok((instance, running))
    }

    pub async fn start_through(&self, name: &str, proxy: &Proxy) -> Result<(Instance, Thread)> {
        let instance = self.account.instance(name).await?.through(proxy);
        let running = self.start_as(&instance).await?;
        Ok((instance, running))
    }

    async fn start_as(&self, instance: &Instance) -> Result<Thread> {
        self.capability().start(instance).await
    }

    /// Starts the capability, and gives the means to call agents that it uses itself.
    pub async fn start_with_agents(&self, name: &str) -> Result<(Instance, Thread, Arc<Agents>)> {
        let mut callers = self.callers.subscribe();
        let (instance, running) = self.start(name).await?;
        let told = tokio::time::timeout(DEADLINE, callers.changed()).await;
        told.context("the capability did not start")??;
        let agents = callers.borrow().clone().context("the means to call agents")?;
        Ok((instance, running, agents))
    }

    pub async fn kill(&self, running: Thread) -> Result<()> {
        self.capability().kill(running).await
    }

    fn capability(&self) -> InProcess {
        capability(self.setup.clone(), self.options.clone(), self.callers.clone())
    }

    /// Makes or changes an HSMSecret, with strict validation.
    pub async fn apply(&self, name: &str, spec: Value) -> Result<HsmSecret> {
        apply(&self.sandbox, name, spec).await
    }

    /// Waits until the status of an HSMSecret is so.
    pub async fn status(
        &self,
        name: &str,
        wanted: impl Fn(&HsmSecretStatus) -> bool,
    ) -> Result<HsmSecretStatus> {
        status(&self.sandbox, name, wanted).await
    }

    /// Waits until an HSMSecret tells of this problem.
    pub async fn problem(&self, name: &str, reason: &str) -> Result<HsmSecretStatus> {
        problem(&self.sandbox, name, reason).await
    }

    /// Waits until an HSMSecret is in sync with this content.
    pub async fn in_sync(&self, name: &str, pairs: &[(&str, &str)]) -> Result<HsmSecretStatus> {
        in_sync(&self.sandbox, name, pairs).await
    }

    pub fn secrets(&self) -> Api<Secret> {
        self.sandbox.api()
    }

    /// Waits until a Secret is so.
    pub async fn secret(&self, name: &str, wanted: impl Fn(&Secret) -> bool) -> Result<Secret> {
        let secrets = self.secrets();
        let found = wait_for_some(&secrets, name, DEADLINE, wanted);
        found.await.with_context(|| format!("Secret {name}"))
    }

    pub async fn delete(&self, name: &str) -> Result<()> {
        let all: Api<HsmSecret> = self.sandbox.api();
        all.delete(name, &DeleteParams::default()).await?;
        let gone = wait_for(&all, name, DEADLINE, |live| live.is_none()).await;
        gone.with_context(|| format!("HSMSecret {name} to go")).map(drop)
    }

    /// Waits for an event on an HSMSecret, with these words in it.
    pub async fn told(&self, about: &str, reason: &str, words: &str) -> Result<Event> {
        told(&self.sandbox, about, reason, words).await
    }

    /// Waits until an event on an HSMSecret with this reason was told again, and was counted.
    pub async fn told_again(&self, about: &str, reason: &str) -> Result<()> {
        let events: Api<Event> = self.sandbox.api();
        let is_series = |event: &Event| {
            let regarding = event.regarding.as_ref().and_then(|object| object.name.as_deref());
            let counted = event.series.as_ref().is_some_and(|series| series.count > 1);
            regarding == Some(about) && event.reason.as_deref() == Some(reason) && counted
        };
        eventually(&events, &Select::default(), DEADLINE, |found| {
            found.values().any(is_series).then_some(())
        })
        .await
    }

    /// Another namespace in which the account has the rights on HSMSecrets and their Secrets.
    pub async fn tenant(&mut self, name: &str) -> Result<Sandbox> {
        let sandbox = Sandbox::on(self.sandbox.plane().clone(), name).await?;
        let role: Role = serde_json::from_value(json!({
            "metadata": { "name": "hsm" }, "rules": rights().of(Place::Tenants),
        }))?;
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": { "name": "hsm" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hsm" },
            "subjects": [{
                "kind": "ServiceAccount", "name": "hsm", "namespace": self.sandbox.namespace(),
            }],
        }))?;
        let make = PostParams::default();
        sandbox.api::<Role>().create(&make, &role).await?;
        sandbox.api::<RoleBinding>().create(&make, &binding).await?;
        let served = &mut self.setup.delivery.namespaces;
        served.insert(sandbox.namespace().to_owned());
        Ok(sandbox)
    }
}

/// What most tests have at `shop/db`.
pub const PAIRS: [(&str, &str); 2] = [("password", "s3cr3t"), ("username", "admin")];

/// Has the capability, which runs, make agents for the tokens, and starts them.
pub async fn prepare(sandbox: &Sandbox, tokens: &mut [Token]) -> Result<()> {
    let fixed: Vec<Value> = tokens
        .iter()
        .map(|token| json!({ "name": token.name(), "tokenLabel": token.name() }))
        .collect();
    device(
        sandbox,
        json!({
            "deviceType": "Generic",
            "discovery": { "static": fixed },
            "pkcs11": {
                "libraryPath": crate::token::SOFTHSM,
                "pinSecret": { "name": "pin", "key": "pin" },
            },
        }),
    )
    .await?;
    for token in tokens {
        let agent = token.agent_name(DEVICE);
        let (secrets, name) = (sandbox.api::<Secret>(), format!("{agent}-tls"));
        let credentials = wait_for_some(&secrets, &name, DEADLINE, |live| {
            live.data
                .as_ref()
                .is_some_and(|data| data.contains_key("tls.key"))
        });
        let credentials = credentials
            .await
            .with_context(|| format!("credentials of {agent}"))?;
        let pods: Api<Pod> = sandbox.api();
        let own = Select::default().labels(&format!("app={agent}"));
        let pod = eventually(&pods, &own, DEADLINE, |found| found.keys().next().cloned()).await;
        let pod = pod.with_context(|| format!("the pod of {agent}"))?;
        token.start(&credentials)?;
        let status = json!({ "status": { "phase": "Running", "podIP": token.address() } });
        pods.patch_status(&pod, &PatchParams::default(), &Patch::Merge(&status))
            .await?;
    }
    Ok(())
}

/// Writes secrets through an agent, as soon as the capability has seen its pod.
pub async fn write_all(
    agents: &Agents,
    agent: ObjectRef,
    secrets: impl Iterator<Item = WriteSecretRequest>,
) -> Result<()> {
    let client = until("an agent", DEADLINE, || async {
        Ok(agents.connect(&agent).await.ok())
    });
    let mut client = client.await.with_context(|| agent.to_string())?;
    for secret in secrets {
        client.write_secret(secret).await?;
    }
    Ok(())
}

/// Makes or changes the HSMDevice, with strict validation.
pub async fn device(sandbox: &Sandbox, spec: Value) -> Result<()> {
    let wish = json!({
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice", "metadata": { "name": DEVICE }, "spec": spec,
    });
    let devices: Api<HsmDevice> = sandbox.api();
    let hand = PatchParams::apply("hand").force().validation_strict();
    devices.patch(DEVICE, &hand, &Patch::Apply(&wish)).await?;
    Ok(())
}

/// Makes or changes an HSMSecret, with strict validation.
pub async fn apply(sandbox: &Sandbox, name: &str, spec: Value) -> Result<HsmSecret> {
    let wish = json!({
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMSecret", "metadata": { "name": name }, "spec": spec,
    });
    let all: Api<HsmSecret> = sandbox.api();
    let hand = PatchParams::apply("hand").force().validation_strict();
    let made = all.patch(name, &hand, &Patch::Apply(&wish)).await;
    made.with_context(|| format!("make the HSMSecret {name}"))
}

/// Waits until the status of an HSMSecret is so.
pub async fn status(
    sandbox: &Sandbox,
    name: &str,
    wanted: impl Fn(&HsmSecretStatus) -> bool,
) -> Result<HsmSecretStatus> {
    let all: Api<HsmSecret> = sandbox.api();
    let found = wait_for_some(&all, name, DEADLINE, |live| {
        let current = live.metadata.generation;
        let told = |status: &HsmSecretStatus| {
            let seen = status
                .conditions
                .iter()
                .map(|condition| condition.observed_generation)
                .max();
            seen == current && wanted(status)
        };
        live.status.as_ref().is_some_and(told)
    });
    let found = found.await.with_context(|| format!("the status of {name}"))?;
    found.status.context("a status")
}

/// Waits until an HSMSecret tells of this problem.
pub async fn problem(sandbox: &Sandbox, name: &str, reason: &str) -> Result<HsmSecretStatus> {
    let found = status(sandbox, name, |status| {
        let synced = status.conditions.get("Synced");
        synced.is_some_and(|synced| synced.status == "False" && synced.reason == reason)
    });
    found.await.with_context(|| format!("{name} to tell of {reason}"))
}

/// Waits until an HSMSecret is in sync with this content, and so is its Secret.
pub async fn in_sync(sandbox: &Sandbox, name: &str, pairs: &[(&str, &str)]) -> Result<HsmSecretStatus> {
    let wanted = checksum(pairs);
    let found = status(sandbox, name, |status| {
        status.sync_status.as_deref() == Some("InSync") && status.secret_checksum.as_ref() == Some(&wanted)
    });
    let found = found.await?;
    let secret = found
        .secret_ref
        .as_ref()
        .and_then(|of| of.name.clone())
        .context("secretRef")?;
    let secret = sandbox.api::<Secret>().get(&secret).await?;
    assert_eq!(content(&secret), owned(pairs), "{}", secret.name_any());
    Ok(found)
}

/// The checksum of the original: contract 3.3.
pub fn checksum(pairs: &[(&str, &str)]) -> String {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable();
    let text: String = sorted.iter().flat_map(|(key, value)| [*key, *value]).collect();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// What a Secret holds.
pub fn content(secret: &Secret) -> Vec<(String, String)> {
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| (key.clone(), String::from_utf8_lossy(&value.0).into_owned()))
        .collect()
}

/// Pairs in the order of their keys.
pub fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut all: Vec<_> = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    all.sort_unstable();
    all
}

/// Waits for an event on an object, with these words in it.
pub async fn told(sandbox: &Sandbox, about: &str, reason: &str, words: &str) -> Result<Event> {
    let events: Api<Event> = sandbox.api();
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
