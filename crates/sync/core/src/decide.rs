//! What to do about a Secret: a pure function.

mod notes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value as Json};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{
    Conflicts, Convergence, Delete, Ending, FINGERPRINT, Failure, Fingerprinter, Manifest, Meta, ObjectRef,
    Ownership, Plan, Propagation, Step, Target, converge,
};

use notes::{TELL_AGAIN, hash};

use crate::adopt::may_adopt;
use crate::beat::{Beat, until};
use crate::claims::{Asked, Claim};
use crate::data::Data;
use crate::fetch::{FetchError, Fetched, Lease};
use crate::reason::{Problem, Reason, Retry};
use crate::request::{OnMissing, SourceKeys};
use crate::shape::{Shaped, key_missing, shape};
use crate::situation::{Assessment, Basis, Cause, Live, Owed, Record, Settings, Situation, Stranger};
use crate::state::{self, LEASE, Leased, PROVIDER, REQUESTED_BY, SOURCE_PATH, STATE, SYNCED_AT, VERSION};

/// How often a Secret of somebody else is looked at again that has a name which a pod wants: nothing tells us when it goes or its
/// owner consents, because only Secrets with our label are watched.
const CONTESTED: Duration = Duration::from_secs(8);
/// All contested Secrets together are read at most once in this time, however many there are.
const CONTESTED_EACH: Duration = Duration::from_millis(100);
/// How far the beats of a path are apart while its provider is not well.
const OUTAGE: Duration = Duration::from_secs(15);

/// Everything that a decision about a Secret rests on.
#[derive(Debug)]
pub struct Input {
    /// What was known before.
    pub situation: Situation,
    /// What the claims come to.
    pub assessment: Assessment,
    /// Why providers were asked; nothing if they were not.
    pub cause: Option<Cause>,
    /// What providers said, if they were asked.
    pub answers: BTreeMap<Asked, Result<Arc<Fetched>, FetchError>>,
    /// What JASM put into a Secret of its own, if it has to be compared.
    pub inherited: Option<Inherited>,
}

/// A Secret that JASM made.
#[derive(Debug, Clone)]
pub struct Inherited {
    /// Its content: there is no fingerprint of it.
    pub data: Data,
    /// Who holds which field, if JASM's fields became ours. Until then, keys that are gone would stay.
    pub managed_fields: Option<Vec<Json>>,
}

/// What is done besides writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Keep this in memory about a Secret.
    Remember(ObjectRef, Box<Record>),
    /// Make JASM's fields ours; the next look then writes.
    Inherit(Box<Meta>, Vec<Json>),
    /// The Secret is in its place: should it be missing one day, somebody has deleted it.
    Placed(ObjectRef),
    /// These pods are still to be told what has just happened.
    Owe(ObjectRef, BTreeMap<u64, Owed>),
    /// A pod was told something about the Secret.
    Told {
        /// The Secret.
        secret: ObjectRef,
        /// What was told, by a hash of it.
        id: u64,
        /// When.
        at: Timestamp,
    },
    /// Nobody wants the Secret any more.
    Forget(ObjectRef),
}

/// What to do about a Secret.
pub fn decide(input: &Input, settings: &Settings, fingerprinter: &Fingerprinter) -> Plan<Action> {
    let (situation, assessment) = (&input.situation, &input.assessment);
    let mut decision = Decision {
        situation,
        settings,
        record: situation.record.clone(),
        told: BTreeMap::new(),
        owed: BTreeMap::new(),
        plan: Plan::default(),
    };
    decision.plan.look_again = assessment.look_again;
    decision.refuse(assessment);
    if assessment.shares.winners.is_empty() {
        if assessment.refused.is_empty() {
            decision
                .plan
                .push(Step::Remember(Action::Forget(situation.secret.clone())));
            return decision.plan;
        }
        return decision.end();
    }
    decision.record.taken = matches!(situation.live, Live::Foreign(_));
    decision.recognise(assessment);
    match input.cause {
        None => decision.rest(assessment),
        Some(cause) => decision.sync(cause, input, fingerprinter),
    }
    decision.end()
}

struct Decision<'a> {
    situation: &'a Situation,
    settings: &'a Settings,
    record: Record,
    told: BTreeMap<u64, Timestamp>,
    owed: BTreeMap<u64, Owed>,
    plan: Plan<Action>,
}

