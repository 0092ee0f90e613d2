//! Changes that wait to be sent: at most one for each object, within a bound of memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use trustplane_api::inventory::wire::EventType;

use crate::InventoryKind;
use crate::index::{Name, Uid};

/// How much memory the waiting changes of one platform may take, in bytes.
pub const MAX_PENDING: usize = 8 << 20;

/// What a waiting change costs besides the text of its object.
const OVERHEAD: usize = 256;

/// A change of one object that the platform is to hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The kind of the object.
    pub kind: InventoryKind,
    /// Its uid.
    pub uid: Uid,
    /// Its name.
    pub name: Name,
    /// What happened.
    pub type_: EventType,
    /// The object in its canonical form; `None` if it is gone.
    pub object: Option<Arc<str>>,
    /// Whether the platform may know of the object already.
    pub is_told: bool,
    /// How often it could not be delivered.
    pub attempts: u32,
}

impl Record {
    /// Whether it says that the object is gone.
    pub fn is_deletion(&self) -> bool {
        self.type_ == EventType::Deleted
    }

    fn cost(&self) -> usize {
        OVERHEAD + self.name.name.len() + self.object.as_ref().map_or(0, |object| object.len())
    }

    /// Ends of Kubernetes events are the least of all news: an API server forgets each event after an hour.
    fn rank(&self) -> u8 {
        u8::from(self.kind == InventoryKind::Event && self.is_deletion())
    }
}

/// Whether a change found room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Room {
    /// It waits, or nothing is left to say.
    Taken,
    /// There is no room for it: it is lost unless the objects are listed again.
    Full,
}

/// Place in the order: rank, then age.
type Turn = (u8, u64);

/// The changes that wait, in the order in which their objects first changed.
#[derive(Debug)]
pub struct Pending {
    max: usize,
    records: HashMap<Uid, (Turn, Record)>,
    turns: BTreeMap<Turn, Uid>,
    /// Not before this time, for changes that could not be delivered.
    delayed: HashMap<Uid, Instant>,
    /// Deletions of objects that a snapshot in the making does not hold: they may be sent before it.
    early: HashSet<Uid>,
    last_turn: u64,
    bytes: usize,
}

