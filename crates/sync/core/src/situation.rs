//! What is known about a Secret before a provider is asked, and whether one has to be asked at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use strum::IntoStaticStr;
use trustplane_plan::{Meta, ObjectRef};

use crate::adopt::may_adopt;
use crate::beat::{Beat, until};
use crate::claims::{Claim, Shares, claims, share};
use crate::fetch::FetchError;
use crate::path::Home;
use crate::pod::Pod;
use crate::policy::{AUDITED, Allowance, Requester, Rules};
use crate::reason::{Problem, Reason};
use crate::state::{Leased, REQUESTED_BY, Standing, request_state, standing, synced_at};

/// What the admin has set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a fetched value is new enough for another pod.
    pub fresh_for: Duration,
    /// How often to look again where the request says nothing.
    pub refresh: Option<Duration>,
    /// The value of the label on our Secrets.
    pub managed_by: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fresh_for: Duration::from_secs(60),
            refresh: None,
            managed_by: "jasm".to_owned(),
        }
    }
}

/// The live object of the Secret's name.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "one at a time, never kept")]
pub enum Live {
    /// None, as far as we know.
    Absent,
    /// One with our label.
    Ours(Meta),
    /// One without it.
    Foreign(Stranger),
}

/// A Secret that is not ours: what decides whether it may become so.
#[derive(Debug, Clone)]
pub struct Stranger {
    /// Its metadata.
    pub meta: Meta,
    /// What else matters, if somebody wants to take it over.
    pub nature: Option<Nature>,
}

/// What metadata does not tell of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nature {
    /// Its type.
    pub secret_type: String,
    /// Whether it can be changed at all.
    pub immutable: bool,
}

/// What this process remembers of its work on a Secret. Losing it costs nothing but time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Since when this process knows of the Secret.
    pub since: Timestamp,
    /// When the provider was last asked.
    pub asked: Option<Timestamp>,
    /// For which request it was asked.
    pub request: Option<String>,
    /// Since when that has failed without a success.
    pub failing_since: Option<Timestamp>,
    /// When it is asked the same again after a failure; never by itself if there is none.
    pub retry_at: Option<Timestamp>,
    /// Whether the Secret was seen in its place.
    pub placed: bool,
    /// How many of the provider's news it has heeded.
    pub heeded: u64,
    /// Whether somebody else's Secret has the name, as far as we know.
    pub taken: bool,
    /// The fingerprint of the Secret when it was last seen untouched.
    pub fingerprint: Option<String>,
    /// The pods that know that their Secret is there, by a hash of their uid.
    pub greeted: BTreeSet<u64>,
    /// What was told and still holds, by a hash of it.
    pub told: BTreeMap<u64, Timestamp>,
    /// What is still to be told, by a hash of it: there was no room for it among the events.
    pub owed: BTreeMap<u64, Owed>,
}

/// How long something that a pod is told holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// It is judged at every look.
    Judged,
    /// Until a provider is asked again.
    Asked,
    /// It has happened.
    Happened,
}

/// What a pod is still to be told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owed {
    /// How long it holds.
    pub basis: Basis,
    /// The event's reason.
    pub reason: Reason,
    /// The event's text.
    pub text: Arc<str>,
}

impl Record {
    /// A pod was told this at this time.
    pub fn note_told(&mut self, id: u64, at: Timestamp) {
        self.owed.remove(&id);
        self.told.insert(id, at);
    }

    /// Nothing is known but the time.
    pub fn new(since: Timestamp) -> Self {
        Self {
            since,
            asked: None,
            request: None,
            failing_since: None,
            retry_at: None,
            placed: false,
            heeded: 0,
            taken: false,
            fingerprint: None,
            greeted: BTreeSet::new(),
            told: BTreeMap::new(),
            owed: BTreeMap::new(),
        }
    }
}

/// Stores, by name.
pub type Stores = BTreeMap<String, StoreView>;

/// What matters of a store before it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreView {
    /// The provider's name.
    pub provider: &'static str,
    /// Another one with every change of the store.
    pub revision: Arc<str>,
    /// Where its plain names lie.
    pub home: Home,
}

