use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn any_text() -> impl Strategy<Value = Value> {
    select(vec![
        json!(null),
        json!(""),
        json!("a"),
        json!("b.c"),
        json!("X"),
        json!("it's"),
        json!(1),
        json!([]),
    ])
}

fn any_spec() -> impl Strategy<Value = Value> {
    let texts = prop::collection::vec(any_text(), 8);
    let policy = select(vec![json!(null), json!("Allow"), json!("Immutable")]);
    (texts, policy).prop_map(|(texts, policy)| {
        json!({
            "trustDomain": texts[0], "clusterName": texts[1], "bundleConfigMap": texts[2],
            "bundleConfig": {"name": texts[3], "namespace": texts[4]}, "jwtIssuer": texts[5],
            "agentSocketPath": texts[6], "socketPath": texts[7], "changePolicy": policy,
        })
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    let record = option::of(any_spec());
    let owners = select(vec![
        json!(null),
        json!([]),
        json!([{"kind": "X", "controller": true}]),
    ]);
    let spec = prop_oneof![9 => any_spec(), 1 => any_text()];
    (spec, record, owners).prop_map(|(spec, record, owners)| {
        let record = record.map(|record| record.to_string());
        json!({
            "metadata": {"name": "cluster", "annotations": {"ztwim.io/inherited": record}, "ownerReferences": owners},
            "spec": spec,
        })
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let subjects = OperandKind::ALL.map(Holder::Operand);
    let subject = select([vec![Holder::Ztwim], subjects.to_vec()].concat());
    let objects = (
        option::of(any_object()),
        any_object(),
        option::of(any_object()),
        any_object(),
        any_object(),
    );
    (subject, objects, option::of(any::<bool>())).prop_map(|(subject, objects, bundle_exists)| {
        let (old, new, ztwim, server, oidc) = objects;
        let world = World {
            ztwim: ztwim.as_ref().map(ZtwimView::read),
            operands: [(SpireServer, server), (SpireOidcDiscoveryProvider, oidc)]
                .map(|(kind, object)| OperandView::read(kind, &object))
                .to_vec(),
        };
        let mut case = Case::new(subject, old, new, world);
        case.bundle_exists = bundle_exists;
        case
    })
}

proptest! {
    #[test]
    fn what_is_filled_in_is_valid_and_filled_in_once(case in any_case()) {
        if !matches!(case.ruling(mutate), Ruling::Deny(_)) {
            case.passed();
        }
    }

    #[test]
    fn an_update_that_changes_no_spec_passes(case in any_case()) {
        let case = Case { old: Some(case.new.clone()), ..case };
        prop_assert!(!matches!(case.ruling(mutate), Ruling::Deny(_)));
        prop_assert!(!matches!(case.ruling(validate), Ruling::Deny(_)));
    }
}
