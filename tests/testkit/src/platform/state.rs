//! What a platform knows: the objects that it was sent, and how they came.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Snapshots;
use super::payload::{Change, Snapshot};

/// The four paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// Issues tokens.
    Token,
    /// Takes snapshots.
    Snapshot,
    /// Takes single changes.
    Events,
    /// Takes signs of life.
    Heartbeat,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Token, Self::Snapshot, Self::Events, Self::Heartbeat];

    /// Its path, below the URL of the platform.
    pub fn path(self) -> &'static str {
        match self {
            Self::Token => "/oauth/token",
            Self::Snapshot => "/api/v1/agent/snapshot",
            Self::Events => "/api/v1/agent/events",
            Self::Heartbeat => "/api/v1/agent/heartbeat",
        }
    }
}

/// A request whose body has arrived.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where to.
    pub endpoint: Endpoint,
    /// The uid of the object, of a change.
    pub uid: Option<String>,
    /// The kind of the object, of a change.
    pub kind: Option<String>,
    /// What happened to the object, of a change, as the agent wrote it.
    pub type_: Option<String>,
    /// When its head came.
    pub received: Instant,
    /// When it was answered; never if it hangs or was cut.
    pub answered: Option<Instant>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// The length that its head announced.
    pub content_length: Option<u64>,
    /// The length of its body.
    pub length: usize,
    /// Its body, unless the platform was told not to keep bodies.
    pub body: Bytes,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    received: usize,
    accepted: usize,
    at_once: usize,
    most_at_once: usize,
}

/// What a platform knows.
#[derive(Debug, Clone, Default)]
pub struct State {
    objects: BTreeMap<(String, String), Box<RawValue>>,
    clusters: Vec<String>,
    counts: BTreeMap<Endpoint, Counts>,
    journal: Vec<Entry>,
    violations: Vec<String>,
    refusals: Vec<String>,
    broken: usize,
}

impl State {
    /// Every object by kind and uid, for a comparison with what there should be.
    pub fn projections(&self) -> BTreeMap<(String, String), Value> {
        let objects = self.objects.iter();
        objects
            .map(|(key, text)| (key.clone(), serde_json::from_str(text.get()).unwrap_or_default()))
            .collect()
    }

    /// One object, as it was sent.
    pub fn text(&self, kind: &str, uid: &str) -> Option<&str> {
        let key = (kind.to_owned(), uid.to_owned());
        self.objects.get(&key).map(|text| text.get())
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: &str) -> usize {
        self.objects.keys().filter(|(of, _)| of == kind).count()
    }

    /// The uids of clusters that were named, each once, in the order in which they came.
    pub fn clusters(&self) -> &[String] {
        &self.clusters
    }

    /// How many requests have come, good and bad.
    pub fn received(&self, endpoint: Endpoint) -> usize {
        self.counts(endpoint).received
    }

    /// How many requests have taken effect. One whose answer was lost counts.
    pub fn accepted(&self, endpoint: Endpoint) -> usize {
        self.counts(endpoint).accepted
    }

    /// The most requests that were under way at one time.
    pub fn most_at_once(&self, endpoint: Endpoint) -> usize {
        self.counts(endpoint).most_at_once
    }

    /// Requests that broke off before their body was complete; the journal does not have them.
    pub fn broken(&self) -> usize {
        self.broken
    }

    /// Every request whose body has arrived, in that order.
    pub fn journal(&self) -> &[Entry] {
        &self.journal
    }

    /// What an agent did that the contract does not know.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Why assertions were refused that are well formed: an unknown client, a wrong key, a wrong clock.
    pub fn refusals(&self) -> &[String] {
        &self.refusals
    }

    fn counts(&self, endpoint: Endpoint) -> Counts {
        self.counts.get(&endpoint).copied().unwrap_or_default()
    }

    pub(super) fn begin(&mut self, endpoint: Endpoint) {
        let counts = self.counts.entry(endpoint).or_default();
        counts.at_once += 1;
        counts.most_at_once = counts.most_at_once.max(counts.at_once);
    }

    pub(super) fn end(&mut self, endpoint: Endpoint) {
        self.counts.entry(endpoint).or_default().at_once -= 1;
    }

    pub(super) fn broke_off(&mut self) {
        self.broken += 1;
    }

    /// Takes a request down; gives its place in the journal.
    pub(super) fn arrive(&mut self, entry: Entry) -> usize {
        self.counts.entry(entry.endpoint).or_default().received += 1;
        self.journal.push(entry);
        self.journal.len() - 1
    }

    pub(super) fn answered(&mut self, index: usize, status: u16) {
        if let Some(entry) = self.journal.get_mut(index) {
            entry.answered = Some(Instant::now());
            entry.status = Some(status);
        }
    }

    pub(super) fn accept(&mut self, endpoint: Endpoint) {
        self.counts.entry(endpoint).or_default().accepted += 1;
    }

    pub(super) fn violate(&mut self, violation: String) {
        self.violations.push(violation);
    }

    pub(super) fn take_violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    pub(super) fn refuse(&mut self, why: String) {
        self.refusals.push(why);
    }

    pub(super) fn meet(&mut self, cluster: String) {
        if !self.clusters.contains(&cluster) {
            self.clusters.push(cluster);
        }
    }

    pub(super) fn apply_snapshot(&mut self, snapshot: Snapshot, how: Snapshots) {
        self.meet(snapshot.cluster);
        for (kind, objects) in snapshot.arrays {
            if how == Snapshots::Replace {
                self.objects.retain(|(of, _), _| *of != kind);
            }
            let objects = objects.into_iter();
            self.objects
                .extend(objects.map(|(uid, text)| ((kind.to_owned(), uid), text)));
        }
    }

    pub(super) fn apply_change(&mut self, change: Change) {
        self.meet(change.cluster);
        let key = (change.kind, change.uid);
        match change.object {
            Some(text) => self.objects.insert(key, text),
            None => self.objects.remove(&key),
        };
    }

    /// A few lines for the message of a test that waited in vain.
    pub(super) fn summary(&self) -> String {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for (kind, _) in self.objects.keys() {
            *kinds.entry(kind).or_default() += 1;
        }
        let mut text = format!(
            "{kinds:?}; requests {:?}; violations {:?}; refusals {:?}; the last requests:",
            self.counts, self.violations, self.refusals
        );
        for entry in self.journal.iter().rev().take(10).rev() {
            let Entry {
                endpoint,
                kind,
                uid,
                type_,
                status,
                ..
            } = entry;
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            let (type_, kind, uid) = (part(type_), part(kind), part(uid));
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {endpoint:?} {type_} {kind} {uid} {status:?}");
        }
        text
    }
}
