//! Admission, end to end: the real binary judges what the API server asks it by URL.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trustplane_kit::admission::{Effect, Webhook};
use trustplane_sample::api::{Mirror, MirrorSpec};
use trustplane_sample::{admit, capability};
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{DEADLINE, Instance, Process, Program, on_writes_of, until, wait_for_some};

use crate::stage::{SOURCE_NAME, Stage};

const NAME: &str = "sample";

/// Where a process serves its webhooks, as its log says.
pub async fn address(running: &Process) -> Result<SocketAddr> {
    until("the address of the webhooks", DEADLINE, || async {
        let log = running.log()?;
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let serving = lines.rfind(|line| line["message"] == "serving webhooks");
        let address = serving.and_then(|line| line["address"].as_str()?.parse().ok());
        Ok(address)
    })
    .await
    .with_context(|| running.log().unwrap_or_default())
}

/// Configures these webhooks, each to be called at its address, as the chart does: without a bundle.
pub async fn configure(stage: &Stage, calls: &[(Webhook, SocketAddr)]) -> Result<()> {
    let entries = |effect: Effect| -> Vec<_> {
        let calls = calls.iter().filter(|(webhook, _)| webhook.effect == effect);
        calls
            .map(|(webhook, at)| trustplane_testkit::Webhook {
                name: webhook.name.clone(),
                url: format!("https://{at}{}", webhook.path),
                ca_bundle: None,
                rule: on_writes_of(&webhook.group, &webhook.versions[0], &webhook.resources[0]),
                match_conditions: serde_json::json!(webhook.match_conditions),
            })
            .collect()
    };
    let sandbox = &stage.sandbox;
    sandbox
        .register_validating(NAME, &entries(Effect::Validating))
        .await?;
    sandbox
        .register_mutating(NAME, &entries(Effect::Mutating))
        .await?;
    Ok(())
}

/// Waits until every entry has a bundle, and the API server calls by it.
pub async fn in_force(stage: &Stage) -> Result<()> {
    let name = stage.sandbox.unique(NAME);
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(stage.sandbox.client());
    wait_for_some(&validating, &name, DEADLINE, |live| {
        let mut entries = live.webhooks.iter().flatten();
        entries.all(|entry| entry.client_config.ca_bundle.is_some())
    })
    .await?;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(stage.sandbox.client());
    wait_for_some(&mutating, &name, DEADLINE, |live| {
        let mut entries = live.webhooks.iter().flatten();
        entries.all(|entry| entry.client_config.ca_bundle.is_some())
    })
    .await?;
    // The API server learns of both by watches of its own.
    until("the webhooks to be in force", DEADLINE, || async {
        let refused = create(stage, "probe", "x", &["x"], true).await;
        let told = refused.err().unwrap_or_default();
        let ordered = create(stage, "probe", "x", &["z", "y"], true).await;
        let in_force = told.contains("denied the request")
            && ordered.is_ok_and(|mirror| mirror.spec.targets == ["y", "z"]);
        Ok(in_force.then_some(()))
    })
    .await
}

/// Makes a mirror; else what the user is told.
async fn create(
    stage: &Stage,
    name: &str,
    source: &str,
    targets: &[&str],
    dry_run: bool,
) -> Result<Mirror, String> {
    let spec = MirrorSpec {
        source: source.to_owned(),
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
    };
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    let made = stage.mirrors().create(&params, &Mirror::new(name, spec)).await;
    made.map_err(|error| match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        other => other.to_string(),
    })
}

/// All webhooks of the sample, at one address.
pub fn all_at(at: SocketAddr) -> Vec<(Webhook, SocketAddr)> {
    let webhooks = (capability().webhooks)().into_iter();
    webhooks.map(|webhook| (webhook, at)).collect()
}

/// A stage with a binary whose webhooks are in force.
async fn start(name: &str) -> Result<(Stage, Instance, Process)> {
    let stage = Stage::serving(name, NAME).await?;
    let program = stage.server(NAME).arg("--leader-elect=false");
    let (instance, running) = stage.start(&program, "only").await?;
    configure(&stage, &all_at(address(&running).await?)).await?;
    in_force(&stage).await?;
    Ok((stage, instance, running))
}

#[tokio::test]
async fn mirrors_are_checked_live_and_put_in_order() -> Result<()> {
    let (stage, _, running) = start("admit").await?;
    stage.set_source("one").await?;
    let made = create(&stage, "m", SOURCE_NAME, &["b", "a", "b"], false).await;
    assert_eq!(made.map_err(anyhow::Error::msg)?.spec.targets, ["a", "b"]);
    // At once: the store of the process need not know the first mirror yet.
    let told = create(&stage, "n", "a", &["c"], false).await.unwrap_err();
    assert_eq!(
        told,
        "422 admission webhook \"chains.mirrors.test.trustplane.io\" denied the request: spec.source: must not be a \
         copy, but the mirror m keeps it as one"
    );
    stage.says("m", "InStep").await?;
    let chain = Patch::Merge(json!({ "spec": { "targets": [SOURCE_NAME] } }));
    let refused = stage.mirrors().patch("m", &PatchParams::default(), &chain).await;
    let told = refused.unwrap_err().to_string();
    assert!(
        told.contains("spec.targets: must not contain the source"),
        "{told}"
    );
    running.kill().await
}

