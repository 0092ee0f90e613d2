//! What clients and manifests rely on: names, columns, defaults, and which fields may be absent.

use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::*;

fn all() -> Vec<Value> {
    [
        ZeroTrustWorkloadIdentityManager::crd(),
        SpireServer::crd(),
        SpireAgent::crd(),
        SpiffeCsiDriver::crd(),
        SpireOidcDiscoveryProvider::crd(),
        ClusterSpiffeId::crd(),
        ClusterFederatedTrustDomain::crd(),
        ClusterStaticEntry::crd(),
    ]
    .iter()
    .map(|definition| serde_json::to_value(definition).unwrap())
    .collect()
}

fn definition(kind: &str) -> Value {
    let mut all = all().into_iter();
    all.find(|definition| definition["spec"]["names"]["kind"] == kind)
        .unwrap()
}

fn version(definition: &Value) -> &Value {
    let versions = definition["spec"]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1);
    &versions[0]
}

fn root(definition: &Value) -> &Value {
    &version(definition)["schema"]["openAPIV3Schema"]
}

fn spec(definition: &Value) -> &Value {
    &root(definition)["properties"]["spec"]
}

/// Each schema within a schema, with its path.
fn visit(path: &str, schema: &Value, seen: &mut impl FnMut(&str, &Value)) {
    seen(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        visit(&format!("{path}.{name}"), field, seen);
    }
    for within in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(within) {
            visit(&format!("{path}[]"), inner, seen);
        }
    }
}

#[test]
fn kinds_have_the_names_of_the_original() {
    let kinds = [
        (ZTWIM, json!(["ztwim"])),
        (SPIRE_SERVER, json!(["spiresrv"])),
        (SPIRE_AGENT, json!(["spireag"])),
        (SPIFFE_CSI_DRIVER, json!(["spiffecsi"])),
        (SPIRE_OIDC, json!(["spireoidc"])),
        (CLUSTER_SPIFFE_ID, Value::Null),
        (CLUSTER_FEDERATED_TRUST_DOMAIN, Value::Null),
        (CLUSTER_STATIC_ENTRY, Value::Null),
    ];
    for ((kind, short), definition) in kinds.into_iter().zip(all()) {
        let (spec, version) = (&definition["spec"], version(&definition));
        let names = &spec["names"];
        assert_eq!(
            (&spec["group"], &names["kind"], &names["plural"]),
            (&json!(kind.group), &json!(kind.kind), &json!(kind.plural))
        );
        assert_eq!(spec["scope"], "Cluster");
        assert_eq!(names["shortNames"], short, "{}", kind.kind);
        assert_eq!(
            (&version["name"], &version["served"], &version["storage"]),
            (&json!("v1alpha1"), &json!(true), &json!(true))
        );
        assert!(version["subresources"]["status"].is_object(), "{}", kind.kind);
    }
}

/// kubectl looks for a category before it looks for a short name: with a category `ztwim`, `kubectl delete ztwim cluster` would
/// delete the operands as well.
#[test]
fn no_category_has_the_short_name_of_a_kind() {
    let all = all();
    let names = |field: &str| -> Vec<Value> {
        let lists = all
            .iter()
            .filter_map(|definition| definition["spec"]["names"][field].as_array());
        lists.flatten().cloned().collect()
    };
    let (categories, short) = (names("categories"), names("shortNames"));
    assert_eq!(short.len(), 5);
    assert!(categories.iter().all(|category| !short.contains(category)));
}

