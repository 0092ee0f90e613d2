//! What to do about a Secret: a pure function.

mod notes;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value as Json};
use trustplane_plan::{
    Conflicts, Convergence, Delete, Fingerprinter, Manifest, Meta, ObjectRef, Ownership, Plan, Propagation,
    Step, Target, converge,
};

use notes::TELL_AGAIN;

use crate::adopt::may_adopt;
use crate::beat::{Beat, until};
use crate::claims::Claim;
use crate::data::Data;
use crate::fetch::{FetchError, Fetched, Lease};
use crate::reason::{Problem, Reason, Retry};
use crate::request::{OnMissing, Source};
use crate::shape::{Shaped, key_missing, shape};
use crate::situation::{Assessment, Basis, Cause, Live, Owed, Record, Settings, Situation, assess};
use crate::state::{
    self, LEASE, Leased, PROVIDER, REQUESTED_BY, SECRET, SOURCE_PATH, STATE, SYNCED_AT, VERSION,
};

/// How often a Secret of somebody else is looked at again: nothing tells us when it goes.
const TAKEN: Duration = Duration::from_secs(5 * 60);
/// How far the beats of a path are apart while its provider is not well.
const OUTAGE: Duration = Duration::from_secs(15);

/// Everything that a decision about a Secret rests on.
#[derive(Debug)]
pub struct Input {
    /// What was known before.
    pub situation: Situation,
    /// What providers said, if they were asked.
    pub answers: BTreeMap<Source, Result<Arc<Fetched>, FetchError>>,
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
    let situation = &input.situation;
    let assessment = assess(situation, settings);
    let mut decision = Decision {
        situation,
        settings,
        record: situation.record.clone(),
        told: BTreeMap::new(),
        owed: BTreeMap::new(),
        plan: Plan::default(),
    };
    decision.plan.look_again = assessment.look_again;
    decision.refuse(&assessment);
    if assessment.shares.winners.is_empty() {
        if assessment.refused.is_empty() {
            decision
                .plan
                .push(Step::Call(Action::Forget(situation.secret.clone())));
            return decision.plan;
        }
        return decision.end();
    }
    decision.record.placed |= matches!(situation.live, Live::Ours(_));
    decision.record.taken = matches!(situation.live, Live::Foreign(_));
    match assessment.cause {
        None => decision.rest(&assessment),
        Some(cause) => decision.sync(&assessment, cause, input, fingerprinter),
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
    fn refuse(&mut self, assessment: &Assessment<'_>) {
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

    /// Nobody has to be asked.
    fn rest(&mut self, assessment: &Assessment<'_>) {
        if let Live::Foreign(stranger) = &self.situation.live {
            let name = self.situation.secret.name();
            let why = may_adopt(stranger, &assessment.shares.winners)
                .err()
                .unwrap_or_default();
            let problem = Problem::lasting(
                Reason::SecretConflict,
                format!("Secret {name} exists and is not ours: {why}"),
            );
            self.tell_all(&assessment.shares.served, &problem, Basis::Judged);
            self.plan.look_again_in(TAKEN);
        }
        // Nothing was looked at anew, so what was told still holds, and so does what was to be told.
        self.remind(&assessment.shares.served, &[Basis::Asked, Basis::Happened]);
        for (id, at) in &self.record.told {
            if self.situation.looked.duration_since(*at) < TELL_AGAIN {
                self.told.entry(*id).or_insert(*at);
            }
        }
    }

    fn sync(
        &mut self,
        assessment: &Assessment<'_>,
        cause: Cause,
        input: &Input,
        fingerprinter: &Fingerprinter,
    ) {
        self.record.asked = Some(self.situation.looked);
        self.record.request = Some(assessment.request.clone());
        self.record.heeded = self.situation.news;
        match self.make(assessment, input) {
            Ok(made) => self.put(assessment, cause, made, input, fingerprinter),
            Err(failure) => self.fail(assessment, &failure),
        }
    }

    /// The content of the Secret from all its sources.
    fn make(&self, assessment: &Assessment<'_>, input: &Input) -> Result<Made, Failure> {
        let mut made = Made::default();
        for claim in &assessment.shares.winners {
            let request = claim.request;
            let fetched = match input.answers.get(&request.source) {
                Some(Ok(fetched)) => fetched,
                Some(Err(error)) => {
                    return Err(Failure {
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
            let Shaped { data, missing } = shape(&fetched.payload, &request.shape, &request.secret_type)?;
            let allowance = self.situation.judge(claim)?;
            let permitted = allowance.permit(data.keys().map(String::as_str));
            // The keys may change, and so may the policies.
            permitted.map_err(|problem| Problem {
                retry: Retry::Slow,
                ..problem
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

    fn put(
        &mut self,
        assessment: &Assessment<'_>,
        cause: Cause,
        made: Made,
        input: &Input,
        fingerprinter: &Fingerprinter,
    ) {
        self.record.failures = 0;
        self.record.failing_since = None;
        self.record.retry_at = None;
        let served = &assessment.shares.served;
        if !made.missing.is_empty() {
            self.tell_all(served, &key_missing(&made.missing), Basis::Asked);
        }
        if let Some(inherited) = &input.inherited {
            // JASM's own Secret with the same content is left as it is.
            if inherited.data == made.data {
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
        if let Convergence::Write(apply) = converge(wish, live, &ownership, fingerprinter) {
            self.plan.push(Step::Apply(apply));
            if !self.record.placed {
                self.plan
                    .push(Step::Call(Action::Placed(self.situation.secret.clone())));
            }
            let (reason, verb) = match cause {
                Cause::Drift | Cause::Deleted => (Reason::SecretRestored, "restored"),
                _ => (Reason::SecretSyncSuccess, "synced"),
            };
            let from = made.providers.iter().copied().collect::<Vec<_>>().join(", ");
            let text = format!(
                "Secret {} {verb} from {from} path {}",
                self.situation.secret.name(),
                paths(assessment)
            );
            self.announce(served, reason, &text);
        } else {
            self.remind(served, &[Basis::Happened]);
        }
    }

    fn wish(&self, assessment: &Assessment<'_>, made: &Made) -> Manifest {
        let secret = &self.situation.secret;
        let encoded: Map<String, Json> = made
            .data
            .iter()
            .map(|(key, value)| (key.clone(), STANDARD.encode(value.expose()).into()))
            .collect();
        let winner = assessment.shares.winners.first();
        let secret_type = winner.map_or("Opaque", |winner| winner.request.secret_type.as_str());
        let workload = winner.map_or("", |winner| &*winner.pod.workload);
        let mut wish = Manifest::new(SECRET, secret.namespace(), secret.name())
            .with("type", secret_type.into())
            .with("data", Json::Object(encoded))
            .annotation(SOURCE_PATH, &paths(assessment))
            .annotation(REQUESTED_BY, workload)
            .annotation(
                STATE,
                &state::state(&assessment.request, &made.data, !made.leases.is_empty()),
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
    fn fail(&mut self, assessment: &Assessment<'_>, failure: &Failure) {
        let earlier = self.record.failures;
        self.record.failures = earlier.saturating_add(1);
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
        self.plan.patient = true;
        if let Some(at) = at {
            self.plan.look_again_in(until(self.situation.looked, at));
        }
        let is_optional = assessment
            .shares
            .winners
            .iter()
            .all(|winner| winner.request.optional);
        self.remind(&assessment.shares.served, &[Basis::Happened]);
        if !(failure.missing && is_optional) {
            self.tell_all(&assessment.shares.served, &failure.problem, Basis::Asked);
        }
        let deletes = |claim: &Claim<'_>| claim.request.on_missing == OnMissing::Delete;
        if failure.missing && assessment.shares.winners.iter().all(deletes) {
            self.delete(assessment);
        }
    }

    /// Deletes the Secret if it is one that we made.
    fn delete(&mut self, assessment: &Assessment<'_>) {
        let Live::Ours(live) = &self.situation.live else {
            return;
        };
        if live.is_terminating() || !live.annotations.contains_key(STATE) {
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
            self.plan.steps.insert(0, Step::Call(remember));
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

struct Failure {
    problem: Problem,
    retry_after: Option<Duration>,
    missing: bool,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            retry_after: None,
            missing: false,
        }
    }
}

fn paths(assessment: &Assessment<'_>) -> String {
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
    let mut hasher = DefaultHasher::new();
    (secret, earlier).hash(&mut hasher);
    0.8 + 0.4 * f64::from((hasher.finish() >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod leases;

#[cfg(test)]
mod world;

#[cfg(test)]
mod tests;
