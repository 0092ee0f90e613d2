//! Where the objects of a watch go: into a store, or into a sink.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use trustplane_plan::{Keep, Meta};

use super::{
    Project, Watched,
    hub::Hub,
    shelf::{Read, Staging, Verdict},
    wire::Identity,
};

/// Where the objects of one collection go. A follower has one of its own, and makes another after a fault of ours.
pub(super) trait Destination: Send + Sync + 'static {
    /// What the store of the hub keeps of each object.
    type Kept: Send + Sync + 'static;

    /// From which version to go on without a list, and whether a complete list precedes it.
    fn start(&self) -> (Option<Arc<str>>, bool);

    /// Takes an object of a list (`listing`), or of an event after it.
    fn put(&mut self, identity: &Identity, json: &str, listing: bool) -> Verdict;

    /// Takes a deletion during a streaming list (`listing`), or after it.
    fn delete(&mut self, identity: &Identity, listing: bool) -> Verdict;

    /// Takes note that an object of the list could not even be named.
    fn put_nameless(&mut self);

    /// The list so far is worth nothing.
    fn discard(&mut self);

    /// The list is complete as of this version.
    fn commit(&mut self, version: &str);
}

/// Puts the objects of a collection into the store of the hub: those of a list together, once it is complete.
pub(super) struct IntoStore<P: Project> {
    hub: Arc<Hub<P::Out>>,
    collection: Arc<str>,
    project: Arc<P>,
    keep: Keep,
    staging: Staging<P::Out>,
}

impl<P: Project> IntoStore<P> {
    pub(super) fn new(hub: Arc<Hub<P::Out>>, collection: Arc<str>, project: Arc<P>) -> Self {
        Self {
            keep: project.keep(),
            staging: Staging::default(),
            hub,
            collection,
            project,
        }
    }

    /// Reads an object as far as it goes.
    fn read(&self, identity: &Identity, json: &str, listing: bool) -> Read<P::Out> {
        let Identity { object, uid, version } = identity;
        if listing && let Some(known) = self.hub.same(&self.collection, object, uid, version) {
            return Read::Object(known);
        }
        match self.decode(json) {
            Ok(object) => Read::Object(Arc::new(object)),
            Err(what) => {
                self.hub.report(&self.collection, Some(object), &what);
                Read::Unreadable(identity.clone(), what)
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
}

impl<P: Project> Destination for IntoStore<P> {
    type Kept = P::Out;

    fn start(&self) -> (Option<Arc<str>>, bool) {
        self.hub.start(&self.collection)
    }

    fn put(&mut self, identity: &Identity, json: &str, listing: bool) -> Verdict {
        let read = self.read(identity, json, listing);
        if listing {
            self.staging.put(read);
            return Verdict::Taken;
        }
        self.hub.apply(&self.collection, read)
    }

    fn delete(&mut self, identity: &Identity, listing: bool) -> Verdict {
        if listing {
            self.staging.remove(&identity.object);
        } else {
            self.hub.delete(&self.collection, &identity.object, &identity.uid);
        }
        Verdict::Taken
    }

    fn put_nameless(&mut self) {
        self.staging.put_nameless();
    }

    fn discard(&mut self) {
        self.staging = Staging::default();
    }

    fn commit(&mut self, version: &str) {
        let staging = std::mem::take(&mut self.staging);
        self.hub.commit(&self.collection, staging, version);
    }
}
