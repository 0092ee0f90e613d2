//! What to ask the server next, and when: the list and watch protocol of one collection as a pure state machine.

mod protocol;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Currency, Health, Reason, Standing, Tuning, failure::Failure, spec::is_older};

pub(super) use protocol::{Ask, Effect, Input, Step};

/// A server that says "come back in a day" is asked earlier than that.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// So many lists in a row may be older than what we have seen. After that the server's past is the truth: a cluster that
/// was restored from a backup.
const MAX_STALE_LISTS: u32 = 5;

/// So often may the server say that it has not reached our version, before we doubt the version.
const MAX_AHEAD: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Stream,
    Page { token: Option<Arc<str>> },
    Watch { from: Arc<str> },
}

/// The protocol of one collection.
#[derive(Debug)]
pub(super) struct Machine {
    tuning: Arc<Tuning>,
    phase: Phase,
    /// The newest version seen: of a complete list, an event after it, or a bookmark.
    version: Option<Arc<str>>,
    standing: Standing,
    currency: Option<Currency>,
    /// When the server took the watch that is open now.
    accepted: Option<Instant>,
    /// Not before.
    wait: Option<Instant>,
    /// Failures since events last flowed. Lists do not set it back: a server that lists well but refuses each watch must
    /// not be listed for ever at full speed.
    failures: u32,
    stale_lists: u32,
    /// Whether the server streams lists, as far as we know.
    streams: bool,
    page_size: u32,
    refresh: Option<Instant>,
}

impl Machine {
    /// Begins with a list; or with a watch from `version`, which is `listed` if a complete list precedes it.
    pub(super) fn new(tuning: Arc<Tuning>, version: Option<Arc<str>>, listed: bool) -> Self {
        let phase = match &version {
            Some(from) => Phase::Watch { from: from.clone() },
            None => Phase::Stream,
        };
        let standing = Standing {
            ready: listed,
            complete: listed,
            ..Standing::START
        };
        Self {
            page_size: tuning.page_size,
            tuning,
            phase,
            version,
            standing,
            currency: None,
            accepted: None,
            wait: None,
            failures: 0,
            stale_lists: 0,
            streams: true,
            refresh: None,
        }
    }