/// Everything that is known before a provider is asked.
#[derive(Debug, Clone)]
pub struct Situation {
    /// The Secret.
    pub secret: ObjectRef,
    /// The pods of its namespace that name it: neither finished nor terminating.
    pub pods: Vec<Arc<Pod>>,
    /// What is there.
    pub live: Live,
    /// What we remember.
    pub record: Record,
    /// How often in a row the work on it has failed.
    pub failures: u32,
    /// What decides about requests of its namespace.
    pub rules: Rules,
    /// The stores that its namespace may use.
    pub stores: Stores,
    /// How often a provider has said that one of its secrets has changed.
    pub news: u64,
    /// How many Secrets pods ask for whose names are taken by Secrets that Trustplane does not manage.
    pub contested: usize,
    /// When we looked.
    pub looked: Timestamp,
}

impl Situation {
    /// Judges a claim by the rules of its namespace.
    pub fn judge(&self, claim: &Claim) -> Result<Allowance, Problem> {
        let requester = Requester {
            namespace: self.secret.namespace().unwrap_or_default(),
            service_account: claim.pod.service_account.as_deref(),
        };
        let source = &claim.request.source;
        let store = source.store.as_ref().map(|name| self.stores.get(name));
        let allowance = self.rules.judge(requester, &claim.request, store.flatten())?;
        match store {
            // Whether there is none or it is for others is nobody's business.
            Some(None) => Err(FetchError::NoStore.problem(source)),
            Some(Some(store))
                if source
                    .provider
                    .as_ref()
                    .is_some_and(|named| named != store.provider) =>
            {
                let text = format!("provider: the store is one of {}", store.provider);
                Err(Problem::lasting(Reason::AnnotationInvalid, text))
            }
            _ => Ok(allowance),
        }
    }

    /// When what the Secret holds has to be asked for again, because it will end.
    fn lease_due(&self) -> Option<Timestamp> {
        let Live::Ours(live) = &self.live else {
            return None;
        };
        Leased::of(live).map(|leased| leased.due(&self.secret))
    }
}

/// Why a provider is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Cause {
    /// There is no Secret yet.
    First,
    /// The Secret was made for another request, or a sync was forced.
    Changed,
    /// Somebody changed the Secret.
    Drift,
    /// Somebody deleted the Secret.
    Deleted,
    /// A pod started long after the last look.
    NewPod,
    /// The provider said that the secret has changed.
    Push,
    /// It is time.
    Refresh,
    /// What the Secret holds will end before long.
    Lease,
    /// It failed before.
    Retry,
}

/// What the claims come to.
#[derive(Debug)]
pub struct Assessment {
    /// Who gets the Secret.
    pub shares: Shares,
    /// Claims that are not allowed, and why.
    pub refused: Vec<(Claim, Problem)>,
    /// Claims that are served, with something to tell.
    pub warned: Vec<(Claim, Problem)>,
    /// What the Secret is, or would be, made for.
    pub request: String,
    /// When to look again even if nothing happens.
    pub look_again: Option<Duration>,
    /// When it is time to ask again although nothing has happened.
    refresh: Option<Beat>,
}

impl Assessment {
    /// Why the provider is to be asked; nothing if it is not.
    pub fn cause(&self, situation: &Situation, settings: &Settings) -> Option<Cause> {
        match self.shares.winners.is_empty() {
            true => None,
            false => cause(situation, settings, self),
        }
    }

    /// Whether the provider was asked just this, and failed.
    pub fn is_failing(&self, record: &Record) -> bool {
        record.failing_since.is_some() && record.request.as_deref() == Some(&self.request)
    }

    /// Whether somebody changed a live Secret of ours since we wrote it.
    pub fn is_touched(&self, live: &Meta) -> bool {
        standing(live, &self.request, first_path(&self.shares)) == Standing::Touched
    }
}

fn first_path(shares: &Shares) -> &str {
    let first = shares.winners.first();
    first.map_or("", |winner| winner.request.source.path.as_str())
}

