//! A namespace that the capability serves, with its tokens and their agents.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use tokio::sync::watch;
use trustplane_api::hsm::HsmSecret;
use trustplane_api::hsm::names::LOCATIONS;
use trustplane_hsm_controller::{Agents, DeliveryRules, kinds};
use trustplane_kit::controller::Options;
use trustplane_plan::ObjectRef;
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::{Account, ControlPlane, DEADLINE, Instance, Sandbox, Select, eventually};

use super::{MANY, STUCK, TOKENS, progress, wish};
use crate::agent::next_version;
use crate::secrets::{FIRST, pairs};
use crate::tested::stage::{Callers, DEVICE, capability, in_sync, prepare, rules, setup, write_all};
use crate::token::Token;

/// The namespace.
pub struct Served {
    pub sandbox: Sandbox,
    pub tokens: Vec<Token>,
    account: Account,
    capability: InProcess,
    callers: watch::Receiver<Option<Arc<Agents>>>,
}

/// The capability while it runs.
pub struct Running {
    pub instance: Instance,
    pub agents: Arc<Agents>,
    thread: Thread,
}

impl Served {
    /// A namespace with agents that serve tokens with all secrets. The capability does not run.
    pub async fn open() -> Result<Self> {
        let plane = ControlPlane::shared().await?;
        plane.install(&kinds()).await?;
        let sandbox = Sandbox::on(plane, "bench").await?;
        let account = sandbox.apply_rbac("hsm", &rules()).await?;
        let mut tokens = Vec::new();
        for name in TOKENS {
            tokens.push(Token::new(name).await?);
        }
        let (sender, callers) = watch::channel(None);
        let mut served = Self {
            capability: shipped(sandbox.namespace(), sender),
            sandbox,
            tokens,
            account,
            callers,
        };
        let running = served.start("builder").await?;
        prepare(&served.sandbox, &mut served.tokens).await?;
        served.fill(&running).await?;
        served.stop(running).await?;
        Ok(served)
    }

    /// Starts the capability.
    pub async fn start(&self, name: &str) -> Result<Running> {
        let instance = self.account.instance(name).await?;
        let mut callers = self.callers.clone();
        callers.mark_unchanged();
        let thread = self.capability.start(&instance).await?;
        let told = tokio::time::timeout(DEADLINE, callers.changed()).await;
        told.context("the capability did not start")??;
        let agents = callers.borrow().clone().context("the means to call agents")?;
        Ok(Running {
            instance,
            agents,
            thread,
        })
    }

    /// Kills the capability, and takes away what namespaces have claimed: the next one claims it again.
    pub async fn stop(&self, running: Running) -> Result<()> {
        self.capability.kill(running.thread).await?;
        let claims: Api<ConfigMap> = self.sandbox.api();
        let every = ListParams::default().fields(&format!("metadata.name={LOCATIONS}"));
        claims.delete_collection(&DeleteParams::default(), &every).await?;
        Ok(())
    }

    /// The agent of a token.
    pub fn agent(&self, token: &str) -> ObjectRef {
        ObjectRef::new(
            Some(self.sandbox.namespace()),
            &format!("hsm-agent-{DEVICE}-{token}"),
        )
    }

    /// Puts every secret on every token.
    async fn fill(&self, running: &Running) -> Result<()> {
        progress(&format!("writing {MANY} secrets to each token"));
        let all = || (0..=MANY).map(|number| next_version(number, FIRST));
        let agents = self.tokens.iter().map(|token| self.agent(token.name()));
        try_join_all(agents.map(|agent| write_all(&running.agents, agent, all()))).await?;
        Ok(())
    }

    /// Has one HSMSecret delivered: all watches and connections are there, and each agent was asked.
    pub async fn warm_up(&self) -> Result<()> {
        let all: Api<HsmSecret> = self.sandbox.api();
        all.create(&PostParams::default(), &wish(MANY)).await?;
        let pairs = pairs(MANY, FIRST);
        let pairs = pairs.each_ref().map(|(key, value)| (*key, value.as_str()));
        in_sync(&self.sandbox, "warm-up", &pairs).await?;
        // What follows from the last write is over.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    /// Deletes all HSMSecrets, and waits until they and their Secrets are gone.
    pub async fn clear(&self) -> Result<()> {
        let all: Api<HsmSecret> = self.sandbox.api();
        all.delete_collection(&DeleteParams::default(), &ListParams::default())
            .await?;
        let none = |found: &trustplane_testkit::Selection<HsmSecret>| found.is_empty().then_some(());
        eventually(&all, &Select::default(), STUCK, none).await
    }
}

/// The capability as it ships, with its own intervals.
fn shipped(home: &str, callers: Callers) -> InProcess {
    let mut setup = setup(home);
    setup.delivery.patience = DeliveryRules::default().patience;
    capability(setup, Options::default(), callers)
}
