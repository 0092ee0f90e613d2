//! What every test here stands on: a namespace, the account, a provider in memory, and pods that ask.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use trustplane_kit::controller::Options;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::Place;
use trustplane_kit::watch::Tuning;
use trustplane_process::clock::{Clock, SystemClock};
use trustplane_sync_controller::{PolicyMode, Setup, kinds, rights, run_alone};
use trustplane_sync_core::situation::Settings;
use trustplane_sync_providers::file::Files;
use trustplane_sync_providers::{Registry, mock::Mock};
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::proxy::Proxy;
use trustplane_testkit::{
    Account, ControlPlane, DEADLINE, Instance, Rules, Sandbox, Select, eventually, until, wait_for,
    wait_for_some,
};

/// The value that tests look for.
pub const VALUE: &str = r#"{"user":"u","password":"p"}"#;

pub fn rules() -> Rules {
    let rights = process_rights("trustplane-manager").and(rights());
    Rules {
        cluster: rights.wide(),
        namespaced: rights.of(Place::Home),
    }
}

/// The capability in this process, serving the namespace that its configuration names.
pub fn alone(mock: &Mock) -> InProcess {
    play(setup(PolicyMode::Off, mock, None), Options::default(), false)
}

fn setup(policy: PolicyMode, mock: &Mock, files: Option<Arc<Files>>) -> Setup {
    Setup {
        policy,
        files,
        pod_selector: None,
        settings: Settings {
            fresh_for: Duration::from_secs(2),
            ..Settings::default()
        },
        namespaces: None,
        registry: Registry::default().with(mock.clone()),
    }
}

fn play(setup: Setup, options: Options, everywhere: bool) -> InProcess {
    InProcess::new(move |config| {
        let setup = Setup {
            namespaces: (!everywhere).then(|| vec![config.default_namespace.clone()]),
            ..setup.clone()
        };
        let options = Options {
            resync: Some(Duration::from_secs(1)),
            ..options.clone()
        };
        async move {
            let ended = run_alone(config, setup, options, Tuning::default()).await;
            ended.map_err(|error| anyhow::anyhow!("{error}"))
        }
    })
}

pub struct Stage {
    pub sandbox: Sandbox,
    pub account: Account,
    pub mock: Mock,
    policy: PolicyMode,
    pub looks: Looks,
    /// How many Secrets are worked on at once.
    pub workers: usize,
    /// Whether all namespaces are served: only on a control plane of its own.
    pub everywhere: bool,
    /// Where stores of files may read.
    pub files: TempDir,
}

/// A clock that counts how often it is read: once for each look at a Secret.
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

impl Stage {
    pub async fn new(name: &str) -> Result<Self> {
        Self::on(ControlPlane::shared().await?, name, PolicyMode::Off).await
    }

    /// A stage with the kinds of the capability.
    pub async fn on(plane: Arc<ControlPlane>, name: &str, policy: PolicyMode) -> Result<Self> {
        Self::with(plane, name, policy, &rules()).await
    }

    /// A stage whose account, `sync`, has these rights.
    pub async fn with(
        plane: Arc<ControlPlane>,
        name: &str,
        policy: PolicyMode,
        rules: &Rules,
    ) -> Result<Self> {
        plane.install(&kinds()).await?;
        let sandbox = Sandbox::on(plane, name).await?;
        let account = sandbox.apply_rbac("sync", rules).await?;
        Ok(Self {
            sandbox,
            account,
            mock: Mock::default(),
            policy,
            looks: Looks::default(),
            workers: Options::default().workers,
            everywhere: false,
            files: tempfile::tempdir()?,
        })
    }

    pub async fn start(&self, name: &str) -> Result<(Instance, Thread)> {
        let instance = self.account.instance(name).await?;
        let running = self.capability()?.start(&instance).await?;
        Ok((instance, running))
    }

    fn capability(&self) -> Result<InProcess> {
        let files = Arc::new(Files::beneath(self.files.path())?);
        let options = Options {
            workers: self.workers,
            clock: Arc::new(self.looks.clone()),
            ..Options::default()
        };
        let setup = setup(self.policy, &self.mock, Some(files));
        Ok(play(setup, options, self.everywhere))
    }

