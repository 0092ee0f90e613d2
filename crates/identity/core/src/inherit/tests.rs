use serde_json::{Value, json};
use trustplane_api::identity::OperandKind::{
    self, SpiffeCsiDriver, SpireAgent, SpireOidcDiscoveryProvider, SpireServer,
};

use super::*;
use crate::Images;

mod parts;
mod properties;

/// The settings of a process that runs operands in the namespaces `spire` and `other`.
pub(crate) fn settings() -> Settings {
    Settings {
        namespaces: vec!["spire".to_owned(), "other".to_owned()],
        images: Images {
            spire_server: String::new(),
            spire_agent: String::new(),
            spire_controller_manager: String::new(),
            oidc_discovery_provider: String::new(),
            spiffe_csi_driver: String::new(),
            node_driver_registrar: String::new(),
            csi_init: String::new(),
        },
        pull_policy: String::new(),
        kubelet_root: String::new(),
        selinux: false,
        create_only: false,
    }
}

fn ztwim(spec: Value) -> ZtwimView {
    ZtwimView::new("z1", &spec)
}

fn operand(kind: OperandKind, spec: Value, record: Option<Value>) -> OperandView {
    let annotations = record.map(|record| ("ztwim.io/inherited".to_owned(), record.to_string()));
    OperandView::new(kind, &spec, &annotations.into_iter().collect())
}

fn world(ztwim_spec: Value, operands: impl IntoIterator<Item = OperandView>) -> World {
    World {
        ztwim: Some(ztwim(ztwim_spec)),
        operands: operands.into_iter().collect(),
    }
}

fn full() -> Value {
    json!({"trustDomain": "a.io", "clusterName": "c", "bundleConfig": {"name": "b"}})
}

fn values(follow: &Follow) -> Vec<(&'static str, &str)> {
    follow
        .values
        .iter()
        .map(|(field, value)| (field.name(), value.as_str()))
        .collect()
}

fn reason(world: &World, field: Field) -> String {
    resolve(world, &settings()).value(field).unwrap_err().to_string()
}

#[test]
fn resolve_fills_every_empty_operand_from_ztwim() {
    let world = world(
        full(),
        OperandKind::ALL.map(|kind| operand(kind, json!({}), None)),
    );
    let resolution = resolve(&world, &settings());
    let all = [
        ("trustDomain", "a.io"),
        ("clusterName", "c"),
        ("bundleConfigMap", "b"),
    ];
    let filled = |kind| values(resolution.follow(kind).unwrap());
    assert_eq!(filled(SpireServer), all);
    assert_eq!(filled(SpireAgent), all);
    assert_eq!(filled(SpiffeCsiDriver), []);
    assert_eq!(filled(SpireOidcDiscoveryProvider), [all[0]]);
    assert_eq!(resolution.initialise, []);
    let shared = resolution.shared().unwrap();
    assert_eq!(
        shared,
        Shared {
            namespace: "spire".into(),
            trust_domain: "a.io".into(),
            cluster_name: "c".into(),
            bundle: "b".into()
        }
    );
}

