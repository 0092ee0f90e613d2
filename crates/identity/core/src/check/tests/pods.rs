//! What Kubernetes takes in pods.

use super::*;

fn common_of(spec: Value) -> Vec<Defect> {
    common(&serde_json::from_value(spec).unwrap())
}

#[test]
fn labels_and_node_selectors_follow_the_rules_of_kubernetes() {
    let long = "x".repeat(64);
    let spec = json!({
        "labels": {"team": "identity", "example.org/a": "", "": "x", "-a": "x", "b": &long, "c": "x/y"},
        "nodeSelector": {"kubernetes.io/os": "linux", "a/b/c": "x", "Example.org/a": "x"},
    });
    let defects = common_of(spec);
    let said: Vec<_> = defects
        .iter()
        .map(|defect| (&*defect.field, defect.reason))
        .collect();
    assert_eq!(
        said,
        [
            ("spec.labels[]", "InvalidLabels"),
            ("spec.labels[-a]", "InvalidLabels"),
            ("spec.labels[b]", "InvalidLabels"),
            ("spec.labels[c]", "InvalidLabels"),
            ("spec.nodeSelector[Example.org/a]", "InvalidNodeSelector"),
            ("spec.nodeSelector[a/b/c]", "InvalidNodeSelector"),
        ]
    );
}

#[test]
fn tolerations_follow_the_rules_of_kubernetes() {
    let sound = json!({"tolerations": [
        {"operator": "Exists"},
        {"key": "a", "value": "b"},
        {"key": "a", "operator": "Equal", "effect": "NoSchedule"},
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        {"key": "a", "operator": "Gt", "value": "5"},
    ]});
    assert_eq!(common_of(sound), []);
    let defects = common_of(json!({"tolerations": [
        {},
        {"key": "a b"},
        {"key": "a", "operator": "Exists", "value": "b"},
        {"key": "a", "operator": "Is"},
        {"key": "a", "value": "b c"},
        {"key": "a", "effect": "NoRun"},
        {"key": "a", "tolerationSeconds": 30},
        {"key": "a", "operator": "Lt", "value": "b"},
    ]}));
    assert_eq!(
        fields(&defects, "InvalidTolerations"),
        [
            "spec.tolerations[0].operator",
            "spec.tolerations[1].key",
            "spec.tolerations[2].value",
            "spec.tolerations[3].operator",
            "spec.tolerations[4].value",
            "spec.tolerations[5].effect",
            "spec.tolerations[6].effect",
            "spec.tolerations[7].value",
        ]
    );
}

#[test]
fn resources_follow_the_rules_of_kubernetes() {
    let sound = json!({"resources": {
        "requests": {"cpu": "100m", "memory": "128Mi", "example.org/gpu": "1", "hugepages-2Mi": "4Mi"},
        "limits": {"cpu": 1, "memory": "0.25Gi", "ephemeral-storage": "1Gi", "example.org/gpu": 1, "hugepages-2Mi": "4096Ki"},
    }});
    assert_eq!(common_of(sound), []);
    let defects = common_of(json!({"resources": {
        "requests": {"cpu": "2", "memory": "1GB", "example.org/gpu": "1", "hugepages-2Mi": "4Mi", "pods": "1"},
        "limits": {"cpu": "1", "memory": "-1", "example.org/gpu": "1500m", "kubernetes.io/x": "1"},
        "claims": [{"name": "gpu"}],
    }}));
    assert_eq!(
        fields(&defects, "InvalidResources"),
        [
            "spec.resources.limits[example.org/gpu]",
            "spec.resources.limits[kubernetes.io/x]",
            "spec.resources.limits[memory]",
            "spec.resources.requests[memory]",
            "spec.resources.requests[pods]",
            "spec.resources.requests[cpu]",
            "spec.resources.requests[example.org/gpu]",
            "spec.resources.requests[hugepages-2Mi]",
            "spec.resources.claims",
        ]
    );
}

