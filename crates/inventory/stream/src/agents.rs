//! The controller of `ObsykAgent`: gathers what is known of an agent, and lets its stream run or end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use trustplane_api::inventory::ObsykAgentSpec;
use trustplane_inventory_core::decide::{Action, Agent, Input, Readiness, decide};
use trustplane_kit::apply::WriteError;
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_kit::watch::{Store, Watched};
use trustplane_plan::{Class, Classified, ObjectRef, Plan};

use crate::peers::{Peers, Wanted};
use crate::platform::{check_url, web};
use crate::secrets::{Found, Secrets};
use crate::shared::Shared;

/// Who writes the status.
pub(crate) const MANAGER: &str = "trustplane-inventory";

/// What is kept of an agent's object.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    pub spec: ObsykAgentSpec,
    #[serde(default)]
    status: Value,
}

/// The controller.
pub(crate) struct Agents {
    pub agents: Store<Seen>,
    pub secrets: Secrets,
    pub peers: Peers,
    pub shared: Shared,
    pub home: Arc<str>,
    /// What the last look at an agent found that it is to run with.
    pub wanted: Mutex<BTreeMap<ObjectRef, Arc<Wanted>>>,
}

/// What can go wrong with an agent besides what its status tells.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error("failed to read the credentials: {0}")]
    ReadSecret(#[from] WriteError),
    #[error("failed to start the stream of an agent: {0}")]
    Start(String),
}

impl Classified for AgentError {
    fn class(&self) -> Class {
        match self {
            Self::ReadSecret(error) => error.class(),
            Self::Start(_) => Class::User,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::ReadSecret(_) => "CredentialsUnreadable",
            Self::Start(_) => "StartFailed",
        }
    }

    fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::ReadSecret(error) => error.retry_after(),
            Self::Start(_) => None,
        }
    }
}

impl Controller for Agents {
    type Key = ObjectRef;
    type Input = Input;
    type Action = Action;
    type Error = AgentError;
    type Held = ();

    fn name(&self) -> &'static str {
        "inventory"
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<Input>, AgentError> {
        self.secrets.forget_unused();
        let running = self.peers.running(key);
        let Some(agent) = self.agents.get(key) else {
            self.lock().remove(key);
            return Ok(running.map(|_| Input::Gone(key.clone())));
        };
        let readiness = self.readiness(&agent).await?;
        let (running, id) = running.unzip();
        let facts = self.shared.facts(id);
        let agent = Agent {
            meta: agent.meta.clone(),
            spec: agent.value.spec.clone(),
            status: match &agent.value.status {
                Value::Null => Value::Object(serde_json::Map::new()),
                status => status.clone(),
            },
            readiness,
            running,
            report: facts.report.map(|report| self.peers.steady(key, report)),
            cluster_uid: facts.cluster_uid,
            counts: facts.counts,
            unreadable: facts.unreadable,
        };
        Ok(Some(Input::Agent(Box::new(agent))))
    }

    fn decide(&self, input: &Input, now: Timestamp) -> Plan<Action> {
        decide(input, now)
    }

    async fn perform(&self, action: Action) -> Result<(), Fault<AgentError>> {
        match action {
            Action::Stop(key) => {
                self.peers.stop(&key);
                self.lock().remove(&key);
            }
            Action::Run(key) => {
                let wanted = self.lock().get(&key).cloned();
                if let Some(wanted) = wanted {
                    let run = self.peers.run(&key, &wanted).await;
                    run.map_err(|why| Fault::Controller(AgentError::Start(why)))?;
                }
            }
        }
        Ok(())
    }
}

impl Agents {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ObjectRef, Arc<Wanted>>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an agent can run, and with what.
    async fn readiness(&self, agent: &Watched<Seen>) -> Result<Readiness, AgentError> {
        let (object, spec) = (&agent.meta.object, &agent.value.spec);
        self.lock().remove(object);
        if let Err(why) = check_url(&spec.platform_url).and_then(|()| web(spec).map(drop)) {
            return Ok(Readiness::BadSpec(why));
        }
        let name = &spec.credentials_secret_ref.name;
        if object.namespace() != Some(&*self.home) {
            let namespace = object.namespace().unwrap_or_default();
            return Ok(Readiness::BadCredentials(format!(
                "not permitted to get, list and watch the Secret {namespace}/{name}: credentials are read only in the namespace {} \
                 of the manager; create the ObsykAgent and its Secret there",
                self.home
            )));
        }
        Ok(match self.secrets.credentials(name).await? {
            Found::Waiting => Readiness::Waiting,
            Found::Bad(why) => Readiness::BadCredentials(why),
            Found::Good(credentials, number) => {
                let key = format!("{}/{}/{number}", agent.meta.uid, agent.meta.generation);
                let wanted = Wanted {
                    key: key.clone(),
                    spec: spec.clone(),
                    credentials,
                };
                self.lock().insert(object.clone(), Arc::new(wanted));
                Readiness::Ready(key)
            }
        })
    }
}
