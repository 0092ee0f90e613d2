//! The controller of HSMSecrets: a secret on the tokens becomes a Secret.

mod feeds;
mod lists;
mod locations;
mod seen;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value as Json;
use tokio::time::Instant;
use trustplane_api::hsm::HSM_SECRET;
use trustplane_api::hsm::names::DELIVERED_LABEL;
use trustplane_api::hsm::v1::{ReadSecretRequest, ReadSecretResponse};
use trustplane_hsm_core::delivery::copies::{TokenCopy, TokenView};
use trustplane_hsm_core::delivery::{
    Assessment, DeliveryAction, DeliveryInput, LiveSecret, MANAGER, Situation, TakeOver, Tenancy, assess,
    decide_delivery, locations as claims,
};
use trustplane_hsm_core::path::KeyName;
use trustplane_hsm_core::secret::{Data, Secret, Value};
use trustplane_kit::apply::Writer;
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_kit::watch::{Store, Watched};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Fingerprinter, Keep, Meta, Note, ObjectRef, Plan};

use crate::client::Agents;
use crate::error::HsmError;
use crate::world::World;

pub(crate) use feeds::watch;
pub(crate) use lists::{KnownToken, PATIENCE, Poller, TokenLists};
pub(crate) use locations::{LocationError, LocationKeeper};
use seen::{RawContent, SeenHsmSecret, at_location};

/// A token list counts until it is this many `syncInterval`s of the HSMSecret, plus [`SLACK`], old.
const STALE_AFTER: u32 = 2;
/// How long a token list still counts after [`STALE_AFTER`] intervals.
const SLACK: Duration = Duration::from_secs(30);
/// How many times one look corrects a token list by a read, before it leaves the rest to the next look.
const CORRECTIONS: usize = 3;

/// Keeps the Secrets of HSMSecrets in line.
pub(crate) struct Deliveries {
    pub world: World,
    pub secrets: Store<SeenHsmSecret>,
    pub delivered: Store<trustplane_hsm_core::delivery::SecretContent>,
    pub locations: Arc<LocationKeeper>,
    pub lists: TokenLists,
    pub agents: Arc<Agents>,
    pub writer: Writer,
    pub fingerprinter: Fingerprinter,
    pub tenancy: Tenancy,
    /// Why the last attempt to write failed, by HSMSecret.
    pub troubles: Mutex<HashMap<ObjectRef, String>>,
    /// Problems that newer token lists have to confirm before a status tells of them, by HSMSecret.
    pub unconfirmed: Mutex<HashMap<ObjectRef, Unconfirmed>>,
}

/// A problem that was met with lists of before.
pub(crate) struct Unconfirmed {
    reason: &'static str,
    generation: i64,
    met: Instant,
}

impl Controller for Deliveries {
    type Key = ObjectRef;
    type Input = DeliveryInput;
    type Action = DeliveryAction;
    type Error = HsmError;
    type Held = ();

    fn name(&self) -> &'static str {
        "hsm-secrets"
    }

    async fn gather(&self, key: &ObjectRef, look: &mut Look<()>) -> Result<Option<DeliveryInput>, HsmError> {
        let Some(seen) = self.secrets.get(key) else {
            self.troubles().remove(key);
            self.unconfirmed().remove(key);
            return Ok(None);
        };
        let mut situation = self.situation(&seen, look).await?;
        let (assessment, reading) = self.read(&mut situation).await;
        let mut input = DeliveryInput {
            situation,
            assessment,
            reading,
            managed_fields: None,
        };
        if let Some(takes_over) = input.assessment.takes_over() {
            input.managed_fields = self.taken_fields(&input.situation, takes_over).await?;
            if input.managed_fields.is_none() {
                input.assessment.take_nothing_over();
                input.reading = self.read_at(&input.situation, &input.assessment).await;
            }
        }
        if !matches!(input.assessment, Assessment::Deliver(_)) {
            self.troubles().remove(key);
        }
        Ok(Some(input))
    }

    fn reads_live(&self) -> bool {
        true
    }

    fn decide(&self, input: &DeliveryInput, now: Timestamp) -> Plan<DeliveryAction> {
        decide_delivery(input, now)
    }

    async fn perform(&self, action: DeliveryAction) -> Result<(), Fault<HsmError>> {
        match action {
            DeliveryAction::Claim { path, namespace } => {
                let claimed = self.locations.claim(&path, &namespace).await;
                claimed.map_err(|error| Fault::Controller(error.into()))
            }
            DeliveryAction::Release { path, namespace } => {
                let released = self.locations.release(&path, &namespace).await;
                released.map_err(|error| Fault::Controller(error.into()))
            }
            DeliveryAction::Inherit(live, fields) => {
                Ok(self.writer.set_managed_fields(&SECRET, &live, &fields).await?)
            }
        }
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<HsmError>) -> Vec<Note> {
        let Some(seen) = self.secrets.get(key) else {
            return Vec::new();
        };
        self.troubles().insert(key.clone(), fault.to_string());
        vec![Note::of_error(&HSM_SECRET, &seen.meta, fault, "Deliver")]
    }
}

