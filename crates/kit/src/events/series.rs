//! What waits to be published: one entry for each series of equal notes. No namespace can use up the room of another.
//!
//! Pure: time is a parameter.
//!
//! **Guarantees.** A note that was taken is published or given up, never forgotten: a note without room is refused, and
//! whoever tells it is told so. A namespace with fewer than [`GUARANTEED`] waiting series is never refused, and namespaces
//! take turns when series are published. At most [`SHARED`] series wait, and [`GUARANTEED`] more for each namespace; at
//! most [`MAX_QUIET`] published series are remembered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trustplane_plan::Note;

use super::budget::Budgets;
use super::wire::Stored;

/// How many series may wait, of all namespaces together. One namespace never takes more than half of what is left, so
/// that a flood leaves room for the others.
pub(super) const SHARED: usize = 2048;
/// How many series of each namespace may wait, however many others do.
const GUARANTEED: usize = 32;
/// How many published series are remembered. Beyond that the series that has been quiet for longest is forgotten: if it
/// goes on, that costs two calls more.
const MAX_QUIET: usize = 2048;
/// How often a series that goes on is published: at first after this time, then ever more rarely.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LAST_PAUSE: Duration = Duration::from_secs(600);
/// How often a note that cannot be published is tried.
const MAX_FAILURES: u32 = 5;

/// What became of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Told {
    /// It starts a series, and will be published.
    Started,
    /// It joined a series of equal notes, and will be counted there.
    Joined,
    /// Its object has used up its budget of different notes. Another try is of no use before the budget grows.
    OverBudget,
    /// Too many notes of its namespace wait already. Try again later.
    Refused,
}

impl Told {
    /// Whether the note will be published.
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Started | Self::Joined)
    }
}

/// A series that is to be published now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Due {
    pub name: String,
    pub note: Note,
    pub first: Timestamp,
    pub last: Timestamp,
    /// How many notes have not been published yet.
    pub pending: u32,
    /// The event as this process has last written it, if it has.
    pub stored: Option<Stored>,
}

#[derive(Debug)]
struct Series {
    note: Note,
    first: Timestamp,
    last: Timestamp,
    last_told: Duration,
    pending: u32,
    stored: Option<Stored>,
    due: Duration,
    pause: Duration,
    failures: u32,
}

/// What a namespace has in the buffer.
#[derive(Debug, Default)]
struct Share {
    /// How many series wait or are being sent.
    waiting: usize,
    /// Those that wait, the most overdue first.
    queue: BTreeSet<(Duration, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    series: HashMap<String, Series>,
    shares: BTreeMap<Arc<str>, Share>,
    /// The namespace that was served last.
    turn: Arc<str>,
    /// How many series wait or are being sent, of all namespaces.
    waiting: usize,
    /// Series without a note to publish, the longest quiet first.
    quiet: BTreeSet<(Duration, String)>,
    budgets: Budgets,
}

impl Buffer {
    /// Takes a note, or says why not. Equal notes become one entry with a count.
    pub fn tell(&mut self, name: &str, note: &Note, now: Duration, wall: Timestamp) -> Told {
        let known = self.series.get_mut(name);
        if let Some(series) = known
            && series.pending > 0
        {
            series.pending = series.pending.saturating_add(1);
            (series.last, series.last_told) = (wall, now);
            return Told::Joined;
        }
        if !self.has_room(namespace(note)) {
            return Told::Refused;
        }
        if let Some(series) = self.series.get_mut(name) {
            self.quiet.remove(&(series.last_told, name.to_owned()));
            series.pending = 1;
            (series.last, series.last_told) = (wall, now);
            let due = series.due;
            self.enter(name, namespace(note), due);
            return Told::Joined;
        }
        if !self.budgets.take(&note.uid, now) {
            return Told::OverBudget;
        }
        let series = Series {
            note: note.clone(),
            first: wall,
            last: wall,
            last_told: now,
            pending: 1,
            stored: None,
            due: now,
            pause: FIRST_PAUSE,
            failures: 0,
        };
        self.series.insert(name.to_owned(), series);
        self.enter(name, namespace(note), now);
        Told::Started
    }

    /// How many series wait to be published, or are being published.
    pub fn depth(&self) -> usize {
        self.waiting
    }

