//! What every test here stands on: a control plane of its own, an account, a platform, and an agent between them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, CustomResourceExt};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use trustplane_api::inventory::ObsykAgent;
use trustplane_inventory_core::{InventoryKind, project};
use trustplane_inventory_stream::{CREDENTIALS, rights, run_alone};
use trustplane_kit::controller::Options;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::{Place, Rights};
use trustplane_kit::watch::Tuning;
use trustplane_testkit::crash::{InProcess, Subject, Thread};
use trustplane_testkit::platform::{Platform, Settings};
use trustplane_testkit::proxy::Proxy;
use trustplane_testkit::{Account, ControlPlane, DEADLINE, Instance, Rules, Sandbox, until, wait_for_some};

/// The Secret with credentials, as the chart names it.
pub const SECRET: &str = "obsyk-credentials";
/// The object of the agent.
pub const AGENT: &str = "main";
const CLIENT: &str = "client-1";

/// What the platform or the API server has: kind and uid, and what is sent of the object.
pub type Projections = BTreeMap<(String, String), Value>;

/// The rights of the account: those of every manager, and those of the capability.
fn rules() -> Rules {
    named(&process_rights("trustplane-manager").and(rights()))
}

/// The rights of the capability alone.
pub fn own_rules() -> Rules {
    named(&rights())
}

fn named(rights: &Rights) -> Rules {
    let mut namespaced = rights.of(Place::Home);
    for name in namespaced
        .iter_mut()
        .flat_map(|rule| rule.resource_names.iter_mut().flatten())
    {
        if name == CREDENTIALS {
            SECRET.clone_into(name);
        }
    }
    Rules {
        cluster: rights.wide(),
        namespaced,
    }
}

/// The capability in this process. Watches are short, so that a right that was taken shows.
fn alone() -> InProcess {
    InProcess::new(|config| async move {
        let tuning = Tuning {
            watch_timeout: Duration::from_secs(5),
            ..Tuning::default()
        };
        let ended = run_alone(config, InventoryKind::ALL.to_vec(), Options::default(), tuning).await;
        ended.map_err(|error| anyhow::anyhow!("{error}"))
    })
}

/// A key pair: the private key as PKCS#8, the public one as SPKI, both PEM.
pub fn key_pair() -> (String, String) {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    let pem = |label: &str, der: &[u8]| {
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            BASE64_STANDARD.encode(der)
        )
    };
    (
        pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref()),
        pem("PUBLIC KEY", public.as_ref()),
    )
}

pub struct Stage {
    pub sandbox: Sandbox,
    pub account: Account,
    pub platform: Platform,
    pub private_key: String,
}

impl Stage {
    /// A stage whose agent has credentials and is not created yet.
    pub async fn new(name: &str, settings: Settings) -> Result<Self> {
        let plane = ControlPlane::own().await?;
        plane.install(&[ObsykAgent::crd()]).await?;
        let sandbox = Sandbox::on(plane, name).await?;
        let account = sandbox.apply_rbac("inventory", &rules()).await?;
        let platform = Platform::start(settings).await?;
        let (private_key, public_key) = key_pair();
        platform.register(CLIENT, &public_key)?;
        let stage = Self {
            sandbox,
            account,
            platform,
            private_key,
        };
        stage.credentials(CLIENT, &stage.private_key).await?;
        Ok(stage)
    }

    pub fn client(&self) -> Client {
        self.sandbox.client()
    }

