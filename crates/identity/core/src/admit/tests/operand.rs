use super::*;

fn owner(uid: &str) -> Value {
    json!({
        "apiVersion": "operator.openshift.io/v1alpha1", "kind": "ZeroTrustWorkloadIdentityManager", "name": "cluster",
        "uid": uid, "controller": true, "blockOwnerDeletion": true,
    })
}

fn stored(spec: Value, record: Option<Value>, owners: &[Value]) -> Value {
    let mut object = json!({"metadata": {"name": "cluster", "ownerReferences": owners}, "spec": spec});
    if let Some(record) = record {
        object["metadata"]["annotations"] = json!({"ztwim.io/inherited": record.to_string()});
    }
    object
}

fn create(kind: OperandKind, spec: Value, world: World) -> Case {
    let new = json!({"metadata": {"name": "cluster"}, "spec": spec});
    Case::new(Holder::Operand(kind), None, new, world)
}

fn update(kind: OperandKind, old: Value, new: Value, ztwim: Value) -> Case {
    let world = world(Some(ztwim), [OperandView::read(kind, &old)]);
    Case::new(Holder::Operand(kind), Some(old), new, world)
}

fn view(kind: OperandKind, spec: Value) -> OperandView {
    OperandView::new(kind, &spec, &Default::default())
}

#[test]
fn rule_3_asks_for_a_ztwim_that_stays() {
    assert_eq!(
        create(SpiffeCsiDriver, json!({}), world(None, [])).denial(),
        "metadata.ownerReferences: ZeroTrustWorkloadIdentityManager/cluster does not exist; create it before SpiffeCSIDriver/cluster \
         (rule 3, creation of an operand)"
    );
    let mut world = world(Some(full()), []);
    world.ztwim.as_mut().unwrap().deleting = true;
    assert!(
        create(SpireServer, json!({}), world)
            .denial()
            .contains("is being deleted; create it again before")
    );
}

