//! May this request change ZTWIM or an operand: the four rules, as functions of the request and of the objects beside it.
//!
//! | rule | request | asks for |
//! |---|---|---|
//! | 1 | ZTWIM is created | trust domain, name of the cluster and bundle, each valid; no operand with another value of its own |
//! | 2 | ZTWIM is updated | the same of each value that changes; a bundle that exists; the policy; a namespace that stays |
//! | 3 | an operand is created | a ZTWIM; values that are empty or ZTWIM's; the owner reference is set |
//! | 4 | an operand is updated | the same of each value that changes; the owner reference is kept |
//!
//! A stored value stays until it is edited: an update that leaves a wrong field alone passes. A dry run is judged like any request, since
//! nothing here writes. The controller judges again by [`crate::inherit::resolve`] and [`crate::check`].

mod asked;
mod defects;
mod denial;
mod operand;
mod owner;
mod ztwim;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use asked::Review;
pub use defects::{advice, defects};
pub use denial::{Denial, Rule};
pub use ztwim::bundle_to_look_up;

use crate::inherit::Holder;

/// The conditions under which the API server asks us at all, by name, in CEL: each must be true. What they keep out passes even while no
/// webhook answers. `$(NAMESPACE)` and `$(PROCESS)` stand for those of the installation.
pub const MATCH_CONDITIONS: [(&str, &str); 4] = [
    ("is-not-being-deleted", "!has(object.metadata.deletionTimestamp)"),
    (
        "changes-what-is-judged",
        "request.operation != 'UPDATE' \
         || object.?spec != oldObject.?spec \
         || object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences \
         || object.metadata.?annotations[?'ztwim.io/inherited'] != oldObject.metadata.?annotations[?'ztwim.io/inherited']",
    ),
    (
        "is-not-our-own",
        "request.userInfo.username != 'system:serviceaccount:$(NAMESPACE):$(PROCESS)'",
    ),
    (
        "is-not-of-the-garbage-collector",
        "request.userInfo.username != 'system:serviceaccount:kube-system:generic-garbage-collector'",
    ),
];

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Ruling {
    /// It may pass.
    Allow {
        /// Lines for the user.
        warnings: Vec<String>,
    },
    /// It may pass as this object. Only [`mutate`] says it.
    Fill {
        /// The whole object.
        object: Value,
        /// Lines for the user.
        warnings: Vec<String>,
    },
    /// It is refused.
    Deny(Denial),
}

/// A request that may pass: the object as it should be stored, and lines for the user.
struct Admitted {
    object: Value,
    warnings: Vec<String>,
}

fn judge(review: &Review<'_>) -> Result<Admitted, Denial> {
    match (review.subject, review.old) {
        (Holder::Ztwim, None) => ztwim::create(review),
        (Holder::Ztwim, Some(old)) => ztwim::update(review, old),
        (Holder::Operand(kind), None) => operand::create(review, kind),
        (Holder::Operand(kind), Some(_)) => operand::update(review, kind),
    }
}

/// The ruling of the mutating webhook: it fills in what is inherited.
///
/// **Guarantees.** Its own result is allowed, without a further change.
pub fn mutate(review: &Review<'_>) -> Ruling {
    match judge(review) {
        Err(denial) => Ruling::Deny(denial),
        Ok(Admitted { object, warnings }) if object == *review.new => Ruling::Allow { warnings },
        Ok(Admitted { object, warnings }) => Ruling::Fill { object, warnings },
    }
}

/// The ruling of the validating webhook, which sees what every mutating webhook has made of the object. The user has heard the warnings
/// from [`mutate`].
pub fn validate(review: &Review<'_>) -> Ruling {
    let judged = judge(review).and_then(|admitted| owner::check_owner_kept(review, &admitted.object));
    match judged {
        Err(denial) => Ruling::Deny(denial),
        Ok(()) => Ruling::Allow { warnings: Vec::new() },
    }
}