impl Deliveries {
    fn unconfirmed(&self) -> MutexGuard<'_, HashMap<ObjectRef, Unconfirmed>> {
        self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn troubles(&self) -> MutexGuard<'_, HashMap<ObjectRef, String>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that is known without a value, except for the tokens.
    async fn situation(&self, seen: &Watched<SeenHsmSecret>, look: &Look<()>) -> Result<Situation, HsmError> {
        let value = &seen.value;
        let placement = value.placement.as_ref().ok();
        let others = |name: &ObjectRef| -> Vec<Meta> {
            let all = self.secrets.under(name).into_iter();
            let others = all.filter(|other| other.meta.uid != seen.meta.uid);
            others.map(|other| other.meta.clone()).collect()
        };
        let at = placement.map(|placement| at_location(placement.path.as_str()));
        Ok(Situation {
            object: seen.meta.clone(),
            spec: value.spec.clone(),
            status: value.status.clone(),
            served: value.served,
            placement: value.placement.clone(),
            rivals: placement
                .map(|placement| others(&placement.secret))
                .unwrap_or_default(),
            sharers: at.as_ref().map(others).unwrap_or_default(),
            live: self.live(seen, look).await?,
            tokens: Vec::new(),
            tenant: placement.and_then(|placement| self.locations.tenant(&placement.path)),
            listed: placement.and_then(|placement| claims::listed(&self.world.places(), &placement.path)),
            tenancy: self.tenancy,
            trouble: self.troubles().get(&seen.meta.object).cloned(),
            failures: look.failures,
        })
    }

    /// The Secret, from the watch; from the API server if the watch is behind, or if the Secret may lack the label that the watch
    /// selects.
    async fn live(&self, seen: &Watched<SeenHsmSecret>, look: &Look<()>) -> Result<LiveSecret, HsmError> {
        let Ok(placement) = &seen.value.placement else {
            return Ok(LiveSecret::Absent);
        };
        let stored = self.delivered.get(&placement.secret);
        let hidden = stored.is_none() && seen.value.conflict().is_some();
        match stored {
            Some(stored) if !look.again => Ok(LiveSecret::Found {
                meta: Box::new(stored.meta.clone()),
                content: Some(stored.value.clone()),
            }),
            None if !look.again && !hidden => Ok(LiveSecret::Absent),
            _ => self.live_now(&placement.secret, &seen.meta).await,
        }
    }

    async fn live_now(&self, secret: &ObjectRef, owner: &Meta) -> Result<LiveSecret, HsmError> {
        let keep = Keep::owned_by(MANAGER);
        let meta = self
            .writer
            .get_meta(&SECRET, secret, &keep)
            .await
            .map_err(HsmError::Read)?;
        let Some(meta) = meta else {
            return Ok(LiveSecret::Absent);
        };
        let mut owners = meta.owners.iter();
        let owned = owners.any(|of| of.controller && of.uid == *owner.uid);
        let content: Option<RawContent> = match owned {
            // The values of another owner's Secret are not read.
            true => self
                .writer
                .get_slim(&SECRET, secret)
                .await
                .map_err(HsmError::Read)?,
            false => None,
        };
        Ok(LiveSecret::Found {
            meta: Box::new(meta),
            content: content.map(Into::into),
        })
    }

    /// Assesses the situation, and reads the secret if the Secret has to be written. If the read shows that a token list is
    /// outdated, the list is corrected and the situation is assessed again.
    async fn read(&self, situation: &mut Situation) -> (Assessment, Option<Result<Secret, String>>) {
        for _ in 0..CORRECTIONS {
            situation.tokens = self.tokens(situation);
            let mut assessment = assess(situation, &self.fingerprinter);
            if !self.is_confirmed(situation, &assessment) {
                assessment = Assessment::Wait;
            }
            if assessment == Assessment::Wait {
                self.lists.refresh();
            }
            let Some(token) = assessment
                .source()
                .and_then(|source| situation.tokens.get(source))
            else {
                return (assessment, None);
            };
            match self.ask(situation, token).await {
                Read::Same(secret) => return (assessment, Some(Ok(*secret))),
                Read::Failed(why) => return (assessment, Some(Err(why))),
                Read::Other => {}
            }
        }
        (Assessment::Wait, None)
    }

    /// Reads the secret that an assessment needs.
    async fn read_at(
        &self,
        situation: &Situation,
        assessment: &Assessment,
    ) -> Option<Result<Secret, String>> {
        let token = situation.tokens.get(assessment.source()?)?;
        match self.ask(situation, token).await {
            Read::Same(secret) => Some(Ok(*secret)),
            Read::Failed(why) => Some(Err(why)),
            Read::Other => None,
        }
    }

