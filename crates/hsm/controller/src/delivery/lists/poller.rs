//! Asks the agents for their lists.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Status;
use trustplane_api::hsm::delivery::sync_status;
use trustplane_api::hsm::v1::{ListSecretsRequest, ListSecretsResponse};
use trustplane_kit::queue::{Lane, Queue};
use trustplane_kit::watch::Store;
use trustplane_plan::ObjectRef;

use super::super::seen::{SeenHsmSecret, at_location};
use super::{KnownToken, ListedSecret, ListedToken, Shared, TokenLists, bounded, listed};
use crate::client::{Agents, ClientError};
use crate::world::World;

/// The shortest `syncInterval` that is obeyed.
const SHORTEST: Duration = Duration::from_secs(5);
/// How long before the end of an interval agents are asked, so that a change is delivered within the interval.
const MARGIN: Duration = Duration::from_millis(250);
/// How long changes of pools, pods and HSMSecrets are gathered before agents are asked.
const SETTLE: Duration = Duration::from_millis(100);
/// The shortest time between two requests for one list, when a look needs a newer list.
const PACE: Duration = Duration::from_secs(1);
/// The first wait before an agent that does not answer is asked again. The wait doubles, up to [`LONGEST`].
const AGAIN: Duration = Duration::from_millis(500);
/// The longest wait before an agent that does not answer is asked again.
const LONGEST: Duration = Duration::from_secs(10);
/// The time between two requests for a list while no HSMSecret waits for a change.
const IDLE: Duration = Duration::from_secs(3600);

/// Asks the agents for their lists, while this process leads.
pub(crate) struct Poller {
    pub lists: TokenLists,
    pub world: World,
    pub agents: Arc<Agents>,
    pub secrets: Store<SeenHsmSecret>,
    pub queue: Queue<ObjectRef>,
    pub leading: watch::Receiver<bool>,
}

/// What an agent has answered.
struct Answer {
    agent: ObjectRef,
    asked: Instant,
    outcome: Result<ListSecretsResponse, String>,
}

impl Poller {
    /// Runs until it is dropped.
    pub async fn run(mut self) {
        if self.leading.wait_for(|leads| *leads).await.is_err() || !self.is_ready().await {
            // Without a sender, or with a watch that was stopped, the process is about to end.
            return std::future::pending().await;
        }
        let mut changes = [
            self.world.devices.changes(),
            self.world.pools.changes(),
            self.world.records.changes(),
            self.secrets.changes(),
        ];
        let mut pods = self.world.pods.changes();
        let wanted = self.lists.wanted.clone();
        let mut calls = JoinSet::new();
        loop {
            let next = self.begin(&mut calls);
            let [devices, pools, records, secrets] = &mut changes;
            tokio::select! {
                Some(answer) = calls.join_next() => {
                    // No call panics, and none is aborted.
                    if let Ok(answer) = answer {
                        self.take(answer);
                    }
                }
                () = sleep_until(next) => {}
                () = wanted.notified() => {}
                Ok(()) = devices.changed() => sleep(SETTLE).await,
                Ok(()) = pools.changed() => sleep(SETTLE).await,
                Ok(()) = records.changed() => sleep(SETTLE).await,
                Ok(()) = secrets.changed() => sleep(SETTLE).await,
                Ok(()) = pods.changed() => {
                    sleep(SETTLE).await;
                    self.hurry();
                }
            }
        }
    }

    /// Waits until the watches know the tokens and the HSMSecrets.
    async fn is_ready(&self) -> bool {
        let world = &self.world;
        world.devices.ready().await.is_ok()
            && world.pools.ready().await.is_ok()
            && world.pods.ready().await.is_ok()
            && world.records.ready().await.is_ok()
            && self.secrets.ready().await.is_ok()
    }

