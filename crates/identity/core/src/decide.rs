//! What is to be done about ZTWIM, or about an operand: pure functions from what was seen to a plan.
//!
//! Two controllers share the work, and no field has two writers:
//!
//! | controller | writes |
//! |---|---|
//! | [`decide_config`] | the fields of operands that follow ZTWIM, their owner reference; fields of ZTWIM that operands had first; the status of ZTWIM |
//! | [`decide_operand`] | the children of an operand, and its status |
//!
//! Children have no owner reference, as a foreground deletion would take the CSI driver from under the pods that use it. They are known by a
//! label and by the uid of their operand.
//!
//! The judgement of admission is repeated here: a value that got past it makes a condition, and changes nothing that runs.

mod aggregate;
mod certificate;
mod children;
mod config;
mod facts;
mod operand;
mod setup;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;
use trustplane_api::identity::OperandKind;
use trustplane_plan::{Kind, Meta, ObjectRef, Target};

pub use certificate::{Certificate, ENDS, Issuing};
pub use children::mark;
pub use config::decide_config;
pub use operand::{decide_operand, needs};

use crate::health::Workload;

/// An object of our kinds, as it was last seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its metadata, with annotations.
    pub meta: Meta,
    /// What people wrote, as it is stored.
    pub spec: Value,
    /// What we wrote last.
    pub status: Value,
}

/// Everything that a decision about ZTWIM rests on.
#[derive(Debug)]
pub struct ConfigInput {
    /// ZTWIM, if there is one.
    pub manager: Option<Seen>,
    /// The operands that there are.
    pub operands: BTreeMap<OperandKind, Seen>,
}

impl ConfigInput {
    /// How many operands have no owner reference to the present ZTWIM.
    pub fn unowned(&self) -> usize {
        let uid = self.manager.as_ref().map(|manager| &*manager.meta.uid);
        let owned = |seen: &&Seen| {
            let mut owners = seen.meta.owners.iter();
            uid.is_some_and(|uid| owners.any(|owner| owner.controller && owner.uid == uid))
        };
        self.operands.len() - self.operands.values().filter(owned).count()
    }
}

/// What the controller of ZTWIM keeps in mind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigAction {
    /// Every operand has the values of this generation of ZTWIM.
    Synchronised {
        /// The generation.
        generation: i64,
    },
}

/// Everything that a decision about an operand rests on.
#[derive(Debug)]
pub struct OperandInput {
    /// Which operand.
    pub operand: OperandKind,
    /// ZTWIM, if there is one.
    pub manager: Option<Seen>,
    /// The operands that there are.
    pub operands: BTreeMap<OperandKind, Seen>,
    /// Live objects that bear our mark and the component of this operand, and those that have the name of a child.
    pub children: Vec<(Kind, Meta)>,
    /// Whether `children` has no hole.
    pub complete: bool,
    /// The StatefulSet of the server, whichever operand this is about.
    pub server: Option<Meta>,
    /// Whether the Deployment of the OIDC discovery provider exists, whichever operand this is about.
    pub has_discovery: bool,
    /// The workload of this operand.
    pub workload: Option<Workload>,
    /// The ConfigMap for the bundle, and whether it has one.
    pub bundle: Option<(Meta, bool)>,
    /// What the namespace of the children permits.
    pub namespace: NamespaceState,
    /// With what certificates are issued.
    pub issuing: Issuing,
}

impl OperandInput {
    fn operand(&self) -> Option<&Seen> {
        self.operands.get(&self.operand)
    }

    fn exists(&self, operand: OperandKind) -> bool {
        self.operands.contains_key(&operand)
    }
}

/// What is known of the namespace of the children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceState {
    /// It was not looked at: the children are all there, and well.
    Unread,
    /// There is no such namespace.
    Missing,
    /// The manager has no rights in it, so it is not known whether it exists.
    Forbidden,
    /// It enforces no pod security level.
    Free,
    /// It enforces this pod security level.
    Enforces(String),
}

impl NamespaceState {
    /// The state of a namespace with these labels.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Self {
        match labels.get("pod-security.kubernetes.io/enforce") {
            Some(level) => Self::Enforces(level.clone()),
            None => Self::Free,
        }
    }
}

/// What has to be read before a decision about an operand.
#[derive(Debug, PartialEq, Eq)]
pub struct Needs {
    /// The workload.
    pub workload: Target,
    /// The ConfigMap for the bundle.
    pub bundle: ObjectRef,
    /// The namespace of the children, if one of them is missing or the workload is not well.
    pub namespace: String,
    /// The children: those that the watches do not show have to be looked up by name.
    pub children: Vec<Target>,
}

/// What the controller of operands does besides writing objects.
#[derive(Debug, Clone, PartialEq)]
pub enum OperandAction {
    /// Makes the serving certificate of the OIDC discovery provider.
    Certificate(Box<Certificate>),
    /// Counts a change of a workload.
    RolledOut {
        /// Whose workload.
        operand: OperandKind,
        /// Why: `configuration`, or `spec` for everything else.
        cause: &'static str,
    },
}
