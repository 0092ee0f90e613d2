//! Agents: one for each token, with an identity of its own and no right too many.

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use trustplane_testkit::{DEADLINE, wait_for};

use crate::stage::{AGENT, Stage, blank, device, entry, fixed, node, phase, pico, pod, report, token};

/// Whether an account may do something.
async fn may(stage: &Stage, namespace: &str, verb: &str, resource: &str, name: &str) -> Result<bool> {
    let user = format!("system:serviceaccount:{}:{AGENT}", stage.sandbox.namespace());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user),
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                verb: Some(verb.to_owned()),
                resource: Some(resource.to_owned()),
                name: (!name.is_empty()).then(|| name.to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(stage.sandbox.client());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[tokio::test]
async fn a_token_gets_an_agent_that_may_read_its_pin_and_nothing_else() -> Result<()> {
    let (stage, _, running) = Stage::serving("agent").await?;
    let deployment: Deployment = stage.there(AGENT).await?;
    stage.there::<ServiceAccount>(AGENT).await?;
    stage.there::<Role>(AGENT).await?;
    stage.there::<RoleBinding>(AGENT).await?;
    stage.there::<ConfigMap>(AGENT).await?;
    stage.there::<Secret>(&format!("{AGENT}-tls")).await?;
    let spec = deployment.spec.unwrap().template.spec.unwrap();
    assert_eq!(spec.service_account_name.as_deref(), Some(AGENT));
    let here = stage.sandbox.namespace().to_owned();
    for (verb, resource, name, allowed) in [
        ("get", "secrets", "pin", true),
        ("watch", "secrets", "pin", true),
        ("get", "secrets", "other", false),
        ("get", "secrets", "hsm-agent-pico-e66-tls", false),
        ("get", "secrets", "hsm-mtls-ca", false),
        ("list", "secrets", "", false),
        ("patch", "secrets", "pin", false),
        ("patch", "configmaps", AGENT, true),
        ("patch", "configmaps", "other", false),
        ("create", "configmaps", "", false),
        ("patch", "pods", "any", false),
    ] {
        let answer = may(&stage, &here, verb, resource, name).await?;
        assert_eq!(answer, allowed, "{verb} {resource} {name}");
    }
    assert!(!may(&stage, "default", "get", "secrets", "pin").await?);
    stage.kill(running).await
}

#[tokio::test]
async fn a_serial_number_with_odd_characters_gets_an_agent() -> Result<()> {
    let stage = Stage::new("odd").await?;
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "pico", pico()).await?;
    let odd = ["DENK 01/04", "DENK 01:04", "ÄÖ"];
    let tokens: Vec<_> = odd.iter().map(|serial| token(serial)).collect();
    node(&stage.sandbox, "pico", "node-1", &report("pico", &tokens)).await?;
    let deployments = stage.api::<Deployment>();
    let all = trustplane_testkit::Select::default().labels("hsm.j5t.io/device=pico");
    trustplane_testkit::eventually(&deployments, &all, DEADLINE, |found| {
        (found.len() == odd.len()).then_some(())
    })
    .await?;
    stage.kill(running).await
}

#[tokio::test]
async fn an_so_pin_is_made_once_and_outlives_everything() -> Result<()> {
    let stage = Stage::new("so-pin").await?;
    let (_, running) = stage.start("first").await?;
    let tokens = json!([{ "name": "one", "tokenLabel": "one" }]);
    let mut spec = fixed(tokens);
    spec["pkcs11"]["autoProvision"] = true.into();
    device(&stage.sandbox, "soft", spec).await?;
    let made = blank(&stage.sandbox, "hsm-agent-soft-one").await?;
    assert_eq!(entry(&made, "so-pin").len(), 16);
    stage.there::<Deployment>("hsm-agent-soft-one").await?;
    // The token leaves the list, and its agent goes.
    let mut other = fixed(json!([{ "name": "two", "tokenLabel": "two" }]));
    other["pkcs11"]["autoProvision"] = true.into();
    device(&stage.sandbox, "soft", other).await?;
    stage.gone::<Deployment>("hsm-agent-soft-one").await?;
    stage.gone::<Secret>("hsm-agent-soft-one-tls").await?;
    stage.there::<Deployment>("hsm-agent-soft-two").await?;
    crate::stage::remove_device(&stage.sandbox, "soft").await?;
    stage.gone::<Deployment>("hsm-agent-soft-two").await?;
    stage.gone::<Secret>("hsm-agent-soft-two-tls").await?;
    let kept = stage.api::<Secret>().get("hsm-agent-soft-one-so-pin").await?;
    assert_eq!(kept.metadata.owner_references, None);
    assert_eq!(kept.metadata.deletion_timestamp, None);
    assert_eq!((kept.metadata.uid, kept.data), (made.metadata.uid, made.data));
    // No blank token was found by the other agent.
    let never = stage.api::<Secret>().get_opt("hsm-agent-soft-two-so-pin").await?;
    assert!(never.is_none());
    stage.kill(running).await
}

