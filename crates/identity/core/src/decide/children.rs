//! The children of an operand: which writes bring them to what they should be, and what they say about the operand.

use trustplane_api::identity::conditions::{self, reason};
use trustplane_api::identity::{CLUSTER_SPIFFE_ID, OperandKind, names};
use trustplane_plan::kinds::{
    CLUSTER_ROLE_BINDING, CONFIG_MAP, CSI_DRIVER, DAEMON_SET, DEPLOYMENT, POD_DISRUPTION_BUDGET, ROLE,
    ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET, VALIDATING_WEBHOOKS,
};
use trustplane_plan::{
    Apply, Conflicts, Convergence, Delete, Expect, Fingerprinter, Kind, Manifest, Mark, Meta, OWNER_UID,
    OwnedBy, OwnedSet, Ownership, Step, Target, converge_set,
};

use super::facts::Facts;
use super::{OperandAction, OperandInput};
use crate::children::CONFIG_HASH;

/// How children are known.
pub fn mark() -> Mark {
    Mark::new("app.kubernetes.io/managed-by", names::MANAGED_BY)
}

/// Under which rules children are written. Their fields are ours: a hand edit is put back.
pub(super) fn ownership() -> Ownership {
    Ownership {
        mark: mark(),
        adopt: false,
        conflicts: Conflicts::Force,
    }
}

/// What to do about the children.
pub(super) struct Children<'a> {
    pub input: &'a OperandInput,
    /// The uid of the operand.
    pub uid: &'a str,
    pub fingerprinter: &'a Fingerprinter,
    /// Whether children that are there stay as they are.
    pub create_only: bool,
}

