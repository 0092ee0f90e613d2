//! What the API server itself refuses: policies that cannot match, stores that cannot be opened.

use anyhow::Result;
use kube::Resource;
use serde_json::{Value, json};
use trustplane_api::sync::{SecretSyncPolicy, SecretSyncStore};
use trustplane_sync_controller::kinds;
use trustplane_testkit::{ControlPlane, Door};

async fn door<K: Resource<DynamicType = ()>>() -> Result<Door> {
    let plane = ControlPlane::shared().await?;
    plane.install(&kinds()).await?;
    Ok(Door::new::<K>(plane.client()?, None))
}

fn rule(rule: Value) -> Value {
    json!({ "rules": [rule] })
}

#[tokio::test]
async fn a_policy_that_cannot_match_is_refused() -> Result<()> {
    let door = door::<SecretSyncPolicy>().await?;
    door.takes(rule(
        json!({"paths": ["prod/{namespace}/**", "/flat-{serviceAccount}", "*"]}),
    ))
    .await?;
    door.takes(json!({
        "mode": "Audit", "serviceAccounts": ["web-*"], "refreshFloor": "1h30m",
        "quota": {"perMinute": 60, "burst": 10},
        "namespaceSelector": {"matchLabels": {"team": "a"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["prod"]}, {"key": "team", "operator": "Exists"},
        ]},
        "rules": [
            {"effect": "Deny", "providers": ["aws-secretsmanager"], "stores": ["prod-*"], "paths": ["**"],
             "secretNames": ["*-tls"], "keys": ["tls.*"]},
            {"paths": ["arn:aws:secretsmanager:eu-west-1:123456789012:secret:{namespace}/*"]},
        ],
    }))
    .await?;
    let parts = "must not hold '.' or '..' as a part";
    for (path, why) in [
        ("a/../b", parts),
        ("..", parts),
        ("./a", parts),
        ("a/b**", "'**' must be a part of its own"),
        ("a//b", "spec.rules[0].paths[0]"),
        ("a/", "spec.rules[0].paths[0]"),
        ("{pod}/a", "spec.rules[0].paths[0]"),
        ("a%2fb", "spec.rules[0].paths[0]"),
        ("", "spec.rules[0].paths[0]"),
    ] {
        door.refuses(rule(json!({"paths": [path]})), why).await?;
    }
    door.refuses(json!({"rules": []}), "spec.rules").await?;
    door.refuses(rule(json!({"paths": []})), "spec.rules[0].paths")
        .await?;
    door.refuses(rule(json!({"paths": ["a"], "keys": []})), "spec.rules[0].keys")
        .await?;
    door.refuses(
        rule(json!({"paths": ["a"], "secretNames": ["Up"]})),
        "spec.rules[0].secretNames[0]",
    )
    .await?;
    door.refuses(
        json!({"serviceAccounts": [], "rules": [{"paths": ["a"]}]}),
        "spec.serviceAccounts",
    )
    .await?;
    let selector = |selector: Value| json!({"namespaceSelector": selector, "rules": [{"paths": ["a"]}]});
    door.refuses(
        selector(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]})),
        "In and NotIn need at least one",
    )
    .await?;
    door.refuses(
        selector(json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]})),
        "Exists and DoesNotExist take none",
    )
    .await?;
    door.refuses(
        selector(json!({
            "matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}],
        })),
        "matchExpressions contradict matchLabels",
    )
    .await?;
    door.refuses(
        json!({"refreshFloor": "soon", "rules": [{"paths": ["a"]}]}),
        "spec.refreshFloor",
    )
    .await
}

#[tokio::test]
async fn a_store_names_exactly_one_origin() -> Result<()> {
    let door = door::<SecretSyncStore>().await?;
    let one = "must name exactly one of awsSecretsManager, kubernetes, file and mock";
    door.takes(json!({"from": {"awsSecretsManager": {}}})).await?;
    door.takes(json!({
        "from": {"awsSecretsManager": {
            "region": "eu-west-1", "endpoint": "https://sm.example:8443", "credentials": {"secretName": "keys"},
        }},
        "limits": {"perSecond": 10, "burst": 20}, "namespaceSelector": {"matchLabels": {"team": "a"}},
    }))
    .await?;
    door.refuses(json!({"from": {}}), one).await?;
    door.refuses(
        json!({"from": {"mock": {"configMap": "c"}, "file": {"directory": "d"}}}),
        one,
    )
    .await?;
    door.refuses(json!({}), "spec.from").await?;
    door.refuses(
        json!({"from": {"file": {"directory": "../x"}}}),
        "must not hold '.' or '..' as a part",
    )
    .await?;
    door.refuses(json!({"from": {"kubernetes": {"namespaces": []}}}), "namespaces")
        .await?;
    door.refuses(
        json!({"from": {"awsSecretsManager": {"endpoint": "ftp://x"}}}),
        "endpoint",
    )
    .await
}
