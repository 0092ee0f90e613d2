//! What a controller decided, as data.
//!
//! Every controller of Trustplane has one shape: *gather* reads the world, *decide* turns what was read into a [`Plan`],
//! *execute* carries the plan out. This crate is the vocabulary of the middle step: the objects of a plan, the rules that
//! compare a wish with what is there, conditions, notes to the user, error classes. It has no async, no client, no clock
//! and no randomness, so that the `core` crates of the capabilities can use it and a plan can be tested, printed,
//! counted and replayed.
//!
//! It is not for talking to Kubernetes: `trustplane-kit` does that.
//!
//! ```
//! use trustplane_plan::kinds::CONFIG_MAP;
//! use trustplane_plan::{Apply, Manifest, Plan, Step};
//!
//! let wish = Manifest::new(CONFIG_MAP, Some("shop"), "greeting")
//!     .with("data", serde_json::json!({ "hello": "world" }));
//! let mut plan: Plan = Plan::default();
//! plan.push(Step::Apply(Apply::create(wish)));
//! assert_eq!(plan.to_string(), "create ConfigMap shop/greeting\n");
//! ```
#![deny(missing_docs)]

mod class;
pub mod condition;
mod converge;
mod deadline;
mod fields;
mod fingerprint;
mod kind;
pub mod kinds;
mod manifest;
mod meta;
mod note;
mod owned;
pub mod secret_type;
mod steps;
mod value;

pub use class::{Class, Classified};
pub use condition::{Condition, ConditionStatus, Conditions};
pub use converge::{Convergence, Mark, Ownership, converge, converge_fields};
pub use deadline::Deadline;
pub use fields::FieldSet;
pub use fingerprint::Fingerprinter;
pub use kind::{Kind, ObjectRef, Scope, Target, path_part};
pub use manifest::Manifest;
pub use meta::{Keep, Meta, MetaError, Owner};
pub use note::{MAX_NOTE, Note, Severity};
pub use owned::{OwnedBy, OwnedSet, converge_set};
pub use steps::{
    Apply, Conflicts, Delete, Ending, Expect, Failure, Finalizer, Never, Plan, Propagation, Status, Step,
};
pub use value::Value;

/// The annotation that holds the fingerprint of what we last applied. See [`Fingerprinter`].
pub const FINGERPRINT: &str = "trustplane.io/fingerprint";

/// The label that holds the uid of an object's owner, where the object cannot refer to its owner. See [`OwnedBy::Label`].
pub const OWNER_UID: &str = "trustplane.io/owner-uid";
