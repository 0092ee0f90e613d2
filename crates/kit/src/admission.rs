//! The admission server: checks and changes objects on their way into the cluster.
//!
//! A capability declares its webhooks as data ([`Webhook`]), from which the chart makes the configurations, and gives a
//! [`Judge`] for each. The server decodes the review, asks the judge within a deadline and a size limit, and encodes the
//! verdict. A judge is best a pure function of the old and the new object; where a check must not be stale, it reads the
//! API server itself, never a store. It must not write: a review may be of a dry run, or the request may still be refused
//! by somebody else.
//!
//! The serving certificate comes from the installation's own CA ([`SharedAuthority`]), which lives in one Secret that all replicas
//! share. [`BundleKeeper`] keeps `caBundle` up to date on exactly our configurations.
//!
//! It is not for rules that need no outside knowledge: those belong into the CRD as CEL, where no pod of ours is on the
//! path of a write.

mod authority;
mod bundle;
mod kept;
mod server;
mod spec;
mod verdict;

pub use authority::{AuthorityError, AuthorityOptions, SharedAuthority};
pub use bundle::BundleKeeper;
pub use server::{Judge, Judges, JudgesError, MAX_REVIEW};
pub use spec::{Effect, Failure, MatchCondition, Operation, Webhook};
pub use verdict::{Request, Verdict};
