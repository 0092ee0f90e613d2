//! What every test here stands on: a namespace, the sample's account, a fault proxy, and objects to play with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use trustplane_kit::controller::Options;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::{Place, Rights};
use trustplane_kit::watch::Tuning;
use trustplane_process::backoff::Backoff;
use trustplane_sample::api::{Mirror, MirrorSpec, SOURCE};
use trustplane_sample::{capability, run_alone};
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::proxy::{Match, Proxy, Verb};
use trustplane_testkit::{
    Account, ControlPlane, DEADLINE, Instance, Process, Program, Rules, Sandbox, wait_for, wait_for_some,
};

/// The name under which a manager runs when nobody gives it another.
pub const MANAGER: &str = "trustplane-manager";

/// The source that most tests use.
pub const SOURCE_NAME: &str = "source";

/// The rights of a process that serves no webhooks.
pub fn rules() -> Rules {
    granted(process_rights(MANAGER).and((capability().rights)()))
}

fn granted(rights: Rights) -> Rules {
    Rules {
        cluster: rights.wide(),
        namespaced: rights.of(Place::Home),
    }
}

/// The real binary, which chooses by itself what it runs.
pub fn binary() -> Program {
    Program::new(env!("CARGO_BIN_EXE_sample-manager"))
        .arg("--admin-bind-address=127.0.0.1:0")
        .arg("--log-format=json")
}

/// The real binary, as one of several replicas. It serves no webhooks.
pub fn replica() -> Program {
    binary()
        .arg("--capabilities=mirror")
        .arg("--webhook-bind-address=0")
}

/// The real binary, with no rival.
pub fn single() -> Program {
    replica().arg("--leader-elect=false")
}

/// How the controller runs in this process: as in production, but it looks at everything every second.
pub fn alone() -> InProcess {
    InProcess::new(|config| {
        let options = Options {
            resync: Some(Duration::from_secs(1)),
            ..Options::default()
        };
        async {
            run_alone(config, options, tuning())
                .await
                .map_err(anyhow::Error::from_boxed)
        }
    })
}

/// Watches that notice soon what in production they would notice later.
fn tuning() -> Tuning {
    let quick = Backoff {
        first: Duration::from_millis(50),
        max: Duration::from_secs(1),
    };
    Tuning {
        watch_timeout: Duration::from_secs(10),
        idle_grace: Duration::from_secs(2),
        request_timeout: Duration::from_secs(5),
        backoff: quick,
        probe: quick,
        refresh: Some(Duration::from_secs(5)),
        ..Tuning::default()
    }
}

/// A namespace with the sample's account in it, and a proxy before its API server.
pub struct Stage {
    pub sandbox: Sandbox,
    pub proxy: Proxy,
    pub account: Account,
}

impl Stage {
    pub async fn new(name: &str) -> Result<Self> {
        Self::on(ControlPlane::shared().await?, name).await
    }

    pub async fn on(plane: Arc<ControlPlane>, name: &str) -> Result<Self> {
        Self::with(plane, name, |_| rules()).await
    }

    /// A stage for processes that serve webhooks, under the unique form of this name: it is that of their configurations.
    pub async fn serving(name: &str, process: &str) -> Result<Self> {
        let plane = ControlPlane::shared().await?;
        Self::with(plane, name, |sandbox| {
            let process = sandbox.unique(process);
            granted(process_rights(&process).and(capability().rights_in(&process)))
        })
        .await
    }

    async fn with(
        plane: Arc<ControlPlane>,
        name: &str,
        rules: impl FnOnce(&Sandbox) -> Rules,
    ) -> Result<Self> {
        plane.install(&(capability().crds)()).await?;
        let sandbox = Sandbox::on(plane, name).await?;
        Ok(Self {
            proxy: Proxy::start(sandbox.plane()).await?,
            account: sandbox.apply_rbac("sample", &rules(&sandbox)).await?,
            sandbox,
        })
    }

    /// The real binary, as one of several replicas that serve webhooks.
    pub fn server(&self, process: &str) -> Program {
        binary()
            .arg("--capabilities=mirror")
            .arg("--webhook-bind-address=127.0.0.1:0")
            .arg(format!("--name={}", self.sandbox.unique(process)))
    }

    /// An instance behind the proxy.
    pub async fn instance(&self, name: &str) -> Result<Instance> {
        Ok(self.account.instance(name).await?.through(&self.proxy))
    }

    /// Starts the controller in this process.
    pub async fn start_alone(&self) -> Result<(Instance, Thread)> {
        let instance = self.instance("alone").await?;
        let running = alone().start(&instance).await?;
        Ok((instance, running))
    }

    /// Starts the real binary.
    pub async fn start(&self, program: &Program, name: &str) -> Result<(Instance, Process)> {
        let instance = self.instance(name).await?;
        let running = program.start(&instance)?;
        Ok((instance, running))
    }