impl Pending {
    /// Nothing waits; there is room for so many bytes.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            records: HashMap::new(),
            turns: BTreeMap::new(),
            delayed: HashMap::new(),
            early: HashSet::new(),
            last_turn: 0,
            bytes: 0,
        }
    }

    /// Sets how many bytes there is room for. What waits already stays.
    pub fn resize(&mut self, max: usize) {
        self.max = max;
    }

    /// How many changes wait.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How many of them are deletions that may be sent before a snapshot.
    pub fn early(&self) -> usize {
        self.early.len()
    }

    /// A snapshot will be made after everything that waits: it will hold no object that is gone by now.
    pub fn mark_early(&mut self) {
        let deletions = self
            .records
            .iter()
            .filter(|(_, (_, record))| record.is_deletion());
        self.early = deletions.map(|(uid, _)| uid.clone()).collect();
    }

    /// How much memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a change of this object waits.
    pub fn has(&self, uid: &Uid) -> bool {
        self.records.contains_key(uid)
    }

    /// Adds a change; the newest state of an object takes the place of the one that waits. `was_sent` says that an earlier change of
    /// the object is on its way, `is_early` that a snapshot in the making does not hold it.
    pub fn put(&mut self, mut record: Record, was_sent: bool, is_early: bool) -> Room {
        let turn = match self.remove(&record.uid) {
            None => None,
            Some((turn, before)) => {
                record.is_told |= before.is_told;
                if record.is_deletion() && !record.is_told && !was_sent {
                    // The platform has never heard of it.
                    return Room::Taken;
                }
                if !record.is_deletion() && before.type_ == EventType::Added {
                    record.type_ = EventType::Added;
                }
                Some(turn)
            }
        };
        if self.bytes + record.cost() > self.max {
            return Room::Full;
        }
        let rank = record.rank();
        let turn = turn.filter(|(before, _)| *before == rank).unwrap_or_else(|| {
            self.last_turn += 1;
            (rank, self.last_turn)
        });
        self.insert(turn, record, is_early);
        Room::Taken
    }

    /// Takes a change back that could not be delivered; it goes behind the others and waits until `not_before`. A newer change of
    /// the object makes it needless. `is_early` as for [`Pending::put`].
    pub fn put_back(&mut self, mut record: Record, not_before: Option<Instant>, is_early: bool) -> Room {
        if let Some((_, newer)) = self.records.get_mut(&record.uid) {
            newer.is_told = true;
            if !newer.is_deletion() && record.type_ == EventType::Added {
                newer.type_ = EventType::Added;
            }
            return Room::Taken;
        }
        if self.bytes + record.cost() > self.max {
            return Room::Full;
        }
        record.is_told = true;
        if let Some(not_before) = not_before {
            self.delayed.insert(record.uid.clone(), not_before);
        }
        self.last_turn += 1;
        let turn = (record.rank(), self.last_turn);
        self.insert(turn, record, is_early);
        Room::Taken
    }

    /// The next change that may be sent: its time has come, and `is_free` says that no other change of the object is on its way.
    pub fn take(&mut self, now: Instant, only_early: bool, is_free: impl Fn(&Uid) -> bool) -> Option<Record> {
        let due = |uid: &Uid| self.delayed.get(uid).is_none_or(|until| *until <= now);
        let wanted = |uid: &Uid| !only_early || self.early.contains(uid);
        let uid = self
            .turns
            .values()
            .find(|uid| is_free(uid) && due(uid) && wanted(uid))?
            .clone();
        self.remove(&uid).map(|(_, record)| record)
    }

    /// When the next delayed change may be sent.
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.values().min().copied()
    }

    /// Drops the states of objects of a kind, or of all; what says that an object is gone stays. For kinds that are listed again.
    /// Answers whether there were any.
    pub fn drop_states(&mut self, kind: Option<InventoryKind>) -> bool {
        let is_meant = |record: &Record| !record.is_deletion() && kind.is_none_or(|kind| kind == record.kind);
        let uids: Vec<Uid> = self
            .records
            .iter()
            .filter(|(_, (_, record))| is_meant(record))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in &uids {
            self.remove(uid);
        }
        !uids.is_empty()
    }

    fn insert(&mut self, turn: Turn, record: Record, is_early: bool) {
        self.bytes += record.cost();
        if is_early && record.is_deletion() {
            self.early.insert(record.uid.clone());
        }
        self.turns.insert(turn, record.uid.clone());
        self.records.insert(record.uid.clone(), (turn, record));
    }

    fn remove(&mut self, uid: &Uid) -> Option<(Turn, Record)> {
        let (turn, record) = self.records.remove(uid)?;
        self.turns.remove(&turn);
        self.delayed.remove(uid);
        self.early.remove(uid);
        self.bytes -= record.cost();
        Some((turn, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u8, type_: EventType) -> Record {
        Record {
            kind: InventoryKind::Pod,
            uid: Uid::Uuid([number; 16]),
            name: Name {
                namespace: Some("shop".into()),
                name: format!("p{number}").into(),
            },
            object: (type_ != EventType::Deleted).then(|| "{}".into()),
            type_,
            is_told: type_ == EventType::Modified,
            attempts: 0,
        }
    }

    fn taken(pending: &mut Pending) -> Vec<(String, EventType)> {
        let now = Instant::now();
        std::iter::from_fn(|| pending.take(now, false, |_| true))
            .map(|record| (record.name.name.to_string(), record.type_))
            .collect()
    }

    #[test]
    fn changes_of_one_object_merge_and_keep_their_turn() {
        let mut pending = Pending::new(MAX_PENDING);
        for (number, type_) in [
            (1, EventType::Added),
            (2, EventType::Modified),
            (1, EventType::Modified),
            (2, EventType::Deleted),
        ] {
            assert_eq!(pending.put(record(number, type_), false, false), Room::Taken);
        }
        assert_eq!(
            taken(&mut pending),
            [("p1".into(), EventType::Added), ("p2".into(), EventType::Deleted)]
        );
        assert_eq!(pending.bytes(), 0);
    }

    #[test]
    fn an_object_that_came_and_went_is_told_only_if_it_was_sent() {
        let mut pending = Pending::new(MAX_PENDING);
        for was_sent in [false, true] {
            let _ = pending.put(record(1, EventType::Added), false, false);
            let _ = pending.put(record(1, EventType::Deleted), was_sent, false);
            assert_eq!(pending.is_empty(), !was_sent);
        }
        assert_eq!(taken(&mut pending), [("p1".into(), EventType::Deleted)]);
    }

    #[test]
    fn an_undelivered_change_gives_way_to_a_newer_one() {
        let mut pending = Pending::new(MAX_PENDING);
        let _ = pending.put(record(1, EventType::Modified), true, false);
        assert_eq!(
            pending.put_back(record(1, EventType::Added), None, false),
            Room::Taken
        );
        assert_eq!(taken(&mut pending), [("p1".into(), EventType::Added)]);
    }

    #[test]
    fn an_undelivered_change_waits_and_others_pass() {
        let (mut pending, now) = (Pending::new(MAX_PENDING), Instant::now());
        let later = now + std::time::Duration::from_secs(5);
        let _ = pending.put_back(record(1, EventType::Added), Some(later), false);
        let _ = pending.put(record(2, EventType::Added), false, false);
        assert_eq!(taken(&mut pending), [("p2".into(), EventType::Added)]);
        assert_eq!(pending.next_due(), Some(later));
        assert!(pending.take(later, false, |_| true).is_some());
    }

    #[test]
    fn memory_is_bounded_and_deletions_survive_the_loss_of_states() {
        let mut pending = Pending::new(MAX_PENDING);
        let big = |number: u8| Record {
            object: Some("x".repeat(1 << 20).into()),
            ..record(number, EventType::Added)
        };
        let full = (0..20).find(|number| pending.put(big(*number), false, false) == Room::Full);
        assert_eq!(full, Some(7));
        let _ = pending.put(record(100, EventType::Deleted), true, false);
        assert_eq!(pending.early(), 0, "a snapshot may hold it");
        assert!(pending.drop_states(None));
        pending.mark_early();
        assert_eq!((pending.len(), pending.early()), (1, 1));
    }

    #[test]
    fn ends_of_events_go_last() {
        let mut pending = Pending::new(MAX_PENDING);
        let event = Record {
            kind: InventoryKind::Event,
            ..record(1, EventType::Deleted)
        };
        let _ = pending.put(event, true, false);
        let _ = pending.put(record(2, EventType::Added), false, false);
        let names: Vec<_> = taken(&mut pending).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["p2", "p1"]);
    }
}