    /// How many notes wait to be published, or are being published.
    pub fn notes(&self) -> u64 {
        self.series.values().map(|series| u64::from(series.pending)).sum()
    }

    /// When the next series is due that is not being published.
    pub fn next_due(&self) -> Option<Duration> {
        let first = self.shares.values().filter_map(|share| share.queue.first());
        first.map(|(due, _)| *due).min()
    }

    /// Hands out a series to publish: the most overdue of the next namespace that has one. It is not handed out again
    /// until [`Buffer::published`] or [`Buffer::failed`] says what became of it.
    pub fn due(&mut self, now: Duration) -> Option<Due> {
        let turn = &*self.turn;
        let after = self.shares.range::<str, _>((Excluded(turn), Unbounded));
        let mut turns = after.chain(self.shares.range::<str, _>((Unbounded, Included(turn))));
        let is_due = |share: &Share| share.queue.first().is_some_and(|(due, _)| *due <= now);
        let namespace = turns.find(|(_, share)| is_due(share))?.0.clone();
        let (_, name) = self.shares.get_mut(&namespace)?.queue.pop_first()?;
        self.turn = namespace;
        let series = self.series.get(&name)?;
        Some(Due {
            note: series.note.clone(),
            first: series.first,
            last: series.last,
            pending: series.pending,
            stored: series.stored.clone(),
            name,
        })
    }

    /// The series that was handed out is published; `stored` is its event now, if that is known.
    pub fn published(&mut self, due: &Due, stored: Option<Stored>, now: Duration) {
        let Some(series) = self.series.get_mut(&due.name) else {
            return;
        };
        series.pending = series.pending.saturating_sub(due.pending);
        series.stored = stored;
        series.failures = 0;
        series.due = now.saturating_add(series.pause);
        series.pause = (series.pause * 2).min(LAST_PAUSE);
        let (pending, at, told) = (series.pending, series.due, series.last_told);
        if pending > 0 {
            self.put_back(due, at);
            return;
        }
        self.leave(namespace(&due.note));
        self.quiet.insert((told, due.name.clone()));
        while self.quiet.len() > MAX_QUIET
            && let Some((_, oldest)) = self.quiet.pop_first()
        {
            self.series.remove(&oldest);
        }
    }

    /// The series that was handed out could not be published. Returns how many notes are given up: none if it is tried
    /// again.
    pub fn failed(&mut self, due: &Due, now: Duration, again_in: Option<Duration>) -> u32 {
        let Some(series) = self.series.get_mut(&due.name) else {
            return 0;
        };
        series.failures += 1;
        if let Some(wait) = again_in
            && series.failures < MAX_FAILURES
        {
            series.due = now.saturating_add(wait);
            let at = series.due;
            self.put_back(due, at);
            return 0;
        }
        self.leave(namespace(&due.note));
        self.series
            .remove(&due.name)
            .map_or(0, |given_up| given_up.pending)
    }

    /// A namespace has the room that is guaranteed to it, and as much again as is left for all.
    fn has_room(&self, namespace: &str) -> bool {
        let own = self.shares.get(namespace).map_or(0, |share| share.waiting);
        own < GUARANTEED || own < SHARED.saturating_sub(self.waiting)
    }

    fn enter(&mut self, name: &str, namespace: &str, due: Duration) {
        if !self.shares.contains_key(namespace) {
            self.shares.insert(namespace.into(), Share::default());
        }
        if let Some(share) = self.shares.get_mut(namespace) {
            share.waiting += 1;
            share.queue.insert((due, name.to_owned()));
        }
        self.waiting += 1;
    }

    fn put_back(&mut self, due: &Due, at: Duration) {
        if let Some(share) = self.shares.get_mut(namespace(&due.note)) {
            share.queue.insert((at, due.name.clone()));
        }
    }

    fn leave(&mut self, namespace: &str) {
        self.waiting = self.waiting.saturating_sub(1);
        if let Some(share) = self.shares.get_mut(namespace) {
            share.waiting = share.waiting.saturating_sub(1);
            if share.waiting == 0 {
                self.shares.remove(namespace);
            }
        }
    }
}

/// Whose room a note takes: objects without a namespace share the room of none.
fn namespace(note: &Note) -> &str {
    note.about.object.namespace().unwrap_or_default()
}

#[cfg(test)]
mod tests;
