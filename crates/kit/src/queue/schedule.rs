//! The state machine of the queue: every key, what it waits for, and whose turn it is. No clock, no lock, no waiting.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use trustplane_plan::Class;

use super::ready::{Ready, Ticket};
use super::{Debounce, Depths, Key, Lane, Outcome, Policy};

/// Longer waits are cut to this: nobody misses a look that comes early, and the clock cannot overflow.
const FAR: Duration = Duration::from_secs(30 * 24 * 3600);

/// Which keys are due, delayed or worked on. Time and the seed of its dice are parameters.
///
/// `now` must not run backwards between calls.
#[derive(Debug)]
pub struct Schedule<K> {
    policy: Policy,
    entries: HashMap<K, Entry>,
    ready: Ready<K>,
    delayed: BTreeSet<(Instant, K)>,
    running: usize,
    dice: SmallRng,
}

/// One turn at a key: it is the caller's alone until [`Schedule::finish`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn<K> {
    /// The key.
    pub key: K,
    /// The lane that it came by.
    pub lane: Lane,
    /// How long it was due.
    pub waited: Duration,
    /// How often it failed since its last success.
    pub failures: u32,
}

/// All that is known of one key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) phase: Phase,
    pub(super) trouble: Option<Trouble>,
}

/// Where a key stands.
#[derive(Debug)]
pub(super) enum Phase {
    Delayed {
        next: Next,
        due: Instant,
    },
    Ready {
        lane: Lane,
        ticket: Ticket,
        since: Instant,
    },
    Running {
        since: Instant,
        next: Option<Next>,
    },
}

/// The failures of a key since its last success.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trouble {
    pub(super) class: Class,
    pub(super) failures: u32,
    /// Before this, not even an event brings the key back.
    hold: Instant,
}

/// The next run of a key and what asked for it: a timer (earliest wins), events (each extends the window), or both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    lane: Lane,
    timer: Option<Instant>,
    window: Option<Window>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    opened: Instant,
    closes: Instant,
}

impl Next {
    fn new(lane: Lane) -> Self {
        Self {
            lane,
            timer: None,
            window: None,
        }
    }

    fn at(&mut self, lane: Lane, due: Instant) {
        self.lane = self.lane.min(lane);
        self.timer = Some(self.timer.map_or(due, |earlier| earlier.min(due)));
    }

    fn event(&mut self, lane: Lane, now: Instant, debounce: Option<Debounce>) {
        self.lane = self.lane.min(lane);
        let Some(Debounce { quiet, longest }) = debounce.filter(|_| self.lane != Lane::Urgent) else {
            return self.at(lane, now);
        };
        let opened = self.window.map_or(now, |window| window.opened);
        let closes = after(now, quiet).min(after(opened, longest));
        self.window = Some(Window { opened, closes });
    }

    fn due(&self, hold: Option<Instant>, now: Instant) -> Instant {
        let asked = [self.timer, self.window.map(|window| window.closes)]
            .into_iter()
            .flatten()
            .min();
        let due = asked.unwrap_or(now);
        hold.map_or(due, |hold| due.max(hold))
    }
}

fn after(now: Instant, wait: Duration) -> Instant {
    now + wait.min(FAR)
}

