//! What every test here stands on: a borrowed control plane, the namespace of SPIRE, and the account with the shipped rights.

mod objects;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trustplane_api::identity::{
    ClusterFederatedTrustDomain, ClusterSpiffeId, ClusterStaticEntry, SPIFFE_CSI_DRIVER, SPIRE_AGENT,
    SPIRE_OIDC, SPIRE_SERVER, SpiffeCsiDriver, SpireAgent, SpireOidcDiscoveryProvider, SpireServer, ZTWIM,
    ZeroTrustWorkloadIdentityManager,
};
use trustplane_identity_controller::{
    IdentityArgs, Images, Pace, Settings, capability, rights, roles, run_alone,
};
use trustplane_kit::controller::Options;
use trustplane_kit::manager::process_rights;
use trustplane_kit::queue::Debounce;
use trustplane_kit::rights::Place;
use trustplane_plan::Kind;
use trustplane_process::clock::{Clock, SystemClock};
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::proxy::Proxy;
use trustplane_testkit::{Account, ControlPlane, DEADLINE, Instance, Leftovers, Rules, Sandbox, until};

pub use objects::condition;

/// The five kinds that people write.
pub const KINDS: [Kind; 5] = [ZTWIM, SPIRE_SERVER, SPIRE_AGENT, SPIFFE_CSI_DRIVER, SPIRE_OIDC];
/// The four operands.
pub const OPERANDS: [Kind; 4] = [SPIRE_SERVER, SPIRE_AGENT, SPIFFE_CSI_DRIVER, SPIRE_OIDC];

/// What a borrower of the control plane leaves besides its namespace.
pub fn leftovers() -> Leftovers {
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

/// The shipped rights in the cluster and in the namespace of SPIRE, which is that of the manager. Those in `default` are apart.
pub fn rules() -> Rules {
    let rights = process_rights("trustplane-manager").and(rights());
    Rules {
        cluster: rights.of(Place::Cluster),
        namespaced: [rights.of(Place::Home), rights.of(Place::Served)].concat(),
    }
}

/// What the admin chose.
fn settings(namespace: &str) -> Settings {
    Settings {
        namespaces: vec![namespace.to_owned()],
        images: Images {
            spire_server: "spire-server:1.15.3".to_owned(),
            spire_agent: "spire-agent:1.15.3".to_owned(),
            spire_controller_manager: "spire-controller-manager:0.6.4".to_owned(),
            oidc_discovery_provider: "oidc-discovery-provider:1.15.3".to_owned(),
            spiffe_csi_driver: "spiffe-csi-driver:0.2.8".to_owned(),
            node_driver_registrar: "registrar:v2.9.4".to_owned(),
            csi_init: "ubi9:latest".to_owned(),
        },
        pull_policy: "IfNotPresent".to_owned(),
        kubelet_root: "/var/lib/kubelet".to_owned(),
        selinux: false,
        create_only: false,
    }
}

/// A clock that counts how often it is read: at least once for each look at ZTWIM or at an operand.
#[derive(Debug, Clone, Default)]
pub struct Looks(Arc<AtomicUsize>);

impl Looks {
    /// Waits until there were so many more looks.
    pub async fn more(&self, times: usize) -> Result<()> {
        let before = self.0.load(Ordering::SeqCst);
        until("everything to be looked at", DEADLINE, || async {
            Ok((self.0.load(Ordering::SeqCst) >= before + times).then_some(()))
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

/// The capability, running in this process. It has ended when this is dropped.
pub struct Running {
    subject: InProcess,
    thread: Option<Thread>,
    pub instance: Instance,
}

impl Running {
    /// Ends it as a crash would.
    pub async fn kill(mut self) -> Result<()> {
        match self.thread.take() {
            Some(thread) => self.subject.kill(thread).await,
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let subject = self.subject.clone();
        // The control plane is lent to the next test at once, so nothing of this one may still write.
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(subject.kill(thread))
        });
        let _ = ended.join();
    }
}

/// The only arguments of the capability are its defaults.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    identity: IdentityArgs,
}

pub struct Stage {
    pub sandbox: Sandbox,
    pub account: Account,
    pub settings: Settings,
    pub pace: Pace,
    pub looks: Looks,
}

impl Stage {
    /// A control plane with the kinds and the roles of the capability, and an account with its rights.
    pub async fn new(name: &str) -> Result<Self> {
        Self::with_rules(name, &rules()).await
    }

    /// The same with an account that has these rights.
    pub async fn with_rules(name: &str, rules: &Rules) -> Result<Self> {
        let plane = ControlPlane::borrowed(&leftovers()).await?;
        let capability = capability(Arguments::parse_from(["manager"]).identity);
        plane.install(&(capability.crds)()).await?;
        let sandbox = Sandbox::on(plane, name).await?;
        let shipped: Api<ClusterRole> = Api::all(sandbox.client());
        for role in roles() {
            let wish = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": role.name }, "rules": role.rules,
            });
            let installer = PatchParams::apply("installer").force();
            shipped.patch(&role.name, &installer, &Patch::Apply(wish)).await?;
        }
        let account = sandbox.apply_rbac("identity", rules).await?;
        let in_default = rights().of(Place::Default);
        sandbox.grant_in("default", &account, &in_default).await?;
        let looks = Looks::default();
        Ok(Self {
            account,
            settings: settings(sandbox.namespace()),
            pace: Pace {
                // Without a resync: whatever has to be noticed is noticed by a watch.
                options: Options {
                    resync: None,
                    clock: Arc::new(looks.clone()),
                    ..Options::default()
                },
                debounce: Debounce {
                    quiet: Duration::from_millis(50),
                    longest: Duration::from_millis(500),
                },
                ..Pace::default()
            },
            looks,
            sandbox,
        })
    }

    /// The same with the objects of the quickstart, and all their children.
    pub async fn with_quickstart(name: &str) -> Result<(Self, Running)> {
        let stage = Self::new(name).await?;
        let running = stage.start("first").await?;
        stage.quickstart().await?;
        stage.all_there().await?;
        Ok((stage, running))
    }

    /// Has everything looked at every so often, as after ten hours in production.
    pub fn resync_every(&mut self, time: Duration) {
        self.pace.options.resync = Some(time);
    }

    /// Runs the capability in this process.
    pub async fn start(&self, name: &str) -> Result<Running> {
        self.start_as(self.account.instance(name).await?).await
    }

    /// The same behind a proxy.
    pub async fn start_through(&self, name: &str, proxy: &Proxy) -> Result<Running> {
        self.start_as(self.account.instance(name).await?.through(proxy))
            .await
    }

    /// The same as an instance of the account that the test has made.
    pub async fn start_as(&self, instance: Instance) -> Result<Running> {
        let (settings, pace) = (self.settings.clone(), self.pace.clone());
        let subject = InProcess::new(move |config| {
            let (settings, pace) = (settings.clone(), pace.clone());
            async move {
                let ended = run_alone(config, settings, pace).await;
                ended.map_err(|error| anyhow::anyhow!("{error}"))
            }
        });
        let thread = subject.start(&instance).await?;
        Ok(Running {
            subject,
            thread: Some(thread),
            instance,
        })
    }

    /// The namespace of SPIRE.
    pub fn namespace(&self) -> &str {
        self.sandbox.namespace()
    }
}