    /// A stage on which the controller runs in this process, and a mirror of the source is in step.
    pub async fn settled(name: &str) -> Result<(Self, Instance, Thread)> {
        let stage = Self::new(name).await?;
        let (instance, running) = stage.start_alone().await?;
        stage.set_source("0").await?;
        stage.mirror("m", &["a"]).await?;
        stage.says("m", "InStep").await?;
        Ok((stage, instance, running))
    }

    /// Waits until the controller has looked at a mirror of the source `n` times: it reads the source each time.
    pub async fn looks(&self, instance: &Instance, since: usize, n: usize) -> Result<()> {
        let reads = Match::verb(Verb::Get)
            .resource("secrets")
            .name(SOURCE_NAME)
            .by(instance);
        let before = self.proxy.requests(&reads).len() - self.proxy.requests_since(since, &reads).len();
        self.proxy.wait_for(&reads, before + n, DEADLINE).await?;
        Ok(())
    }

    pub fn secrets(&self) -> Api<Secret> {
        self.sandbox.api()
    }

    pub fn mirrors(&self) -> Api<Mirror> {
        self.sandbox.api()
    }

    /// Makes the source, or gives it another value.
    pub async fn set_source(&self, value: &str) -> Result<()> {
        set_source(&self.sandbox, value).await
    }

    /// Makes a mirror of the source.
    pub async fn mirror(&self, name: &str, targets: &[&str]) -> Result<Mirror> {
        mirror(&self.sandbox, name, targets).await
    }

    /// Waits until a copy has this value.
    pub async fn in_step(&self, copy: &str, value: &str) -> Result<Secret> {
        in_step(&self.sandbox, copy, value).await
    }

    /// Waits until a mirror says this of itself.
    pub async fn says(&self, mirror: &str, reason: &str) -> Result<Mirror> {
        says(&self.sandbox, mirror, reason).await
    }

    /// Changes the value and waits for the copy to follow: the controller is well.
    pub async fn assert_follows(&self, copy: &str, value: &str) -> Result<()> {
        self.set_source(value).await?;
        self.in_step(copy, value).await?;
        Ok(())
    }
}

pub fn secret(name: &str, value: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            "value".to_owned(),
            ByteString(value.as_bytes().to_vec()),
        )])),
        ..Secret::default()
    }
}

pub async fn set_source(sandbox: &Sandbox, value: &str) -> Result<()> {
    let mut wish = serde_json::to_value(secret(SOURCE_NAME, value))?;
    wish["metadata"]["labels"] = json!({ SOURCE: "" });
    let api: Api<Secret> = sandbox.api();
    let hand = PatchParams::apply("hand-of-the-test").force();
    api.patch(SOURCE_NAME, &hand, &Patch::Apply(wish))
        .await
        .context("set the source")?;
    Ok(())
}

pub async fn mirror(sandbox: &Sandbox, name: &str, targets: &[&str]) -> Result<Mirror> {
    let spec = MirrorSpec {
        source: SOURCE_NAME.to_owned(),
        targets: targets.iter().map(|name| (*name).to_owned()).collect(),
    };
    let api: Api<Mirror> = sandbox.api();
    let made = api.create(&PostParams::default(), &Mirror::new(name, spec)).await;
    made.with_context(|| format!("create the mirror {name}"))
}

/// Changes the targets of a mirror.
pub async fn aim(sandbox: &Sandbox, name: &str, targets: &[&str]) -> Result<()> {
    let api: Api<Mirror> = sandbox.api();
    let patch = Patch::Merge(json!({ "spec": { "targets": targets } }));
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("change the mirror {name}"))?;
    Ok(())
}

/// Deletes a mirror and waits until it is gone.
pub async fn remove(sandbox: &Sandbox, name: &str) -> Result<()> {
    let api: Api<Mirror> = sandbox.api();
    api.delete(name, &DeleteParams::default())
        .await
        .with_context(|| format!("delete the mirror {name}"))?;
    wait_for(&api, name, DEADLINE, |live| live.is_none()).await?;
    Ok(())
}

pub async fn in_step(sandbox: &Sandbox, copy: &str, value: &str) -> Result<Secret> {
    let api: Api<Secret> = sandbox.api();
    wait_for_some(&api, copy, DEADLINE, |live| has_value(live, value)).await
}

pub fn has_value(live: &Secret, value: &str) -> bool {
    live.data
        .as_ref()
        .and_then(|data| data.get("value"))
        .is_some_and(|bytes| bytes.0 == value.as_bytes())
}

pub async fn says(sandbox: &Sandbox, name: &str, reason: &str) -> Result<Mirror> {
    let api: Api<Mirror> = sandbox.api();
    wait_for_some(&api, name, DEADLINE, |live| {
        let ready = live
            .status
            .as_ref()
            .and_then(|status| status.conditions.get("Ready"));
        // An answer to an older question does not count.
        ready.is_some_and(|ready| {
            ready.reason == reason && Some(ready.observed_generation) == live.metadata.generation
        })
    })
    .await
}