impl<K: Key> Schedule<K> {
    /// An empty schedule.
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            entries: HashMap::new(),
            ready: Ready::new(policy.turns),
            delayed: BTreeSet::new(),
            running: 0,
            dice: SmallRng::seed_from_u64(seed),
        }
    }

    /// Something happened to a key: it gets a turn that begins after this call.
    pub fn add(&mut self, key: K, lane: Lane, now: Instant) {
        let debounce = self.policy.debounce;
        self.ask(key, lane, now, |next| next.event(lane, now, debounce));
    }

    /// A key gets a turn after some time, or sooner if something else asks for that.
    pub fn add_after(&mut self, key: K, lane: Lane, wait: Duration, now: Instant) {
        self.ask(key, lane, now, |next| next.at(lane, after(now, wait)));
    }

    /// The next turn, if a key is due.
    pub fn take(&mut self, now: Instant) -> Option<Turn<K>> {
        self.promote(now);
        let key = self.ready.take()?;
        let entry = self.entries.get_mut(&key)?;
        let Phase::Ready { lane, since, .. } = entry.phase else {
            return None;
        };
        entry.phase = Phase::Running {
            since: now,
            next: None,
        };
        self.running += 1;
        let failures = entry.trouble.map_or(0, |trouble| trouble.failures);
        Some(Turn {
            key,
            lane,
            waited: now.saturating_duration_since(since),
            failures,
        })
    }

    /// Ends a turn. A key that is not being worked on is left as it is.
    pub fn finish(&mut self, key: &K, outcome: Outcome, now: Instant) {
        self.promote(now);
        let Some((key, mut entry)) = self.entries.remove_entry(key) else {
            return;
        };
        let Phase::Running { mut next, .. } = entry.phase else {
            self.entries.insert(key, entry);
            return;
        };
        self.running -= 1;
        match outcome {
            Outcome::Success { look_again } => {
                entry.trouble = None;
                if let Some((wait, lane)) = look_again {
                    next.get_or_insert(Next::new(lane)).at(lane, after(now, wait));
                }
            }
            Outcome::Failed {
                class,
                retry_after,
                retry_in,
            } => {
                let retry = self.failed(&mut entry, class, retry_after, now);
                let retry = retry_in.map_or(retry, |wait| after(now, wait));
                next.get_or_insert(Next::new(Lane::Bulk)).at(Lane::Bulk, retry);
            }
            Outcome::StillFailing { look_again } => {
                if let Some(wait) = look_again {
                    next.get_or_insert(Next::new(Lane::Bulk))
                        .at(Lane::Bulk, after(now, wait));
                }
            }
        }
        if let Some(next) = next {
            self.place(key, next, entry.trouble, now);
        }
    }

    /// Drops all that is known of a key: its turn, its timers, its failures. A turn that has begun still ends as usual.
    pub fn forget(&mut self, key: &K) {
        let Some((key, mut entry)) = self.entries.remove_entry(key) else {
            return;
        };
        match &mut entry.phase {
            Phase::Delayed { due, .. } => drop(self.delayed.remove(&(*due, key))),
            Phase::Ready { lane, ticket, .. } => self.ready.remove(*lane, &key, *ticket),
            Phase::Running { next, .. } => {
                *next = None;
                entry.trouble = None;
                self.entries.insert(key, entry);
            }
        }
    }

    /// When the next delayed key comes due.
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// Whether a key is due, as of the last call that named the time.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How full it is.
    pub fn depths(&mut self, now: Instant) -> Depths {
        // With all workers busy nobody else would notice that a key has come due.
        self.promote(now);
        let (mut due, mut begun, mut failing) = (now, now, 0);
        for entry in self.entries.values() {
            match entry.phase {
                Phase::Ready { since, .. } => due = due.min(since),
                Phase::Running { since, .. } => begun = begun.min(since),
                Phase::Delayed { .. } => {}
            }
            failing += usize::from(entry.trouble.is_some());
        }
        let [urgent, normal, bulk] =
            [Lane::Urgent, Lane::Normal, Lane::Bulk].map(|lane| self.ready.depth(lane));
        Depths {
            keys: self.entries.len(),
            urgent,
            normal,
            bulk,
            delayed: self.delayed.len(),
            running: self.running,
            failing,
            oldest: now - due,
            longest_running: now - begun,
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&K, &Entry)> {
        self.entries.iter()
    }

    /// Records the wish for a turn wherever the key stands.
    fn ask(&mut self, key: K, lane: Lane, now: Instant, wish: impl FnOnce(&mut Next)) {
        self.promote(now);
        let Some(entry) = self.entries.get_mut(&key) else {
            let mut next = Next::new(lane);
            wish(&mut next);
            return self.place(key, next, None, now);
        };
        match &mut entry.phase {
            Phase::Running { next, .. } => wish(next.get_or_insert(Next::new(lane))),
            // Its turn begins after this call already; at most it moves up.
            Phase::Ready {
                lane: current,
                ticket,
                ..
            } if lane < *current => {
                self.ready.remove(*current, &key, *ticket);
                *current = lane;
                *ticket = self.ready.insert(lane, key);
            }
            Phase::Ready { .. } => {}
            Phase::Delayed { next, due } => {
                let (mut next, trouble) = (*next, entry.trouble);
                let place = (*due, key);
                self.delayed.remove(&place);
                wish(&mut next);
                self.place(place.1, next, trouble, now);
            }
        }
    }

    /// Puts a key where its next turn says: among the delayed, or among those that are due.
    fn place(&mut self, key: K, next: Next, trouble: Option<Trouble>, now: Instant) {
        let due = next.due(trouble.map(|trouble| trouble.hold), now);
        let phase = if due <= now {
            let ticket = self.ready.insert(next.lane, key.clone());
            Phase::Ready {
                lane: next.lane,
                ticket,
                since: due,
            }
        } else {
            self.delayed.insert((due, key.clone()));
            Phase::Delayed { next, due }
        };
        self.entries.insert(key, Entry { phase, trouble });
    }

    /// Moves the delayed keys whose time has come.
    fn promote(&mut self, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now) {
            let Some((since, key)) = self.delayed.pop_first() else {
                return;
            };
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            let Phase::Delayed { next, .. } = &entry.phase else {
                continue;
            };
            let lane = next.lane;
            let ticket = self.ready.insert(lane, key);
            entry.phase = Phase::Ready { lane, ticket, since };
        }
    }

    /// Counts a failure and says when to try again.
    fn failed(
        &mut self,
        entry: &mut Entry,
        class: Class,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Instant {
        // An error of the user and one of the world are two stories: ten wrong edits must not slow down the first retry after
        // an outage.
        let is_user = |class| class == Class::User;
        let earlier = entry.trouble.filter(|last| is_user(last.class) == is_user(class));
        let earlier = earlier.map_or(0, |last| last.failures);
        let wait = self
            .policy
            .retry
            .wait(class, earlier, retry_after, self.dice.random());
        let failures = earlier.saturating_add(1);
        entry.trouble = Some(Trouble {
            class,
            failures,
            hold: after(now, wait.hold),
        });
        after(now, wait.retry)
    }
}
