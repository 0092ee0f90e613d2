//! A set of objects that belong together: all that an owner wants, and nothing that it has stopped wanting.

use std::collections::BTreeSet;

use crate::{Convergence, Delete, Fingerprinter, Kind, Manifest, Meta, Ownership, Step, Target, converge};

/// The live objects among which a set is kept.
#[derive(Debug, Clone, Copy)]
pub struct OwnedSet<'a> {
    /// Live objects that may belong to the set, of all the kinds that it has or once had: those that the owner's label
    /// selects, and those whose names the wishes want.
    pub live: &'a [(Kind, Meta)],
    /// Whether `live` is all there is. Nothing is pruned from a list that may have a hole.
    pub complete: bool,
    /// The uid of the owner: only its own objects are pruned.
    pub owner: &'a str,
}

/// The steps that make the set what it should be: writes first, then the deletion of what has left it.
///
/// The second value lists what could not be planned, with the reason: foreign objects and such as are being deleted.
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
        let live = set
            .live
            .iter()
            .find(|(kind, meta)| *kind == target.kind && meta.object == target.object);
        match converge(wish, live.map(|(_, meta)| meta), ownership, fingerprinter) {
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
        let target = meta.target(kind);
        let ours =
            ownership.mark.is_on(meta) && meta.owners.iter().any(|o| o.controller && o.uid == set.owner);
        Delete::seen(kind, meta).filter(|_| ours && !wanted.contains(&target))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::CONFIG_MAP;
    use crate::{Conflicts, Keep, Mark, Never};

    fn live(name: &str, label: &str, owner: &str) -> (Kind, Meta) {
        let body = json!({"metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "5",
            "labels": {"managed-by": label},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Source", "name": "s", "uid": owner, "controller": true}],
        }});
        (
            CONFIG_MAP,
            Meta::decode(&body.to_string(), &Keep::owned_by("m")).unwrap(),
        )
    }

    fn steps(live: &[(Kind, Meta)], complete: bool) -> Vec<String> {
        let ownership = Ownership {
            mark: Mark::new("managed-by", "us"),
            adopt: false,
            conflicts: Conflicts::Report,
        };
        let wishes = vec![Manifest::new(CONFIG_MAP, Some("ns"), "wanted")];
        let set = OwnedSet {
            live,
            complete,
            owner: "o1",
        };
        let (steps, _) = converge_set::<Never>(wishes, set, &ownership, &Fingerprinter::new(&[1; 32]));
        steps.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn prunes_what_left_the_set_and_nothing_else() {
        let live = [
            live("left", "us", "o1"),
            live("other-owner", "us", "o2"),
            live("foreign", "Helm", "o1"),
        ];
        assert_eq!(
            steps(&live, true),
            [
                "create ConfigMap ns/wanted",
                "delete ConfigMap ns/left (uid uid-left)"
            ]
        );
    }

    #[test]
    fn prunes_nothing_from_an_incomplete_list() {
        assert_eq!(
            steps(&[live("left", "us", "o1")], false),
            ["create ConfigMap ns/wanted"]
        );
    }
}
