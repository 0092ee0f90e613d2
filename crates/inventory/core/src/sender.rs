//! What one platform is sent, and when: a state machine without a clock, without I/O.
//!
//! ```text
//!            lists wanted               every readable kind listed                 accepted
//!   Owing ────────────────► Collecting ────────────────────────────► Holding ─────────────────► Live
//!     ▲                                                                 │ refused (413, 400, 422)  │
//!     │                                                                 ▼                          │
//!     │                                                             Replaying ──── all sent ──────►│
//!     └───────── a change found no room, a kind was left out, a long backlog, a full sync ─────────┘
//! ```
//!
//! **Guarantees**
//! - Every change of an object is either sent, or the object is part of a snapshot that is made after the change.
//! - Changes of one object are sent one after the other. No change is sent while a snapshot is on its way.
//! - Waiting changes take at most [`MAX_PENDING`](crate::pending::MAX_PENDING) bytes.
//! - A change that the platform refuses is set aside and told, until its object changes. Anything else is tried without end.

mod answers;
mod collection;
mod gate;
mod protocol;
mod refused;
mod replay;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::InventoryKind;
use crate::index::{Name, Uid};
use crate::pending::{Pending, Record, Room};
use crate::rate::Rate;
use crate::snapshot::Snapshot;

use collection::Collection;
use gate::Gate;
pub use gate::Trouble;
pub use protocol::{Answered, Call, Outcome, Report, Settings};
use refused::Refused;
use replay::Replay;

/// So many changes are on their way at once.
pub const IN_FLIGHT: usize = 16;
/// A backlog that takes longer than this becomes a snapshot.
const BACKLOG: Duration = Duration::from_secs(10);
/// Deletions that take no longer than this go before a snapshot, others after it.
const DELETIONS_FIRST: Duration = Duration::from_secs(5);
/// A backlog, or a change that found no room, leads to a snapshot at most this often: a snapshot costs the API server a list of
/// every kind.
const BETWEEN_SNAPSHOTS: Duration = Duration::from_secs(60);
/// A snapshot waits so long for the lists of the last kinds. Then it goes without them.
const SLOW_LIST: Duration = Duration::from_secs(120);

#[derive(Debug)]
enum Phase {
    /// A snapshot is owed, and nothing is gathered yet.
    Owing,
    Collecting(Collection),
    /// The snapshot waits for the platform.
    Holding(Arc<Snapshot>),
    /// The platform did not want the snapshot: its objects go one by one.
    Replaying(Replay),
    Live,
}

/// Serves one platform.
#[derive(Debug)]
pub struct Sender {
    settings: Settings,
    rate: Rate,
    gate: Gate,
    phase: Phase,
    pending: Pending,
    flying: HashMap<Uid, Record>,
    flying_snapshot: Option<Arc<Snapshot>>,
    heartbeat_flies: bool,
    next_heartbeat: Instant,
    /// The next snapshot is not sent before this time.
    snapshot_after: Option<Instant>,
    /// How often the snapshot could not be delivered.
    snapshot_failures: u32,
    last_snapshot: Option<Instant>,
    /// Kinds that the last snapshot lacks.
    left_out: BTreeSet<InventoryKind>,
    /// Whether only another snapshot makes the platform equal to the cluster again: a change found no room, or a kind that was left
    /// out can be read again.
    is_behind: bool,
    refused: Refused,
    report: Report,
}

impl Sender {
    /// A sender that owes everything. `lists_come` says that every kind will be listed anyway.
    pub fn new(settings: Settings, lists_come: bool, now: Instant) -> Self {
        Self {
            rate: Rate::new(settings.per_second, settings.burst, now),
            next_heartbeat: now + settings.heartbeat,
            pending: Pending::new(settings.max_pending),
            settings,
            gate: Gate::default(),
            phase: match lists_come {
                true => Phase::Collecting(Collection::default()),
                false => Phase::Owing,
            },
            flying: HashMap::new(),
            flying_snapshot: None,
            heartbeat_flies: false,
            snapshot_after: None,
            snapshot_failures: 0,
            last_snapshot: None,
            left_out: BTreeSet::new(),
            is_behind: false,
            refused: Refused::default(),
            report: Report::default(),
        }
    }