#[tokio::test]
async fn a_dry_run_is_judged_the_same_and_nothing_is_written() -> Result<()> {
    let (stage, instance, running) = start("admit-dry").await?;
    stage.set_source("one").await?;
    stage.mirror("m", &["a"]).await?;
    stage.says("m", "InStep").await?;
    stage.assert_follows("a", "two").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    for _ in 0..3 {
        let told = create(&stage, "n", "a", &["c"], true).await.unwrap_err();
        assert!(told.contains("the mirror m keeps it"), "{told}");
        let made = create(&stage, "n", SOURCE_NAME, &["d", "c"], true).await;
        assert_eq!(made.map_err(anyhow::Error::msg)?.spec.targets, ["c", "d"]);
    }
    mark.since().await?.by(&instance).except("events").assert_silent();
    running.kill().await
}

/// Webhooks without a configuration: nothing to keep, and nothing to complain about.
#[tokio::test]
async fn without_a_configuration_there_is_silence() -> Result<()> {
    let stage = Stage::serving("admit-none", NAME).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let program = stage.server(NAME).arg("--leader-elect=false");
    let (instance, running) = stage.start(&program, "only").await?;
    address(&running).await?;
    stage.set_source("one").await?;
    stage.mirror("m", &["a"]).await?;
    stage.assert_follows("a", "two").await?;
    let audit = mark.since().await?.by(&instance);
    let authority = format!("{}-ca", stage.sandbox.unique(NAME));
    let secrets = audit.of("secrets");
    let filled = secrets
        .writes()
        .iter()
        .filter(|write| write.name() == authority)
        .count();
    assert_eq!(filled, 1, "{}", audit.story());
    for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        audit.of(kind).assert_silent();
    }
    let log = running.log()?;
    assert!(!log.contains("\"WARN\"") && !log.contains("\"ERROR\""), "{log}");
    running.kill().await
}

#[tokio::test]
async fn two_replicas_answer_under_one_bundle_and_the_next_leader_keeps_it() -> Result<()> {
    let stage = Stage::serving("admit-two", NAME).await?;
    let (_, first) = stage.start(&stage.server(NAME), "first").await?;
    let (_, second) = stage.start(&stage.server(NAME), "second").await?;
    let (one, other) = (address(&first).await?, address(&second).await?);
    let calls = [
        (admit::placement(), one),
        (admit::chains(), other),
        (admit::order(), other),
    ];
    configure(&stage, &calls).await?;
    // Every write asks both: each shows a certificate of its own, and one bundle vouches for them.
    in_force(&stage).await?;

    first.kill().await?;
    configure(&stage, &all_at(other)).await?;
    in_force(&stage).await?;
    // Whoever leads now puts back what a hand has changed.
    let api: Api<ValidatingWebhookConfiguration> = Api::all(stage.sandbox.client());
    let name = stage.sandbox.unique(NAME);
    let bundle = |live: &ValidatingWebhookConfiguration| -> Option<ByteString> {
        live.webhooks.as_ref()?.first()?.client_config.ca_bundle.clone()
    };
    let kept = bundle(&api.get(&name).await?).context("find the bundle")?;
    let edit = json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]);
    let edit = Patch::<()>::Json(serde_json::from_value(edit)?);
    api.patch(&name, &PatchParams::default(), &edit).await?;
    wait_for_some(&api, &name, DEADLINE, |live| bundle(live).as_ref() == Some(&kept)).await?;
    second.kill().await
}

/// Nobody has named capabilities, so those run that can. One whose webhooks could not be served cannot.
#[tokio::test]
async fn a_capability_whose_webhooks_lack_rights_does_not_run() -> Result<()> {
    let stage = Stage::new("admit-poor").await?;
    let program = Program::new(env!("CARGO_BIN_EXE_sample-manager"))
        .arg("--admin-bind-address=127.0.0.1:0")
        .arg("--webhook-bind-address=127.0.0.1:0")
        .arg("--leader-elect=false")
        .arg("--log-format=json");
    let (_, running) = stage.start(&program, "poor").await?;
    let told = until("the choice of capabilities", DEADLINE, || async {
        let log = running.log()?;
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(lines.find_map(|line| {
            let message = line["message"].as_str()?;
            message.strip_prefix("does not run: ").map(str::to_owned)
        }))
    })
    .await?;
    let of = |verb: &str| {
        let kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
        kinds.map(|kind| format!("{verb} admissionregistration.k8s.io/{kind}"))
    };
    let lacking = ["list", "patch", "watch"].map(of).concat().join(", ");
    assert_eq!(told, format!("not permitted: {lacking}"));
    running.kill().await
}