#[test]
fn the_resources_of_side_containers_are_looked_at() {
    let bad: Resources = serde_json::from_value(json!({"limits": {"cpu": "much"}})).unwrap();
    let server = SpireServerSpec {
        controller_manager_resources: Some(bad.clone()),
        ..SpireServerSpec::default()
    };
    let driver = SpiffeCsiDriverSpec {
        registrar_resources: Some(bad),
        ..SpiffeCsiDriverSpec::default()
    };
    assert_eq!(
        server_spec(&server)[0].field,
        "spec.controllerManagerResources.limits[cpu]"
    );
    assert_eq!(csi(&driver)[0].field, "spec.registrarResources.limits[cpu]");
}

#[test]
fn an_affinity_follows_the_rules_of_kubernetes() {
    let node = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let sound = json!({"affinity": {
        "nodeAffinity": {
            required: {"nodeSelectorTerms": [
                node("a", "In", json!(["b"])), node("a", "Exists", json!([])), node("a", "Gt", json!(["5"])),
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
            ]},
            preferred: [{"weight": 100, "preference": node("a", "NotIn", json!(["b", ""]))}],
        },
        "podAntiAffinity": {preferred: [{"weight": 1, "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
            "namespaces": ["shop"], "namespaceSelector": {}, "matchLabelKeys": ["pod-template-hash"],
        }}]},
    }});
    assert_eq!(common_of(sound), []);
    let defects = common_of(json!({"affinity": {
        "nodeAffinity": {
            required: {"nodeSelectorTerms": []},
            preferred: [
                {"weight": 0, "preference": node("a", "In", json!([]))},
                {"weight": 1, "preference": node("a b", "Exists", json!(["b"]))},
                {"weight": 1, "preference": node("a", "Lt", json!(["x"]))},
                {"weight": 1, "preference": node("a", "Is", json!([]))},
                {"weight": 1, "preference": {"matchFields": [{"key": "spec", "operator": "Exists"}]}},
            ],
        },
        "podAffinity": {required: [{
            "topologyKey": "", "namespaces": ["Shop"], "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"],
        }]},
        "podAntiAffinity": {preferred: [{"weight": 101, "podAffinityTerm": {
            "topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b c"}, "matchExpressions": [
                {"key": "a", "operator": "In"}, {"key": "a", "operator": "Gt", "values": ["5"]},
            ]},
        }}]},
    }}));
    let fields = fields(&defects, "InvalidAffinity");
    let short = |field: &String| {
        field
            .replace("spec.affinity.", "")
            .replace(required, "required")
            .replace(preferred, "preferred")
    };
    assert_eq!(
        fields.iter().map(short).collect::<Vec<_>>(),
        [
            "nodeAffinity.required.nodeSelectorTerms",
            "nodeAffinity.preferred[0].weight",
            "nodeAffinity.preferred[0].preference.matchExpressions[0].values",
            "nodeAffinity.preferred[1].preference.matchExpressions[0].key",
            "nodeAffinity.preferred[1].preference.matchExpressions[0].values",
            "nodeAffinity.preferred[2].preference.matchExpressions[0].values",
            "nodeAffinity.preferred[3].preference.matchExpressions[0].operator",
            "nodeAffinity.preferred[4].preference.matchFields[0].key",
            "nodeAffinity.preferred[4].preference.matchFields[0].operator",
            "nodeAffinity.preferred[4].preference.matchFields[0].values",
            "podAffinity.required[0].topologyKey",
            "podAffinity.required[0].namespaces",
            "podAffinity.required[0].matchLabelKeys",
            "podAffinity.required[0].mismatchLabelKeys",
            "podAffinity.required[0].mismatchLabelKeys",
            "podAntiAffinity.preferred[0].weight",
            "podAntiAffinity.preferred[0].podAffinityTerm.labelSelector.matchLabels[a]",
            "podAntiAffinity.preferred[0].podAffinityTerm.labelSelector.matchExpressions[0].values",
            "podAntiAffinity.preferred[0].podAffinityTerm.labelSelector.matchExpressions[1].operator",
        ]
    );
    assert_eq!(common(&CommonConfig::default()), []);
}
