//! A watch that hands each object on as it comes, and keeps none.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tokio::sync::watch;
use trustplane_plan::ObjectRef;

use super::{
    Health, Payload, ProjectError, Reason, Standing, destination::Destination, hub::Hub, shelf::Verdict,
    spec::is_older, watches::Registration, wire::Identity,
};

/// Takes the objects of a watch as they come; there is no store.
///
/// The calls come one after the other, from the task of the watch. The connection waits for each of them, so a call must be
/// quick and must not block.
///
/// # Guarantees
///
/// ```text
/// watch ::= list (event* list)*
/// list  ::= [begun item* dropped]* begun item* complete
/// item  ::= applied with `listing` | deleted
/// event ::= applied without `listing` | deleted
/// ```
///
/// - **Lists.** A list begins when the watch starts, after [`SinkWatch::relist`], from time to time, and whenever the server
///   cannot tell what happened since (410, events out of order). Each object that exists when the list is complete was
///   `applied` since `list_begun`, and not `deleted` after that. So whatever the sink knows from earlier and has not heard of
///   since `list_begun` is gone at `list_complete(true)`; no `deleted` tells of it.
/// - **Dropped lists.** A list that fails is dropped, and the next one begins from the first object. A list by pages goes on
///   where it was if a single page fails; if its token expires, it is dropped.
/// - **A list tells the past only until it is complete.** A server that fell behind may send a whole list that is older than
///   what the sink has heard. The list is then dropped, by pages before its first object, as a stream at its end. So between
///   `list_begun` and `list_complete` an object may show an earlier state, or one that was deleted may show again: the list
///   that follows puts it right. Only a server that insists, such as one restored from a backup, is believed.
/// - **Events.** Between two lists versions never go back: an event that is older than an earlier one is not told, and a new
///   list begins. An event may come twice. A deletion may be of an object that the sink has never heard of, because it could
///   not be read.
/// - **Names and uids.** A name can come with another uid than before: the old object is gone. In a list no `deleted` tells so.
///   A `deleted` is of one uid: it means nothing to another object of that name.
/// - **Faults of ours.** If a call other than `applied` panics, the watch begins again after a pause, with a list.
/// - **Relists.** After [`SinkWatch::relist`] another list begins, and shows every object that still exists. Its `list_begun` comes
///   after that call.
pub trait Sink: Send + Sync + 'static {
    /// What to ask the server for.
    fn payload(&self) -> Payload;

    /// A list begins: everything that exists is named between this and `list_complete`.
    fn list_begun(&self);

    /// The object is there in this state. The sink must not keep a part of the text that it does not need.
    ///
    /// # Errors
    ///
    /// An object that cannot be read is counted and reported, and disturbs no other. The sink decides what it keeps of an
    /// earlier state. The object exists all the same: it is not gone when the list is complete. A panic counts as an error.
    fn applied(&self, object: &Sighting<'_>) -> Result<(), ProjectError>;

    /// The object with this uid is gone, or no longer selected.
    fn deleted(&self, object: &ObjectRef, uid: &str);

    /// The list is complete. `whole` is false if an object could not even be named: then nothing may be taken for gone.
    fn list_complete(&self, whole: bool);

    /// The list that had begun is worth nothing: it failed or was cut off. Another one will begin, unless the watch was
    /// stopped.
    fn list_dropped(&self);
}

/// An object as the server has just told it.
#[derive(Clone, Copy)]
pub struct Sighting<'a> {
    /// Namespace and name.
    pub object: &'a ObjectRef,
    /// Its uid.
    pub uid: &'a str,
    /// Its resourceVersion.
    pub version: &'a str,
    /// Whether it belongs to a list that is not complete yet.
    pub listing: bool,
    /// The text of the object; for [`Payload::Table`] of the row: `{"cells":[…],"object":{"metadata":{…}}}`.
    pub json: &'a str,
}

impl fmt::Debug for Sighting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may hold a value.
        f.debug_struct("Sighting")
            .field("object", &self.object)
            .field("uid", &self.uid)
            .field("version", &self.version)
            .field("listing", &self.listing)
            .finish_non_exhaustive()
    }
}

