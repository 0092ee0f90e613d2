use trustplane_api::identity::{CommonConfig, SpireAgentSpec, ZtwimSpec};

use super::*;

#[test]
fn values_are_checked_as_their_schema_says() {
    let long = |labels: usize| ["a".repeat(63).as_str()].repeat(labels).join(".");
    let cases = [
        (Field::TrustDomain, "example.org", true),
        (Field::TrustDomain, "a-b.c1", true),
        (Field::TrustDomain, "Example.org", false),
        (Field::TrustDomain, "a.-b", false),
        (Field::TrustDomain, "a.b-", false),
        (Field::TrustDomain, "a.", false),
        (Field::TrustDomain, "spiffe://a", false),
        (Field::TrustDomain, &long(4), true),
        (Field::TrustDomain, &long(5), false),
        (Field::TrustDomain, &"a".repeat(64), false),
        (Field::ClusterName, "prod.eu", true),
        (Field::ClusterName, &"a".repeat(64), false),
        (Field::ClusterName, "a_b", false),
        (Field::BundleConfigMap, &"a".repeat(253), true),
        (Field::BundleConfigMap, &"a".repeat(254), false),
        (Field::BundleConfigMap, "a b", false),
        (Field::JwtIssuer, "judged elsewhere", true),
    ];
    for (field, value, is_valid) in cases {
        assert_eq!(
            field.check(Holder::Ztwim, value).is_ok(),
            is_valid,
            "{field:?} {value}"
        );
    }
}

#[test]
fn views_of_typed_specs_and_of_objects_are_the_same() {
    let spec = SpireAgentSpec {
        trust_domain: Some("a.io".into()),
        ..SpireAgentSpec::default()
    };
    let annotations = [(
        "ztwim.io/inherited".to_owned(),
        r#"{"trustDomain":"a.io"}"#.to_owned(),
    )]
    .into();
    let object = json!({"metadata": {"uid": "u", "annotations": &annotations}, "spec": &spec});
    let view = OperandView::new(SpireAgent, &spec, &annotations);
    assert!(view.is_inherited(Field::TrustDomain));
    assert_eq!(view, OperandView::read(SpireAgent, &object));
    let spec = ZtwimSpec {
        trust_domain: Some("a.io".into()),
        ..ZtwimSpec::default()
    };
    let object = json!({"metadata": {"uid": "u"}, "spec": &spec});
    assert_eq!(ZtwimView::new("u", &spec), ZtwimView::read(&object));
    let nothing = OperandView::read(
        SpireAgent,
        &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    assert!(nothing.deleting && nothing.value(Field::TrustDomain).is_none());
}

#[test]
fn pairs_must_be_the_same_in_operands_that_stay() {
    let world = |agent: Value, csi: Value, oidc: Value| {
        let operands = [
            (SpireAgent, agent),
            (SpiffeCsiDriver, csi),
            (SpireOidcDiscoveryProvider, oidc),
        ];
        world(full(), operands.map(|(kind, spec)| operand(kind, spec, None)))
    };
    let socket = |path: &str| json!({"agentSocketPath": path});
    let default = "/run/spire/agent-sockets";
    assert_eq!(mismatches(&world(json!({}), json!({}), json!({}))), []);
    for same in [
        default.to_owned(),
        format!("{default}/"),
        format!("{default}/spire-agent.sock"),
    ] {
        assert_eq!(
            mismatches(&world(json!({}), socket(&same), json!({}))),
            [],
            "{same}"
        );
    }
    let found = mismatches(&world(
        json!({"socketPath": "/a"}),
        json!({"pluginName": "p"}),
        json!({}),
    ));
    let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            r#"spec.agentSocketPath "/run/spire/agent-sockets" of SpiffeCSIDriver/cluster differs from spec.socketPath "/a" of SpireAgent/cluster"#,
            r#"spec.csiDriverName "csi.spiffe.io" of SpireOIDCDiscoveryProvider/cluster differs from spec.pluginName "p" of SpiffeCSIDriver/cluster"#,
        ]
    );
    assert_eq!(
        found[0].follow_command(),
        r#"kubectl patch spiffecsidrivers cluster --type=merge -p '{"spec":{"agentSocketPath":"/a"}}'"#
    );
    let mut world = world(json!({"socketPath": "/a"}), json!({}), json!({}));
    world.operands[0].deleting = true;
    assert_eq!(mismatches(&world), []);
}

#[test]
fn common_config_is_inherited_as_a_whole_but_labels_by_key() {
    let read = |value: Value| serde_json::from_value::<CommonConfig>(value).unwrap();
    let ztwim = read(json!({
        "labels": {"a": "z", "b": "z"}, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        "tolerations": [{"key": "z"}], "nodeSelector": {"zone": "z"}, "affinity": {"nodeAffinity": {}},
    }));
    assert_eq!(common(&ztwim, &CommonConfig::default()), ztwim);
    let empty =
        read(json!({"resources": {}, "affinity": {}, "tolerations": [], "nodeSelector": {}, "labels": {}}));
    assert_eq!(common(&ztwim, &empty), ztwim);
    let own = read(json!({
        "labels": {"b": "o", "c": "o"}, "resources": {"requests": {"memory": "1Gi"}},
        "tolerations": [{"key": "o"}], "nodeSelector": {"disk": "o"}, "affinity": {"podAffinity": {}},
    }));
    let mut wish = own.clone();
    wish.labels = [("a", "z"), ("b", "o"), ("c", "o")]
        .map(|(key, value)| (key.into(), value.into()))
        .into();
    assert_eq!(common(&ztwim, &own), wish);
}