    /// Begins the calls that are due. Answers when the next call is due.
    fn begin(&self, calls: &mut JoinSet<Answer>) -> Instant {
        let now = Instant::now();
        let interval = self.interval();
        let tokens = self.world.tokens();
        let mut shared = self.lists.lock();
        let mut concerns_all = shared.follow(tokens, now);
        shared.heed_refresh(now);
        let mut next = now + IDLE;
        for token in shared.tokens.values_mut() {
            concerns_all |= token.is_newly_away(now, self.lists.patience, &mut next);
            if token.asked {
                continue;
            }
            if let (Some(interval), Some(confirmed), None) = (interval, token.confirmed, &token.silent) {
                token.due = token.due.min(confirmed + interval);
            }
            if token.due <= now {
                token.asked = true;
                token.due = now + interval.unwrap_or(IDLE);
                calls.spawn(self.call(token.token.agent.clone(), token.revision.clone()));
            } else {
                next = next.min(token.due);
            }
        }
        drop(shared);
        if concerns_all {
            self.look_at_all();
        }
        next
    }

    /// The shortest interval of the HSMSecrets that wait for changes, less [`MARGIN`]; `None` if no HSMSecret waits.
    fn interval(&self) -> Option<Duration> {
        let mut shortest: Option<Duration> = None;
        self.secrets.for_each(|secret| {
            let Some(spec) = secret.value.spec.as_ref().filter(|_| secret.value.served) else {
                return;
            };
            let settled = secret.value.status.sync_status.as_deref() == Some(sync_status::IN_SYNC);
            if spec.auto_sync || !settled {
                let wanted = Duration::from_secs(u64::try_from(spec.sync_interval).unwrap_or_default());
                let wanted = wanted.max(SHORTEST);
                shortest = Some(shortest.map_or(wanted, |known| known.min(wanted)));
            }
        });
        shortest.map(|shortest| shortest - MARGIN)
    }

    fn call(&self, agent: ObjectRef, revision: String) -> impl Future<Output = Answer> + Send + use<> {
        let agents = self.agents.clone();
        async move {
            let asked = Instant::now();
            // A token without an answer would never be asked again.
            let asking = AssertUnwindSafe(ask(&agents, &agent, revision)).catch_unwind();
            let outcome = asking
                .await
                .unwrap_or_else(|_| Err("the call to its agent panicked".to_owned()));
            Answer {
                agent,
                asked,
                outcome,
            }
        }
    }

    /// Asks silent agents at once: a pod has changed.
    fn hurry(&self) {
        let now = Instant::now();
        for token in self.lists.lock().tokens.values_mut() {
            if token.silent.is_some() {
                token.due = now;
            }
        }
    }

    /// Keeps an answer, and requeues the HSMSecrets that it concerns.
    fn take(&self, answer: Answer) {
        let mut shared = self.lists.lock();
        let Some(token) = shared.tokens.get_mut(&answer.agent) else {
            return;
        };
        token.asked = false;
        let list = match answer.outcome {
            Ok(list) => list,
            Err(why) => {
                tracing::debug!(agent = %answer.agent, why, "an agent did not list its token");
                return token.miss(why, Instant::now());
            }
        };
        let is_back = token.told_away || token.confirmed.is_none();
        let changed = token.keep(list, answer.asked);
        drop(shared);
        if is_back {
            return self.look_at_all();
        }
        for path in changed {
            for secret in self.secrets.under(&at_location(&path)) {
                self.queue.add(secret.meta.object.clone(), Lane::Normal);
            }
        }
    }

    fn look_at_all(&self) {
        self.secrets
            .for_each(|secret| self.queue.add(secret.meta.object.clone(), Lane::Bulk));
    }
}

impl Shared {
    /// If a look needs newer lists, makes each list due: at once, or [`PACE`] after it was last confirmed. A silent agent keeps its
    /// backoff.
    pub(super) fn heed_refresh(&mut self, now: Instant) {
        if !std::mem::take(&mut self.refresh) {
            return;
        }
        let answering = self.tokens.values_mut().filter(|token| token.silent.is_none());
        for token in answering {
            let soon = token.confirmed.map_or(now, |at| (at + PACE).max(now));
            token.due = token.due.min(soon);
        }
    }

