//! What waits to be published: one entry for each series of equal notes, bounded, with a budget for each object.
//!
//! Pure: time is a parameter.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use trustplane_plan::Note;

use super::budget::Budgets;

/// How many series are remembered. Beyond that the one that has been quiet for longest is forgotten.
const MAX_SERIES: usize = 1024;
/// How often a series that goes on is published: at first after this time, then ever more rarely.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LAST_PAUSE: Duration = Duration::from_secs(600);
/// How often a note that cannot be published is tried.
const MAX_FAILURES: u32 = 5;

/// What became of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Told {
    /// It starts a series.
    Started,
    /// It joined a series.
    Joined,
    /// Its object has used up its budget.
    OverBudget,
    /// Too much waits already.
    Full,
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
    /// Whether this process has published the series before.
    pub known: bool,
}

#[derive(Debug)]
struct Series {
    note: Note,
    first: Timestamp,
    last: Timestamp,
    last_told: Duration,
    pending: u32,
    known: bool,
    due: Duration,
    pause: Duration,
    failures: u32,
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    series: HashMap<String, Series>,
    budgets: Budgets,
}

impl Buffer {
    /// Takes a note. Equal notes become one entry with a count.
    pub fn tell(&mut self, name: &str, note: &Note, now: Duration, wall: Timestamp) -> Told {
        if let Some(series) = self.series.get_mut(name) {
            series.pending = series.pending.saturating_add(1);
            (series.last, series.last_told) = (wall, now);
            return Told::Joined;
        }
        if self.series.len() >= MAX_SERIES && !self.forget_one() {
            return Told::Full;
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
            known: false,
            due: now,
            pause: FIRST_PAUSE,
            failures: 0,
        };
        self.series.insert(name.to_owned(), series);
        Told::Started
    }

    /// How many series wait to be published.
    pub fn depth(&self) -> usize {
        self.series.values().filter(|series| series.pending > 0).count()
    }

    /// When the next series is due.
    pub fn next_due(&self) -> Option<Duration> {
        let waiting = self.series.values().filter(|series| series.pending > 0);
        waiting.map(|series| series.due).min()
    }

    /// The series that is most overdue.
    pub fn due(&self, now: Duration) -> Option<Due> {
        let waiting = self
            .series
            .iter()
            .filter(|(_, series)| series.pending > 0 && series.due <= now);
        let (name, series) = waiting.min_by_key(|(_, series)| series.due)?;
        Some(Due {
            name: name.clone(),
            note: series.note.clone(),
            first: series.first,
            last: series.last,
            pending: series.pending,
            known: series.known,
        })
    }

    /// What was due is published.
    pub fn published(&mut self, due: &Due, now: Duration) {
        if let Some(series) = self.series.get_mut(&due.name) {
            series.pending = series.pending.saturating_sub(due.pending);
            series.known = true;
            series.failures = 0;
            series.due = now + series.pause;
            series.pause = (series.pause * 2).min(LAST_PAUSE);
        }
    }

    /// What was due could not be published. Returns whether it will be tried again; if not, it is forgotten.
    pub fn failed(&mut self, due: &Due, now: Duration, again_in: Option<Duration>) -> bool {
        let Some(series) = self.series.get_mut(&due.name) else {
            return false;
        };
        series.failures += 1;
        match again_in {
            Some(wait) if series.failures < MAX_FAILURES => {
                series.due = now + wait;
                true
            }
            _ => {
                self.series.remove(&due.name);
                false
            }
        }
    }

    fn forget_one(&mut self) -> bool {
        let quiet = self.series.iter().filter(|(_, series)| series.pending == 0);
        let oldest = quiet
            .min_by_key(|(_, series)| series.last_told)
            .map(|(name, _)| name.clone());
        oldest.is_some_and(|name| self.series.remove(&name).is_some())
    }
}

#[cfg(test)]
mod tests {
    use trustplane_plan::{Kind, ObjectRef, Scope, Severity, Target};

