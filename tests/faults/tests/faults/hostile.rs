//! Objects that mean harm hurt nobody but themselves.

use anyhow::Result;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trustplane_sample::api::{Mirror, MirrorSpec, PANIC, PATIENCE};
use trustplane_testkit::proxy::Match;
use trustplane_testkit::{DEADLINE, Select, eventually, wait_for, wait_for_some};

use crate::stage::{SOURCE_NAME, Stage, single};

#[tokio::test]
async fn a_panic_in_one_key_hurts_no_other() -> Result<()> {
    let stage = Stage::new("panic").await?;
    let (_, mut running) = stage.start(&single(), "binary").await?;
    stage.set_source("0").await?;
    for n in 0..8 {
        let mut bad = Mirror::new(
            &format!("bad-{n}"),
            MirrorSpec {
                source: SOURCE_NAME.into(),
                targets: vec![format!("b{n}")],
            },
        );
        bad.metadata.annotations = Some([(PANIC.to_owned(), "now".to_owned())].into());
        stage.mirrors().create(&PostParams::default(), &bad).await?;
    }
    // More bad keys than workers, and still there is somebody to serve the good one.
    stage.mirror("good", &["a"]).await?;
    stage.says("good", "InStep").await?;
    stage.assert_follows("a", "1").await?;
    let events: Api<Event> = stage.sandbox.api();
    let told = |event: &Event| event.reason.as_deref() == Some("Panic");
    eventually(&events, &Select::default(), DEADLINE, |found| {
        (found.values().filter(|event| told(event)).count() == 8).then_some(())
    })
    .await?;
    running.terminate()?;
    assert!(
        running.ended(DEADLINE).await?.success(),
        "the process did not end well:\n{}",
        running.log()?
    );
    Ok(())
}

#[tokio::test]
async fn hostile_names_reach_no_path_but_their_own() -> Result<()> {
    let stage = Stage::new("names").await?;
    let (instance, running) = stage.start(&single(), "binary").await?;
    stage.set_source("0").await?;
    let names = [
        "../../kube-system/secrets/x",
        "a%2f..%2fb",
        "a?force=true",
        "a\r\nX-Evil: 1",
        "{{.}}",
        "$(reboot)",
        "ünï",
        "",
        ".",
        "..",
    ];
    for (n, name) in names.iter().enumerate() {
        stage.mirror(&format!("m{n}"), &[name]).await?;
    }
    let spec = MirrorSpec {
        source: "../secrets/source".into(),
        targets: vec!["fine".into()],
    };
    stage
        .mirrors()
        .create(&PostParams::default(), &Mirror::new("source", spec))
        .await?;
    for n in 0..names.len() {
        stage.says(&format!("m{n}"), "TargetInvalid").await?;
    }
    stage.says("source", "SourceMissing").await?;
    stage.mirror("good", &["a"]).await?;
    stage.in_step("a", "0").await?;
    let home = format!("/namespaces/{}/", stage.sandbox.namespace());
    for entry in stage.proxy.requests(&Match::any().by(&instance)) {
        let path = &entry.request.path;
        let plain = path
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/-._".contains(c));
        assert!(
            plain && !path.contains(".."),
            "a hostile name got into a path: {path}"
        );
        assert!(
            path.contains(&home) || !entry.request.verb.is_write(),
            "a write outside the namespace: {path}"
        );
    }
    for line in running.log()?.lines() {
        let parsed: serde_json::Value = serde_json::from_str(line)?;
        assert!(parsed.is_object(), "a hostile name broke a log line: {line}");
    }
    running.kill().await
}

/// The wait counts from the deletion, so a process that is restarted while it waits does not begin anew.
#[tokio::test]
async fn a_copy_that_others_hold_back_does_not_hold_its_mirror_for_ever() -> Result<()> {
    let stage = Stage::new("held").await?;
    let (_, first) = stage.start(&single(), "first").await?;
    stage.set_source("0").await?;
    stage.mirror("m", &["a"]).await?;
    stage.in_step("a", "0").await?;
    let (mirrors, secrets) = (stage.mirrors(), stage.secrets());
    let by_hand = PatchParams::default();
    let patience = json!({ "metadata": { "annotations": { PATIENCE: "3" } } });
    mirrors.patch("m", &by_hand, &Patch::Merge(patience)).await?;
    let hold = |by: Value| Patch::Merge(json!({ "metadata": { "finalizers": by } }));
    secrets
        .patch("a", &by_hand, &hold(json!(["test.trustplane.io/held"])))
        .await?;
    mirrors.delete("m", &DeleteParams::default()).await?;
    wait_for_some(&secrets, "a", DEADLINE, |copy| {
        copy.metadata.deletion_timestamp.is_some()
    })
    .await?;
    first.kill().await?;

    let (_, second) = stage.start(&single(), "second").await?;
    wait_for(&mirrors, "m", DEADLINE, |mirror| mirror.is_none()).await?;
    secrets.patch("a", &by_hand, &hold(json!(null))).await?;
    second.kill().await
}