    /// Replaces the known tokens. Answers whether they have changed.
    fn follow(&mut self, tokens: Vec<KnownToken>, now: Instant) -> bool {
        let known: BTreeSet<ObjectRef> = tokens.iter().map(|token| token.agent.clone()).collect();
        let mut changed = !self.begun;
        self.begun = true;
        self.tokens.retain(|agent, _| {
            let stays = known.contains(agent);
            changed |= !stays;
            stays
        });
        for token in tokens {
            match self.tokens.get_mut(&token.agent) {
                Some(listed) => {
                    changed |= listed.token != token;
                    listed.token = token;
                }
                None => {
                    changed = true;
                    let agent = token.agent.clone();
                    self.tokens.insert(agent, ListedToken::new(token, now));
                }
            }
        }
        changed
    }
}

impl ListedToken {
    /// Whether the token counts as away and did not before. If it will later, `next` becomes that time at the latest.
    fn is_newly_away(&mut self, now: Instant, patience: Duration, next: &mut Instant) -> bool {
        let Some((since, _)) = self.silent.as_ref().filter(|_| !self.told_away) else {
            return false;
        };
        let lost = *since + patience;
        if lost > now {
            *next = (*next).min(lost);
            return false;
        }
        self.told_away = true;
        true
    }

    /// Keeps a list. Answers the paths whose entry has changed.
    fn keep(&mut self, list: ListSecretsResponse, asked: Instant) -> BTreeSet<String> {
        self.confirmed = Some(asked);
        self.silent = None;
        self.failures = 0;
        self.told_away = false;
        if list.unchanged && self.secrets.is_some() {
            return BTreeSet::new();
        }
        let new: BTreeMap<String, ListedSecret> = list.entries.into_iter().map(listed).collect();
        let old = self.secrets.take().unwrap_or_default();
        let differs = |path: &&String| old.get(*path) != new.get(*path);
        let changed = old.keys().chain(new.keys()).filter(differs).cloned().collect();
        self.secrets = Some(new);
        self.revision = list.revision;
        changed
    }

    /// Notes that the agent did not answer. The first reason stays, so that the status does not change with each try.
    fn miss(&mut self, why: String, now: Instant) {
        self.silent.get_or_insert((now, why));
        let wait = AGAIN.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.due = now + wait;
    }
}

/// Asks one agent for a list of what its token holds now.
async fn ask(agents: &Agents, agent: &ObjectRef, revision: String) -> Result<ListSecretsResponse, String> {
    let mut client = agents.connect(agent).await.map_err(|error| unreachable(&error))?;
    let request = ListSecretsRequest {
        include_deleted: true,
        unless_revision: revision,
        max_age_seconds: Some(0),
        ..ListSecretsRequest::default()
    };
    let answer = client.list_secrets(request).await;
    answer
        .map(tonic::Response::into_inner)
        .map_err(|status| refused(&status))
}

/// Why an agent cannot be reached. The text has no address, because each pod has another one.
pub(in crate::delivery) fn unreachable(error: &ClientError) -> String {
    match error {
        ClientError::NoPod(_) => "its agent has no running pod".to_owned(),
        ClientError::Name(_) => "its agent has a name that no certificate can have".to_owned(),
        ClientError::Connect { .. } => "its agent cannot be reached".to_owned(),
    }
}

/// Why an agent does not do what it was asked.
pub(in crate::delivery) fn refused(status: &Status) -> String {
    match status.code() {
        // A status that an agent has sent has no source: this one is an error of the connection.
        _ if status.source().is_some() => "the connection to its agent broke".to_owned(),
        tonic::Code::Unknown | tonic::Code::Cancelled | tonic::Code::Internal => {
            "the connection to its agent broke".to_owned()
        }
        _ => format!("its agent says: {}", bounded(status.message())),
    }
}
