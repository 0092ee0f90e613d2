//! The controller of Secrets: it reads what is known, asks providers if there is a cause, and lets the core decide.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde::Deserialize;
use trustplane_kit::apply::{WriteError, Writer};
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_kit::watch::Store;
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Class, Classified, Fingerprinter, Keep, Meta, Note, ObjectRef, Plan};
use trustplane_process::clock::Clock;
use trustplane_sync_core::adopt::needs_nature;
use trustplane_sync_core::claims::{Asked, Claim};
use trustplane_sync_core::data::Value;
use trustplane_sync_core::decide::{Action, Inherited, Input, decide};
use trustplane_sync_core::fetch::FetchError;
use trustplane_sync_core::reason::Reason;
use trustplane_sync_core::situation::{Live, Nature, Record, Settings, Situation, Stranger, assess};
use trustplane_sync_core::state::{STATE, SYNCED_AT, mark};
use trustplane_sync_providers::{Answer, Exchange, Question};

use crate::asks::PodRequests;
use crate::authority::{Accounts, Authority, Quotas};
use crate::ledger::Ledger;
use crate::metrics::SyncMetrics;
use crate::problems::{log_problem, log_problems};

/// The field manager of the capability.
pub(crate) const MANAGER: &str = "trustplane-sync";

/// Keeps the Secrets that pods ask for.
pub(crate) struct Secrets {
    pub writer: Writer,
    pub exchange: Exchange,
    pub settings: Settings,
    pub fingerprinter: Fingerprinter,
    pub clock: Arc<dyn Clock>,
    pub pods: Arc<PodRequests>,
    /// Metadata of those with our label; no value, and nothing of anybody else's.
    pub secrets: Store<()>,
    pub ledger: Ledger,
    pub authority: Authority,
    pub accounts: Arc<Accounts>,
    pub quotas: Quotas,
    pub metrics: SyncMetrics,
}

/// What can go wrong when something is read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    /// The live Secret cannot be read.
    #[error(transparent)]
    Read(#[from] WriteError),
}

impl Classified for SyncError {
    fn class(&self) -> Class {
        let Self::Read(source) = self;
        source.class()
    }

    fn reason(&self) -> &'static str {
        Reason::SecretSyncFailed.as_str()
    }

    fn retry_after(&self) -> Option<std::time::Duration> {
        let Self::Read(source) = self;
        source.retry_after()
    }
}

/// What providers answered.
type Answers = BTreeMap<Asked, Answer>;

/// Answers that came before a write met something that was not seen: they are used once more, and then dropped. Each counts only
/// for the pod that asked, and for the revision of the store that its request was judged with.
pub(crate) type Held = BTreeMap<(Asked, Question), Answer>;

impl Controller for Secrets {
    type Key = ObjectRef;
    type Input = Input;
    type Action = Action;
    type Error = SyncError;
    type Held = Held;

    fn name(&self) -> &'static str {
        "sync"
    }

    async fn gather(&self, key: &ObjectRef, look: &mut Look<Held>) -> Result<Option<Input>, SyncError> {
        let mut pods = self.pods.claimants(key);
        let known = self.ledger.get(key);
        if pods.is_empty() && known.is_none() {
            return Ok(None);
        }
        let namespace = key.namespace().unwrap_or_default();
        let rules = self.authority.rules(namespace);
        if rules.name_accounts() {
            self.accounts.fill(&mut pods, &self.writer).await?;
        }
        let looked = self.clock.now();
        let record = known.unwrap_or_else(|| Record::new(looked));
        let is_taken = record.taken && self.secrets.get(key).is_none();
        let mut situation = Situation {
            secret: key.clone(),
            stores: self.authority.stores(namespace, &pods),
            pods: pods.into_iter().map(Arc::new).collect(),
            live: self.stored(key),
            record,
            failures: look.failures,
            rules,
            news: self.ledger.news(key),
            contested: self.ledger.contested(),
            looked,
        };
        if look.again || is_taken {
            situation.live = self.live(key).await?;
        }
        let assessment = assess(&situation, &self.settings);
        self.look_closer(&mut situation, &assessment.shares.winners)
            .await?;
        let cause = assessment.cause(&situation, &self.settings);
        let (mut answers, mut inherited) = (Answers::new(), None);
        if cause.is_some() {
            look.held = self.ask(&situation, &assessment.shares.winners, &look.held).await;
            let held = look.held.iter();
            answers = held
                .map(|((asked, _), answer)| (asked.clone(), answer.clone()))
                .collect();
            inherited = self.inherited(&situation).await?;
        }
        Ok(Some(Input {
            situation,
            assessment,
            cause,
            answers,
            inherited,
        }))
    }

    fn decide(&self, input: &Input, _now: Timestamp) -> Plan<Action> {
        let plan = decide(input, &self.settings, &self.fingerprinter);
        log_problems(&plan);
        plan
    }

    fn reads_live(&self) -> bool {
        true
    }

    async fn perform(&self, action: Action) -> Result<(), Fault<SyncError>> {
        match action {
            Action::Remember(secret, record) => self.ledger.put(secret, *record),
            Action::Inherit(live, fields) => self.writer.set_managed_fields(&SECRET, &live, &fields).await?,
            Action::Placed(secret) => {
                self.ledger.placed(&secret);
                self.count_wait(&secret);
            }
            Action::Owe(secret, owed) => self.ledger.owe(&secret, owed),
            Action::Told { secret, id, at } => self.ledger.told(&secret, id, at),
            Action::Forget(secret) => self.ledger.forget(&secret),
        }
        Ok(())
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<SyncError>) -> Vec<Note> {
        let text = fault.to_string();
        let pods = self.pods.claimants(key);
        let notes: Vec<Note> = pods
            .iter()
            .map(|pod| pod.note(Reason::SecretSyncFailed, &text))
            .collect();
        notes.iter().for_each(log_problem);
        notes
    }
}

