//! One running watch: the store and the inboxes of all who share it, under one lock.

mod poured;
mod running;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_plan::ObjectRef;

use super::{
    Currency, Health, Reason, Resume, Standing, Versions, Watched,
    failure::Failure,
    inbox::{Inbox, Inboxes},
    metrics::KindMetrics,
    request::Selection,
    shelf::{Names, Read, Shelf, Staging, Verdict},
    spec::is_older,
};

pub(super) use running::Running;

/// One running watch.
pub(super) struct Hub<T> {
    pub(super) selection: Selection,
    pub(super) metrics: KindMetrics,
    /// Whether objects are kept here; else a sink takes them.
    has_store: bool,
    /// Ends the watch.
    pub(super) stop: CancellationToken,
    state: Mutex<State<T>>,
    standing: watch::Sender<Standing>,
    /// Counts the wishes for a fresh list.
    relists: watch::Sender<u64>,
    /// Counts what changed in the store or about its currency.
    changes: watch::Sender<u64>,
}

pub(super) struct State<T> {
    pub(super) collections: BTreeMap<Arc<str>, Collection<T>>,
    pub(super) inboxes: Inboxes<T>,
    next_subscriber: u64,
    pub(super) stopped: bool,
    /// What the gauges were last told.
    gauged: (i64, i64),
}

/// What is known of one collection.
pub(super) struct Collection<T> {
    pub(super) shelf: Shelf<T>,
    pub(super) version: Option<Arc<str>>,
    standing: Standing,
    currency: Option<Currency>,
    /// Only the next list tells everything: until then nobody is to store a version.
    unlisted: bool,
    last_heard: Option<Instant>,
    last_failure: Option<Failure>,
}

impl<T> State<T> {
    /// The collection to which a name belongs.
    pub(super) fn collection(&self, object: &ObjectRef) -> Option<&Collection<T>> {
        let whole = self.collections.get("");
        whole.or_else(|| self.collections.get(object.namespace().unwrap_or_default()))
    }

    /// The rules of being told what is there at the beginning, for a subscriber that comes at any time.
    fn welcome(&self, inbox: &mut Inbox<T>) {
        let versions = &self.inboxes.versions;
        for collection in self.collections.values() {
            for object in collection.shelf.objects.values() {
                inbox.applied(object, false, true, versions);
            }
        }
        let is_gone = |object: &ObjectRef, uid: &str| match self.collection(object) {
            Some(collection) => collection.standing.complete && collection.shelf.lacks(object, uid),
            None => true,
        };
        inbox.settle(is_gone, versions);
    }

    /// Somebody resumed from a stored version, but a newcomer wants to hear of everything: which lists does that need?
    fn demand_lists(&mut self) -> bool {
        let resumed = |one: &Collection<T>| one.version.is_some() && !one.standing.complete;
        let mut any = false;
        for (name, one) in self.collections.iter_mut().filter(|(_, one)| resumed(one)) {
            one.unlisted = true;
            self.inboxes.forget(name);
            any = true;
        }
        any
    }
}

impl<T> Hub<T> {
    pub(super) fn new(
        selection: Selection,
        collections: BTreeSet<Arc<str>>,
        resume: Option<&Versions>,
        metrics: KindMetrics,
        stop: CancellationToken,
        names: Names<T>,
    ) -> Self {
        let start = |name: Arc<str>| {
            let version = resume
                .and_then(|versions| versions.get(Some(&name)))
                .map(Arc::from);
            let collection = Collection {
                shelf: Shelf::new(names),
                version,
                standing: Standing::START,
                currency: None,
                unlisted: false,
                last_heard: None,
                last_failure: None,
            };
            (name, collection)
        };
        let collections: BTreeMap<_, _> = collections.into_iter().map(start).collect();
        let all = collections
            .values()
            .fold(Standing::BEST, |all, one| all.join(one.standing));
        let inboxes = Inboxes {
            all: BTreeMap::new(),
            versions: Arc::new(resume.cloned().unwrap_or_default()),
        };
        Self {
            selection,
            metrics,
            has_store: true,
            stop,
            state: Mutex::new(State {
                collections,
                inboxes,
                next_subscriber: 0,
                stopped: false,
                gauged: (0, 0),
            }),
            standing: watch::Sender::new(all),
            relists: watch::Sender::new(0),
            changes: watch::Sender::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    pub(super) fn relists(&self) -> watch::Receiver<u64> {
        self.relists.subscribe()
    }

    pub(super) fn relist(&self) {
        self.relists.send_modify(|wishes| *wishes += 1);
    }

    /// Counts changes of the store, to wait for the next one.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The span in which every collection was current.
    pub(super) fn currency(&self, now: Instant) -> Option<Currency> {
        let state = self.lock();
        let mut spans = state.collections.values().map(|one| one.currency);
        let first = spans.next()??;
        let all = spans.try_fold(first, |all, one| Some(all.and(one?)))?;
        (!state.stopped && !all.is_silent(now)).then_some(all)
    }

    /// Adds a subscriber, which first hears of everything that is there.
    pub(super) fn join(&self, resume: Option<Resume>) -> (u64, Arc<tokio::sync::Notify>) {
        let mut state = self.lock();
        let whole = resume.is_none();
        let known = resume.map(|resume| resume.known).unwrap_or_default();
        let mut inbox = Inbox::new(known, Arc::new(Versions::default()));
        state.welcome(&mut inbox);
        let (id, wake) = (state.next_subscriber, inbox.wake.clone());
        state.next_subscriber += 1;
        state.inboxes.all.insert(id, inbox);
        self.gauge(&mut state);
        if whole && state.demand_lists() {
            self.relist();
        }
        (id, wake)
    }

    /// How a collection starts, or goes on after a fault of ours: from which version, and whether it was listed.
    pub(super) fn start(&self, collection: &str) -> (Option<Arc<str>>, bool) {
        let state = self.lock();
        let found = state.collections.get(collection);
        found.map_or((None, false), |found| {
            let version = found.version.clone().filter(|_| !found.unlisted);
            (version, found.standing.complete)
        })
    }

    /// Changes a collection and the inboxes together.
    fn change<R>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Collection<T>, &mut Inboxes<T>) -> R,
    ) -> Option<R> {
        let mut state = self.lock();
        let State {
            collections, inboxes, ..
        } = &mut *state;
        let done = change(collections.get_mut(name)?, inboxes);
        self.gauge(&mut state);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        Some(done)
    }