impl Children<'_> {
    /// The steps for these wishes; what is known of each child goes into `facts`.
    pub fn converge(
        &self,
        wishes: Vec<Manifest>,
        bundle: Option<Manifest>,
        facts: &mut Facts,
    ) -> Vec<Step<OperandAction>> {
        for wish in wishes.iter().chain(&bundle) {
            let (type_, reason) = about(self.input.operand, &wish.target());
            facts.good(type_, reason);
        }
        let mut steps = self.leave_behind(facts);
        let (others, wishes): (Vec<_>, Vec<_>) = wishes
            .into_iter()
            .partition(|wish| self.live(&wish.target()).is_some_and(is_of_another_operator));
        for target in others.iter().map(Manifest::target) {
            let (type_, _) = about(self.input.operand, &target);
            facts.bad(type_, reason::RESOURCE_CONFLICT, conflict(&target, None));
        }
        let (stripped, wishes): (Vec<_>, Vec<_>) = wishes
            .into_iter()
            .partition(|wish| self.is_stripped(&wish.target()));
        let bundle = bundle.filter(|bundle| self.bundle_is_ours(&bundle.target()));
        // The bundle first: the server ends if it has no ConfigMap to write to.
        let wishes = bundle.into_iter().chain(wishes).collect();
        steps.extend(self.part(wishes, self.input.complete, false, facts));
        steps.extend(self.part(stripped, false, true, facts));
        if self.create_only {
            steps.retain(|step| matches!(step, Step::Apply(apply) if apply.expect == Expect::Absent));
        }
        steps
    }

    /// One part of the set: the children that bear our mark, or those that lost it and get it back.
    fn part(
        &self,
        wishes: Vec<Manifest>,
        complete: bool,
        adopt: bool,
        facts: &mut Facts,
    ) -> Vec<Step<OperandAction>> {
        let set = OwnedSet {
            live: &self.input.children,
            complete,
            owner: OwnedBy::Label(self.uid),
        };
        let ownership = Ownership { adopt, ..ownership() };
        let (steps, held_up) = converge_set(wishes, set, &ownership, self.fingerprinter);
        for (target, why) in held_up {
            let (type_, _) = about(self.input.operand, &target);
            let (reason, message) = match why {
                Convergence::Terminating => (reason::TERMINATING, format!("{target} is being deleted")),
                Convergence::Foreign { holder } => (reason::RESOURCE_CONFLICT, conflict(&target, holder)),
                Convergence::Settled | Convergence::Write(_) => continue,
            };
            facts.bad(type_, reason, message);
        }
        // The Secret with the certificate is decided about elsewhere.
        let stays =
            |step: &Step<OperandAction>| matches!(step, Step::Delete(delete) if delete.target.kind == SECRET);
        steps.into_iter().filter(|step| !stays(step)).collect()
    }

    /// Deletes what an earlier operand of the kind has left: its successor makes its own.
    fn leave_behind(&self, facts: &mut Facts) -> Vec<Step<OperandAction>> {
        let mut steps = Vec::new();
        for (kind, live) in &self.input.children {
            let stale = mark().is_on(live) && live.labels.get(OWNER_UID).is_some_and(|uid| uid != self.uid);
            if !stale || !self.input.complete {
                continue;
            }
            steps.extend(Delete::seen(kind, live).map(Step::Delete));
            let (type_, _) = about(self.input.operand, &live.target(kind));
            let message = format!("{} of an earlier operand is being deleted", live.target(kind));
            facts.bad(type_, reason::TERMINATING, message);
        }
        steps
    }

    /// Whether an object is ours but for the label, which somebody has taken off.
    fn is_stripped(&self, target: &Target) -> bool {
        self.live(target).is_some_and(|live| {
            let owner = live.labels.get(OWNER_UID);
            !mark().is_on(live) && owner.is_some_and(|uid| uid == self.uid)
        })
    }

    /// Whether the ConfigMap for the bundle is ours to make. One that is there already, whoever made it, is used as it is: the server
    /// writes one key of it.
    fn bundle_is_ours(&self, target: &Target) -> bool {
        let live = self.input.bundle.as_ref().map(|(meta, _)| meta);
        let is_ours = |live: &Meta| mark().is_on(live) && !is_of_another_operator(live);
        live.is_none_or(|live| is_ours(live) && live.object == target.object)
    }

    /// The live object of this kind and name.
    pub fn live(&self, target: &Target) -> Option<&Meta> {
        let is_it = |(kind, live): &&(Kind, Meta)| *kind == target.kind && live.object == target.object;
        self.input.children.iter().find(is_it).map(|(_, live)| live)
    }

    /// Tells that a workload rolls out, and why, with the writes that make it.
    pub fn rollouts(&self, steps: &mut Vec<Step<OperandAction>>) {
        let operand = self.input.operand;
        let causes: Vec<_> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Apply(apply) => self.cause(apply),
                _ => None,
            })
            .collect();
        let told = causes.into_iter();
        steps.extend(told.map(|cause| Step::Remember(OperandAction::RolledOut { operand, cause })));
    }

    fn cause(&self, apply: &Apply) -> Option<&'static str> {
        let target = apply.manifest.target();
        if ![STATEFUL_SET, DAEMON_SET, DEPLOYMENT].contains(&target.kind) || apply.expect == Expect::Absent {
            return None;
        }
        let live = self.live(&target)?.annotations.get(CONFIG_HASH);
        match live.map(String::as_str) == apply.manifest.annotated(CONFIG_HASH) {
            true => Some("spec"),
            false => Some("configuration"),
        }
    }
}

/// Whether the operator whose kinds we serve has made an object: it has our mark, but neither the uid of an operand nor a field of ours.
pub(super) fn is_of_another_operator(live: &Meta) -> bool {
    mark().is_on(live) && !live.labels.contains_key(OWNER_UID) && live.fields.is_empty()
}

