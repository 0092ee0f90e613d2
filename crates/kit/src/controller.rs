//! The one shape of every controller: *gather*, *decide*, *execute*.
//!
//! ```text
//! watch ─ feed ─► queue ─ Runner ─► gather (I/O) ─► Input ─► decide(Input, now) ─► Plan ─► execute (I/O)
//! ```
//!
//! A controller says how to read what matters for a key and what to do about it; everything else is here: workers,
//! deadlines, panics, backoff, stale views, dry runs, leadership, shutdown, logs, metrics and events.
//!
//! It is not for tasks without keys (spawn those under a supervisor), and not for decisions: `decide` belongs into a pure
//! crate, and the implementation of the trait only calls it.
//!
//! ```no_run
//! use jiff::Timestamp;
//! use trustplane_kit::controller::{Controller, Fault, Look, Options, Runner, feed};
//! use trustplane_kit::manager::Context;
//! use trustplane_kit::queue::Lane;
//! use trustplane_kit::watch::{Change, Metadata, Store, WatchSpec};
//! use trustplane_plan::kinds::CONFIG_MAP;
//! use trustplane_plan::{Class, Classified, Keep, Meta, Never, ObjectRef, Plan};
//!
//! struct Greeter {
//!     sources: Store<()>,
//! }
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("failed to read the source")]
//! struct GreeterError;
//!
//! impl Classified for GreeterError {
//!     fn class(&self) -> Class {
//!         Class::Transient
//!     }
//!     fn reason(&self) -> &'static str {
//!         "ReadFailed"
//!     }
//! }
//!
//! impl Controller for Greeter {
//!     type Key = ObjectRef;
//!     type Input = Meta;
//!     type Action = Never; // it calls nobody but the API server
//!     type Error = GreeterError;
//!     type Held = ();
//!
//!     fn name(&self) -> &'static str {
//!         "greeter"
//!     }
//!     async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<Meta>, GreeterError> {
//!         Ok(self.sources.get(key).map(|source| source.meta.clone()))
//!     }
//!     fn decide(&self, _source: &Meta, _now: Timestamp) -> Plan {
//!         Plan::default()
//!     }
//!     async fn perform(&self, action: Never) -> Result<(), Fault<GreeterError>> {
//!         match action {}
//!     }
//! }
//!
//! fn start(context: &Context) {
//!     let queue = context.queue("greeter");
//!     let sources = context.watches.subscribe(WatchSpec::new(CONFIG_MAP, Metadata(Keep::default())));
//!     let store = sources.store();
//!     let executor = context.executor(context.writer("trustplane-greeter"));
//!     let runner = Runner::new(Greeter { sources: store.clone() }, queue.clone(), executor, Options::default())
//!         .after_store(&store)
//!         .while_leading(context.leading.clone())
//!         .report_to(&context.readiness, &context.liveness, &context.state);
//!     let keys = |change: &Change<()>| [change.object().clone()];
//!     context.spawn("greeter-feed", feed(sources, queue, |_| Lane::Normal, keys));
//!     context.spawn("greeter", runner.run(context.stop()));
//! }
//! ```

mod executor;
mod fault;
mod feed;
mod gate;
mod metrics;
mod reconcile;
mod runner;
mod sight;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::future::Future;

use jiff::Timestamp;
use trustplane_plan::{Classified, Note, Plan};

pub use executor::Executor;
pub use fault::Fault;
pub use feed::feed;
pub use runner::{Options, RunError, Runner};

use crate::queue::Key;

/// One of several looks at a key, within one piece of work.
#[derive(Debug, Default)]
pub struct Look<H> {
    /// Whether the stores are known to be behind: a write met something else than what was seen, or, for a controller that
    /// [reads live](Controller::reads_live), a store does not show the last writes for this key. Look at the live object.
    pub again: bool,
    /// What the last look left for this one.
    pub held: H,
    /// How often work on the key has failed since its last success.
    pub failures: u32,
}

/// What a controller knows of its domain. The [`Runner`] does the rest.
pub trait Controller: Send + Sync + 'static {
    /// What it works on: mostly the name of an object.
    type Key: Key;
    /// Everything that a decision rests on.
    type Input: Send;
    /// Its calls to the outside; [`trustplane_plan::Never`] if it has none. A dry run prints the `Debug` form, so that
    /// must not show a secret value.
    type Action: Debug + Send;
    /// What can go wrong when it reads and when it carries out its own actions.
    type Error: Classified + Send + 'static;
    /// What it holds from one look at a key to the next, when a write met a view that was out of date; `()` if nothing. It
    /// is dropped with the end of the work on the key.
    type Held: Default + Send;

    /// Its name in logs and metrics.
    fn name(&self) -> &'static str;

    /// Reads what matters for a key: stores first, then the outside. `None`: there is nothing to do for this key, now and
    /// until something happens to it.
    fn gather(
        &self,
        key: &Self::Key,
        look: &mut Look<Self::Held>,
    ) -> impl Future<Output = Result<Option<Self::Input>, Self::Error>> + Send;

    /// Whether [`Look::again`] makes `gather` read the live objects. If not, there is no look while a store does not show what
    /// the last look at the key wrote.
    fn reads_live(&self) -> bool {
        false
    }

    /// What to do. A pure function: the same input and time make the same plan.
    fn decide(&self, input: &Self::Input, now: Timestamp) -> Plan<Self::Action>;

    /// Carries out one action of a plan: a call to the outside, a note in memory, or a write whose values are made only now.
    /// For a controller without any: `match action {}`.
    fn perform(&self, action: Self::Action) -> impl Future<Output = Result<(), Fault<Self::Error>>> + Send;

    /// What to tell the user when a key has failed; nothing by default. The reason of the note is the fault's own, so that
    /// event, log and metric say the same.
    fn report(&self, key: &Self::Key, fault: &Fault<Self::Error>) -> Vec<Note> {
        let _ = (key, fault);
        Vec::new()
    }
}