#[test]
fn columns_tell_of_readiness() {
    let columns = |kind: &str| -> Vec<String> {
        let definition = definition(kind);
        let columns = version(&definition)["additionalPrinterColumns"]
            .as_array()
            .cloned();
        let narrow = columns
            .into_iter()
            .flatten()
            .filter(|column| column["priority"].as_i64().unwrap_or(0) == 0);
        narrow
            .map(|column| column["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (kind, third) in [
        ("ZeroTrustWorkloadIdentityManager", "Trust Domain"),
        ("SpireServer", "Trust Domain"),
        ("SpireAgent", "Trust Domain"),
        ("SpiffeCSIDriver", "Driver"),
        ("SpireOIDCDiscoveryProvider", "Issuer"),
    ] {
        assert_eq!(columns(kind), ["Ready", "Reason", third, "Age"]);
    }
    assert_eq!(
        columns("ClusterFederatedTrustDomain"),
        ["Trust Domain", "Endpoint URL"]
    );
    assert_eq!(columns("ClusterSPIFFEID"), [""; 0]);
    assert_eq!(columns("ClusterStaticEntry"), [""; 0]);
}

#[test]
fn w05_an_operand_may_be_without_a_spec_and_shared_fields_are_never_required() {
    for operand in [ZTWIM, SPIRE_SERVER, SPIRE_AGENT, SPIFFE_CSI_DRIVER, SPIRE_OIDC] {
        let definition = definition(&operand.kind);
        assert_eq!(root(&definition).get("required"), None, "{}", operand.kind);
        assert_eq!(spec(&definition).get("required"), None, "{}", operand.kind);
        for shared in ["trustDomain", "clusterName", "bundleConfigMap"] {
            let field = &spec(&definition)["properties"][shared];
            assert_eq!(field["type"], "string", "{}: {shared}", operand.kind);
            assert_eq!(field.get("default"), None, "{}: {shared}", operand.kind);
            assert_eq!(field.get("x-kubernetes-validations"), None);
            let deprecated = field["description"].as_str().unwrap().starts_with("Deprecated: ");
            assert_eq!(deprecated, operand != ZTWIM, "{}: {shared}", operand.kind);
        }
    }
}

/// A transition rule that takes a spec for granted would refuse every later write of an object without one.
#[test]
fn w05_rules_of_a_whole_object_do_not_take_a_spec_for_granted() {
    for definition in all() {
        let rules = root(&definition)["x-kubernetes-validations"].as_array().cloned();
        for rule in rules.into_iter().flatten() {
            let rule = rule["rule"].as_str().unwrap();
            for object in ["self", "oldSelf"] {
                let reads = rule.contains(&format!(" {object}.spec."));
                assert!(!reads || rule.contains(&format!("has({object}.spec)")), "{rule}");
                assert!(!rule.contains(&format!("{object}.status")), "{rule}");
            }
        }
    }
}

#[test]
fn schemas_are_structural_and_keep_no_unknown_field() {
    for definition in all() {
        visit("", root(&definition), &mut |path, schema| {
            for word in [
                "allOf",
                "anyOf",
                "oneOf",
                "not",
                "nullable",
                "x-kubernetes-preserve-unknown-fields",
            ] {
                assert_eq!(schema.get(word), None, "{word} at {path}");
            }
            let typed = schema.get("type").is_some() || schema["x-kubernetes-int-or-string"] == true;
            assert!(typed, "{path} has no type");
            if !path.is_empty() {
                assert!(
                    schema.get("description").is_some() || path.ends_with("[]"),
                    "{path}"
                );
            }
        });
    }
}

#[test]
fn every_rule_has_a_message_that_names_a_field_or_what_it_must_not_be() {
    for definition in all() {
        visit("", root(&definition), &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let message = rule["message"].as_str().unwrap();
                assert!(
                    message.contains(": ") || message.starts_with("must "),
                    "{path}: {message}"
                );
            }
        });
    }
}

#[test]
fn maps_and_lists_merge_as_in_the_original() {
    for operand in [ZTWIM, SPIRE_SERVER, SPIRE_AGENT, SPIFFE_CSI_DRIVER, SPIRE_OIDC] {
        let definition = definition(&operand.kind);
        let spec = &spec(&definition)["properties"];
        assert_eq!(spec["labels"]["x-kubernetes-map-type"], "granular");
        assert_eq!(spec["labels"]["maxProperties"], 64);
        assert_eq!(spec["nodeSelector"]["x-kubernetes-map-type"], "atomic");
        assert_eq!(spec["nodeSelector"]["maxProperties"], 50);
        assert_eq!(spec["tolerations"]["x-kubernetes-list-type"], "atomic");
        assert_eq!(spec["tolerations"]["maxItems"], 50);
        let status = &root(&definition)["properties"]["status"]["properties"];
        assert_eq!(
            status["conditions"]["x-kubernetes-list-map-keys"],
            json!(["type"])
        );
        let quantity = &spec["resources"]["properties"]["requests"]["additionalProperties"];
        assert_eq!(quantity["x-kubernetes-int-or-string"], true);
    }
    let ztwim = definition("ZeroTrustWorkloadIdentityManager");
    let operands = &root(&ztwim)["properties"]["status"]["properties"]["operands"];
    assert_eq!(operands["x-kubernetes-list-map-keys"], json!(["kind"]));
}

/// The defaults of a schema, and of the objects within that have to be there themselves.
fn defaults(schema: &Value, within: &[&str]) -> Value {
    let schema = within
        .iter()
        .fold(schema, |schema, field| &schema["properties"][field]);
    let fields = schema["properties"].as_object().unwrap();
    let defaults = fields
        .iter()
        .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())));
    Value::Object(defaults.collect())
}

