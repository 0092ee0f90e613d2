use super::*;

fn create(spec: Value, operands: impl IntoIterator<Item = OperandView>) -> Case {
    Case::new(Holder::Ztwim, None, object(spec), world(None, operands))
}

fn update(old: Value, new: Value, operands: impl IntoIterator<Item = OperandView>) -> Case {
    let world = world(Some(old.clone()), operands);
    Case::new(Holder::Ztwim, Some(object(old)), object(new), world)
}

#[test]
fn rule_1_asks_for_valid_values() {
    let denial = |changes| create(full_but(changes), []).denial();
    let missing = "TrustDomain required in ZTWIM (rule 1, creation of ZTWIM)";
    assert_eq!(
        denial(json!({"trustDomain": null})),
        format!("spec.trustDomain: {missing}")
    );
    assert_eq!(
        denial(json!({"trustDomain": ""})),
        format!("spec.trustDomain: {missing}")
    );
    assert_eq!(
        denial(json!({"clusterName": null})),
        "spec.clusterName: ClusterName required in ZTWIM (rule 1, creation of ZTWIM)"
    );
    assert_eq!(
        denial(json!({"trustDomain": "A.io"})),
        "spec.trustDomain: \"A.io\" of ZeroTrustWorkloadIdentityManager/cluster is not valid: want a trust domain: labels of at most 63 \
         lower-case letters, digits and inner dashes, joined by dots, 255 characters in all (rule 1, creation of ZTWIM)"
    );
    assert!(denial(json!({"clusterName": "c_"})).starts_with("spec.clusterName: \"c_\" of Zero"));
    let bundle = json!({"bundleConfig": {"name": "B"}, "bundleConfigMap": null});
    assert!(denial(bundle).starts_with("spec.bundleConfig.name: \"B\" of Zero"));
    let nothing = Case::new(
        Holder::Ztwim,
        None,
        json!({"metadata": {"name": "cluster"}}),
        World::default(),
    );
    assert_eq!(
        nothing.denial(),
        format!("spec.trustDomain: {missing}"),
        "a ZTWIM without spec"
    );
}

#[test]
fn rule_1_fills_both_mirrors_of_the_bundle() {
    let bundle = |changes, operands: Vec<OperandView>| {
        let (object, warnings) = create(full_but(changes), operands).passed();
        assert_eq!(warnings, [""; 0]);
        assert_eq!(
            object["spec"]["bundleConfig"]["name"],
            object["spec"]["bundleConfigMap"]
        );
        object["spec"]["bundleConfigMap"].as_str().unwrap().to_owned()
    };
    let none = json!({"bundleConfig": null, "bundleConfigMap": null});
    assert_eq!(bundle(json!({}), vec![]), "b");
    assert_eq!(bundle(json!({"bundleConfigMap": null}), vec![]), "b");
    assert_eq!(
        bundle(json!({"bundleConfig": null, "bundleConfigMap": "m"}), vec![]),
        "m"
    );
    assert_eq!(
        bundle(
            json!({"bundleConfig": {"namespace": "spire"}, "bundleConfigMap": "m"}),
            vec![]
        ),
        "m"
    );
    assert_eq!(bundle(none.clone(), vec![]), "spire-bundle");
    let own = server(json!({"bundleConfigMap": "own"}), None);
    assert_eq!(bundle(none, vec![own]), "own", "what the operands agree on");
}

#[test]
fn rule_1_refuses_two_names_of_the_bundle() {
    assert_eq!(
        create(full_but(json!({"bundleConfigMap": "m"})), []).denial(),
        concat!(
            r#"spec.bundleConfigMap: "m" differs from "b" of spec.bundleConfig.name, and both are new; say one of them, or: "#,
            r#"kubectl patch zerotrustworkloadidentitymanagers cluster --type=merge "#,
            r#"-p '{"spec":{"bundleConfig":{"name":"b"},"bundleConfigMap":"b"}}' (rule 1, creation of ZTWIM)"#,
        )
    );
}

#[test]
fn rule_1_refuses_a_value_that_an_operand_contradicts() {
    let own = server(json!({"clusterName": "other"}), None);
    let denial = create(full(), [own]).denial();
    assert!(denial.starts_with(
        r#"spec.clusterName: "c" of ZeroTrustWorkloadIdentityManager/cluster differs from "other", which Sp"#
    ));
    create(full(), [server(json!({"clusterName": "c"}), None)]).passed();
    create(
        full(),
        [server(
            json!({"clusterName": "old"}),
            Some(json!({"clusterName": "old"})),
        )],
    )
    .passed();
}

