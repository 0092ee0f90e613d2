//! The floor of delivery: workers that know what to do. Each takes an HSMSecret that was made, reads the secret from its agent, and
//! writes what the capability has written before: finalizer, Secret, event and status, one after the other. There are as many workers as the
//! capability has, they use the clients of the capability, and have its rights.
//!
//! The capability also writes down to whom a location belongs, for several HSMSecrets at once: the floor writes that as often.

mod worker;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::ListParams;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use trustplane_api::hsm::HsmSecret;
use trustplane_api::hsm::v1::ListSecretsRequest;
use trustplane_hsm_controller::Agents;
use trustplane_kit::clients::Clients;
use trustplane_kit::controller::Options;
use trustplane_kit::lease::{Fence, Identity};
use trustplane_plan::ObjectRef;
use trustplane_testkit::{ControlPlane, Sandbox};

use super::served::{Running, Served};
use super::{is_measured, until_in_sync};
use crate::tested::stage::rules;
use worker::Worker;

/// Whether objects are read before they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gets {
    /// Never: whoever makes an HSMSecret says which it is.
    None,
    /// As the capability does: before a finalizer and before a status.
    AsOurs,
}

/// What the capability has written for one HSMSecret.
struct Written {
    agent: ObjectRef,
    path: String,
    secret: Value,
    event: Value,
    status: Value,
}

/// What the capability has written.
pub struct Floor {
    plane: Arc<ControlPlane>,
    agents: Arc<Agents>,
    tokens: Vec<ObjectRef>,
    written: Arc<HashMap<String, Written>>,
    claims: usize,
}

impl Floor {
    /// Keeps what the capability has written for HSMSecrets that are in sync, with so many writes of the list of locations.
    pub async fn new(served: &Served, running: &Running, claims: usize) -> Result<Self> {
        Ok(Self {
            plane: served.sandbox.plane().clone(),
            agents: running.agents.clone(),
            tokens: served
                .tokens
                .iter()
                .map(|token| served.agent(token.name()))
                .collect(),
            written: Arc::new(written(served).await?),
            claims,
        })
    }

    /// Delivers all secrets once, in a namespace of its own.
    pub async fn run(&self, gets: Gets) -> Result<Duration> {
        let sandbox = Sandbox::on(self.plane.clone(), "floor").await?;
        let account = sandbox.apply_rbac("hsm", &rules()).await?;
        let config = account.instance("floor").await?.config()?;
        let clients = Clients::new(config, Identity::new("bench", "0", None), Fence::always())?;
        let worker = Arc::new(Worker {
            client: clients.call,
            agents: self.agents.clone(),
            written: self.written.clone(),
            namespace: sandbox.namespace().to_owned(),
            gets,
            claims: self.claims,
        });
        let (made, all) = unbounded_channel();
        let all = Arc::new(Mutex::new(all));
        let mut workers = JoinSet::new();
        for _ in 0..Options::default().workers {
            workers.spawn(worker.clone().work(all.clone()));
        }
        let done = async {
            while let Some(ended) = workers.join_next().await {
                ended??;
            }
            Ok(())
        };
        let (took, (), ()) = tokio::try_join!(until_in_sync(&sandbox, made), self.list(), done)?;
        Ok(took)
    }

    /// Asks each agent for its list, once.
    async fn list(&self) -> Result<()> {
        for agent in &self.tokens {
            let mut client = self.agents.connect(agent).await?;
            let request = ListSecretsRequest {
                include_deleted: true,
                max_age_seconds: Some(0),
                ..ListSecretsRequest::default()
            };
            client.list_secrets(request).await?;
        }
        Ok(())
    }
}

/// What the capability has written, by the names of the HSMSecrets.
async fn written(served: &Served) -> Result<HashMap<String, Written>> {
    let every = ListParams::default();
    let all = served.sandbox.api::<HsmSecret>().list(&every).await?;
    let secrets = served.sandbox.api::<Secret>().list(&every).await?;
    let events = served.sandbox.api::<Event>().list(&every).await?;
    let mut secrets: BTreeMap<String, Secret> =
        secrets.into_iter().map(|live| (live.name_any(), live)).collect();
    let told = |event: &Event| Some((event.regarding.as_ref()?.uid.clone()?, event.clone()));
    let events: BTreeMap<String, Event> = events.iter().filter_map(told).collect();
    let mut written = HashMap::new();
    for live in all.into_iter().filter(is_measured) {
        let name = live.name_any();
        let event = live.uid().and_then(|uid| events.get(&uid));
        let secret = secrets.remove(&name).context("a Secret")?;
        let status = live.status.as_ref().context("a status")?;
        let primary = status.primary_device.as_deref().unwrap_or_default();
        let token = primary.rsplit('/').next().unwrap_or_default();
        let kept = Written {
            agent: served.agent(token),
            path: live.spec.hsm_path.clone().unwrap_or_default(),
            secret: bare(&secret)?,
            event: bare(event.with_context(|| format!("the event on {name}"))?)?,
            status: serde_json::to_value(status)?,
        };
        written.insert(name, kept);
    }
    Ok(written)
}

/// An object as it is sent: without what the API server adds.
fn bare(live: &impl Serialize) -> Result<Value> {
    let mut live = serde_json::to_value(live)?;
    let metadata = live["metadata"].as_object_mut().context("metadata")?;
    metadata.retain(|key, _| {
        matches!(
            key.as_str(),
            "name" | "labels" | "annotations" | "ownerReferences"
        )
    });
    Ok(live)
}