impl Decision<'_> {
    /// Tells those that get nothing.
    fn refuse(&mut self, assessment: &Assessment) {
        for (claim, problem) in assessment.refused.iter().chain(&assessment.warned) {
            self.tell(claim, problem, Basis::Judged);
        }
        let Some(winner) = assessment.shares.winners.first() else {
            return;
        };
        let text = format!(
            "Secret {} is made for {}, which asked first",
            self.situation.secret.name(),
            winner.pod.workload
        );
        let problem = Problem::lasting(Reason::SecretConflict, text);
        for claim in &assessment.shares.losers {
            self.tell(claim, &problem, Basis::Judged);
        }
    }

    /// Remembers what a Secret of ours was when nobody had touched it.
    fn recognise(&mut self, assessment: &Assessment) {
        let Live::Ours(live) = &self.situation.live else {
            return;
        };
        self.record.placed = true;
        if self.record.fingerprint.is_none() || !assessment.is_touched(live) {
            self.record.fingerprint = live.annotations.get(FINGERPRINT).cloned();
        }
    }

    /// Nobody has to be asked.
    fn rest(&mut self, assessment: &Assessment) {
        let is_failing = assessment.is_failing(&self.record);
        if is_failing {
            self.plan.ending = Ending::StillFailing;
        } else {
            self.record.failing_since = None;
        }
        match &self.situation.live {
            Live::Foreign(stranger) => self.stand_back(assessment, stranger),
            Live::Ours(live) if !live.is_terminating() && !is_failing => {
                let provider = live.labels.get(PROVIDER).map_or("", String::as_str);
                let text = self.synced(assessment, "synced", provider);
                self.greet(&assessment.shares.served, &text);
            }
            _ => {}
        }
        // Nothing was looked at anew, so what was told still holds, and so does what was to be told.
        self.remind(&assessment.shares.served, &[Basis::Asked, Basis::Happened]);
        for (id, at) in &self.record.told {
            if self.situation.looked.duration_since(*at) < TELL_AGAIN {
                self.told.entry(*id).or_insert(*at);
            }
        }
    }

    /// Somebody else's Secret has the name.
    fn stand_back(&mut self, assessment: &Assessment, stranger: &Stranger) {
        let name = self.situation.secret.name();
        let why = may_adopt(self.situation, stranger, &assessment.shares.winners)
            .err()
            .unwrap_or_default();
        let problem = Problem::lasting(
            Reason::SecretConflict,
            format!("Secret {name} exists and is not ours: {why}"),
        );
        self.tell_all(&assessment.shares.served, &problem, Basis::Judged);
        let count = u32::try_from(self.situation.contested).unwrap_or(u32::MAX);
        let pause = CONTESTED_EACH.saturating_mul(count).max(CONTESTED);
        self.plan.look_again_in(pause);
    }

    fn sync(&mut self, cause: Cause, input: &Input, fingerprinter: &Fingerprinter) {
        let assessment = &input.assessment;
        self.record.asked = Some(self.situation.looked);
        self.record.request = Some(assessment.request.clone());
        self.record.heeded = self.situation.news;
        match self.make(input) {
            Ok(made) => self.put(cause, made, input, fingerprinter),
            Err(failure) => self.fail(assessment, &failure),
        }
    }

    /// The content of the Secret from all its sources.
    fn make(&self, input: &Input) -> Result<Made, Failed> {
        let mut made = Made::default();
        for claim in &input.assessment.shares.winners {
            let request = &claim.request;
            let fetched = match input.answers.get(&claim.asked()) {
                Some(Ok(fetched)) => fetched,
                Some(Err(error)) => {
                    return Err(Failed {
                        problem: error.problem(&request.source),
                        retry_after: error.retry_after(),
                        missing: error.is_missing(),
                    });
                }
                // Asked for in another view than this one: look again.
                None => {
                    let error = FetchError::Unavailable {
                        what: "it was not asked".to_owned(),
                    };
                    return Err(error.problem(&request.source).into());
                }
            };
            let Shaped {
                data,
                missing,
                sources,
            } = shape(&fetched.payload, &request.shape, &request.secret_type)?;
            let allowance = self.situation.judge(claim)?;
            let keys = SourceKeys::These(sources.iter().map(String::as_str).collect());
            // The keys may change, and so may the policies.
            allowance.permit(&keys).map_err(|problem| Problem {
                retry: Retry::Slow,
                ..claim.denied(&problem.text)
            })?;
            made.missing.extend(missing);
            made.providers.insert(fetched.provider);
            made.versions.extend(fetched.version.clone());
            made.leases.extend(fetched.lease.clone());
            for (key, value) in data {
                made.data.entry(key).or_insert(value);
            }
        }
        Ok(made)
    }

    fn put(&mut self, cause: Cause, made: Made, input: &Input, fingerprinter: &Fingerprinter) {
        let assessment = &input.assessment;
        self.record.failing_since = None;
        self.record.retry_at = None;
        let served = &assessment.shares.served;
        let from = made.providers.iter().copied().collect::<Vec<_>>().join(", ");
        if !made.missing.is_empty() {
            self.tell_all(served, &key_missing(&made.missing), Basis::Asked);
        }
        if let Some(inherited) = &input.inherited {
            // JASM's own Secret with the same content is left as it is.
            if inherited.data == made.data {
                self.greet(served, &self.synced(assessment, "synced", &from));
                return;
            }
            if let (Live::Ours(live), Some(fields)) = (&self.situation.live, &inherited.managed_fields) {
                let inherit = Action::Inherit(Box::new(live.clone()), fields.clone());
                self.plan.push(Step::Call(inherit));
                return;
            }
        }
        let (live, adopt) = match &self.situation.live {
            Live::Absent => (None, false),
            Live::Ours(meta) => (Some(meta), false),
            // There would be no cause to ask if it could not be adopted.
            Live::Foreign(stranger) => (Some(&stranger.meta), true),
        };
        let ownership = Ownership {
            mark: state::mark(&self.settings.managed_by),
            adopt,
            conflicts: Conflicts::Force,
        };
        let wish = self.wish(assessment, &made);
        match converge(wish, live, &ownership, fingerprinter) {
            Convergence::Write(apply) => {
                let same = apply.manifest.annotated(FINGERPRINT) == self.record.fingerprint.as_deref();
                self.plan.push(Step::Apply(apply));
                if !self.record.placed {
                    self.plan
                        .push(Step::Call(Action::Placed(self.situation.secret.clone())));
                }
                // What the provider has changed meanwhile is not put back.
                let (reason, verb) = match cause {
                    Cause::Drift | Cause::Deleted if same => (Reason::SecretRestored, "restored"),
                    _ => (Reason::SecretSyncSuccess, "synced"),
                };
                self.announce(served, reason, &self.synced(assessment, verb, &from));
            }
            Convergence::Settled => {
                self.greet(served, &self.synced(assessment, "synced", &from));
                self.remind(served, &[Basis::Happened]);
            }
            Convergence::Foreign { .. } | Convergence::Terminating => {}
        }
    }

    fn synced(&self, assessment: &Assessment, verb: &str, from: &str) -> String {
        let name = self.situation.secret.name();
        format!("Secret {name} {verb} from {from} path {}", paths(assessment))
    }

    fn wish(&self, assessment: &Assessment, made: &Made) -> Manifest {
        let secret = &self.situation.secret;
        let encoded: Map<String, Json> = made
            .data
            .iter()
            .map(|(key, value)| (key.clone(), STANDARD.encode(value.expose()).into()))
            .collect();
        let winner = assessment.shares.winners.first();
        let secret_type = winner.map_or("Opaque", |winner| winner.request.secret_type.as_str());
        let workload = winner.map(|winner| winner.pod.workload.identity());
        let created = match &self.situation.live {
            Live::Absent => true,
            Live::Ours(live) => state::is_our_creation(live),
            Live::Foreign(_) => false,
        };
        let mut wish = Manifest::new(SECRET, secret.namespace(), secret.name())
            .with("type", secret_type.into())
            .with("data", Json::Object(encoded))
            .annotation(SOURCE_PATH, &paths(assessment))
            .annotation(REQUESTED_BY, &workload.unwrap_or_default())
            .annotation(
                STATE,
                &state::state(&assessment.request, &made.data, created, !made.leases.is_empty()),
            )
            .stamp(
                SYNCED_AT,
                &self.situation.looked.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            );
        if let Some(provider) = made.providers.first() {
            wish = wish.label(PROVIDER, provider);
        }
        if !made.versions.is_empty() {
            wish = wish.annotation(VERSION, &made.versions.join(","));
        }
        if let Some(leases) = Leased::annotation(&made.leases, self.situation.looked) {
            wish = wish.annotation(LEASE, &leases);
        }
        wish
    }

    /// What is there stays, unless a request says otherwise for a secret that is gone.
    fn fail(&mut self, assessment: &Assessment, failure: &Failed) {
        let earlier = self.situation.failures;
        self.record.failing_since.get_or_insert(self.situation.looked);
        let wait = failure.problem.retry.wait(earlier).map(|wait| {
            let asked_for = failure.retry_after.unwrap_or_default();
            wait.max(asked_for)
                .mul_f64(jitter(&self.situation.secret, earlier))
        });
        let at = wait.and_then(|wait| {
            let wait = SignedDuration::try_from(wait).ok()?;
            self.situation.looked.saturating_add(wait).ok()
        });
        let at = at.map(|at| match failure.problem.retry {
            Retry::Outage => Beat::new(OUTAGE, &paths(assessment)).next(at),
            _ => at,
        });
        self.record.retry_at = at;
        self.plan.ending = Ending::Failed(Failure {
            class: failure.problem.retry.class(),
            reason: failure.problem.reason.as_str(),
            text: failure.problem.text.clone(),
            retry_in: at.map(|at| until(self.situation.looked, at)),
        });
        // Until then there is no other cause to ask.
        self.plan.look_again = None;
        let is_optional = assessment
            .shares
            .winners
            .iter()
            .all(|winner| winner.request.optional);
        self.remind(&assessment.shares.served, &[Basis::Happened]);
        if !(failure.missing && is_optional) {
            self.tell_all(&assessment.shares.served, &failure.problem, Basis::Asked);
        }
        let deletes = |claim: &Claim| claim.request.on_missing == OnMissing::Delete;
        if failure.missing && assessment.shares.winners.iter().all(deletes) {
            self.delete(assessment);
        }
    }

    /// Deletes the Secret if it is one that we created: one that was taken over stays.
    fn delete(&mut self, assessment: &Assessment) {
        let Live::Ours(live) = &self.situation.live else {
            return;
        };
        if live.is_terminating() || !state::is_our_creation(live) {
            return;
        }
        self.plan.push(Step::Delete(Delete {
            target: Target {
                kind: SECRET,
                object: self.situation.secret.clone(),
            },
            uid: live.uid.clone(),
            resource_version: Some(live.resource_version.clone()),
            propagation: Propagation::Background,
        }));
        let text = format!(
            "Secret {} deleted, because {} is gone and onMissing is delete",
            self.situation.secret.name(),
            paths(assessment)
        );
        self.announce(&assessment.shares.served, Reason::SecretSyncSuccess, &text);
    }

    fn end(mut self) -> Plan<Action> {
        self.record.told = self.told;
        self.record.owed = self.owed;
        if self.record != self.situation.record {
            let remember = Action::Remember(self.situation.secret.clone(), Box::new(self.record));
            // First, so that a write that fails does not make us forget that we asked.
            self.plan.steps.insert(0, Step::Remember(remember));
        }
        self.plan
    }
}

/// What a Secret is made of.
#[derive(Default)]
struct Made {
    data: Data,
    missing: Vec<String>,
    providers: BTreeSet<&'static str>,
    versions: Vec<String>,
    leases: Vec<Lease>,
}

/// Why a Secret cannot be made.
struct Failed {
    problem: Problem,
    retry_after: Option<Duration>,
    missing: bool,
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            retry_after: None,
            missing: false,
        }
    }
}

fn paths(assessment: &Assessment) -> String {
    let paths: Vec<&str> = assessment
        .shares
        .winners
        .iter()
        .map(|winner| winner.request.source.path.as_str())
        .collect();
    paths.join(", ")
}

/// Between 0.8 and 1.2, the same for the same Secret and try: what failed together does not come back together.
fn jitter(secret: &ObjectRef, earlier: u32) -> f64 {
    0.8 + 0.4 * f64::from((hash(&(secret, earlier)) >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod conflicts;

#[cfg(test)]
mod denials;

#[cfg(test)]
mod leases;

#[cfg(test)]
mod world;

#[cfg(test)]
mod tests;