#[test]
fn the_manifest_of_a_filled_operand_has_all_that_is_ours() {
    let world = world(
        full(),
        [operand(
            SpireServer,
            json!({"clusterName": "c"}),
            Some(json!({"clusterName": "c"})),
        )],
    );
    let follow = resolve(&world, &settings())
        .follow(SpireServer)
        .unwrap()
        .manifest();
    let owner = json!({
        "apiVersion": "operator.openshift.io/v1alpha1", "kind": "ZeroTrustWorkloadIdentityManager", "name": "cluster",
        "uid": "z1", "controller": true, "blockOwnerDeletion": true,
    });
    assert_eq!(
        follow.body(),
        json!({
            "apiVersion": "operator.openshift.io/v1alpha1", "kind": "SpireServer",
            "metadata": {
                "name": "cluster", "ownerReferences": [owner],
                "annotations": {"ztwim.io/inherited": r#"{"bundleConfigMap":"b","clusterName":"c","trustDomain":"a.io"}"#},
            },
            "spec": {"trustDomain": "a.io", "clusterName": "c", "bundleConfigMap": "b"},
        })
    );
    let csi = operand(SpiffeCsiDriver, json!({}), None);
    let csi = resolve(&world.clone().with_operand(csi), &settings())
        .follow(SpiffeCsiDriver)
        .unwrap()
        .manifest();
    assert_eq!(csi.body()["spec"], Value::Null);
    assert_eq!(csi.body()["metadata"]["annotations"], Value::Null);
    assert_eq!(csi.body()["metadata"]["ownerReferences"], json!([owner]));
}

#[test]
fn a_value_follows_only_what_the_record_says() {
    let server =
        |value: &str, record: Value| operand(SpireServer, json!({"trustDomain": value}), Some(record));
    let cases = [
        // value, record, stance towards a.io, what is written and recorded
        ("", json!({}), Stance::Empty, Some("a.io")),
        ("", json!({"trustDomain": "old.io"}), Stance::Empty, Some("a.io")),
        ("a.io", json!({}), Stance::Same, None),
        ("a.io", json!({"trustDomain": "a.io"}), Stance::Same, Some("a.io")),
        ("a.io", json!({"trustDomain": "old.io"}), Stance::Same, None),
        (
            "old.io",
            json!({"trustDomain": "old.io"}),
            Stance::Follows,
            Some("a.io"),
        ),
        ("old.io", json!({"trustDomain": "older.io"}), Stance::Own, None),
        ("old.io", json!({"clusterName": "old.io"}), Stance::Own, None),
        ("old.io", json!({"trustDomain": ["old.io"]}), Stance::Own, None),
        ("old.io", json!("malformed"), Stance::Own, None),
    ];
    for (value, record, stance, written) in cases {
        let server = server(value, record.clone());
        assert_eq!(
            server.stance(Field::TrustDomain, "a.io"),
            stance,
            "{value} {record}"
        );
        let world = world(full(), [server]);
        let resolution = resolve(&world, &settings());
        let follow = resolution.follow(SpireServer).unwrap();
        let found = follow.values.get(&Field::TrustDomain).map(String::as_str);
        assert_eq!(found, written, "{value} {record}");
        assert_eq!(
            resolution.value(Field::TrustDomain).is_err(),
            stance == Stance::Own
        );
    }
}

#[test]
fn a_conflict_names_holders_values_and_commands_and_holds_the_field_for_all() {
    let world = world(
        full(),
        [
            operand(SpireAgent, json!({"trustDomain": "c.io"}), None),
            operand(
                SpireServer,
                json!({"trustDomain": "old.io"}),
                Some(json!({"trustDomain": "old.io"})),
            ),
            operand(SpireOidcDiscoveryProvider, json!({"trustDomain": "it's"}), None),
        ],
    );
    assert_eq!(
        reason(&world, Field::TrustDomain),
        concat!(
            r#""a.io" of ZeroTrustWorkloadIdentityManager/cluster differs from "c.io", which SpireAgent/cluster has of its own, "#,
            r#"and from "it's", which SpireOIDCDiscoveryProvider/cluster has of its own; let the operand follow first: "#,
            r#"kubectl patch spireagents cluster --type=merge -p '{"spec":{"trustDomain":null}}' && "#,
            r#"kubectl patch spireoidcdiscoveryproviders cluster --type=merge -p '{"spec":{"trustDomain":null}}'"#,
        )
    );
    let resolution = resolve(&world, &settings());
    let server = &resolution.follow(SpireServer).unwrap().values;
    assert_eq!(server[&Field::TrustDomain], "old.io", "what runs is left alone");
    assert_eq!(server[&Field::ClusterName], "c", "other fields go on");
}

#[test]
fn without_a_value_in_ztwim_the_operands_agreement_holds_and_is_copied() {
    let operands = [
        operand(SpiffeCsiDriver, json!({"trustDomain": "csi.io"}), None),
        operand(SpireOidcDiscoveryProvider, json!({"trustDomain": "a.io"}), None),
        operand(
            SpireAgent,
            json!({"trustDomain": "a.io", "clusterName": "c", "bundleConfigMap": "own"}),
            None,
        ),
        operand(SpireServer, json!({}), None),
    ];
    let resolution = resolve(&world(json!({}), operands.clone()), &settings());
    let effective = |field| resolution.fields[&field].clone().unwrap();
    assert_eq!(
        effective(Field::TrustDomain),
        Effective {
            value: "a.io".into(),
            source: Source::Operand(SpireAgent)
        }
    );
    assert_eq!(effective(Field::BundleConfigMap).value, "own");
    let texts: Vec<_> = resolution.initialise.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            r#"Initializing ZTWIM from operand config: spec.trustDomain "a.io" of SpireAgent/cluster"#,
            r#"Initializing ZTWIM from operand config: spec.clusterName "c" of SpireAgent/cluster"#,
            r#"Initializing ZTWIM from operand config: spec.bundleConfigMap "own" of SpireAgent/cluster"#,
        ]
    );
    assert_eq!(
        resolution.initialise[0].advice(),
        r#"Consider moving to ZTWIM: spec.trustDomain "a.io" of SpireAgent/cluster"#
    );
    assert_eq!(
        values(resolution.follow(SpireServer).unwrap()),
        [],
        "filled once ZTWIM has it"
    );

    let after = json!({"trustDomain": "a.io", "clusterName": "c", "bundleConfigMap": "own"});
    let resolution = resolve(&world(after, operands), &settings());
    assert_eq!(
        values(resolution.follow(SpireAgent).unwrap()),
        [],
        "a copied value is not inherited"
    );
    assert_eq!(values(resolution.follow(SpireServer).unwrap()).len(), 3);
    assert_eq!(resolution.initialise, []);
}