    use super::*;

    const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap", "configmaps", Scope::Namespaced);

    fn note(uid: &str, text: &str) -> Note {
        let about = Target {
            kind: CONFIG_MAP,
            object: ObjectRef::new(Some("ns"), "n"),
        };
        Note::new(about, uid, Severity::Normal, "Reason", "Act", text)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn equal_notes_become_one_with_a_count() {
        let mut buffer = Buffer::default();
        assert_eq!(
            buffer.tell("a", &note("u", "x"), seconds(0), wall(0)),
            Told::Started
        );
        assert_eq!(
            buffer.tell("a", &note("u", "x"), seconds(1), wall(1)),
            Told::Joined
        );
        let due = buffer.due(seconds(1)).unwrap();
        assert_eq!(
            (due.pending, due.first, due.last, due.known),
            (2, wall(0), wall(1), false)
        );
        // One more while it is being published is not lost.
        buffer.tell("a", &note("u", "x"), seconds(2), wall(2));
        buffer.published(&due, seconds(2));
        assert_eq!(
            buffer.due(seconds(11)),
            None,
            "a series is not published at every note"
        );
        let due = buffer.due(seconds(12)).unwrap();
        assert_eq!((due.pending, due.known), (1, true));
    }

    #[test]
    fn a_series_that_goes_on_is_published_ever_more_rarely() {
        let mut buffer = Buffer::default();
        let mut published = 0;
        for second in 0..3600 {
            buffer.tell("a", &note("u", "x"), seconds(second), wall(second as i64));
            if let Some(due) = buffer.due(seconds(second)) {
                buffer.published(&due, seconds(second));
                published += 1;
            }
        }
        assert!((8..=13).contains(&published), "{published} writes in an hour");
    }

    #[test]
    fn one_loud_object_does_not_silence_another() {
        let mut buffer = Buffer::default();
        let loud: Vec<Told> = (0..100)
            .map(|n| {
                buffer.tell(
                    &format!("l{n}"),
                    &note("loud", &n.to_string()),
                    seconds(0),
                    wall(0),
                )
            })
            .collect();
        assert!(loud.contains(&Told::OverBudget) && loud.contains(&Told::Started));
        assert_eq!(
            buffer.tell("q", &note("quiet", "x"), seconds(0), wall(0)),
            Told::Started
        );
    }

    #[test]
    fn memory_is_bounded_and_nothing_unpublished_is_forgotten() {
        let mut buffer = Buffer::default();
        for n in 0..MAX_SERIES {
            assert_eq!(
                buffer.tell(&n.to_string(), &note(&n.to_string(), "x"), seconds(0), wall(0)),
                Told::Started
            );
        }
        assert_eq!(
            buffer.tell("more", &note("more", "x"), seconds(1), wall(1)),
            Told::Full
        );
        let due = buffer.due(seconds(1)).unwrap();
        buffer.published(&due, seconds(1));
        assert_eq!(
            buffer.tell("more", &note("more", "x"), seconds(1), wall(1)),
            Told::Started
        );
        assert_eq!(buffer.depth(), MAX_SERIES);
    }

    #[test]
    fn a_note_that_cannot_be_published_is_given_up() {
        let mut buffer = Buffer::default();
        buffer.tell("a", &note("u", "x"), seconds(0), wall(0));
        let mut now = seconds(0);
        let mut tries = 0;
        while let Some(due) = buffer.due(now) {
            tries += 1;
            buffer.failed(&due, now, Some(seconds(1)));
            now += seconds(1);
        }
        assert_eq!((tries, buffer.depth()), (MAX_FAILURES, 0));
        buffer.tell("b", &note("u", "x"), now, wall(0));
        let due = buffer.due(now).unwrap();
        assert!(
            !buffer.failed(&due, now, None),
            "what can never succeed is not tried again"
        );
    }
}