    pub(super) fn step(&self, now: Instant) -> Step {
        if let Some(wait) = self.wait.filter(|wait| *wait > now) {
            return Step::Wait(wait);
        }
        Step::Send(match &self.phase {
            Phase::Stream => Ask::Stream,
            Phase::Page { token } => Ask::Page {
                token: token.clone(),
                size: self.page_size,
            },
            Phase::Watch { from } => Ask::Watch { from: from.clone() },
        })
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether the store follows the server, and since when. It rests on the first list, and after a break on a list or a
    /// bookmark of the new connection: an accepted watch alone does not tell that the events of the break have arrived.
    pub(super) fn currency(&self) -> Option<Currency> {
        self.currency
    }

    pub(super) fn version(&self) -> Option<&Arc<str>> {
        self.version.as_ref()
    }

    /// Whether objects that arrive belong to a list, not to what follows it.
    pub(super) fn is_listing(&self) -> bool {
        !matches!(self.phase, Phase::Watch { .. })
    }

    /// Whether the sink may already have heard objects of the running list.
    pub(super) fn is_amid_list(&self) -> bool {
        match &self.phase {
            Phase::Stream => self.is_open(),
            Phase::Page { token } => token.is_some(),
            Phase::Watch { .. } => false,
        }
    }

    /// Whether a list of this version is refused because it is older than what was seen.
    pub(super) fn is_stale(&self, version: &str) -> bool {
        let seen = self.version.as_ref();
        self.stale_lists < MAX_STALE_LISTS && seen.is_some_and(|seen| is_older(version, seen))
    }

    /// Whether to go on reading from the open watch.
    pub(super) fn is_open(&self) -> bool {
        self.accepted.is_some()
    }

    /// Takes note of what came. `unit` is a random number from [0, 1).
    pub(super) fn on(&mut self, input: Input, now: Instant, unit: f64) -> Effect {
        match input {
            Input::Accepted => {
                self.accepted = Some(now);
                if !self.is_listing() {
                    self.mark_ready();
                }
                Effect::None
            }
            Input::Object { version } => {
                if !self.is_listing() {
                    self.progress(version);
                    self.currency = self.currency.map(|known| known.confirm(now));
                }
                Effect::None
            }
            Input::Bookmark { version, initial_end } => self.bookmark(version, initial_end, now, unit),
            Input::Page { version, next: None } => self.listed(version, now, unit),
            Input::Page { next, .. } => {
                self.wait = None;
                self.phase = Phase::Page { token: next };
                Effect::None
            }
            Input::Failed(failure) => self.failed(&failure, now, unit),
            Input::Relist if self.is_listing() => Effect::None,
            Input::Relist => {
                self.currency = None;
                self.list_anew()
            }
        }
    }

    fn bookmark(&mut self, version: Arc<str>, initial_end: bool, now: Instant, unit: f64) -> Effect {
        if self.is_listing() {
            return if initial_end {
                self.listed(version, now, unit)
            } else {
                Effect::None
            };
        }
        if self
            .version
            .as_ref()
            .is_some_and(|known| is_older(&version, known))
        {
            // The server's history is another one than we followed.
            let failure = Failure::new(Reason::Disorder, "a bookmark is older than what was seen before");
            return self.failed(&failure, now, unit);
        }
        self.progress(version);
        if self.standing.complete {
            self.mark_current(now);
        }
        Effect::None
    }

    /// The server has sent everything up to now.
    fn mark_current(&mut self, now: Instant) {
        let known = self.currency.unwrap_or(Currency::new(now));
        self.currency = Some(known.confirm(now));
    }

    /// Events flow: whatever was wrong is over.
    fn progress(&mut self, version: Arc<str>) {
        self.failures = 0;
        if !self
            .version
            .as_ref()
            .is_some_and(|known| is_older(&version, known))
        {
            self.phase = Phase::Watch {
                from: version.clone(),
            };
            self.version = Some(version);
        }
    }

    fn listed(&mut self, version: Arc<str>, now: Instant, unit: f64) -> Effect {
        if self.is_stale(&version) {
            self.stale_lists += 1;
            return self.failed(
                &Failure::new(Reason::StaleList, "a list is older than what was seen"),
                now,
                unit,
            );
        }
        self.stale_lists = 0;
        self.wait = None;
        self.version = Some(version.clone());
        self.phase = Phase::Watch {
            from: version.clone(),
        };
        self.standing.complete = true;
        self.page_size = self.tuning.page_size;
        self.refresh = self
            .tuning
            .refresh
            .map(|every| now + every.mul_f64(0.9 + 0.2 * unit));
        self.mark_ready();
        self.mark_current(now);
        Effect::Commit(version)
    }

    fn mark_ready(&mut self) {
        self.standing.ready = true;
        self.standing.health = Health::Ready;
    }

    fn list_anew(&mut self) -> Effect {
        self.accepted = None;
        self.phase = if self.streams {
            Phase::Stream
        } else {
            Phase::Page { token: None }
        };
        Effect::Discard
    }

    fn failed(&mut self, failure: &Failure, now: Instant, unit: f64) -> Effect {
        let lived = self.accepted.take().map(|at| now.duration_since(at));
        let watched = lived.filter(|_| !self.is_listing());
        if watched.is_some_and(|lived| lived >= self.tuning.settled()) {
            self.failures = 0;
        }
        let (effect, at_once) = self.after(failure.reason, lived, now);
        // The server ended a watch in its time, and the next one goes on from there: no event was missed.
        let goes_on = at_once && watched.is_some() && !self.is_listing() && failure.reason == Reason::Ended;
        if !goes_on {
            self.currency = None;
        }
        let broken_off = matches!(
            failure.reason,
            Reason::Ended | Reason::Connection | Reason::TimedOut
        );
        // A watch that breaks off is nothing to report, unless the next one cannot be had.
        if !(at_once || watched.is_some() && broken_off) {
            self.mark_failing(failure.reason, now);
        }
        self.wait = (!at_once).then(|| now + self.delay(failure, unit));
        self.failures = self.failures.saturating_add(1);
        effect
    }

    /// Where a failure leads, and whether to go there at once. `lived` is how long the open request lasted.
    fn after(&mut self, reason: Reason, lived: Option<Duration>, now: Instant) -> (Effect, bool) {
        let first = self.failures == 0;
        let lasted = |least: Duration| lived.is_some_and(|lived| lived >= least);
        match (&self.phase, reason) {
            (Phase::Stream, Reason::Rejected) => self.list_by_pages(),
            // The server does not know what a streaming list is and never ends it, or has no time to.
            (Phase::Stream, Reason::TimedOut) if lived.is_some() => self.list_by_pages(),
            (Phase::Stream, Reason::Ended) if lasted(self.tuning.watch_timeout / 2) => self.list_by_pages(),
            (Phase::Stream, _) => (Effect::Discard, false),
            (Phase::Page { .. }, Reason::TooLarge) if self.page_size > 1 => {
                self.page_size /= 2;
                (Effect::None, true)
            }
            (Phase::Page { .. }, Reason::Expired) => {
                // The list took longer than the server keeps versions: take larger steps.
                self.page_size = self.page_size.saturating_mul(2);
                (self.list_anew(), first)
            }
            (Phase::Page { .. }, Reason::NotServed | Reason::StaleList) => (self.list_anew(), false),
            (Phase::Page { .. }, _) => (Effect::None, false),
            (Phase::Watch { .. }, Reason::Expired | Reason::Disorder) => (self.list_anew(), first),
            // Rejected: the version is none. NotServed: what appears one day is another collection.
            (Phase::Watch { .. }, Reason::Rejected | Reason::NotServed) => (self.list_anew(), false),
            (Phase::Watch { .. }, Reason::Ahead) if self.failures >= MAX_AHEAD => (self.list_anew(), false),
            (Phase::Watch { .. }, Reason::Ended) => {
                // A server that sends no bookmark can prove only by a list that nothing is missing.
                let unproven = self.currency.is_none() && lasted(self.tuning.watch_timeout / 2);
                if unproven || self.refresh.is_some_and(|due| due <= now) {
                    self.list_anew();
                }
                (Effect::None, lasted(self.tuning.settled()))
            }
            (Phase::Watch { .. }, _) => (Effect::None, false),
        }
    }

    fn list_by_pages(&mut self) -> (Effect, bool) {
        self.streams = false;
        (self.list_anew(), true)
    }

    fn mark_failing(&mut self, reason: Reason, now: Instant) {
        self.standing.health = match reason {
            Reason::Forbidden => Health::Forbidden,
            Reason::NotServed => Health::NotServed,
            reason => Health::Failing {
                since: match self.standing.health {
                    Health::Failing { since, .. } => since,
                    _ => now,
                },
                reason,
            },
        };
    }

    fn delay(&self, failure: &Failure, unit: f64) -> Duration {
        let backoff = match failure.reason {
            Reason::Forbidden | Reason::NotServed => self.tuning.probe,
            _ => self.tuning.backoff,
        };
        let asked = failure.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        backoff.delay(self.failures, unit).max(asked)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