#[test]
fn rule_1_asks_for_namespaces_that_can_be() {
    let denial = |changes| create(full_but(changes), []).denial();
    assert_eq!(
        denial(json!({"namespace": "x"})),
        "spec.namespace: the namespace \"x\" is not served: this process runs operands in spire, other (rule 1, creation of ZTWIM)"
    );
    assert_eq!(
        denial(json!({"bundleConfig": {"name": "b", "namespace": "x"}})),
        concat!(
            r#"spec.bundleConfig.namespace: "x" differs from "spire", the namespace of the operands: pods mount only ConfigMaps of their "#,
            r#"own namespace; leave it out, or: kubectl patch zerotrustworkloadidentitymanagers cluster --type=merge "#,
            r#"-p '{"spec":{"bundleConfig":{"namespace":null}}}' (rule 1, creation of ZTWIM)"#,
        )
    );
    let other = json!({"namespace": "other", "bundleConfig": {"name": "b", "namespace": "other"}});
    create(full_but(other), []).passed();
    create(
        full_but(json!({"bundleConfig": {"name": "b", "namespace": "spire"}})),
        [],
    )
    .passed();
}

#[test]
fn a_cluster_name_with_dots_gives_a_warning() {
    let dots = full_but(json!({"clusterName": "eu.prod"}));
    let warning = r#"spec.clusterName "eu.prod" has dots: a name without is understood by more tools"#;
    assert_eq!(create(dots.clone(), []).passed().1, [warning]);
    assert_eq!(update(full(), dots.clone(), []).passed().1, [warning]);
    assert_eq!(
        update(dots.clone(), merged(dots, json!({"x": 1})), []).passed().1,
        [""; 0]
    );
}

#[test]
fn rule_2_refuses_a_change_while_an_operand_has_another_value_of_its_own() {
    let change = full_but(json!({"trustDomain": "b.io"}));
    let own = server(json!({"trustDomain": "a.io"}), None);
    assert_eq!(
        update(full(), change.clone(), [own.clone()]).denial(),
        concat!(
            r#"spec.trustDomain: "b.io" of ZeroTrustWorkloadIdentityManager/cluster differs from "a.io", which SpireServer/cluster has of "#,
            r#"its own; let the operand follow first: "#,
            r#"kubectl patch spireservers cluster --type=merge -p '{"spec":{"trustDomain":null}}' (rule 2, update of ZTWIM)"#,
        )
    );
    let followers = [
        server(
            json!({"trustDomain": "a.io"}),
            Some(json!({"trustDomain": "a.io"})),
        ),
        server(json!({"trustDomain": "b.io"}), None),
        server(json!({}), None),
    ];
    for follower in followers {
        update(full(), change.clone(), [follower]).passed();
    }
    let conflicting = server(json!({"trustDomain": "c.io"}), None);
    update(full(), full_but(json!({"labels": {"a": "b"}})), [conflicting]).passed();
}

#[test]
fn rule_2_keeps_values_from_being_taken_away() {
    for (field, name) in [("trustDomain", "TrustDomain"), ("clusterName", "ClusterName")] {
        let denial = update(full(), full_but(json!({field: null})), []).denial();
        assert_eq!(
            denial,
            format!("spec.{field}: {name} required in ZTWIM (rule 2, update of ZTWIM)")
        );
        let legacy = full_but(json!({field: null}));
        update(legacy.clone(), merged(legacy, json!({"labels": {}})), []).passed();
    }
    update(
        full_but(json!({"trustDomain": "A"})),
        full_but(json!({"trustDomain": "A", "x": 1})),
        [],
    )
    .passed();
}

