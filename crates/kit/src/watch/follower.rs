//! Follows one collection: feeds what the server says to the machine and to its destination. No I/O of its own.

use std::{sync::Arc, time::Instant};

use super::{
    Payload, Reason, Tuning,
    destination::Destination,
    failure::Failure,
    hub::Hub,
    lines::Line,
    machine::{Effect, Input, Machine, Step},
    shelf::Verdict,
    wire::{Event, EventKind, Identity, Page},
};

/// Follows one collection.
pub(super) struct Follower<D: Destination> {
    pub(super) hub: Arc<Hub<D::Kept>>,
    pub(super) collection: Arc<str>,
    machine: Machine,
    destination: D,
}

impl<D: Destination> Follower<D> {
    pub(super) fn new(
        hub: Arc<Hub<D::Kept>>,
        collection: Arc<str>,
        destination: D,
        tuning: Arc<Tuning>,
    ) -> Self {
        let (version, listed) = destination.start();
        Self {
            machine: Machine::new(tuning, version, listed),
            hub,
            collection,
            destination,
        }
    }

    pub(super) fn step(&self, now: Instant) -> Step {
        self.machine.step(now)
    }

    pub(super) fn is_listing(&self) -> bool {
        self.machine.is_listing()
    }

    /// Whether a list has begun, so that a wish for a fresh one is for the next.
    pub(super) fn is_amid_list(&self) -> bool {
        self.machine.is_amid_list()
    }

    /// Whether to go on reading from the open watch.
    pub(super) fn is_open(&self) -> bool {
        self.machine.is_open()
    }

    pub(super) fn accepted(&mut self, now: Instant) {
        self.feed(Input::Accepted, now, Some(now));
    }

    pub(super) fn relist(&mut self, now: Instant) {
        self.feed(Input::Relist, now, None);
    }

    pub(super) fn failed(&mut self, failure: Failure, now: Instant) {
        if failure.reason != Reason::Ended {
            let (kind, namespace) = (&self.hub.selection.kind, &*self.collection);
            tracing::debug!(%kind, namespace, reason = failure.reason.as_str(), "{}", failure.detail);
            self.hub.note_failure(&self.collection, failure.clone());
        }
        let before = self.machine.standing().health;
        self.feed(Input::Failed(failure.clone()), now, None);
        let health = self.machine.standing().health;
        // Once for each change, not for each try.
        if health.as_str() != before.as_str() {
            let (kind, namespace, health) = (&self.hub.selection.kind, &*self.collection, health.as_str());
            tracing::warn!(%kind, namespace, health, "a watch has trouble: {}", failure.detail);
        }
    }

    /// Takes a line of a watch.
    pub(super) fn line(&mut self, line: &Line, now: Instant) {
        let Line::Whole(line) = line else {
            return self.nameless("a line of the watch is too long");
        };
        match Event::parse(line, self.payload()) {
            Ok(Event::Object(kind, json)) => self.event(kind, json, now),
            Ok(Event::Bookmark { version, initial_end }) => {
                self.feed(Input::Bookmark { version, initial_end }, now, Some(now));
            }
            Ok(Event::Error(failure)) | Err(failure) => self.failed(failure, now),
        }
    }

    /// Takes a page of a list.
    pub(super) fn page(&mut self, body: &[u8], now: Instant) {
        let page = match Page::parse(body, self.payload()) {
            Ok(page) => page,
            Err(failure) => return self.failed(failure, now),
        };
        let Page { version, next, items } = page;
        if self.machine.is_stale(&version) {
            // The machine refuses the whole list: none of its objects is to be told.
            return self.feed(Input::Page { version, next: None }, now, Some(now));
        }
        for item in items {
            if let Some(identity) = self.identify(item.get()) {
                self.destination.put(&identity, item.get(), true);
            }
        }
        self.feed(Input::Page { version, next }, now, Some(now));
    }

    fn event(&mut self, kind: EventKind, json: &str, now: Instant) {
        self.hub.metrics.event(kind);
        let Some(identity) = self.identify(json) else {
            return;
        };
        let listing = self.machine.is_listing();
        let verdict = match kind {
            EventKind::Deleted => self.destination.delete(&identity, listing),
            EventKind::Added | EventKind::Modified => self.destination.put(&identity, json, listing),
        };
        if verdict == Verdict::Doubtful {
            self.hub.doubt(&self.collection);
            let failure = Failure::new(Reason::Disorder, "an event is older than what was seen before");
            return self.failed(failure, now);
        }
        let version = identity.version;
        self.feed(Input::Object { version }, now, Some(now));
    }

    fn feed(&mut self, input: Input, now: Instant, heard: Option<Instant>) {
        match self.machine.on(input, now, rand::random()) {
            Effect::None => {}
            Effect::Discard => self.destination.discard(),
            Effect::Commit(version) => self.destination.commit(&version),
        }
        let standing = (self.machine.standing(), self.machine.currency());
        self.hub
            .advance(&self.collection, self.machine.version(), standing, heard);
    }

    /// Who an object is; `None` if it cannot even be named.
    fn identify(&mut self, json: &str) -> Option<Identity> {
        let identity = Identity::parse(json, self.payload());
        if identity.is_none() {
            self.nameless("an object has no readable name");
        }
        identity
    }

    fn nameless(&mut self, what: &str) {
        if self.machine.is_listing() {
            self.destination.put_nameless();
        }
        self.hub.report(&self.collection, None, what);
    }

    fn payload(&self) -> Payload {
        self.hub.selection.payload
    }
}