#[tokio::test]
async fn what_an_agent_says_of_itself_is_told_on_the_device() -> Result<()> {
    let stage = Stage::new("phases").await?;
    let (_, running) = stage.start("first").await?;
    device(
        &stage.sandbox,
        "soft",
        fixed(json!([{ "name": "one", "tokenLabel": "one" }])),
    )
    .await?;
    let agent = "hsm-agent-soft-one";
    stage.there::<ConfigMap>(agent).await?;
    let state = |phase: &str, message: &str| {
        let state = json!({ "phase": phase, "message": message, "since": Timestamp::now() });
        json!({ "state": state.to_string() })
    };
    stage
        .record(agent, state("PinRejected", "the PIN is wrong"))
        .await?;
    stage.told("soft", "PinRejected", "the PIN is wrong").await?;
    stage
        .pool("soft-pool", |status| {
            let health = status
                .aggregated_devices
                .first()
                .and_then(|token| token.health.as_deref());
            health == Some("PinRejected")
        })
        .await?;
    stage.kill(running).await
}

#[tokio::test]
async fn pods_of_agents_that_the_kubelet_has_refused_are_removed() -> Result<()> {
    let (stage, _, running) = Stage::serving("refused").await?;
    let pods = stage.api::<Pod>();
    let deployment: Deployment = stage.there(AGENT).await?;
    let labels = deployment
        .spec
        .unwrap()
        .template
        .metadata
        .unwrap()
        .labels
        .unwrap();
    // The Deployment's own pod, once its controller has made it.
    let ours = trustplane_testkit::Select::default().labels(&format!("app={AGENT}"));
    let own =
        trustplane_testkit::eventually(&pods, &ours, DEADLINE, |found| found.keys().next().cloned()).await?;
    let stranger = json!({ "name": "stranger", "labels": labels });
    pod(&stage.sandbox, stranger, "node-1").await?;
    phase(&stage.sandbox, "stranger", "Failed", "UnexpectedAdmissionError").await?;
    let uid = pods.get(&own).await?.metadata.uid;
    phase(&stage.sandbox, &own, "Failed", "UnexpectedAdmissionError").await?;
    wait_for(&pods, &own, DEADLINE, |live| {
        live.is_none_or(|live| live.metadata.deletion_timestamp.is_some() || live.metadata.uid != uid)
    })
    .await?;
    let spared = pods.get("stranger").await?;
    assert_eq!(spared.metadata.deletion_timestamp, None);
    stage.kill(running).await
}

#[tokio::test]
async fn an_object_of_somebody_else_is_left_alone_and_told() -> Result<()> {
    let stage = Stage::new("taken").await?;
    let theirs = serde_json::from_value(
        json!({ "metadata": { "name": "hsm-agent-soft-one" }, "data": { "a": "b" } }),
    )?;
    let records = stage.api::<ConfigMap>();
    records.create(&PostParams::default(), &theirs).await?;
    let (_, running) = stage.start("first").await?;
    device(
        &stage.sandbox,
        "soft",
        fixed(json!([{ "name": "one", "tokenLabel": "one" }])),
    )
    .await?;
    stage.told("soft", "NameTaken", "ConfigMap").await?;
    let spared = records.get("hsm-agent-soft-one").await?;
    assert_eq!(
        (spared.metadata.labels, spared.metadata.owner_references),
        (None, None)
    );
    // It goes on by itself soon after the name is free.
    records
        .delete("hsm-agent-soft-one", &DeleteParams::default())
        .await?;
    stage.there::<Deployment>("hsm-agent-soft-one").await?;
    stage.kill(running).await
}