/// Judges the claims.
pub fn assess(situation: &Situation, settings: &Settings) -> Assessment {
    let (mut allowed, mut refused, mut warned) = (Vec::new(), Vec::new(), Vec::new());
    for claim in claims(&situation.pods, situation.secret.name()) {
        match situation.judge(&claim) {
            Ok(allowance) => {
                if allowance.audited {
                    warned.push((claim.clone(), claim.denied(AUDITED)));
                }
                allowed.push(claim);
            }
            Err(problem) if problem.reason == Reason::PolicyDenied => {
                let problem = claim.denied(&problem.text);
                refused.push((claim, problem));
            }
            Err(problem) => refused.push((claim, problem)),
        }
    }
    let incumbent = match &situation.live {
        Live::Ours(meta) => meta.annotations.get(REQUESTED_BY).map(String::as_str),
        Live::Absent | Live::Foreign(_) => None,
    };
    let shares = share(allowed, incumbent);
    let mut forced: Vec<&str> = shares
        .served
        .iter()
        .filter_map(|claim| claim.pod.asks.force.as_deref())
        .collect();
    forced.sort_unstable();
    forced.dedup();
    let request = request_state(&shares.winners, &forced, &situation.stores);
    let refresh = interval(situation, &shares, settings)
        .map(|interval| Beat::new(interval, &situation.secret.to_string()));
    let waits = [
        refresh.as_ref().map(|beat| beat.next(situation.looked)),
        situation.lease_due(),
        situation.record.retry_at,
    ];
    let look_again = waits
        .into_iter()
        .flatten()
        .filter(|at| *at > situation.looked)
        .min();
    Assessment {
        look_again: look_again.map(|at| until(situation.looked, at)),
        shares,
        refused,
        warned,
        request,
        refresh,
    }
}

fn cause(situation: &Situation, settings: &Settings, assessment: &Assessment) -> Option<Cause> {
    let (record, shares, request) = (&situation.record, &assessment.shares, &assessment.request);
    let same_request = record.request.as_ref() == Some(request);
    if situation.news != record.heeded && !matches!(situation.live, Live::Foreign(_)) {
        return Some(Cause::Push);
    }
    if assessment.is_failing(record) {
        return record
            .retry_at
            .filter(|at| *at <= situation.looked)
            .map(|_| Cause::Retry);
    }
    let live = match &situation.live {
        Live::Absent if record.placed => return Some(Cause::Deleted),
        Live::Absent => return Some(Cause::First),
        Live::Foreign(stranger) => {
            return may_adopt(situation, stranger, &shares.winners)
                .is_ok()
                .then_some(Cause::First);
        }
        Live::Ours(live) => live,
    };
    if live.is_terminating() {
        return None;
    }
    match standing(live, request, first_path(shares)) {
        Standing::Outdated => return Some(Cause::Changed),
        Standing::Touched => return Some(Cause::Drift),
        // It does not tell which forced sync it has seen; this process may remember.
        Standing::Inherited if is_forced(shares) && !same_request => return Some(Cause::Changed),
        Standing::Intact | Standing::Inherited => {}
    }
    // To ask again would make another one, whoever has come and whatever the interval.
    if let Some(due) = situation.lease_due() {
        return (due <= situation.looked).then_some(Cause::Lease);
    }
    let fresh = SignedDuration::try_from(settings.fresh_for).unwrap_or(SignedDuration::MAX);
    // What happened before this process began is known from the Secret alone: a pod that is only just older than us may have
    // come while nobody looked.
    let stale_from = match (record.asked, synced_at(live)) {
        (Some(asked), _) => asked.saturating_add(fresh),
        (None, Some(synced)) => synced
            .saturating_add(fresh)
            .map(|stale| stale.max(before(record.since, fresh))),
        (None, None) => Ok(before(record.since, fresh)),
    };
    let stale_from = stale_from.unwrap_or(Timestamp::MAX);
    if shares.served.iter().any(|claim| claim.pod.created > stale_from) {
        return Some(Cause::NewPod);
    }
    let last = record.asked.unwrap_or(record.since);
    assessment
        .refresh
        .as_ref()
        .filter(|beat| beat.last(situation.looked) > last)
        .map(|_| Cause::Refresh)
}

fn is_forced(shares: &Shares) -> bool {
    shares.served.iter().any(|claim| claim.pod.asks.force.is_some())
}

fn before(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.saturating_sub(span).unwrap_or(Timestamp::MIN)
}

/// The shortest interval that a winner asks for, or else the admin's; never shorter than policies let it be.
fn interval(situation: &Situation, shares: &Shares, settings: &Settings) -> Option<Duration> {
    let asked = shares.winners.iter().filter_map(|winner| winner.request.refresh);
    let floors = shares.winners.iter().filter_map(|winner| {
        let allowance = situation.judge(winner).ok()?;
        allowance.refresh_floor
    });
    let default = settings.refresh.filter(|_| !shares.winners.is_empty());
    let interval = asked.min().or(default)?;
    Some(interval.max(floors.max().unwrap_or_default()))
}
