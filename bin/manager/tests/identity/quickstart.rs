//! What is filled in at admission, and that a dry run gets the same answer.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use trustplane_api::identity::names::SINGLETON;
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM};
use trustplane_plan::Kind;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{DEADLINE, until};

use crate::hand::{Answer, Ask, Hand};
use crate::stage::{KINDS, QUICKSTART, Stage, condition, documents, record};

const SEED: &str = include_str!("../../../../docs/guide/examples/identity/seed.yaml");
const UPSTREAM_0: &str = include_str!("../../../../docs/guide/examples/identity/upstream-0.x.yaml");
const UPSTREAM_1: &str = include_str!("../../../../docs/guide/examples/identity/upstream-1.x.yaml");

/// What the operands of the quickstart inherit.
fn inherited(kind: &Kind) -> Value {
    match kind {
        kind if *kind == SPIFFE_CSI_DRIVER => Value::Null,
        kind if *kind == SPIRE_OIDC => {
            json!({ "trustDomain": "example.org", "jwtIssuer": "https://oidc-discovery.example.org" })
        }
        _ => {
            json!({ "trustDomain": "example.org", "clusterName": "demo", "bundleConfigMap": "spire-bundle" })
        }
    }
}

#[tokio::test]
async fn operands_are_filled_when_an_editor_applies_the_quickstart() -> Result<()> {
    let (stage, _manager) = Stage::with_manager("quickstart").await?;
    // A person needs the shipped role and no right to objects that the controller makes.
    let editor = stage.editor().await?;
    let mut objects = documents(QUICKSTART)?.into_iter();
    let (kind, spec) = objects.next().context("an empty quickstart")?;
    assert_eq!(kind, ZTWIM);
    let ztwim = applied(&editor, &kind, &spec).await?;
    assert_eq!(ztwim.body["spec"]["bundleConfig"]["name"], "spire-bundle");
    assert_eq!(ztwim.body["spec"]["bundleConfigMap"], "spire-bundle");
    dry_runs_write_nothing(&stage, &editor).await?;

    let owner = json!([{
        "apiVersion": "operator.openshift.io/v1alpha1", "kind": "ZeroTrustWorkloadIdentityManager", "name": "cluster",
        "uid": ztwim.body["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    for (kind, spec) in objects {
        let made = applied(&editor, &kind, &spec).await?;
        assert_eq!(made.warnings, [""; 0], "{}", kind.kind);
        assert_eq!(made.body["metadata"]["ownerReferences"], owner, "{}", kind.kind);
        assert_eq!(record(&made.body), inherited(&kind), "{}", kind.kind);
        for (field, value) in inherited(&kind).as_object().into_iter().flatten() {
            assert_eq!(made.body["spec"][field], *value, "{}", kind.kind);
        }
    }
    // The same manifests again take nothing of it away.
    for (kind, spec) in documents(QUICKSTART)? {
        let applied = Ask::apply(&kind, spec.clone());
        keeps_what_is_inherited(&stage, &editor, &kind, |_| applied.clone()).await?;
        keeps_what_is_inherited(&stage, &editor, &kind, |present| {
            Ask::replace(&kind, spec.clone(), present)
        })
        .await?;
    }
    samples(&stage, &editor).await?;
    stage.assert_nothing_denied().await
}

/// The object is as it was after this request, although the request says nothing of what is inherited.
async fn keeps_what_is_inherited(
    stage: &Stage,
    hand: &Hand,
    kind: &Kind,
    again: impl Fn(&Value) -> Ask,
) -> Result<()> {
    let of = |object: &Value| {
        let metadata = &object["metadata"];
        let metadata = [
            &metadata["generation"],
            &metadata["ownerReferences"],
            &record(object),
        ]
        .map(Value::clone);
        (object["spec"].clone(), metadata)
    };
    // The manager may write a status meanwhile.
    let passed = until("the version to be the present one", DEADLINE, || async {
        let before = stage.read(kind).await?;
        let answer = hand.ask(&again(&before)).await?;
        Ok((answer.code != 409).then_some((before, answer)))
    });
    let (before, answer) = passed.await?;
    assert_eq!(of(&answer.passed()?.body), of(&before), "{}", kind.kind);
    Ok(())
}

/// The manifests of the seed and of upstream, in the namespace of the test.
async fn samples(stage: &Stage, hand: &Hand) -> Result<()> {
    for sample in [SEED, UPSTREAM_0, UPSTREAM_1] {
        for kind in KINDS.into_iter().rev() {
            stage.remove(&kind).await?;
        }
        let sample = sample.replace("zero-trust-workload-identity-manager", stage.sandbox.namespace());
        for (kind, mut spec) in documents(&sample)? {
            if kind == ZTWIM && spec["trustDomain"].is_null() {
                // What 0.x did not know: rule 1 asks for it.
                let denied = hand.ask(&Ask::create(&kind, spec.clone())).await?;
                assert!(
                    denied.failed(422)?.contains("TrustDomain required in ZTWIM"),
                    "{}",
                    denied.body
                );
                spec["trustDomain"] = json!("apps.example.org");
                spec["clusterName"] = json!("west-1");
            }
            let is_said = |field: &str| kind != ZTWIM && spec[field].is_string();
            let fields = ["trustDomain", "clusterName", "bundleConfigMap"];
            let deprecated = fields.into_iter().filter(|field| is_said(field)).count();
            let made = applied(hand, &kind, &spec).await?;
            let of_deprecated = made
                .warnings
                .iter()
                .filter(|warning| warning.contains("is deprecated: use spec."));
            assert_eq!(of_deprecated.count(), deprecated, "{:?}", made.warnings);
            let owners = made.body["metadata"]["ownerReferences"].as_array();
            assert_eq!(owners.is_some(), kind != ZTWIM, "{}", made.body);
        }
    }
    Ok(())
}

/// Applies an object. A dry run before that has the same answer.
async fn applied(hand: &Hand, kind: &Kind, spec: &Value) -> Result<Answer> {
    let ask = Ask::apply(kind, spec.clone());
    let rehearsed = hand.rehearse(&ask).await?;
    assert_eq!(
        hand.read(kind).await?,
        None,
        "a dry run has made the {}",
        kind.kind
    );
    let made = hand.ask(&ask).await?.passed()?;
    assert_eq!(rehearsed.essence(), made.essence());
    Ok(made)
}

/// Dry runs that pass, that pass with warnings, and that are denied.
async fn dry_runs_write_nothing(stage: &Stage, hand: &Hand) -> Result<()> {
    let at_rest = |live: &Value| {
        condition(live, "Ready")
            .is_some_and(|told| told["observedGeneration"] == live["metadata"]["generation"])
    };
    stage.until(&ZTWIM, SINGLETON, at_rest).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let filled = hand
        .rehearse(&Ask::create(&SPIRE_SERVER, json!({})))
        .await?
        .passed()?;
    assert_eq!(record(&filled.body), inherited(&SPIRE_SERVER));
    let equal = Ask::create(
        &SPIRE_AGENT,
        json!({ "trustDomain": "example.org", "clusterName": "demo" }),
    );
    let ztwim = "of ZeroTrustWorkloadIdentityManager/cluster";
    assert_eq!(
        hand.rehearse(&equal).await?.passed()?.warnings,
        [
            format!("spec.trustDomain of SpireAgent is deprecated: use spec.trustDomain {ztwim}"),
            format!("spec.clusterName of SpireAgent is deprecated: use spec.clusterName {ztwim}"),
        ]
    );
    let dots = hand
        .rehearse(&Ask::edit(&ZTWIM, json!({ "clusterName": "eu.demo" })))
        .await?
        .passed()?;
    assert_eq!(
        dots.warnings,
        [r#"spec.clusterName "eu.demo" has dots: a name without is understood by more tools"#]
    );
    let other = Ask::create(&SPIRE_SERVER, json!({ "trustDomain": "other.org" }));
    let denied = hand.rehearse(&other).await?;
    let words = "spec.trustDomain: \"other.org\" of SpireServer/cluster differs from";
    assert!(denied.failed(422)?.contains(words), "{}", denied.body);
    let audit = mark.since().await?.by_account(&stage.account).except("events");
    audit.assert_silent();
    for kind in [SPIRE_SERVER, SPIRE_AGENT] {
        assert_eq!(hand.read(&kind).await?, None, "{}", kind.kind);
    }
    Ok(())
}