    pub(super) fn apply(&self, name: &str, read: Read<T>) -> Verdict {
        let verdict = self.change(name, |collection, inboxes| {
            let seen = collection.version.clone();
            collection.shelf.apply(read, seen.as_deref(), inboxes)
        });
        verdict.unwrap_or(Verdict::Taken)
    }

    pub(super) fn delete(&self, name: &str, object: &ObjectRef, uid: &str) {
        self.change(name, |collection, inboxes| {
            collection.shelf.delete(object, Some(uid), inboxes);
        });
    }

    pub(super) fn commit(&self, name: &str, staging: Staging<T>, version: &str) {
        self.metrics.lists.inc();
        self.change(name, |collection, inboxes| {
            let rewinds = |seen: &Arc<str>| is_older(version, seen);
            if collection.version.as_ref().is_some_and(rewinds) {
                // The server went back. Whoever hears only a part of that and stores a version from before would go on from a
                // time that it no longer knows.
                inboxes.forget(name);
            }
            let initial = !collection.standing.complete;
            collection.unlisted = false;
            if collection.shelf.commit(staging, initial, inboxes) {
                let here = |object: &ObjectRef| name.is_empty() || object.namespace() == Some(name);
                inboxes.settle(|object, uid| here(object) && collection.shelf.lacks(object, uid));
            }
        });
    }

    /// The object of a list as it is known already, if it has not changed.
    pub(super) fn same(
        &self,
        name: &str,
        object: &ObjectRef,
        uid: &str,
        version: &str,
    ) -> Option<Arc<Watched<T>>> {
        let state = self.lock();
        let shelf = &state.collections.get(name)?.shelf;
        shelf.same(object, uid, version).cloned()
    }

    /// Notes how far a collection has come, after its changes.
    pub(super) fn advance(
        &self,
        name: &str,
        version: Option<&Arc<str>>,
        (standing, currency): (Standing, Option<Currency>),
        now: Option<Instant>,
    ) {
        let mut state = self.lock();
        let State {
            collections, inboxes, ..
        } = &mut *state;
        let Some(collection) = collections.get_mut(name) else {
            return;
        };
        if let Some(version) = version
            && collection.version.as_ref() != Some(version)
        {
            collection.version = Some(version.clone());
            if !collection.unlisted {
                Arc::make_mut(&mut inboxes.versions).put(name, version);
            }
        }
        if now.is_some() {
            collection.last_heard = now;
            self.metrics.heard();
        }
        if std::mem::replace(&mut collection.currency, currency).is_some() != currency.is_some() {
            self.changes.send_modify(|count| *count += 1);
        }
        if collection.standing != standing {
            collection.standing = standing;
            self.announce(&state);
        }
    }

    fn announce(&self, state: &State<T>) {
        let mut all = state
            .collections
            .values()
            .fold(Standing::BEST, |all, one| all.join(one.standing));
        if state.stopped {
            all.health = Health::Failing {
                since: Instant::now(),
                reason: Reason::Stopped,
            };
        }
        self.standing
            .send_if_modified(|known| std::mem::replace(known, all) != all);
    }

    /// Something may have been missed, so the versions given out since mean nothing until the next list.
    pub(super) fn doubt(&self, name: &str) {
        self.change(name, |collection, inboxes| {
            collection.unlisted = true;
            inboxes.forget(name);
        });
    }

    /// Counts and tells that an object cannot be read; `None` if it cannot even be named.
    pub(super) fn report(&self, name: &str, object: Option<&ObjectRef>, what: &str) {
        self.metrics.failure(Reason::Undecodable);
        let (kind, object) = (&self.selection.kind, object.map(ObjectRef::to_string));
        tracing::warn!(%kind, namespace = name, object, "an object cannot be read: {what}");
    }

    pub(super) fn note_failure(&self, name: &str, failure: Failure) {
        self.metrics.failure(failure.reason);
        self.change(name, |collection, _| {
            collection.last_failure = Some(failure);
            collection.currency = None;
        });
    }

    /// The watch has ended: those who still listen hear the rest, then the end.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.stopped = true;
        self.announce(&state);
        for inbox in state.inboxes.all.values() {
            inbox.wake.notify_one();
        }
    }

    pub(super) fn gauge(&self, state: &mut State<T>) {
        let objects: usize = state
            .collections
            .values()
            .map(|one| one.shelf.objects.len())
            .sum();
        let pending: usize = state.inboxes.all.values().map(Inbox::len).sum();
        let now = [objects, pending].map(|size| i64::try_from(size).unwrap_or(i64::MAX));
        self.metrics.objects.inc_by(now[0] - state.gauged.0);
        self.metrics.pending.inc_by(now[1] - state.gauged.1);
        state.gauged = (now[0], now[1]);
    }
}

impl<T> Drop for Hub<T> {
    fn drop(&mut self) {
        let (objects, pending) = self.lock().gauged;
        self.metrics.objects.dec_by(objects);
        self.metrics.pending.dec_by(pending);
    }
}