#[test]
fn rule_2_lets_the_mirror_win_that_changed() {
    let pair = |name: Option<&str>, mirror: Option<&str>| {
        let name = name.map_or(Value::Null, |name| json!({"name": name}));
        full_but(json!({"bundleConfig": name, "bundleConfigMap": mirror}))
    };
    let cases = [
        ((Some("b"), Some("b")), (Some("x"), Some("b")), "x"),
        ((Some("b"), Some("b")), (Some("b"), Some("x")), "x"),
        ((Some("b"), Some("b")), (Some("x"), Some("x")), "x"),
        ((Some("b"), Some("b")), (Some("x"), None), "x"),
        ((Some("b"), Some("b")), (None, Some("x")), "x"),
        ((Some("b"), Some("b")), (None, Some("b")), "b"),
        ((Some("b"), Some("b")), (None, None), "spire-bundle"),
        ((None, Some("b")), (None, Some("b")), "b"),
        ((None, None), (None, None), "spire-bundle"),
        ((Some("b"), Some("m")), (Some("b"), Some("m")), "b"),
    ];
    for (old, new, name) in cases {
        let mut case = update(pair(old.0, old.1), pair(new.0, new.1), []);
        case.bundle_exists = Some(true);
        let (object, _) = case.passed();
        assert_eq!(
            object["spec"]["bundleConfig"],
            json!({"name": name}),
            "{old:?} {new:?}"
        );
        assert_eq!(object["spec"]["bundleConfigMap"], name, "{old:?} {new:?}");
    }
    let denial = update(full(), pair(Some("x"), Some("y")), []).denial();
    assert!(
        denial.starts_with(r#"spec.bundleConfigMap: "y" differs from "x" of spec.bundleConfig.name"#),
        "{denial}"
    );
}

#[test]
fn rule_2_asks_for_the_config_map_of_a_new_bundle() {
    let new = full_but(json!({"bundleConfigMap": "x"}));
    let mut case = update(full(), new.clone(), []);
    let denial = concat!(
        r#"spec.bundleConfig.name: there is no ConfigMap "x" in the namespace "spire"; make it first: "#,
        r#"kubectl create configmap x --namespace spire (rule 2, update of ZTWIM)"#,
    );
    for unknown in [None, Some(false)] {
        case.bundle_exists = unknown;
        assert_eq!(case.denial(), denial);
    }
    case.bundle_exists = Some(true);
    case.passed();

    let looked_up = |old: Value, new: Value, operands: Vec<OperandView>| {
        let world = world(Some(old.clone()), operands);
        bundle_to_look_up(&object(old), &object(new), &world, &settings())
    };
    let x = Some(("spire".to_owned(), "x".to_owned()));
    assert_eq!(looked_up(full(), new.clone(), vec![]), x);
    assert_eq!(
        looked_up(full(), merged(new.clone(), json!({"namespace": "other"})), vec![])
            .unwrap()
            .0,
        "other"
    );
    let unserved = merged(new, json!({"namespace": "unserved"}));
    assert_eq!(looked_up(full(), unserved.clone(), vec![]), None);
    assert!(
        update(full(), unserved, [])
            .denial()
            .starts_with("spec.namespace: the namespace \"unserved\" is not served")
    );
    assert_eq!(
        looked_up(full(), full_but(json!({"trustDomain": "b.io"})), vec![]),
        None
    );
    let none = json!({"bundleConfig": null, "bundleConfigMap": null});
    assert_eq!(
        looked_up(full(), full_but(none.clone()), vec![]).unwrap().1,
        "spire-bundle"
    );
    assert_eq!(
        looked_up(
            full_but(none.clone()),
            full_but(json!({"bundleConfigMap": null})),
            vec![]
        )
        .unwrap()
        .1,
        "b"
    );
    let own = server(json!({"bundleConfigMap": "b"}), None);
    assert_eq!(
        looked_up(full_but(none), full(), vec![own]),
        None,
        "it is in use already"
    );
}

#[test]
fn rule_2_follows_the_policy_that_is_stored() {
    let immutable = full_but(json!({"changePolicy": "Immutable"}));
    let denial = update(
        immutable.clone(),
        full_but(json!({"trustDomain": "b.io", "changePolicy": "Allow"})),
        [],
    )
    .denial();
    assert_eq!(
        denial,
        concat!(
            r#"spec.trustDomain: must stay "a.io" and not become "b.io": spec.changePolicy of ZeroTrustWorkloadIdentityManager/cluster is "#,
            r#"Immutable; to allow it: kubectl patch zerotrustworkloadidentitymanagers cluster --type=merge "#,
            r#"-p '{"spec":{"changePolicy":"Allow"}}' (rule 2, update of ZTWIM)"#,
        )
    );
    for change in [json!({"clusterName": "x"}), json!({"bundleConfigMap": "x"})] {
        assert!(
            update(immutable.clone(), merged(immutable.clone(), change), [])
                .denial()
                .contains("is Immutable")
        );
    }
    update(
        immutable.clone(),
        merged(immutable.clone(), json!({"labels": {"a": "b"}})),
        [],
    )
    .passed();
    update(immutable.clone(), full(), []).passed();
    update(
        merged(immutable.clone(), json!({"trustDomain": null})),
        immutable,
        [],
    )
    .passed();
}

#[test]
fn rule_2_warns_that_a_running_server_keeps_its_trust_domain() {
    let change = full_but(json!({"trustDomain": "b.io"}));
    let warnings = |operands: Vec<OperandView>| update(full(), change.clone(), operands).passed().1;
    assert_eq!(
        warnings(vec![server(json!({}), None)]),
        [
            "spec.trustDomain changes while SpireServer/cluster exists: this version does not move the data of a server to another trust \
             domain, so what runs keeps its trust domain \"a.io\" until the safe change is available"
        ]
    );
    assert_eq!(warnings(vec![]), [""; 0]);
}

#[test]
fn rule_2_keeps_the_namespace_while_operands_exist() {
    let moved = full_but(json!({"namespace": "other"}));
    assert_eq!(
        update(full(), moved.clone(), [server(json!({}), None)]).denial(),
        "spec.namespace: must stay \"spire\" and not become \"other\" while SpireServer/cluster exist there: delete them first \
         (rule 2, update of ZTWIM)"
    );
    update(full(), moved, []).passed();
    let explicit = full_but(json!({"namespace": "spire"}));
    update(full(), explicit, [server(json!({}), None)]).passed();
    assert!(
        update(full(), full_but(json!({"namespace": "x"})), [])
            .denial()
            .contains("is not served")
    );
    let stored = full_but(json!({"namespace": "x", "bundleConfig": {"name": "b", "namespace": "y"}}));
    update(stored.clone(), merged(stored, json!({"labels": {}})), []).passed();
    let bundle = full_but(json!({"bundleConfig": {"name": "b", "namespace": "spire"}}));
    let both = merged(bundle.clone(), json!({"namespace": "other"}));
    assert!(
        update(bundle, both, [])
            .denial()
            .starts_with("spec.bundleConfig.namespace: \"spire\" differs from \"other\"")
    );
}
