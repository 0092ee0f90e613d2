//! Watching objects: a store that follows the API server, and a stream of changes for everybody who asks.
//!
//! A controller says what it wants to see ([`WatchSpec`]) and how much of each object it needs ([`Project`]); [`Watches`]
//! answers with a [`Subscription`] (what changed) and a [`Store`] (what is there). Subscriptions that want the same thing
//! share one watch, which starts with the first and ends with the last of them. Whoever needs no store gives a [`Sink`] to
//! [`Watches::pour`], and is told of each object as it comes.
//!
//! It is not for single objects that are needed once (ask the API server), and not a queue: what to do about a change, when
//! and in which order is decided behind it.
//!
//! ```no_run
//! use trustplane_kit::watch::{Change, Metadata, Tuning, WatchSpec, Watches};
//! use trustplane_plan::{Keep, kinds::SECRET};
//! use trustplane_process::metrics::Metrics;
//!
//! # async fn example(client: kube::Client) -> Option<()> {
//! let watches = Watches::new(client, Tuning::default(), &Metrics::new());
//! // Metadata only: the API server never sends us a value.
//! let mut secrets = watches.subscribe(WatchSpec::new(SECRET, Metadata(Keep::default())).labels("team=shop"));
//! while let Some(change) = secrets.next().await {
//!     match change {
//!         Change::Applied { object, .. } => tracing::info!(object = %object.meta.object, "there"),
//!         Change::Deleted { object, uid, .. } => tracing::info!(%object, %uid, "gone"),
//!     }
//! }
//! # None
//! # }
//! ```
//!
//! # How it works
//!
//! ```text
//!  HTTP lines ──► Follower ─ decode (Meta, Project) ─► Hub: shelves (the store) ─► inboxes ─► Subscription::next
//!                    │   └─► Sink                                       one lock, no waiting
//!                 Machine: which request next, when, and what the store is worth (pure)
//! ```
//!
//! - A watch covers one or several **collections**: the whole cluster, or one per namespace. Each has its own connection, its
//!   own `Machine` and its own backoff, so a namespace that fails holds up no other.
//! - The **machine** is pure. It lists by a streaming watch (`sendInitialEvents`) or, where the server refuses that, page by
//!   page; then it watches from the version of the list. Bookmarks and events move the version on. A version that the server
//!   no longer has (410) leads to a new list.
//! - A **list** is gathered aside and put in place at once when it is complete. What has vanished meanwhile is reported as
//!   deleted, what has not changed is not reported. A list that is older than what we have seen is refused, because a
//!   stale cache would look like a wave of deletions.
//! - A **sink** hears the objects of a list one by one, before the list is complete. Nothing is gathered and nothing is kept.
//! - An **inbox** holds, for each name, the way from what its subscriber has heard to what is true now: the deletion of
//!   the old uid, then the newest state of the present one. So a slow subscriber loses nothing that matters, costs at most
//!   one entry for each name, and never holds up the watch.
//! - An object that does not decode is noted and counted, and disturbs no other. A state of it that was read before stays:
//!   we do not say that something is gone when we merely cannot read it. Notes never quote the object.
//! - **Outages** change nothing in the store. [`Health`] says what is the matter, for each watch on its own. A kind that is
//!   forbidden or not served is tried again within [`Tuning::probe`], and starts when it appears.
//! - A store is **current** ([`Store::currency`]) while it is connected and has caught up since the last break. Whoever
//!   concludes something from what a store lacks, or from how long an object has not changed, asks for that first.
//!
//! # The client
//!
//! Give [`Watches`] a client without read timeout (the default) and without kube's own retry layer
//! (`Config::default_retry = false`): a second retry layer below would hide from [`Health`] what the server says.

mod currency;
mod destination;
mod drive;
mod failure;
mod follower;
mod health;
mod hub;
mod inbox;
mod lines;
mod machine;
mod metrics;
mod project;
mod request;
mod selector;
mod shelf;
mod sink;
mod spec;
mod store;
mod subscription;
mod tuning;
mod watches;
mod wire;

#[cfg(test)]
mod model;

pub use currency::{Currency, LONGEST_SILENCE};
pub use failure::Reason;
pub use health::{Health, Standing};
pub use project::{Hash, Metadata, Payload, Project, ProjectError, Slim};
pub use shelf::Watched;
pub use sink::{Sighting, Sink, SinkWatch};
pub(crate) use spec::is_older;
pub use spec::{Resume, Versions, WatchScope, WatchSpec};
pub use store::{Stopped, Store};
pub use subscription::{Change, Subscription};
pub use tuning::Tuning;
pub use watches::Watches;
