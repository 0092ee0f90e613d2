//! The election as a pure state machine: time, the wall clock and every answer are parameters.
//!
//! No clock of another machine is believed. A rival's lease has ended when its record has stood unchanged for a whole
//! lease duration on *our* monotonic clock; ours has ended when the renew deadline, which is shorter, has passed since the
//! *start* of our last successful write. So the two never overlap, whatever was delayed or lost in between:
//!
//! ```text
//! leader    |-- write starts ---------- renew deadline: fence closes
//! server         |-- record changes
//! standby             |-- change seen --------------------------- lease duration: may claim
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::timing::Timing;

/// What stands in a Lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Who holds it; nobody when empty.
    pub holder: String,
    /// For how long after its last renewal others leave it alone.
    pub duration_seconds: i32,
    /// When the holder got it, on the holder's wall clock.
    pub acquired: Option<Timestamp>,
    /// When the holder last renewed it, on the holder's wall clock.
    pub renewed: Option<Timestamp>,
    /// How often it changed hands.
    pub transitions: i32,
}

/// What was read from the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// There is no Lease.
    Absent,
    /// The record, and the version that a write must carry.
    Present(Record, String),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing before this instant.
    Wait(Duration),
    /// Read the Lease.
    Read,
    /// Create the Lease.
    Create(Record),
    /// Replace the Lease of exactly this version.
    Replace(Record, String),
    /// Leadership is lost for good. The process must end.
    Lost,
    /// The lease was given back, or was not held.
    Left,
}

/// How a write went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is stored, with this version.
    Stored(Record, String),
    /// Somebody else was faster.
    Conflict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Standby,
    Leading { until: Duration },
    Lost,
    Leaving,
    Left,
}

#[derive(Debug)]
struct Observed {
    record: Record,
    changed: Duration,
}

/// One candidate. The driver asks for a [`Step`], carries it out and reports the answer, one step at a time.
#[derive(Debug)]
pub struct Elector {
    me: String,
    timing: Timing,
    state: State,
    /// The last record seen, and when it last changed on our clock.
    observed: Option<Observed>,
    /// What the next write rests on. Every write uses it up.
    view: Option<View>,
    next: Duration,
}

impl Elector {
    /// A candidate that has seen nothing yet.
    pub fn new(me: &str, timing: Timing) -> Self {
        Self {
            me: me.to_owned(),
            timing,
            state: State::Standby,
            observed: None,
            view: None,
            next: Duration::ZERO,
        }
    }

    /// Until when this process leads, if it leads now.
    pub fn leads_until(&self, now: Duration) -> Option<Duration> {
        match self.state {
            State::Leading { until } if now < until => Some(until),
            _ => None,
        }
    }

    /// What to do next. `wall` only goes into the record, for people.
    pub fn step(&mut self, now: Duration, wall: Timestamp) -> Step {
        match self.state {
            State::Lost => return Step::Lost,
            State::Left => return Step::Left,
            State::Leading { until } if now >= until => {
                self.state = State::Lost;
                return Step::Lost;
            }
            State::Leading { until } if now < self.next => return Step::Wait(self.next.min(until)),
            State::Standby if now < self.next => return Step::Wait(self.next),
            State::Standby | State::Leading { .. } | State::Leaving => {}
        }
        match self.view.take() {
            None => Step::Read,
            Some(view) if self.state == State::Leaving => self.give_back(view),
            Some(View::Absent) => Step::Create(self.claim(&Record::default(), wall)),
            Some(View::Present(record, version)) => Step::Replace(self.claim(&record, wall), version),
        }
    }

    /// Stops leading, and makes the next steps give the lease back. Nothing may be written after this call.
    pub fn leave(&mut self) {
        if self.state != State::Lost {
            self.state = State::Leaving;
        }
    }

    /// Reports what a [`Step::Read`] found.
    pub fn read(&mut self, now: Duration, view: View) {
        if let View::Present(record, _) = &view {
            self.observe(now, record);
        }
        let mine = matches!(&view, View::Present(record, _) if record.holder == self.me);
        match self.state {
            State::Leading { .. } if !mine && view != View::Absent => self.state = State::Lost,
            State::Standby if !mine && !self.is_free(now, &view) => self.next = now + self.timing.poll(),
            _ => {
                self.next = now;
                self.view = Some(view);
            }
        }
    }

    /// Reports how a write went that was started at `started`.
    pub fn written(&mut self, started: Duration, now: Duration, written: Written) {
        let Written::Stored(record, version) = written else {
            self.next = now;
            return;
        };
        self.observe(now, &record);
        let until = started + self.timing.renew_deadline();
        match self.state {
            State::Leaving => self.state = State::Left,
            State::Lost | State::Left => {}
            // An answer that comes after its own deadline says that we hold the lease, but gives no time to use it.
            State::Standby if now >= until => {
                self.next = now;
                self.view = Some(View::Present(record, version));
            }
            State::Standby | State::Leading { .. } => {
                if !matches!(self.state, State::Leading { until } if now >= until) {
                    self.state = State::Leading { until };
                }
                self.next = started + self.timing.renew();
                self.view = Some(View::Present(record, version));
            }
        }
    }

    /// Reports that a step was not answered: it may have happened or not.
    pub fn unanswered(&mut self, now: Duration) {
        self.next = now + self.timing.poll();
        if self.state == State::Leaving {
            self.state = State::Left;
        }
    }

    fn observe(&mut self, now: Duration, record: &Record) {
        let key = |record: &Record| (record.holder.clone(), record.renewed, record.transitions);
        match &mut self.observed {
            Some(observed) if key(&observed.record) == key(record) => {}
            observed => {
                *observed = Some(Observed {
                    record: record.clone(),
                    changed: now,
                });
            }
        }
    }

    /// Whether a rival's lease has ended. A Lease that vanished under its holder is not free before that either: the
    /// holder may not have noticed.
    fn is_free(&self, now: Duration, view: &View) -> bool {
        if matches!(view, View::Present(record, _) if record.holder.is_empty()) {
            return true;
        }
        let Some(Observed { record, changed }) = &self.observed else {
            return true;
        };
        let seconds = u64::try_from(record.duration_seconds).unwrap_or_default();
        let duration = self.timing.lease().max(Duration::from_secs(seconds));
        record.holder.is_empty() || record.holder == self.me || now.saturating_sub(*changed) > duration
    }

    fn claim(&self, last: &Record, wall: Timestamp) -> Record {
        let mine = last.holder == self.me;
        // A renewal that does not change the record would not be seen, so its time moves even if the wall clock does not.
        let after = last
            .renewed
            .and_then(|last| last.checked_add(SignedDuration::from_micros(1)).ok());
        let renewed = after.map_or(wall, |after| after.max(wall));
        Record {
            holder: self.me.clone(),
            duration_seconds: self.timing.lease_seconds(),
            acquired: if mine { last.acquired } else { Some(wall) },
            renewed: Some(renewed),
            transitions: last
                .transitions
                .saturating_add(i32::from(!mine && last.renewed.is_some())),
        }
    }

    fn give_back(&mut self, view: View) -> Step {
        match view {
            View::Present(record, version) if record.holder == self.me => {
                let free = Record {
                    holder: String::new(),
                    ..record
                };
                Step::Replace(free, version)
            }
            _ => {
                self.state = State::Left;
                Step::Left
            }
        }
    }
}