/// Deletes all children of an operand that is gone. The volume of the server stays.
pub(super) fn remove_all(input: &OperandInput) -> Vec<Step<OperandAction>> {
    if !input.complete {
        return Vec::new();
    }
    let ours = input
        .children
        .iter()
        .filter(|(_, live)| mark().is_on(live) && live.labels.contains_key(OWNER_UID));
    let delete = |(kind, live): &(Kind, Meta)| {
        let delete = Delete::seen(kind, live)?;
        // It stays until its pods have ended: the CSI driver waits for that.
        Some(match *kind == DEPLOYMENT {
            true => delete.children_first(),
            false => delete,
        })
    };
    ours.filter_map(delete).map(Step::Delete).collect()
}

/// What is said of an object that has the name of a child and is not ours.
pub(super) fn conflict(target: &Target, holder: Option<String>) -> String {
    let holder = holder.unwrap_or_else(|| "somebody else".to_owned());
    format!(
        "{target} exists and belongs to {holder}, so it is left alone: delete or rename it, and it is made anew"
    )
}

/// The condition that tells of a child, and its reason while all is well.
pub(super) fn about(operand: OperandKind, child: &Target) -> (&'static str, &'static str) {
    let kind = &child.kind;
    let name = child.object.name();
    match operand {
        _ if *kind == SERVICE_ACCOUNT => (conditions::SERVICE_ACCOUNT_AVAILABLE, reason::READY),
        _ if *kind == SERVICE => (conditions::SERVICE_AVAILABLE, reason::READY),
        _ if [ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING].contains(kind) => {
            (conditions::RBAC_AVAILABLE, reason::READY)
        }
        _ if *kind == VALIDATING_WEBHOOKS => (conditions::VALIDATING_WEBHOOK_AVAILABLE, reason::READY),
        _ if *kind == POD_DISRUPTION_BUDGET => (conditions::POD_DISRUPTION_BUDGET_AVAILABLE, reason::READY),
        _ if *kind == CSI_DRIVER => (conditions::CSI_DRIVER_AVAILABLE, reason::READY),
        _ if *kind == SECRET => (conditions::CERTIFICATE_AVAILABLE, reason::READY),
        _ if *kind == CLUSTER_SPIFFE_ID => (
            conditions::CLUSTER_SPIFFE_ID_AVAILABLE,
            reason::SPIRE_CLUSTER_SPIFFE_ID_RESOURCES_READY,
        ),
        _ if *kind == STATEFUL_SET => (conditions::STATEFUL_SET_AVAILABLE, reason::STATEFUL_SET_READY),
        _ if *kind == DAEMON_SET => (conditions::DAEMON_SET_AVAILABLE, reason::DAEMON_SET_READY),
        _ if *kind == DEPLOYMENT => (conditions::DEPLOYMENT_AVAILABLE, reason::DEPLOYMENT_READY),
        OperandKind::SpireServer if *kind == CONFIG_MAP && name == names::SERVER => (
            conditions::SERVER_CONFIG_MAP_AVAILABLE,
            reason::SPIRE_CONFIG_MAP_RESOURCE_CREATED,
        ),
        OperandKind::SpireServer if *kind == CONFIG_MAP && name == names::CONTROLLER_MANAGER => (
            conditions::CONTROLLER_MANAGER_CONFIG_AVAILABLE,
            reason::SPIRE_CONTROLLER_MANAGER_CONFIG_MAP_CREATED,
        ),
        OperandKind::SpireServer => (
            conditions::BUNDLE_CONFIG_AVAILABLE,
            reason::SPIRE_BUNDLE_CONFIG_MAP_CREATED,
        ),
        OperandKind::SpireAgent => (
            conditions::CONFIG_MAP_AVAILABLE,
            reason::SPIRE_AGENT_CONFIG_MAP_RESOURCE_CREATED,
        ),
        OperandKind::SpiffeCsiDriver | OperandKind::SpireOidcDiscoveryProvider => (
            conditions::CONFIG_MAP_AVAILABLE,
            reason::SPIRE_OIDC_CONFIG_MAP_CREATION_SUCCEEDED,
        ),
    }
}