#[test]
fn disagreeing_operands_are_all_named_and_nothing_is_copied() {
    let world = world(
        json!({}),
        [
            operand(SpireAgent, json!({"trustDomain": "b.io"}), None),
            operand(SpireServer, json!({"trustDomain": "a.io"}), None),
        ],
    );
    assert_eq!(
        reason(&world, Field::TrustDomain),
        concat!(
            r#"ZeroTrustWorkloadIdentityManager/cluster has no trustDomain, and the operands disagree: SpireServer/cluster has "a.io", "#,
            r#"SpireAgent/cluster has "b.io"; take the wrong value away: "#,
            r#"kubectl patch spireservers cluster --type=merge -p '{"spec":{"trustDomain":null}}' or "#,
            r#"kubectl patch spireagents cluster --type=merge -p '{"spec":{"trustDomain":null}}'"#,
        )
    );
    assert_eq!(resolve(&world, &settings()).initialise, []);
}

#[test]
fn a_value_of_its_own_goes_before_inherited_ones_when_ztwim_lost_its() {
    let inherited = operand(
        SpireServer,
        json!({"trustDomain": "a.io"}),
        Some(json!({"trustDomain": "a.io"})),
    );
    let world = world(json!({}), [inherited]);
    assert_eq!(resolve(&world, &settings()).value(Field::TrustDomain), Ok("a.io"));
    let own = operand(SpireAgent, json!({"trustDomain": "b.io"}), None);
    let resolution = resolve(&world.with_operand(own), &settings());
    assert_eq!(resolution.value(Field::TrustDomain), Ok("b.io"));
    let server = &resolution.follow(SpireServer).unwrap().values;
    assert_eq!(server[&Field::TrustDomain], "a.io", "until ZTWIM has it");
}

#[test]
fn a_field_that_no_object_has_is_required_unless_it_has_a_default() {
    let world = world(json!({}), [operand(SpireServer, json!({}), None)]);
    assert_eq!(
        reason(&world, Field::TrustDomain),
        "TrustDomain required in ZTWIM"
    );
    assert_eq!(
        reason(&world, Field::ClusterName),
        "ClusterName required in ZTWIM"
    );
    assert_eq!(
        reason(&world, Field::JwtIssuer),
        "JwtIssuer required in SpireServer"
    );
    let resolution = resolve(&world, &settings());
    assert_eq!(resolution.value(Field::BundleConfigMap), Ok("spire-bundle"));
    assert_eq!(
        values(resolution.follow(SpireServer).unwrap()),
        [("bundleConfigMap", "spire-bundle")]
    );
    let paths: Vec<_> = resolution
        .shared()
        .unwrap_err()
        .iter()
        .map(Unresolved::path)
        .collect();
    assert_eq!(paths, ["spec.trustDomain", "spec.clusterName"]);
}

#[test]
fn the_first_mirror_of_the_bundle_goes_before_the_second() {
    let bundle = |spec| {
        let resolution = resolve(&world(spec, []), &settings());
        resolution.value(Field::BundleConfigMap).unwrap().to_owned()
    };
    assert_eq!(
        bundle(json!({"bundleConfig": {"name": "x"}, "bundleConfigMap": "y"})),
        "x"
    );
    assert_eq!(
        bundle(json!({"bundleConfig": {"name": ""}, "bundleConfigMap": "y"})),
        "y"
    );
    assert_eq!(bundle(json!({"bundleConfigMap": ""})), "spire-bundle");
}