fn written(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn defaults_of_the_schema_are_those_of_the_types() {
    let ztwim = definition("ZeroTrustWorkloadIdentityManager");
    assert_eq!(defaults(spec(&ztwim), &[]), written(ZtwimSpec::default()));
    assert_eq!(written(ZtwimSpec::default()), json!({}));
    let server = definition("SpireServer");
    for (within, default) in [
        (&[][..], written(SpireServerSpec::default())),
        (&["keyManager"], written(KeyManager::default())),
        (&["caSubject"], written(CaSubject::default())),
        (&["persistence"], written(Persistence::default())),
        (&["datastore"], written(Datastore::default())),
        (
            &["federation", "bundleEndpoint"],
            written(BundleEndpoint::default()),
        ),
    ] {
        assert_eq!(defaults(spec(&server), within), default, "{within:?}");
    }
    let agent = definition("SpireAgent");
    for (within, default) in [
        (&[][..], written(SpireAgentSpec::default())),
        (&["nodeAttestor"], written(NodeAttestor::default())),
        (&["workloadAttestors"], written(WorkloadAttestors::default())),
        (
            &["workloadAttestors", "workloadAttestorsVerification"],
            written(Verification::default()),
        ),
    ] {
        assert_eq!(defaults(spec(&agent), within), default, "{within:?}");
    }
    let csi = definition("SpiffeCSIDriver");
    assert_eq!(
        defaults(spec(&csi), &[]),
        json!({"agentSocketPath": "/run/spire/agent-sockets", "pluginName": "csi.spiffe.io"})
    );
    assert_eq!(defaults(spec(&csi), &[]), written(SpiffeCsiDriverSpec::default()));
    let oidc = definition("SpireOIDCDiscoveryProvider");
    assert_eq!(
        defaults(spec(&oidc), &[]),
        written(SpireOidcDiscoveryProviderSpec::default())
    );
}

#[test]
fn defaults_are_those_of_the_original() {
    let server = definition("SpireServer");
    assert_eq!(
        defaults(spec(&server), &[]),
        json!({
            "logLevel": "info", "logFormat": "text", "caValidity": "24h", "defaultX509Validity": "1h",
            "defaultJWTValidity": "5m", "caKeyType": "rsa-2048",
        })
    );
    assert_eq!(
        defaults(spec(&server), &["persistence"]),
        json!({"size": "1Gi", "accessMode": "ReadWriteOnce", "storageClass": ""})
    );
    assert_eq!(
        defaults(spec(&server), &["datastore"]),
        json!({
            "databaseType": "sqlite3", "connectionString": "/run/spire/data/datastore.sqlite3", "maxOpenConns": 100,
            "maxIdleConns": 2, "disableMigration": "false",
        })
    );
    let agent = definition("SpireAgent");
    assert_eq!(
        defaults(spec(&agent), &["workloadAttestors"]),
        json!({"k8sEnabled": "true", "disableContainerSelectors": "false", "useNewContainerLocator": "true"})
    );
    let oidc = definition("SpireOIDCDiscoveryProvider");
    assert_eq!(
        defaults(spec(&oidc), &[]),
        json!({
            "logLevel": "info", "logFormat": "text", "csiDriverName": "csi.spiffe.io", "replicaCount": 1,
            "managedRoute": "true",
        })
    );
}

/// The fields of spire-controller-manager 0.6.4, with their types. A field of another name would be lost silently.
#[test]
fn w23_kinds_of_spiffe_have_the_fields_that_the_controller_manager_reads() {
    let expected = [
        (
            "ClusterSPIFFEID",
            "admin:boolean autoPopulateDNSNames:boolean className:string dnsNameTemplates:array downstream:boolean \
             fallback:boolean federatesWith:array hint:string jwtTtl:string namespaceSelector:object podSelector:object \
             spiffeIDTemplate:string ttl:string workloadSelectorTemplates:array",
            "spiffeIDTemplate",
            "stats:object",
        ),
        (
            "ClusterFederatedTrustDomain",
            "bundleEndpointProfile:object bundleEndpointURL:string className:string trustDomain:string \
             trustDomainBundle:string",
            "bundleEndpointProfile bundleEndpointURL trustDomain",
            "",
        ),
        (
            "ClusterStaticEntry",
            "admin:boolean className:string dnsNames:array downstream:boolean federatesWith:array hint:string \
             jwtSVIDTTL:string parentID:string selectors:array spiffeID:string storeSVID:boolean x509SVIDTTL:string",
            "parentID selectors spiffeID",
            "masked:boolean rendered:boolean set:boolean",
        ),
    ];
    for (kind, fields, required, status) in expected {
        let definition = definition(kind);
        let spec = spec(&definition);
        assert_eq!(types(spec), fields, "{kind}");
        let mut must: Vec<&str> = spec["required"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        must.sort_unstable();
        assert_eq!(must.join(" "), required, "{kind}");
        assert_eq!(
            types(&root(&definition)["properties"]["status"]),
            status,
            "{kind}"
        );
        assert_eq!(root(&definition)["required"], json!(["spec"]), "{kind}");
        assert_eq!(defaults_anywhere(spec), [""; 0], "{kind}");
    }
    let stats = "entriesMasked:integer entriesToSet:integer entryFailures:integer namespacesIgnored:integer \
                 namespacesSelected:integer podEntryRenderFailures:integer podsSelected:integer";
    let id = definition("ClusterSPIFFEID");
    assert_eq!(
        types(&root(&id)["properties"]["status"]["properties"]["stats"]),
        stats
    );
}

fn types(schema: &Value) -> String {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields: Vec<String> = fields
        .map(|(name, field)| format!("{name}:{}", field["type"].as_str().unwrap()))
        .collect();
    fields.join(" ")
}

fn defaults_anywhere(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit("", schema, &mut |path, schema| {
        if schema.get("default").is_some() {
            found.push(path.to_owned());
        }
    });
    found
}