#[test]
fn rule_3_fills_what_is_empty_and_sets_the_owner() {
    let (object, warnings) =
        create(SpireServer, json!({"logLevel": "debug"}), world(Some(full()), [])).passed();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(
        object,
        json!({
            "metadata": {
                "name": "cluster", "ownerReferences": [owner("z1")],
                "annotations": {"ztwim.io/inherited": r#"{"bundleConfigMap":"b","clusterName":"c","trustDomain":"a.io"}"#},
            },
            "spec": {"logLevel": "debug", "trustDomain": "a.io", "clusterName": "c", "bundleConfigMap": "b"},
        })
    );
    let mut case = create(SpiffeCsiDriver, json!({}), world(Some(full()), []));
    assert_eq!(
        case.passed().0,
        json!({"metadata": {"name": "cluster", "ownerReferences": [owner("z1")]}, "spec": {}})
    );
    case.subject = Holder::Operand(SpireOidcDiscoveryProvider);
    case.new = json!({"metadata": {"name": "cluster"}});
    assert_eq!(
        case.passed().0["spec"],
        json!({"trustDomain": "a.io"}),
        "an operand without spec"
    );
}

#[test]
fn rule_3_records_an_equal_value_and_calls_it_deprecated() {
    let case = create(
        SpireServer,
        json!({"trustDomain": "a.io"}),
        world(Some(full()), []),
    );
    let (object, warnings) = case.passed();
    assert_eq!(
        warnings,
        [
            "spec.trustDomain of SpireServer is deprecated: use spec.trustDomain of ZeroTrustWorkloadIdentityManager/cluster"
        ]
    );
    let record = object["metadata"]["annotations"]["ztwim.io/inherited"]
        .as_str()
        .unwrap();
    assert!(record.contains(r#""trustDomain":"a.io""#));
    let bundle = create(
        SpireAgent,
        json!({"bundleConfigMap": "b"}),
        world(Some(full()), []),
    )
    .passed()
    .1;
    assert!(bundle[0].ends_with("use spec.bundleConfig.name of ZeroTrustWorkloadIdentityManager/cluster"));
    let unused = create(
        SpiffeCsiDriver,
        json!({"trustDomain": "x"}),
        world(Some(full()), []),
    )
    .passed()
    .1;
    assert_eq!(unused.len(), 1, "the driver does not need it");
}

#[test]
fn rule_3_refuses_another_value() {
    let denial = |kind, spec| create(kind, spec, world(Some(full()), [])).denial();
    assert_eq!(
        denial(SpireServer, json!({"trustDomain": "b.io"})),
        concat!(
            r#"spec.trustDomain: "b.io" of SpireServer/cluster differs from "a.io" of ZeroTrustWorkloadIdentityManager/cluster, which it "#,
            r#"follows; leave it out, or change both: kubectl patch zerotrustworkloadidentitymanagers cluster --type=merge "#,
            r#"-p '{"spec":{"trustDomain":"b.io"}}' (rule 3, creation of an operand)"#,
        )
    );
    let bundle = denial(SpireAgent, json!({"bundleConfigMap": "x"}));
    assert!(
        bundle.contains(r#"-p '{"spec":{"bundleConfig":{"name":"x"}}}'"#),
        "{bundle}"
    );
    assert!(denial(SpireAgent, json!({"clusterName": "x"})).starts_with("spec.clusterName: "));
    assert!(
        denial(SpireOidcDiscoveryProvider, json!({"trustDomain": "x"})).starts_with("spec.trustDomain: ")
    );
    create(
        SpireOidcDiscoveryProvider,
        json!({"clusterName": "x"}),
        world(Some(full()), []),
    )
    .passed();
}

#[test]
fn rule_3_lets_a_copy_of_a_filled_operand_follow() {
    let new = stored(
        json!({"trustDomain": "old.io"}),
        Some(json!({"trustDomain": "old.io"})),
        &[owner("z0")],
    );
    let case = Case::new(Holder::Operand(SpireServer), None, new, world(Some(full()), []));
    let (object, warnings) = case.passed();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(object["spec"]["trustDomain"], "a.io");
    assert_eq!(
        object["metadata"]["ownerReferences"],
        json!([owner("z1")]),
        "the owner of long ago is gone"
    );
}

#[test]
fn rule_3_admits_a_value_that_ztwim_lacks() {
    let legacy = full_but(json!({"trustDomain": null}));
    let (object, warnings) = create(
        SpireServer,
        json!({"trustDomain": "b.io"}),
        world(Some(legacy.clone()), []),
    )
    .passed();
    assert_eq!(
        warnings,
        [
            r#"Initializing ZTWIM from operand config: spec.trustDomain "b.io" of SpireServer/cluster"#,
            r#"Consider moving to ZTWIM: spec.trustDomain "b.io" of SpireServer/cluster"#,
        ]
    );
    let record = object["metadata"]["annotations"]["ztwim.io/inherited"]
        .as_str()
        .unwrap();
    assert!(!record.contains("trustDomain"), "a copied value is not inherited");

    let other = || [view(SpireAgent, json!({"trustDomain": "c.io"}))];
    let denial = create(
        SpireServer,
        json!({"trustDomain": "b.io"}),
        world(Some(legacy.clone()), other()),
    )
    .denial();
    assert!(
        denial.starts_with(concat!(
            r#"spec.trustDomain: ZeroTrustWorkloadIdentityManager/cluster has no trustDomain, and the operands disagree: "#,
            r#"SpireServer/cluster has "b.io", SpireAgent/cluster has "c.io"; take the wrong value away: "#,
        )),
        "{denial}"
    );
    create(SpireServer, json!({}), world(Some(legacy.clone()), other())).passed();
    create(SpiffeCsiDriver, json!({}), world(Some(legacy.clone()), [])).passed();
    assert_eq!(
        create(SpireServer, json!({}), world(Some(legacy), [])).denial(),
        "spec.trustDomain: TrustDomain required in ZTWIM (rule 3, creation of an operand)"
    );
}

#[test]
fn rule_4_judges_only_values_that_change() {
    let old = stored(
        json!({"trustDomain": "own.io", "clusterName": "c"}),
        None,
        &[owner("z1")],
    );
    let with = |spec| stored(spec, None, &[owner("z1")]);
    let unchanged = with(json!({"trustDomain": "own.io", "clusterName": "c", "logLevel": "debug"}));
    let (object, warnings) = update(SpireServer, old.clone(), unchanged, full()).passed();
    assert_eq!(
        (object["spec"]["trustDomain"].as_str(), warnings.len()),
        (Some("own.io"), 0)
    );
    let record = object["metadata"]["annotations"]["ztwim.io/inherited"]
        .as_str()
        .unwrap();
    assert_eq!(
        record, r#"{"bundleConfigMap":"b"}"#,
        "an equal value that this request did not set stays its own"
    );

    let denial = update(
        SpireServer,
        old.clone(),
        with(json!({"trustDomain": "x.io"})),
        full(),
    )
    .denial();
    assert!(denial.ends_with("(rule 4, update of an operand)"), "{denial}");
    for following in [json!({}), json!({"trustDomain": "a.io"})] {
        let (object, _) = update(SpireServer, old.clone(), with(following), full()).passed();
        assert_eq!(object["spec"]["trustDomain"], "a.io");
        let record = object["metadata"]["annotations"]["ztwim.io/inherited"]
            .as_str()
            .unwrap();
        assert!(record.contains("trustDomain"));
    }
}

#[test]
fn rule_4_counts_the_record_that_is_stored() {
    let record = || Some(json!({"trustDomain": "old.io"}));
    let old = stored(json!({"trustDomain": "old.io"}), record(), &[owner("z1")]);
    let edited = stored(
        json!({"trustDomain": "old.io", "logLevel": "debug"}),
        None,
        &[owner("z1")],
    );
    let (object, _) = update(SpireServer, old.clone(), edited, full()).passed();
    assert_eq!(
        object["spec"]["trustDomain"], "a.io",
        "it followed, and follows on without its record"
    );

    let forged = Some(json!({"trustDomain": "x.io"}));
    let forged = stored(json!({"trustDomain": "x.io"}), forged, &[owner("z1")]);
    assert!(
        update(SpireServer, old, forged, full())
            .denial()
            .starts_with(r#"spec.trustDomain: "x.io" of SpireServer"#)
    );

    let own = stored(json!({"agentSocketPath": "/a"}), None, &[owner("z1")]);
    let forged = stored(json!({"agentSocketPath": "/a"}), record(), &[owner("z1")]);
    let (object, _) = update(SpiffeCsiDriver, own, forged, full()).passed();
    assert_eq!(
        object["metadata"]["annotations"],
        json!({}),
        "a record that we did not write is taken off"
    );
}

#[test]
fn rule_4_refuses_to_take_the_last_value_away() {
    let legacy = json!({"clusterName": "c"});
    let old = stored(json!({"trustDomain": "a.io"}), None, &[]);
    let case = update(
        SpireServer,
        old.clone(),
        stored(json!({}), None, &[]),
        legacy.clone(),
    );
    assert!(case.denial().contains("TrustDomain required in ZTWIM"));
    let mut case = update(SpireServer, old, stored(json!({}), None, &[]), legacy);
    case.world = case
        .world
        .with_operand(view(SpireAgent, json!({"trustDomain": "b.io"})));
    case.passed();
}

#[test]
fn rule_4_lets_go_of_the_last_value_when_there_is_no_ztwim() {
    let old = stored(json!({"trustDomain": "own.io"}), None, &[]);
    let mut case = update(SpireServer, old.clone(), stored(json!({}), None, &[]), full());
    case.world.ztwim = None;
    assert_eq!(case.passed().0["spec"], json!({}));
    // So the command of this denial helps.
    let own = OperandView::read(SpireServer, &old);
    let ztwim = Case::new(Holder::Ztwim, None, object(full()), world(None, [own]));
    assert!(ztwim.denial().contains("kubectl patch spireservers"));
}

#[test]
fn the_owner_reference_is_restored_or_its_loss_is_refused() {
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"});
    let old = stored(json!({}), None, &[foreign.clone(), owner("z1")]);
    let mut changed = owner("z1");
    changed["blockOwnerDeletion"] = json!(false);
    for owners in [
        vec![foreign.clone()],
        vec![foreign.clone(), changed],
        vec![foreign.clone(), owner("z0")],
    ] {
        let case = update(
            SpiffeCsiDriver,
            old.clone(),
            stored(json!({}), None, &owners),
            full(),
        );
        let (object, _) = case.passed();
        assert_eq!(
            object["metadata"]["ownerReferences"],
            json!([foreign, owner("z1")])
        );
        let Ruling::Deny(denial) = case.ruling(validate) else {
            panic!("{owners:?}")
        };
        assert_eq!(
            denial.to_string(),
            "metadata.ownerReferences: must keep the reference to ZeroTrustWorkloadIdentityManager/cluster: only the garbage collector \
             takes it off (rule 4, update of an operand)"
        );
    }
    let unowned = stored(json!({}), None, &[]);
    let case = update(SpiffeCsiDriver, unowned.clone(), unowned, full());
    assert_eq!(
        case.ruling(validate),
        Ruling::Allow { warnings: vec![] },
        "the controller adopts it"
    );
    let mut orphaned = update(
        SpireServer,
        old,
        stored(json!({"logLevel": "debug"}), None, &[]),
        full(),
    );
    orphaned.world.ztwim = None;
    orphaned.passed();
}

#[test]
fn an_operand_with_another_controller_is_refused_at_creation() {
    let other = json!({"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "u", "controller": true});
    let new = stored(json!({}), None, &[other]);
    let mut case = Case::new(
        Holder::Operand(SpiffeCsiDriver),
        None,
        new.clone(),
        world(Some(full()), []),
    );
    let text = "Other/x is the controller of SpiffeCSIDriver/cluster, so ZeroTrustWorkloadIdentityManager/cluster cannot be";
    assert_eq!(
        case.denial(),
        format!("metadata.ownerReferences: {text} (rule 3, creation of an operand)")
    );
    case.old = Some(new);
    assert_eq!(case.passed().1, [text]);
}

#[test]
fn the_issuer_of_the_server_changes_only_while_the_oidc_provider_follows() {
    let issuer = |issuer: &str| json!({"jwtIssuer": issuer});
    let case = |oidc: OperandView| {
        let old = stored(issuer("https://a"), None, &[owner("z1")]);
        let mut case = update(
            SpireServer,
            old,
            stored(issuer("https://b"), None, &[owner("z1")]),
            full(),
        );
        case.world = case.world.with_operand(oidc);
        case
    };
    let own = view(SpireOidcDiscoveryProvider, issuer("https://a"));
    let denial = case(own.clone()).denial();
    assert!(
        denial.starts_with(
            r#"spec.jwtIssuer: "https://b" of SpireServer/cluster differs from "https://a", which SpireOIDCD"#
        ),
        "{denial}"
    );
    let inherited = Some([(crate::inherit::Field::JwtIssuer, "https://a".to_owned())].into());
    case(OperandView { inherited, ..own }).passed();

    let server = || view(SpireServer, issuer("https://a"));
    let oidc = |spec| create(SpireOidcDiscoveryProvider, spec, world(Some(full()), [server()]));
    assert_eq!(oidc(json!({})).passed().0["spec"]["jwtIssuer"], "https://a");
    assert!(
        oidc(issuer("https://b"))
            .denial()
            .contains(r#"-p '{"spec":{"jwtIssuer":"https://b"}}'"#)
    );
    assert_eq!(
        oidc(issuer("https://a")).passed().1,
        [""; 0],
        "the field of the provider is not deprecated"
    );
    create(SpireOidcDiscoveryProvider, json!({}), world(Some(full()), [])).passed();
}

#[test]
fn a_pair_of_fields_must_be_the_same_but_its_leader_may_change_first() {
    let agent = || view(SpireAgent, json!({"socketPath": "/a"}));
    let csi = |path: &str| json!({"agentSocketPath": path});
    let text = concat!(
        r#"spec.agentSocketPath: spec.agentSocketPath "/b" of SpiffeCSIDriver/cluster differs from spec.socketPath "/a" of "#,
        r#"SpireAgent/cluster; change SpireAgent/cluster first: "#,
        r#"kubectl patch spireagents cluster --type=merge -p '{"spec":{"socketPath":"/b"}}' "#,
    );
    let denied = create(SpiffeCsiDriver, csi("/b"), world(Some(full()), [agent()]));
    assert_eq!(denied.denial(), format!("{text}(rule 3, creation of an operand)"));
    create(
        SpiffeCsiDriver,
        csi("/a/spire-agent.sock"),
        world(Some(full()), [agent()]),
    )
    .passed();

    let follower = |from: &str, to: &str| {
        let mut case = update(
            SpiffeCsiDriver,
            stored(csi(from), None, &[]),
            stored(csi(to), None, &[]),
            full(),
        );
        case.world = case.world.with_operand(agent());
        case
    };
    assert_eq!(
        follower("/a", "/b").denial(),
        format!("{text}(rule 4, update of an operand)")
    );
    follower("/b", "/b").passed();
    follower("/b", "/a").passed();

    let leader = json!({"socketPath": "/b"});
    let existing = || world(Some(full()), [view(SpiffeCsiDriver, csi("/a"))]);
    let denial = create(SpireAgent, leader.clone(), existing()).denial();
    assert!(
        denial.starts_with("spec.socketPath: spec.agentSocketPath \"/a\" of Spiffe"),
        "{denial}"
    );
    let old = stored(json!({"socketPath": "/a"}), None, &[]);
    let mut case = update(SpireAgent, old, stored(leader, None, &[]), full());
    case.world = existing().with_operand(agent());
    assert_eq!(
        case.passed().1,
        [concat!(
            r#"spec.agentSocketPath "/a" of SpiffeCSIDriver/cluster differs from spec.socketPath "/b" of SpireAgent/cluster: "#,
            r#"kubectl patch spiffecsidrivers cluster --type=merge -p '{"spec":{"agentSocketPath":"/b"}}'"#,
        )]
    );
    let oidc = create(
        SpireOidcDiscoveryProvider,
        json!({"csiDriverName": "x"}),
        world(Some(full()), [view(SpiffeCsiDriver, json!({}))]),
    );
    assert!(oidc.denial().starts_with("spec.csiDriverName: "));
}