#[test]
fn the_oidc_provider_inherits_the_issuer_of_the_server() {
    let server = operand(SpireServer, json!({"jwtIssuer": "https://a"}), None);
    let oidc = |spec, record| {
        world(
            full(),
            [server.clone(), operand(SpireOidcDiscoveryProvider, spec, record)],
        )
    };
    let issuer = |world: &World| {
        let resolution = resolve(world, &settings());
        resolution
            .follow(SpireOidcDiscoveryProvider)
            .unwrap()
            .values
            .get(&Field::JwtIssuer)
            .cloned()
    };
    assert_eq!(issuer(&oidc(json!({}), None)).as_deref(), Some("https://a"));
    let followed = oidc(
        json!({"jwtIssuer": "https://old"}),
        Some(json!({"jwtIssuer": "https://old"})),
    );
    assert_eq!(issuer(&followed).as_deref(), Some("https://a"));
    let own = oidc(json!({"jwtIssuer": "https://b"}), None);
    assert_eq!(
        reason(&own, Field::JwtIssuer),
        concat!(
            r#""https://a" of SpireServer/cluster differs from "https://b", which SpireOIDCDiscoveryProvider/cluster has of its own; "#,
            r#"let the operand follow first: "#,
            r#"kubectl patch spireoidcdiscoveryproviders cluster --type=merge -p '{"spec":{"jwtIssuer":null}}'"#,
        )
    );
    let alone = world(
        full(),
        [operand(
            SpireOidcDiscoveryProvider,
            json!({"jwtIssuer": "https://b"}),
            None,
        )],
    );
    let resolution = resolve(&alone, &settings());
    assert_eq!(resolution.value(Field::JwtIssuer), Ok("https://b"));
    assert_eq!(resolution.initialise, [], "it is not copied into another operand");
}

#[test]
fn an_invalid_value_is_not_written_anywhere() {
    let world = world(
        json!({"trustDomain": "a..io", "clusterName": "A", "bundleConfigMap": "-"}),
        [operand(SpireServer, json!({}), None)],
    );
    let resolution = resolve(&world, &settings());
    assert_eq!(resolution.shared().unwrap_err().len(), 3);
    assert_eq!(values(resolution.follow(SpireServer).unwrap()), []);
    assert!(reason(&world, Field::TrustDomain).starts_with(
        r#""a..io" of ZeroTrustWorkloadIdentityManager/cluster is not valid: want a trust domain"#
    ));
}

#[test]
fn the_namespace_is_one_that_is_served() {
    let namespace = |spec| {
        resolve(&world(spec, []), &settings())
            .namespace
            .map_err(|reason| reason.to_string())
    };
    assert_eq!(namespace(json!({})), Ok("spire".to_owned()));
    assert_eq!(namespace(json!({"namespace": "other"})), Ok("other".to_owned()));
    assert_eq!(
        namespace(json!({"namespace": "x"})).unwrap_err(),
        r#"the namespace "x" is not served: this process runs operands in spire, other"#
    );
}

#[test]
fn without_a_ztwim_that_stays_nothing_is_written() {
    let server = operand(
        SpireServer,
        json!({"trustDomain": "a.io", "clusterName": "c"}),
        None,
    );
    let mut world = world(json!({}), [server]);
    assert!(!resolve(&world, &settings()).initialise.is_empty());
    let untouched = |world: &World| {
        let resolution = resolve(world, &settings());
        let shared = resolution.shared().unwrap();
        (resolution.follows, resolution.initialise, shared.trust_domain)
    };
    let nothing = (vec![], vec![], "a.io".to_owned());
    world.ztwim.as_mut().unwrap().deleting = true;
    assert_eq!(untouched(&world), nothing);
    world.ztwim = None;
    assert_eq!(untouched(&world), nothing, "orphaned operands serve");
}

#[test]
fn an_operand_that_is_being_deleted_has_no_say() {
    let mut server = operand(SpireServer, json!({"trustDomain": "b.io"}), None);
    let conflicting = world(full(), [server.clone()]);
    assert!(
        resolve(&conflicting, &settings())
            .value(Field::TrustDomain)
            .is_err()
    );
    server.deleting = true;
    let resolution = resolve(&world(full(), [server]), &settings());
    assert_eq!(resolution.value(Field::TrustDomain), Ok("a.io"));
    assert_eq!(resolution.follows, []);
}
