//! Follows one collection: feeds what the server says to the machine and to the store. No I/O of its own.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use trustplane_plan::{Keep, Meta};

use super::{
    Project, Reason, Tuning, Watched,
    failure::Failure,
    hub::Hub,
    lines::Line,
    machine::{Effect, Input, Machine, Step},
    shelf::{Read, Staging, Verdict},
    wire::{Event, EventKind, Identity, Page},
};

/// Follows one collection.
pub(super) struct Follower<P: Project> {
    pub(super) hub: Arc<Hub<P::Out>>,
    pub(super) collection: Arc<str>,
    project: Arc<P>,
    keep: Keep,
    machine: Machine,
    staging: Staging<P::Out>,
}

impl<P: Project> Follower<P> {
    pub(super) fn new(
        hub: Arc<Hub<P::Out>>,
        collection: Arc<str>,
        project: Arc<P>,
        tuning: Arc<Tuning>,
    ) -> Self {
        let (version, listed) = hub.start(&collection);
        Self {
            keep: project.keep(),
            machine: Machine::new(tuning, version, listed),
            staging: Staging::default(),
            hub,
            collection,
            project,
        }
    }

    pub(super) fn step(&self, now: Instant) -> Step {
        self.machine.step(now)
    }

    pub(super) fn is_listing(&self) -> bool {
        self.machine.is_listing()
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
        match Event::parse(line) {
            Ok(Event::Object(kind, json)) => self.event(kind, json, now),
            Ok(Event::Bookmark { version, initial_end }) => {
                self.feed(Input::Bookmark { version, initial_end }, now, Some(now));
            }
            Ok(Event::Error(failure)) | Err(failure) => self.failed(failure, now),
        }
    }

    /// Takes a page of a list.
    pub(super) fn page(&mut self, body: &[u8], now: Instant) {
        let page = match Page::parse(body) {
            Ok(page) => page,
            Err(failure) => return self.failed(failure, now),
        };
        for item in &page.items {
            if let Some((read, _)) = self.read(item.get()) {
                self.staging.put(read);
            }
        }
        let Page { version, next, .. } = page;
        self.feed(Input::Page { version, next }, now, Some(now));
    }

    fn event(&mut self, kind: EventKind, json: &str, now: Instant) {
        self.hub.metrics.event(kind);
        if kind == EventKind::Deleted {
            let Some(Identity { object, uid, version }) = Identity::parse(json) else {
                return self.nameless("a deleted object has no readable name");
            };
            if self.machine.is_listing() {
                self.staging.remove(&object);
            } else {
                self.hub.delete(&self.collection, &object, &uid);
            }
            return self.feed(Input::Object { version }, now, Some(now));
        }
        let Some((read, version)) = self.read(json) else {
            return;
        };
        if self.machine.is_listing() {
            self.staging.put(read);
        } else if self.hub.apply(&self.collection, read) == Verdict::Doubtful {
            self.hub.doubt(&self.collection);
            let failure = Failure::new(Reason::Disorder, "an event is older than what was seen before");
            return self.failed(failure, now);
        }
        self.feed(Input::Object { version }, now, Some(now));
    }

    fn feed(&mut self, input: Input, now: Instant, heard: Option<Instant>) {
        match self.machine.on(input, now, rand::random()) {
            Effect::None => {}
            Effect::Discard => self.staging = Staging::default(),
            Effect::Commit(version) => {
                let staging = std::mem::take(&mut self.staging);
                self.hub.commit(&self.collection, staging, &version);
            }
        }
        let standing = (self.machine.standing(), self.machine.currency());
        self.hub
            .advance(&self.collection, self.machine.version(), standing, heard);
    }

    /// Reads an object as far as it goes; `None` if it cannot even be named.
    fn read(&mut self, json: &str) -> Option<(Read<P::Out>, Arc<str>)> {
        let Some(identity) = Identity::parse(json) else {
            self.nameless("an object has no readable name");
            return None;
        };
        let Identity { object, uid, version } = &identity;
        if self.machine.is_listing()
            && let Some(known) = self.hub.same(&self.collection, object, uid, version)
        {
            return Some((Read::Object(known), identity.version));
        }
        let version = version.clone();
        match self.decode(json) {
            Ok(object) => Some((Read::Object(Arc::new(object)), version)),
            Err(what) => {
                self.report(&what, Some(&identity));
                Some((Read::Unreadable(identity, what), version))
            }
        }
    }

    fn decode(&self, json: &str) -> Result<Watched<P::Out>, String> {
        // The parser's own words may quote a value.
        let meta = Meta::decode(json, &self.keep).map_err(|_| "its metadata is malformed".to_owned())?;
        // Another's code, on data from outside: a panic concerns this object and no other.
        let value = catch_unwind(AssertUnwindSafe(|| self.project.project(&meta, json)));
        match value {
            Ok(Ok(value)) => Ok(Watched { meta, value }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("its projection panicked".to_owned()),
        }
    }

    fn nameless(&mut self, what: &str) {
        if self.machine.is_listing() {
            self.staging.put_nameless();
        }
        self.report(what, None);
    }

    fn report(&self, what: &str, identity: Option<&Identity>) {
        self.hub.metrics.failure(Reason::Undecodable);
        let (kind, namespace) = (&self.hub.selection.kind, &*self.collection);
        let object = identity.map(|identity| identity.object.to_string());
        tracing::warn!(%kind, namespace, object, "an object cannot be read: {what}");
    }
}