    fn tokens(&self, situation: &Situation) -> Vec<TokenView> {
        let (Ok(placement), Some(spec)) = (&situation.placement, &situation.spec) else {
            return Vec::new();
        };
        let interval = Duration::from_secs(u64::try_from(spec.sync_interval).unwrap_or_default());
        let fresh = interval.saturating_mul(STALE_AFTER).saturating_add(SLACK);
        self.lists.at(placement.path.as_str(), fresh)
    }

    /// Whether an assessment rests on token lists that are new enough: each token was asked after the problem was first met.
    fn is_confirmed(&self, situation: &Situation, assessment: &Assessment) -> bool {
        let object = &situation.object;
        let mut unconfirmed = self.unconfirmed();
        let Some(reason) = assessment.to_confirm(situation) else {
            unconfirmed.remove(&object.object);
            return true;
        };
        let now = || Unconfirmed {
            reason,
            generation: object.generation,
            met: Instant::now(),
        };
        let known = unconfirmed.entry(object.object.clone()).or_insert_with(now);
        if (known.reason, known.generation) != (reason, object.generation) {
            *known = now();
        }
        self.lists.are_newer_than(known.met)
    }

    /// Reads the secret from a token.
    async fn ask(&self, situation: &Situation, token: &TokenView) -> Read {
        let (Ok(placement), Some(listed)) = (&situation.placement, token.copy()) else {
            return Read::Other;
        };
        let path = placement.path.as_str();
        let mut client = match self.agents.connect(&token.agent).await {
            Ok(client) => client,
            Err(error) => return Read::Failed(lists::unreachable(&error)),
        };
        let request = ReadSecretRequest {
            path: path.to_owned(),
            ..ReadSecretRequest::default()
        };
        match client.read_secret(request).await.map(tonic::Response::into_inner) {
            Ok(answer) => match read_copy(&answer) {
                Ok(copy) if copy == *listed => match secret(answer, &copy) {
                    Some(secret) => Read::Same(Box::new(secret)),
                    None => Read::Failed("its agent has sent a key that no Secret can have".to_owned()),
                },
                Ok(copy) => {
                    self.lists.learn(&token.agent, path, Some(copy));
                    Read::Other
                }
                Err(why) => Read::Failed(why),
            },
            Err(status) if status.code() == tonic::Code::NotFound => {
                self.lists.learn(&token.agent, path, None);
                Read::Other
            }
            Err(status) => {
                self.lists.refresh();
                Read::Failed(lists::refused(&status))
            }
        }
    }

    /// The `managedFields` of the Secret in which the fields of other field managers are ours; `None` if there are no such fields.
    async fn taken_fields(
        &self,
        situation: &Situation,
        takes_over: TakeOver,
    ) -> Result<Option<Vec<Json>>, HsmError> {
        let Ok(placement) = &situation.placement else {
            return Ok(None);
        };
        let found: Option<Bookkeeping> = self
            .writer
            .get_slim(&SECRET, &placement.secret)
            .await
            .map_err(HsmError::Read)?;
        let entries = found
            .map(|found| found.metadata.managed_fields)
            .unwrap_or_default();
        Ok(match takes_over {
            // The original wrote this label with every Secret.
            TakeOver::Original => {
                let marker = ["metadata", "labels", DELIVERED_LABEL];
                self.writer.inherited_fields(&entries, &marker)
            }
            TakeOver::Data => self.writer.absorbed_fields(&entries, "data"),
        })
    }
}

/// The outcome of a read.
enum Read {
    /// The secret, as the list says.
    Same(Box<Secret>),
    /// Another content than the list says: the list is corrected.
    Other,
    /// The read failed, and why.
    Failed(String),
}

/// The copy that the answer to a read describes.
fn read_copy(answer: &ReadSecretResponse) -> Result<TokenCopy, String> {
    lists::read(answer).map_err(|error| error.to_string())
}

/// The secret of an answer; `None` if a key is no valid name. Its values are moved into types that wipe them.
fn secret(answer: ReadSecretResponse, copy: &TokenCopy) -> Option<Secret> {
    let pairs = answer.secret_data.unwrap_or_default().data.into_iter();
    let pairs: Vec<(String, Value)> = pairs.map(|(key, value)| (key, Value::new(value))).collect();
    let named = pairs
        .into_iter()
        .map(|(key, value)| Some((KeyName::parse(&key).ok()?, value)));
    Some(Secret {
        data: named.collect::<Option<Data>>()?,
        metadata: copy.metadata.clone(),
    })
}

/// A Secret, as far as its `managedFields` go.
#[derive(Deserialize)]
struct Bookkeeping {
    metadata: ManagedFields,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFields {
    #[serde(default)]
    managed_fields: Vec<Json>,
}