    /// Writes the Secret with credentials.
    pub async fn credentials(&self, id: &str, key: &str) -> Result<()> {
        let data: BTreeMap<_, _> = [("client_id", id), ("private_key", key)]
            .map(|(name, value)| (name, ByteString(value.as_bytes().to_vec())))
            .into();
        let patch = Patch::Merge(json!({ "data": data }));
        let secrets = self.sandbox.api::<Secret>();
        secrets.patch(SECRET, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub fn agents(&self) -> Api<ObsykAgent> {
        self.sandbox.api()
    }

    /// Creates an agent for the platform; `more` goes into its spec.
    pub async fn agent(&self, name: &str, more: Value) -> Result<()> {
        let mut spec = json!({
            "platformURL": self.platform.url(), "clusterName": "test",
            "credentialsSecretRef": {"name": SECRET}, "syncInterval": "5s",
            "rateLimit": {"eventsPerSecond": 1000, "burstSize": 1000},
        });
        merge(&mut spec, more);
        let agent = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        self.agents().create(&PostParams::default(), &agent).await?;
        Ok(())
    }

    pub async fn edit(&self, name: &str, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.agents().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub async fn start(&self, name: &str) -> Result<(Instance, Thread)> {
        let instance = self.account.instance(name).await?;
        let running = alone().start(&instance).await?;
        Ok((instance, running))
    }

    pub async fn start_through(&self, name: &str, proxy: &Proxy) -> Result<(Instance, Thread)> {
        let instance = self.account.instance(name).await?.through(proxy);
        let running = alone().start(&instance).await?;
        Ok((instance, running))
    }

    pub async fn kill(&self, running: Thread) -> Result<()> {
        alone().kill(running).await
    }

    /// Waits until a condition of an agent has this status, and this word in its reason or message.
    pub async fn says(&self, agent: &str, type_: &str, status: &str, word: &str) -> Result<ObsykAgent> {
        let told = |agent: &ObsykAgent| {
            let status_now = agent.status.clone().unwrap_or_default();
            let found = status_now.conditions.get(type_).cloned();
            found.is_some_and(|one| {
                one.status == status && (one.reason.contains(word) || one.message.contains(word))
            })
        };
        let found = wait_for_some(&self.agents(), agent, DEADLINE, told).await;
        match found {
            Ok(found) => Ok(found),
            Err(error) => {
                let now = self.agents().get_status(agent).await?;
                Err(error.context(format!("{type_} {status} {word}: {:?}", now.status)))
            }
        }
    }

    /// What the API server has, as it is to be sent: computed from fresh lists.
    pub async fn expected(&self) -> Result<Projections> {
        let mut all = Projections::new();
        for kind in InventoryKind::ALL {
            for text in list(&self.client(), kind).await? {
                let seen = project(kind, &text).with_context(|| format!("project a {}", kind.name()))?;
                let key = (kind.name().to_owned(), seen.uid.to_string());
                all.insert(key, serde_json::from_str(&seen.object)?);
            }
        }
        Ok(all)
    }

    /// Waits until the platform has exactly what the API server has.
    pub async fn equal(&self, after: &str) -> Result<()> {
        self.equal_but(after, |_, _| true).await
    }

    /// The same for the objects that are `wanted`.
    pub async fn equal_but(
        &self,
        after: &str,
        wanted: impl Fn(&(String, String), &Value) -> bool,
    ) -> Result<()> {
        let difference = Mutex::new(String::new());
        let (wanted, difference) = (&wanted, &difference);
        let equal = until("the platform to equal the cluster", DEADLINE, || async move {
            let mut expected = self.expected().await?;
            expected.retain(|key, object| wanted(key, object));
            let has = self
                .platform
                .read(trustplane_testkit::platform::State::projections);
            let found = differ(&expected, &has);
            let is_equal = found.is_empty();
            *difference.lock().unwrap() = found;
            Ok(is_equal.then_some(()))
        })
        .await;
        equal.with_context(|| format!("after {after}: {}", difference.lock().unwrap()))
    }

    pub async fn config_map(&self, name: &str, data: Value) -> Result<()> {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}, "data": data}))?;
        self.sandbox.api().create(&PostParams::default(), &map).await?;
        Ok(())
    }

    /// A pod that no node runs.
    pub async fn pod(&self, name: &str) -> Result<Pod> {
        wait_for_some(
            &self.sandbox.api::<k8s_openapi::api::core::v1::ServiceAccount>(),
            "default",
            DEADLINE,
            |_| true,
        )
        .await?;
        let pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"step": "0"}},
            "spec": {"containers": [{"name": "main", "image": "none", "env": [{"name": "PASSWORD", "value": "visible"}]}]},
        }))?;
        Ok(self
            .sandbox
            .api::<Pod>()
            .create(&PostParams::default(), &pod)
            .await?)
    }

    pub async fn label(&self, pod: &str, step: usize) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"step": step.to_string()}}}));
        self.sandbox
            .api::<Pod>()
            .patch(pod, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    pub async fn remove_pod(&self, name: &str) -> Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.sandbox.api::<Pod>().delete(name, &now).await?;
        Ok(())
    }

    pub async fn cluster_uid(&self) -> Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        namespaces.get("kube-system").await?.metadata.uid.context("a uid")
    }
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

/// What one has and the other has not, a few lines of it.
pub fn differ(expected: &Projections, has: &Projections) -> String {
    let missing = expected
        .iter()
        .filter(|(key, object)| has.get(*key) != Some(*object));
    let missing = missing.map(|(key, object)| format!("wanted {key:?} {object}, has {:?}", has.get(key)));
    let ghosts = has
        .keys()
        .filter(|key| !expected.contains_key(*key))
        .map(|key| format!("ghost {key:?}"));
    missing.chain(ghosts).take(5).collect::<Vec<_>>().join("\n")
}

/// The objects of a kind as text, asked for as the agent asks for them.
async fn list(client: &Client, kind: InventoryKind) -> Result<Vec<String>> {
    let (accept, query) = match kind.is_table() {
        true => (
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            "?includeObject=Metadata",
        ),
        false => ("application/json", ""),
    };
    let path = format!("{}{query}", kind.kind().collection_path(None));
    let request = http::Request::get(path)
        .header("accept", accept)
        .body(Body::empty())?;
    let answer = client.send(request).await?;
    let body = answer.into_body().collect_bytes().await?;
    #[derive(serde::Deserialize)]
    struct List<'a> {
        #[serde(borrow, alias = "rows")]
        items: Option<Vec<&'a RawValue>>,
    }
    let list: List<'_> = serde_json::from_slice(&body)?;
    Ok(list
        .items
        .unwrap_or_default()
        .iter()
        .map(|item| item.get().to_owned())
        .collect())
}
