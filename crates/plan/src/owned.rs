//! A set of objects that belong together: all that an owner wants, and nothing that it has stopped wanting.

use std::collections::BTreeSet;

use crate::{
    Convergence, Delete, Fingerprinter, Kind, Manifest, Meta, OWNER_UID, Ownership, Step, Target, converge,
};

/// How objects belong to the owner of a set, with the owner's uid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnedBy<'a> {
    /// By a controller reference, which the wishes carry ([`Owner::controller`](crate::Owner::controller)). The garbage collector
    /// deletes the objects with their owner.
    Reference(&'a str),
    /// By the label [`OWNER_UID`], which [`converge_set`] puts on every wish. For objects that cannot refer to their owner: those in
    /// another namespace than a namespaced owner, and those of an owner that is no object.
    ///
    /// **Caveats.** The garbage collector knows nothing of the label: the owner needs a finalizer, under which its controller
    /// empties the set. The objects of a deleted owner stay foreign to a new owner of the same name.
    Label(&'a str),
}

impl OwnedBy<'_> {
    /// Whether a live object belongs to the owner.
    fn has(self, live: &Meta) -> bool {
        match self {
            Self::Reference(uid) => live
                .owners
                .iter()
                .any(|owner| owner.controller && owner.uid == uid),
            Self::Label(uid) => !uid.is_empty() && live.labels.get(OWNER_UID).is_some_and(|of| of == uid),
        }
    }

    /// The uid of another owner, to which the label says that a live object belongs.
    fn other(self, live: &Meta) -> Option<&str> {
        match self {
            Self::Reference(_) => None,
            Self::Label(_) => live.labels.get(OWNER_UID).map(String::as_str),
        }
        .filter(|_| !self.has(live))
    }

    fn put_on(self, wish: Manifest) -> Manifest {
        match self {
            Self::Reference(_) => wish,
            Self::Label(uid) => wish.label(OWNER_UID, uid),
        }
    }
}

/// The live objects among which a set is kept.
#[derive(Debug, Clone, Copy)]
pub struct OwnedSet<'a> {
    /// Live objects that may belong to the set, of all the kinds that it has or once had: those that the owner's label
    /// selects, and those whose names the wishes want.
    pub live: &'a [(Kind, Meta)],
    /// Whether `live` is all there is. Nothing is pruned from a list that may have a hole.
    pub complete: bool,
    /// Whose objects are pruned, and how they are known.
    pub owner: OwnedBy<'a>,
}

/// The steps that make the set what it should be: writes first, then the deletion of what has left it.
///
/// The second value lists what could not be planned, with the reason: foreign objects and such as are being deleted.
///
/// **Guarantees.** Only objects that bear the mark and belong to the owner of the set are deleted. An object that bears the label of
/// another owner is neither written nor deleted, not even if [`Ownership::adopt`] permits to take over objects without the mark.
pub fn converge_set<A>(
    wishes: Vec<Manifest>,
    set: OwnedSet<'_>,
    ownership: &Ownership,
    fingerprinter: &Fingerprinter,
) -> (Vec<Step<A>>, Vec<(Target, Convergence)>) {
    let wanted: BTreeSet<Target> = wishes.iter().map(Manifest::target).collect();
    let (mut steps, mut held_up) = (Vec::new(), Vec::new());
    for wish in wishes {
        let target = wish.target();
        let is_it = |(kind, meta): &&(Kind, Meta)| *kind == target.kind && meta.object == target.object;
        let live = set.live.iter().find(is_it).map(|(_, meta)| meta);
        let other = live
            .filter(|live| !live.is_terminating())
            .and_then(|live| set.owner.other(live));
        let convergence = match other {
            Some(uid) => Convergence::Foreign {
                holder: Some(format!("the owner with the uid {uid}")),
            },
            None => converge(set.owner.put_on(wish), live, ownership, fingerprinter),
        };
        match convergence {
            Convergence::Settled => {}
            Convergence::Write(apply) => steps.push(Step::Apply(apply)),
            other => held_up.push((target, other)),
        }
    }
    if set.complete {
        steps.extend(prune(set, &wanted, ownership).map(Step::Delete));
    }
    (steps, held_up)
}

fn prune<'a>(
    set: OwnedSet<'a>,
    wanted: &'a BTreeSet<Target>,
    ownership: &'a Ownership,
) -> impl Iterator<Item = Delete> + 'a {
    set.live.iter().filter_map(move |(kind, meta)| {
        let ours = ownership.mark.is_on(meta) && set.owner.has(meta);
        Delete::seen(kind, meta).filter(|_| ours && !wanted.contains(&meta.target(kind)))
    })
}

#[cfg(test)]
mod tests;