/// A running watch into a sink; dropping it ends the watch, but the sink may still be called for a moment: [`SinkWatch::stop`] waits
/// for the end.
pub struct SinkWatch {
    pub(super) hub: Arc<Hub<()>>,
    pub(super) registration: Registration,
}

impl SinkWatch {
    /// How the watch is doing, to wait for changes of it. `complete` says that the sink has heard a whole list.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.hub.standing()
    }

    /// Asks for a fresh list. See the guarantees of [`Sink`].
    pub fn relist(&self) {
        self.hub.relist();
    }

    /// Ends the watch. The sink is not called any more after this returns.
    pub async fn stop(self) {
        let mut standing = self.standing();
        drop(self);
        // The task of the watch announces its end as its last act. An error means that there was no task.
        let _ = standing
            .wait_for(|standing| {
                matches!(
                    standing.health,
                    Health::Failing {
                        reason: Reason::Stopped,
                        ..
                    }
                )
            })
            .await;
    }
}

impl Drop for SinkWatch {
    fn drop(&mut self) {
        self.registration.leave(0);
    }
}

impl fmt::Debug for SinkWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SinkWatch of {}", self.hub.selection.kind)
    }
}

/// Hands the objects of a collection to a sink. The store of the hub stays empty; its standing and versions are in use.
pub(super) struct IntoSink<S: Sink> {
    hub: Arc<Hub<()>>,
    collection: Arc<str>,
    sink: Arc<S>,
    /// The sink has heard of a list that is not complete yet.
    begun: bool,
    /// An object of that list could not be named.
    nameless: bool,
}

impl<S: Sink> IntoSink<S> {
    pub(super) fn new(hub: Arc<Hub<()>>, collection: Arc<str>, sink: Arc<S>) -> Self {
        Self {
            hub,
            collection,
            sink,
            begun: false,
            nameless: false,
        }
    }

    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.nameless = false;
            self.hub.begin_list(&self.collection);
            self.sink.list_begun();
        }
    }

    /// A sink keeps no versions to compare with, so an event that is older than what came before cannot be told.
    fn is_out_of_order(&self, version: &str) -> bool {
        let seen = self.hub.version(&self.collection);
        seen.is_some_and(|seen| is_older(version, &seen))
    }
}

impl<S: Sink> Destination for IntoSink<S> {
    type Kept = ();

    /// With a list: after a fault of ours it is unknown which calls the sink has missed.
    fn start(&self) -> (Option<Arc<str>>, bool) {
        (None, false)
    }

    fn put(&mut self, identity: &Identity, json: &str, listing: bool) -> Verdict {
        if listing {
            self.begin();
        } else if self.is_out_of_order(&identity.version) {
            return Verdict::Doubtful;
        }
        let sighting = Sighting {
            object: &identity.object,
            uid: &identity.uid,
            version: &identity.version,
            listing,
            json,
        };
        // Another's code, on data from outside: a panic concerns this object and no other.
        let what = match catch_unwind(AssertUnwindSafe(|| self.sink.applied(&sighting))) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the sink panicked".to_owned()),
        };
        if let Some(what) = &what {
            self.hub.report(&self.collection, Some(&identity.object), what);
        }
        self.hub.note_readable(&self.collection, identity, what);
        Verdict::Taken
    }

    fn delete(&mut self, identity: &Identity, listing: bool) -> Verdict {
        if listing {
            self.begin();
        } else if self.is_out_of_order(&identity.version) {
            return Verdict::Doubtful;
        }
        self.sink.deleted(&identity.object, &identity.uid);
        self.hub.note_readable(&self.collection, identity, None);
        Verdict::Taken
    }

    fn put_nameless(&mut self) {
        self.begin();
        self.nameless = true;
    }

    fn discard(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.sink.list_dropped();
        }
    }

    fn commit(&mut self, _version: &str) {
        self.begin();
        self.sink.list_complete(!self.nameless);
        self.begun = false;
        self.hub.end_list(&self.collection);
    }
}

/// The watch was stopped, or panicked and begins again.
impl<S: Sink> Drop for IntoSink<S> {
    fn drop(&mut self) {
        // A second panic while the first one unwinds would end the process.
        drop(catch_unwind(AssertUnwindSafe(|| self.discard())));
    }
}

#[cfg(test)]
mod tests;
