//! What the Secret itself says about how it was made, so that a restart needs neither a provider nor a value.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::{SignedDuration, Timestamp};
use trustplane_plan::{Mark, Meta, ObjectRef};

use crate::beat::unit;
use crate::claims::Claim;
use crate::data::Data;
use crate::fetch::Lease;
use crate::situation::Stores;

/// The least time between two questions about what is leased.
const PAUSE: SignedDuration = SignedDuration::from_secs(2);
/// What stands behind the hashes if the content is leased.
const LEASED: &str = "leased";
/// What stands behind the hashes if it was us who created the Secret: no other one is ours to delete.
const CREATED: &str = "created";

/// The label by which our Secrets are known.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The label that names the provider.
pub const PROVIDER: &str = "jasm.codnod.io/provider";
/// The annotation with the path.
pub const SOURCE_PATH: &str = "jasm.codnod.io/source-path";
/// The annotation with the time of the last write.
pub const SYNCED_AT: &str = "jasm.codnod.io/synced-at";
/// The annotation with the provider's version.
pub const VERSION: &str = "jasm.codnod.io/version";
/// The annotation with the workload that the Secret was made for, and the uid of its controller where that stays.
pub const REQUESTED_BY: &str = "trustplane.io/requested-by";
/// The annotation with the time from and until which leases of the content run, and what their providers call them.
pub const LEASE: &str = "trustplane.io/lease";
/// The annotation with what it was made from, and which keys it got: two short hashes of what metadata shows anyway. Then
/// whether we created the Secret, and whether the content is leased.
pub const STATE: &str = "trustplane.io/sync-state";

/// How our Secrets are known; those of JASM, by either of its names, are ours too.
pub fn mark(value: &str) -> Mark {
    Mark::new(MANAGED_BY, value).also("jasm").also("caronte")
}

/// Which request a Secret was made for: everything that a new write could depend on, but the content.
pub fn request_state(winners: &[Claim], forced: &[&str], stores: &Stores) -> String {
    let what: Vec<_> = winners
        .iter()
        .map(|claim| {
            (
                &claim.request.source,
                &claim.request.shape,
                &claim.request.secret_type,
            )
        })
        .collect();
    let named = winners
        .iter()
        .filter_map(|claim| claim.request.source.store.as_deref());
    // A store that was changed is another place.
    let revisions: BTreeMap<&str, &str> = named
        .filter_map(|name| Some((name, &*stores.get(name)?.revision)))
        .collect();
    // Texts, lists and maps of texts always have a JSON form.
    let bytes = match revisions.is_empty() {
        true => serde_json::to_vec(&(what, forced)),
        false => serde_json::to_vec(&(what, forced, revisions)),
    };
    short_hash(&bytes.unwrap_or_default())
}

/// Which keys a Secret got.
pub fn keys_state<'a>(keys: impl Iterator<Item = &'a str>) -> String {
    let mut keys: Vec<&str> = keys.collect();
    keys.sort_unstable();
    // A key cannot hold a slash.
    short_hash(keys.join("/").as_bytes())
}

/// The annotation of a Secret that is about to be written.
pub fn state(request: &str, data: &Data, created: bool, leased: bool) -> String {
    let keys = keys_state(data.keys().map(String::as_str));
    let words = [(CREATED, created), (LEASED, leased)];
    let words = words
        .into_iter()
        .filter(|(_, holds)| *holds)
        .map(|(word, _)| word);
    let all: Vec<&str> = [request, &keys].into_iter().chain(words).collect();
    all.join(".")
}

/// Whether it was us who created a live Secret. One that was taken over, from its owner or from JASM, is not.
pub fn is_our_creation(live: &Meta) -> bool {
    let ours = live.fields.has_field(&["metadata", "annotations"], STATE);
    let state = live.annotations.get(STATE).filter(|_| ours);
    state.is_some_and(|state| state.split('.').skip(2).any(|word| word == CREATED))
}

/// The leases of a Secret's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    from: Timestamp,
    until: Timestamp,
}

impl Leased {
    /// The annotation for content that was fetched now.
    pub fn annotation(leases: &[Lease], now: Timestamp) -> Option<String> {
        let shortest = leases.iter().map(|lease| lease.lasts).min()?;
        let lasts = SignedDuration::try_from(shortest).unwrap_or(SignedDuration::MAX);
        let until = now.saturating_add(lasts).unwrap_or(Timestamp::MAX);
        let ids: Vec<&str> = leases.iter().map(|lease| lease.id.as_str()).collect();
        Some(format!("{now:.0}/{until:.0} {}", ids.join(" ")))
    }

    /// What a live Secret says, if it was us who wrote it.
    pub fn of(live: &Meta) -> Option<Self> {
        let ours = live.fields.has_field(&["metadata", "annotations"], LEASE);
        let annotation = live.annotations.get(LEASE).filter(|_| ours)?;
        let (times, _) = annotation.split_once(' ')?;
        let (from, until) = times.split_once('/')?;
        Some(Self {
            from: from.parse().ok()?,
            until: until.parse().ok()?,
        })
    }

    /// When it is time to ask again: about two thirds through, not the same for all that began together. However short a
    /// life a provider gives, it is not asked without a pause.
    pub fn due(&self, secret: &ObjectRef) -> Timestamp {
        let life = self.until.duration_since(self.from);
        let part = life.mul_f64(0.6 + 0.14 * unit(&secret.to_string()));
        self.from.saturating_add(part.max(PAUSE)).unwrap_or(self.until)
    }
}

fn short_hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// How a live Secret of ours stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Made by us for this request, and untouched since.
    Intact,
    /// Made for another request.
    Outdated,
    /// Somebody changed a key or a label of ours.
    Touched,
    /// Made by JASM from the same path. What it holds is not known.
    Inherited,
}

/// Compares a live Secret of ours with what it should have been made for. No value is needed: whoever changes a field of
/// ours takes it from our field set.
pub fn standing(live: &Meta, request: &str, path: &str) -> Standing {
    let Some(state) = live.annotations.get(STATE) else {
        let same = live
            .annotations
            .get(SOURCE_PATH)
            .is_some_and(|recorded| recorded == path);
        // One that we made has lost the annotation by somebody's hand, and with it a field of ours.
        let ours = !live.fields.is_empty();
        return match (ours, same) {
            (true, _) => Standing::Touched,
            (false, true) => Standing::Inherited,
            (false, false) => Standing::Outdated,
        };
    };
    let mut words = state.split('.');
    let (made_for, keys) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let leased = words.any(|word| word == LEASED);
    let held = |parent: &[&str], names: &[&str]| names.iter().all(|name| live.fields.has_field(parent, name));
    let untouched = held(&["metadata", "labels"], &[MANAGED_BY, PROVIDER])
        && held(&["metadata", "annotations"], &[SOURCE_PATH, STATE, REQUESTED_BY])
        && held(&["metadata", "annotations"], &[LEASE]) == leased
        && keys_state(live.fields.children(&["data"])) == keys;
    match (untouched, made_for == request) {
        (_, false) => Standing::Outdated,
        (true, true) => Standing::Intact,
        (false, true) => Standing::Touched,
    }
}

/// When a live Secret was last written by us or by JASM.
pub fn synced_at(live: &Meta) -> Option<Timestamp> {
    live.annotations.get(SYNCED_AT)?.parse().ok()
}