    /// Goes on with other settings. Other excluded namespaces mean a new snapshot.
    pub fn configure(&mut self, settings: Settings, now: Instant) {
        self.rate.change(settings.per_second, settings.burst, now);
        if settings.heartbeat != self.settings.heartbeat {
            self.next_heartbeat = now + settings.heartbeat;
        }
        let is_other_view = settings.excluded != self.settings.excluded;
        self.pending.resize(settings.max_pending);
        self.settings = settings;
        if is_other_view {
            self.owe();
        }
    }

    /// What it says of itself.
    pub fn report(&self) -> Report {
        Report {
            trouble: self.gate.trouble().cloned(),
            is_live: matches!(self.phase, Phase::Live | Phase::Replaying(_)),
            left_out: self.left_out.clone(),
            refused: self.refused.len(),
            refused_names: self.refused.named(),
            pending: self.pending.len() + self.flying.len(),
            pending_bytes: self.pending.bytes(),
            ..self.report.clone()
        }
    }

    /// Whether nothing waits and nothing is on its way.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Live)
            && !self.is_behind
            && self.pending.is_empty()
            && self.flying.is_empty()
    }

    fn is_excluded(&self, kind: InventoryKind, name: &Name) -> bool {
        let namespace = match kind {
            InventoryKind::Namespace => Some(&*name.name),
            _ => name.namespace.as_deref(),
        };
        namespace.is_some_and(|namespace| self.settings.excluded.contains(namespace))
    }

    /// Ends the trouble of the platform: it is called again at once.
    pub(crate) fn reopen(&mut self) {
        self.gate.answered();
        self.snapshot_after = None;
        self.snapshot_failures = 0;
    }

    /// Gives up what was gathered: the platform gets a new snapshot.
    pub(crate) fn owe(&mut self) {
        self.phase = Phase::Owing;
        self.pending.drop_states(None);
        self.pending.mark_early();
    }

    // What the lists and watches say.

    pub(crate) fn list_begun(&mut self, kind: InventoryKind) {
        if let Phase::Collecting(collection) = &mut self.phase
            && collection.begin(kind)
        {
            self.pending.drop_states(Some(kind));
        }
    }

    /// Takes an object of a running list that the list names for the first time. Answers whether a snapshot holds it now.
    pub(crate) fn listed(&mut self, kind: InventoryKind, name: &Name, object: &str) -> bool {
        if self.is_excluded(kind, name) {
            return true;
        }
        match &mut self.phase {
            Phase::Collecting(collection) => collection.push(kind, object),
            _ => false,
        }
    }

    pub(crate) fn list_complete(&mut self, kind: InventoryKind) {
        match &mut self.phase {
            Phase::Collecting(collection) => collection.end(kind),
            // Only a snapshot removes objects of the kind that were deleted while the kind could not be read.
            _ => self.is_behind |= self.left_out.remove(&kind),
        }
    }

    /// The list of a kind is complete, but no object of it can be read.
    pub(crate) fn list_opaque(&mut self, kind: InventoryKind) {
        if let Phase::Collecting(collection) = &mut self.phase {
            collection.leave_out(kind);
        }
    }

    pub(crate) fn list_dropped(&mut self, kind: InventoryKind) {
        if let Phase::Collecting(collection) = &mut self.phase {
            collection.give_up(kind);
        }
    }

    /// An object has changed. `is_vanished` says that a list did not show it any more. Answers whether there may be something to
    /// send now.
    pub(crate) fn changed(&mut self, record: Record, is_vanished: bool) -> bool {
        if self.is_excluded(record.kind, &record.name) {
            return false;
        }
        self.refused.remove(&record.uid);
        // A list that is still to come will show the state; only what is gone will not be in it.
        let comes_anyway = match &self.phase {
            Phase::Owing => true,
            Phase::Collecting(collection) => !collection.has_begun(record.kind),
            _ => false,
        };
        if comes_anyway && !record.is_deletion() {
            return false;
        }
        let was_sent = comes_anyway || self.flying.contains_key(&record.uid);
        // The list that is gathered now did not show it; one that was gathered before may have.
        let is_gathered =
            matches!(&self.phase, Phase::Collecting(collection) if !collection.has(record.kind));
        let is_early = comes_anyway || is_vanished && is_gathered;
        if self.pending.put(record.clone(), was_sent, is_early) == Room::Full {
            // Lists that are still to come will not show the object of a deletion.
            self.is_behind |= !comes_anyway;
            self.make_room(record, is_early);
        }
        matches!(self.phase, Phase::Live | Phase::Replaying(_) | Phase::Owing)
    }

    /// A change found no room. The states that wait are dropped in favour of deletions: another snapshot shows states, but tells no
    /// deletion to a platform that merges snapshots.
    fn make_room(&mut self, record: Record, is_early: bool) {
        self.is_behind |= self.pending.drop_states(None);
        if record.is_deletion() && self.pending.put(record, true, is_early) == Room::Full {
            self.report.lost_deletions += 1;
        }
    }

    // What to do.

    /// The next request, and whether the kinds have to be listed for a snapshot.
    pub(crate) fn next(&mut self, now: Instant, kinds: &impl Kinds) -> (Option<Call>, bool) {
        if self.gate.closed_until(now).is_some() {
            return (None, false);
        }
        if self.gate.is_probing() {
            let is_quiet = self.flying.is_empty() && self.flying_snapshot.is_none() && !self.heartbeat_flies;
            return (is_quiet.then(|| self.heartbeat(now)), false);
        }
        if now >= self.next_heartbeat && !self.heartbeat_flies {
            return (Some(self.heartbeat(now)), false);
        }
        if self.is_snapshot_due(now) {
            self.owe();
        }
        let wants_lists = matches!(self.phase, Phase::Owing);
        if wants_lists {
            self.phase = Phase::Collecting(Collection::default());
            self.is_behind = false;
        }
        self.settle(now, kinds);
        let call = match &mut self.phase {
            Phase::Owing | Phase::Collecting(_) => None,
            Phase::Holding(snapshot) => {
                let snapshot = snapshot.clone();
                self.hold(snapshot, now)
            }
            Phase::Replaying(_) | Phase::Live => self.event(now, kinds),
        };
        (call, wants_lists)
    }

    /// When to ask for the next request although nothing happens.
    pub fn wake(&self, now: Instant) -> Option<Instant> {
        if let Some(until) = self.gate.closed_until(now) {
            return Some(until);
        }
        let mut times = vec![self.next_heartbeat];
        if matches!(self.phase, Phase::Live | Phase::Replaying(_) | Phase::Holding(_)) {
            times.extend(self.pending.next_due().map(|due| due.max(now)));
            if let Err(wait) = self.rate.clone().take(now) {
                times.push(now + wait);
            }
        }
        match &self.phase {
            Phase::Holding(_) => times.extend(self.snapshot_after),
            Phase::Collecting(collection) => times.extend(collection.progressed().map(|at| at + SLOW_LIST)),
            _ => {}
        }
        if matches!(self.phase, Phase::Live)
            && self.is_behind
            && let Some(last) = self.last_snapshot
        {
            times.push(last + BETWEEN_SNAPSHOTS);
        }
        if matches!(self.phase, Phase::Live)
            && let (Some(every), Some(last)) = (self.settings.full_sync, self.last_snapshot)
        {
            times.push(last + every);
        }
        times.into_iter().filter(|time| *time > now).min()
    }

    fn heartbeat(&mut self, now: Instant) -> Call {
        self.heartbeat_flies = true;
        self.next_heartbeat = now + self.settings.heartbeat;
        Call::Heartbeat
    }

    fn is_snapshot_due(&self, now: Instant) -> bool {
        if !matches!(self.phase, Phase::Live) {
            return false;
        }
        let since = self.last_snapshot.map(|last| now.saturating_duration_since(last));
        let is_full_sync = match (self.settings.full_sync, since) {
            (Some(every), Some(since)) => since >= every,
            _ => false,
        };
        let is_long = self.pending.len() > self.rate.within(BACKLOG).max(IN_FLIGHT);
        let is_wanted = is_long || self.is_behind;
        is_full_sync || is_wanted && since.is_none_or(|since| since >= BETWEEN_SNAPSHOTS)
    }

    /// Makes the snapshot when every kind that can be read is listed, or when the lists of the last kinds take too long.
    fn settle(&mut self, now: Instant, kinds: &impl Kinds) {
        let Phase::Collecting(collection) = &mut self.phase else {
            return;
        };
        let missing = |kind: &InventoryKind| !collection.has(*kind);
        let missing: BTreeSet<InventoryKind> = kinds.all().filter(missing).collect();
        let is_waited_for = missing.iter().any(|kind| kinds.is_readable(*kind));
        if is_waited_for && !collection.is_stuck(now, SLOW_LIST) {
            return;
        }
        let snapshot = collection.finish();
        self.left_out = missing;
        self.phase = Phase::Holding(Arc::new(snapshot));
    }

    fn hold(&mut self, snapshot: Arc<Snapshot>, now: Instant) -> Option<Call> {
        if self.flying_snapshot.is_some() || self.snapshot_after.is_some_and(|after| after > now) {
            return None;
        }
        let early = self.pending.early();
        if early > 0 && early <= self.rate.within(DELETIONS_FIRST) {
            return self.fly(now, true);
        }
        if !self.flying.is_empty() {
            return None;
        }
        self.flying_snapshot = Some(snapshot.clone());
        Some(Call::Snapshot(snapshot))
    }

    fn event(&mut self, now: Instant, kinds: &impl Kinds) -> Option<Call> {
        if let Some(call) = self.fly(now, false) {
            return Some(call);
        }
        let Phase::Replaying(replay) = &mut self.phase else {
            return None;
        };
        if self.flying.len() >= IN_FLIGHT {
            return None;
        }
        let (pending, flying) = (&self.pending, &self.flying);
        let is_current = |kind, uid: &Uid, digest| {
            !pending.has(uid) && !flying.contains_key(uid) && kinds.digest(kind, uid) == Some(digest)
        };
        match replay.peek(is_current) {
            None => {
                self.phase = Phase::Live;
                None
            }
            Some(_) if self.rate.take(now).is_err() => None,
            Some(_) => {
                let record = replay.take()?;
                Some(self.launch(record))
            }
        }
    }

    /// Sends a waiting change, if one may go.
    fn fly(&mut self, now: Instant, only_early: bool) -> Option<Call> {
        if self.flying.len() >= IN_FLIGHT || self.pending.is_empty() {
            return None;
        }
        let mut rate = self.rate.clone();
        rate.take(now).ok()?;
        let flying = &self.flying;
        let record = self
            .pending
            .take(now, only_early, |uid| !flying.contains_key(uid))?;
        self.rate = rate;
        Some(self.launch(record))
    }

    fn launch(&mut self, record: Record) -> Call {
        self.flying.insert(record.uid.clone(), record.clone());
        Call::Event(record)
    }
}

/// What a sender needs to know of the kinds.
pub(crate) trait Kinds {
    /// The kinds that take part.
    fn all(&self) -> impl Iterator<Item = InventoryKind>;
    /// Whether a kind can be read, as far as is known.
    fn is_readable(&self, kind: InventoryKind) -> bool;
    /// The digest of an object, if it exists.
    fn digest(&self, kind: InventoryKind, uid: &Uid) -> Option<u64>;
}