impl Secrets {
    /// How long the pods have waited that find their Secret now.
    fn count_wait(&self, secret: &ObjectRef) {
        let now = self.clock.now();
        for pod in self.pods.claimants(secret) {
            if let Ok(wait) = Duration::try_from(now.duration_since(pod.created)) {
                self.metrics.waited(wait);
            }
        }
    }

    /// What is there, as far as the store knows.
    fn stored(&self, key: &ObjectRef) -> Live {
        let stored = self.secrets.get(key);
        stored.map_or(Live::Absent, |stored| Live::Ours(stored.meta.clone()))
    }

    /// What is there now.
    async fn live(&self, key: &ObjectRef) -> Result<Live, WriteError> {
        let live = self
            .writer
            .get_meta(&SECRET, key, &Keep::owned_by(MANAGER))
            .await?;
        Ok(match live {
            None => Live::Absent,
            Some(meta) if mark(&self.settings.managed_by).is_on(&meta) => Live::Ours(meta),
            Some(meta) => Live::Foreign(Stranger { meta, nature: None }),
        })
    }

    /// Reads type and mutability of a Secret that Trustplane does not manage, if its metadata lets a request take it over.
    async fn look_closer(&self, situation: &mut Situation, winners: &[Claim]) -> Result<(), WriteError> {
        if !needs_nature(situation, winners) {
            return Ok(());
        }
        let found: Option<Shell> = self.writer.get_slim(&SECRET, &situation.secret).await?;
        if let (Live::Foreign(stranger), Some(found)) = (&mut situation.live, found) {
            stranger.nature = Some(Nature {
                secret_type: found.secret_type,
                immutable: found.immutable,
            });
        }
        Ok(())
    }

    async fn ask(&self, situation: &Situation, winners: &[Claim], held: &Held) -> Held {
        let questions: BTreeMap<(Asked, Question), &Claim> = winners
            .iter()
            .map(|winner| ((winner.asked(), question(situation, winner)), winner))
            .collect();
        let asked = questions.into_iter().map(|(key, claim)| async move {
            let answer = match held.get(&key) {
                Some(answer) => answer.clone(),
                None => self.ask_provider(situation, claim, &key.1).await,
            };
            if let Err(error) = &answer {
                let path = &claim.request.source.path;
                tracing::debug!(secret = %situation.secret, path, "failed to fetch: {error}");
            }
            (key, answer)
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn ask_provider(&self, situation: &Situation, claim: &Claim, question: &Question) -> Answer {
        let namespace = situation.secret.namespace().unwrap_or_default();
        if let Some(quota) = situation.rules.quota() {
            self.quotas
                .take(namespace, quota, situation.looked)
                .map_err(|retry_after| FetchError::OverQuota { retry_after })?;
        }
        self.exchange
            .ask(question, self.accounts.asking(&claim.pod, &self.writer))
            .await
    }

    /// What a Secret that JASM made holds: we have no fingerprint of it, so it must be compared.
    async fn inherited(&self, situation: &Situation) -> Result<Option<Inherited>, WriteError> {
        let is_inherited = |meta: &Meta| !meta.annotations.contains_key(STATE) && meta.fields.is_empty();
        match &situation.live {
            Live::Ours(meta) if is_inherited(meta) => {}
            _ => return Ok(None),
        }
        let found: Option<Found> = self.writer.get_slim(&SECRET, &situation.secret).await?;
        // JASM wrote this with every update of its own.
        let marker = ["metadata", "annotations", SYNCED_AT];
        Ok(found.map(|found| Inherited {
            managed_fields: self
                .writer
                .inherited_fields(&found.metadata.managed_fields, &marker),
            data: found
                .data
                .into_iter()
                .map(|(key, value)| (key, Value::new(value.0)))
                .collect(),
        }))
    }
}

/// The question that a claim comes to, of its store as it was judged.
fn question(situation: &Situation, claim: &Claim) -> Question {
    let source = &claim.request.source;
    let store = source.store.as_ref().and_then(|name| situation.stores.get(name));
    let namespace = situation.secret.namespace().unwrap_or_default();
    Question::of(source, namespace, store.map(|store| &store.revision))
}

/// What is read of a Secret that is not ours: no value.
#[derive(Deserialize)]
struct Shell {
    #[serde(rename = "type", default)]
    secret_type: String,
    #[serde(default)]
    immutable: bool,
}

/// What is read of a Secret that JASM made.
#[derive(Deserialize)]
struct Found {
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
    metadata: Bookkeeping,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bookkeeping {
    #[serde(default)]
    managed_fields: Vec<serde_json::Value>,
}
