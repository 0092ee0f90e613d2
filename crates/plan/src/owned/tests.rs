use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kinds::CONFIG_MAP;
use crate::{Conflicts, FINGERPRINT, Keep, Mark, Never};

const OURS: &str = "o1";
const OTHERS: &str = "o2";

fn live(name: &str, labels: Value, owners: Value) -> (Kind, Meta) {
    let body = json!({"metadata": {
        "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "5",
        "labels": labels, "ownerReferences": owners,
    }});
    let meta = Meta::decode(&body.to_string(), &Keep::owned_by("m")).unwrap();
    (CONFIG_MAP, meta)
}

fn referring(name: &str, mark: &str, owner: &str) -> (Kind, Meta) {
    let owner = json!({"apiVersion": "v1", "kind": "Source", "name": "s", "uid": owner, "controller": true});
    live(name, json!({"managed-by": mark}), json!([owner]))
}

fn labelled(name: &str, mark: &str, owner: &str) -> (Kind, Meta) {
    live(name, json!({"managed-by": mark, OWNER_UID: owner}), json!([]))
}

fn converged(
    live: &[(Kind, Meta)],
    owner: OwnedBy<'_>,
    complete: bool,
    adopt: bool,
) -> (Vec<Step<Never>>, Vec<(Target, Convergence)>) {
    let ownership = Ownership {
        mark: Mark::new("managed-by", "us"),
        adopt,
        conflicts: Conflicts::Report,
    };
    let wishes = vec![Manifest::new(CONFIG_MAP, Some("ns"), "wanted")];
    let set = OwnedSet {
        live,
        complete,
        owner,
    };
    converge_set(wishes, set, &ownership, &Fingerprinter::new(&[1; 32]))
}

fn steps(live: &[(Kind, Meta)], owner: OwnedBy<'_>, complete: bool) -> Vec<String> {
    let (steps, _) = converged(live, owner, complete, false);
    steps.iter().map(ToString::to_string).collect()
}

#[test]
fn prunes_what_left_the_set_and_nothing_else() {
    let live = [
        referring("left", "us", OURS),
        referring("other-owner", "us", OTHERS),
        referring("foreign", "Helm", OURS),
        labelled("labelled", "us", OURS),
    ];
    assert_eq!(
        steps(&live, OwnedBy::Reference(OURS), true),
        [
            "create ConfigMap ns/wanted",
            "delete ConfigMap ns/left (uid uid-left)"
        ]
    );
}

#[test]
fn a_set_kept_by_label_prunes_only_its_owners_objects() {
    let live = [
        labelled("left", "us", OURS),
        labelled("other-owner", "us", OTHERS),
        labelled("foreign", "Helm", OURS),
        live("lost-the-label", json!({"managed-by": "us"}), json!([])),
        referring("referring", "us", OURS),
    ];
    assert_eq!(
        steps(&live, OwnedBy::Label(OURS), true),
        [
            "create ConfigMap ns/wanted",
            "delete ConfigMap ns/left (uid uid-left)"
        ]
    );
    let nobodys = [labelled("nobodys", "us", "")];
    assert_eq!(
        steps(&nobodys, OwnedBy::Label(""), true),
        ["create ConfigMap ns/wanted"]
    );
}

#[test]
fn prunes_nothing_from_an_incomplete_list() {
    let live = [referring("a", "us", OURS), labelled("b", "us", OURS)];
    for owner in [OwnedBy::Reference(OURS), OwnedBy::Label(OURS)] {
        assert_eq!(steps(&live, owner, false), ["create ConfigMap ns/wanted"]);
    }
}

/// The object `wanted` as the API server has it after the first write of the set.
fn written() -> (Kind, Meta) {
    let (steps, _) = converged(&[], OwnedBy::Label(OURS), true, false);
    let [Step::Apply(apply)] = steps.as_slice() else {
        panic!("expected one write, got {steps:?}")
    };
    let mut body = apply.manifest.body();
    assert_eq!(body["metadata"]["labels"][OWNER_UID], OURS);
    body["metadata"]["uid"] = "u".into();
    body["metadata"]["resourceVersion"] = "6".into();
    body["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Apply", "fieldsV1": {"f:metadata": {
        "f:labels": {"f:managed-by": {}, (format!("f:{OWNER_UID}")): {}},
        "f:annotations": {(format!("f:{FINGERPRINT}")): {}},
    }}}]);
    let meta = Meta::decode(&body.to_string(), &Keep::owned_by("m")).unwrap();
    (CONFIG_MAP, meta)
}

#[test]
fn a_wish_that_settled_makes_no_step() {
    assert_eq!(steps(&[written()], OwnedBy::Label(OURS), true), [""; 0]);
}

#[test]
fn a_wanted_object_that_lost_the_label_gets_it_back() {
    let (kind, mut meta) = written();
    meta.labels.remove(OWNER_UID);
    meta.fields = crate::FieldSet::from_fields_v1(&json!({"f:metadata": {"f:labels": {"f:managed-by": {}}}}));
    let live = [(kind, meta)];
    assert_eq!(
        steps(&live, OwnedBy::Label(OURS), true),
        ["update ConfigMap ns/wanted"]
    );
}

#[test]
fn the_object_of_another_owner_is_not_taken_over() {
    let live = [labelled("wanted", "us", OTHERS)];
    for adopt in [false, true] {
        let (steps, held_up) = converged(&live, OwnedBy::Label(OURS), true, adopt);
        assert!(steps.is_empty(), "{steps:?}");
        let holder = Some("the owner with the uid o2".to_owned());
        assert_eq!(
            held_up,
            [(live[0].1.target(&CONFIG_MAP), Convergence::Foreign { holder })]
        );
    }
}

proptest! {
    /// Whatever is there: a set kept by label touches no object of another owner, and deletes only its own.
    #[test]
    fn a_set_kept_by_label_leaves_all_others_alone(
        objects in prop::collection::btree_map(
            prop::sample::select(vec!["wanted", "a", "b", "c"]),
            (prop::sample::select(vec!["us", "Helm"]), prop::option::of(prop::sample::select(vec![OURS, OTHERS, ""]))),
            0..4,
        ),
        complete in any::<bool>(),
        adopt in any::<bool>(),
    ) {
        let all: Vec<_> = objects
            .iter()
            .map(|(name, (mark, owner))| match owner {
                Some(owner) => labelled(name, mark, owner),
                None => live(name, json!({"managed-by": mark}), json!([])),
            })
            .collect();
        let (steps, _) = converged(&all, OwnedBy::Label(OURS), complete, adopt);
        for step in &steps {
            match step {
                Step::Apply(apply) => {
                    let owner = objects.get(apply.manifest.object().name()).and_then(|(_, owner)| *owner);
                    prop_assert!(owner.is_none_or(|owner| owner == OURS));
                }
                Step::Delete(delete) => {
                    let name = delete.target.object.name();
                    prop_assert!(complete && name != "wanted");
                    prop_assert_eq!(objects[name], ("us", Some(OURS)));
                }
                other => prop_assert!(false, "{other}"),
            }
        }
        let left = objects.iter().filter(|(name, held)| **name != "wanted" && **held == ("us", Some(OURS)));
        let deleted = steps.iter().filter(|step| matches!(step, Step::Delete(_)));
        prop_assert_eq!(deleted.count(), if complete { left.count() } else { 0 });
    }
}