    /// Starts it with a proxy before the API server.
    pub async fn start_through(&self, name: &str, proxy: &Proxy) -> Result<(Instance, Thread)> {
        let instance = self.account.instance(name).await?.through(proxy);
        let running = self.capability()?.start(&instance).await?;
        Ok((instance, running))
    }

    /// A stage with one pod that has its Secret.
    pub async fn synced(name: &str) -> Result<(Self, Instance, Thread)> {
        let stage = Self::new(name).await?;
        stage.mock.set("a", VALUE);
        let (instance, running) = stage.start("first").await?;
        stage.pod("web", "a", "db", "").await?;
        stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
        Ok((stage, instance, running))
    }

    pub fn secrets(&self) -> Api<Secret> {
        self.sandbox.api()
    }

    pub fn pods(&self) -> Api<Pod> {
        self.sandbox.api()
    }

    /// A pod that asks for one secret.
    pub async fn pod(&self, name: &str, path: &str, secret: &str, more: &str) -> Result<Pod> {
        pod(&self.sandbox, name, path, secret, more).await
    }

    pub async fn remove(&self, pod: &str) -> Result<()> {
        self.pods()
            .delete(pod, &DeleteParams::default().grace_period(0))
            .await?;
        wait_for(&self.pods(), pod, DEADLINE, |live| live.is_none()).await?;
        Ok(())
    }

    pub async fn patch(&self, pod: &str, metadata: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        self.pods().patch(pod, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until the provider has been asked for `a` more often than that.
    pub async fn asked_more_than(&self, times: usize) -> Result<()> {
        until("the provider to be asked", DEADLINE, || {
            ready(Ok((self.mock.asked_for("a") > times).then_some(())))
        })
        .await
    }

    pub async fn holds(&self, secret: &str, data: &[(&str, &str)]) -> Result<Secret> {
        holds(&self.sandbox, secret, data).await
    }

    /// Whether there is an event on a pod.
    pub async fn has_told(&self, pod: &str, reason: &str) -> Result<bool> {
        let events: Api<Event> = self.sandbox.api();
        let all = events.list(&ListParams::default()).await?;
        Ok(all.items.iter().any(|event| is_about(event, pod, reason)))
    }

    /// Waits for an event on a pod.
    pub async fn told(&self, pod: &str, reason: &str) -> Result<Event> {
        self.told_with(pod, reason, "").await
    }

    /// Waits for an event on a pod with these words in it.
    pub async fn told_with(&self, pod: &str, reason: &str, words: &str) -> Result<Event> {
        let events: Api<Event> = self.sandbox.api();
        let all = Select::default();
        let says = |event: &&Event| {
            let note = event.note.as_deref().unwrap_or_default();
            is_about(event, pod, reason) && note.contains(words)
        };
        let found = eventually(&events, &all, DEADLINE, |found| {
            found.values().find(says).cloned()
        });
        found
            .await
            .with_context(|| format!("{reason} on {pod} with {words:?}"))
    }
}

fn is_about(event: &Event, pod: &str, reason: &str) -> bool {
    let about = event
        .regarding
        .as_ref()
        .and_then(|regarding| regarding.name.as_deref());
    about == Some(pod) && event.reason.as_deref() == Some(reason)
}

pub async fn pod(sandbox: &Sandbox, name: &str, path: &str, secret: &str, more: &str) -> Result<Pod> {
    asking(
        sandbox,
        name,
        &format!("provider: mock\npath: {path}\nsecretName: {secret}\n{more}"),
    )
    .await
}

/// A pod with this annotation.
pub async fn asking(sandbox: &Sandbox, name: &str, asks: &str) -> Result<Pod> {
    // The account without which no pod is let in comes a moment after its namespace.
    wait_for_some(&sandbox.api::<ServiceAccount>(), "default", DEADLINE, |_| true).await?;
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {"jasm.codnod.io/secret-sync": asks}},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }))?;
    let made = sandbox.api::<Pod>().create(&PostParams::default(), &pod).await;
    made.with_context(|| format!("create the pod {name}"))
}

/// Waits until a Secret holds exactly this.
pub async fn holds(sandbox: &Sandbox, secret: &str, data: &[(&str, &str)]) -> Result<Secret> {
    let wanted = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect();
    let api: Api<Secret> = sandbox.api();
    let held = wait_for_some(&api, secret, DEADLINE, |live| live.data.as_ref() == Some(&wanted)).await;
    held.with_context(|| format!("{secret} holds {data:?}"))
}
