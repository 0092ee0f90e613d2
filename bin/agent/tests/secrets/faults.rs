//! What goes wrong on a token, or on the way to it, leaves the Secret as it was, is told once, and heals by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use trustplane_api::hsm::HsmSecret;
use trustplane_pkcs11_shim::pkcs11::CKR_DEVICE_REMOVED;
use trustplane_pkcs11_shim::{Action, Control, Duration as Lasting, Fault};
use trustplane_testkit::Log;
use trustplane_testkit::{DEADLINE, until};

use crate::stage::{PAIRS, Stage, content, owned};
use crate::token::Token;

const NEW: [(&str, &str); 1] = [("password", "new")];
const CERTIFICATE: (&str, &str) = (
    "tls.crt",
    "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
);
const KEY: (&str, &str) = (
    "tls.key",
    "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n",
);

/// An HSMSecret whose location has its name.
fn spec(name: &str) -> Value {
    json!({ "hsmPath": format!("shop/{name}"), "syncInterval": 5 })
}

/// The same for a Secret of a server's certificate.
fn tls(name: &str) -> Value {
    let mut spec = spec(name);
    spec["secretType"] = "kubernetes.io/tls".into();
    spec
}

/// The versions of the Secrets that were delivered.
async fn versions(stage: &Stage) -> Result<BTreeMap<String, Option<String>>> {
    let delivered = ListParams::default().labels("managed-by=hsm-secrets-operator");
    let secrets = stage.secrets().list(&delivered).await?;
    let versions = secrets
        .iter()
        .map(|live| (live.name_any(), live.resource_version()));
    Ok(versions.collect())
}

/// How often each reason was told as a warning about an HSMSecret.
async fn warnings(stage: &Stage, name: &str) -> Result<BTreeMap<String, i32>> {
    let mut told = BTreeMap::new();
    for event in stage.sandbox.api::<Event>().list(&ListParams::default()).await? {
        let about = event.regarding.and_then(|object| object.name);
        if about.as_deref() == Some(name) && event.type_.as_deref() == Some("Warning") {
            let times = event.series.map_or(1, |series| series.count);
            *told.entry(event.reason.unwrap_or_default()).or_default() += times;
        }
    }
    Ok(told)
}

/// Waits until an HSMSecret tells of a fault with these words, in its status and in one event, and checks what else it says.
async fn tells(stage: &Stage, name: &str, sync_status: &str, reason: &str, words: &str) -> Result<()> {
    let status = stage.problem(name, reason).await?;
    assert_eq!(status.sync_status.as_deref(), Some(sync_status), "{name}");
    let text = status.last_error.clone().context("lastError")?;
    assert!(text.contains(words), "{name}: {text}");
    let ready = status.conditions.get("Ready").context("Ready")?;
    assert_eq!(
        (ready.status.into(), &*ready.reason),
        ("False", sync_status),
        "{name}"
    );
    stage.told(name, reason, &text).await?;
    assert_eq!(warnings(stage, name).await?, [(reason.to_owned(), 1)].into());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn w03_w08_faulty_secret_is_told_once_and_leaves_the_secret() -> Result<()> {
    let stage = Stage::new("faults", vec![Token::fragile("a").await?]).await?;
    let token = stage.token();
    for name in ["gone", "broken", "hidden"] {
        token.write(&format!("shop/{name}"), &PAIRS)?;
        stage.apply(name, spec(name)).await?;
    }
    token.write("shop/tls", &[CERTIFICATE, KEY])?;
    stage.apply("tls", tls("tls")).await?;
    let (_, running) = stage.start("first").await?;
    for name in ["gone", "broken", "hidden"] {
        stage.in_sync(name, &PAIRS).await?;
    }
    stage.in_sync("tls", &[CERTIFICATE, KEY]).await?;
    let before = versions(&stage).await?;
    assert_eq!(before.len(), 4, "{before:?}");

    token.delete("shop/gone")?;
    token.write("shop/tls", &[CERTIFICATE])?;
    token.write("shop/half", &[CERTIFICATE])?;
    token.write_object("shop/broken/_metadata", b"{ not metadata")?;
    // One value of two cannot be read: what is left of the secret must not be delivered.
    token.set(&Control {
        unreadable: Some("shop/hidden/password".to_owned()),
        ..Control::default()
    })?;
    stage.apply("late", spec("late")).await?;
    stage.apply("half", tls("half")).await?;
    for (name, sync_status, reason, words) in [
        (
            "late",
            "Pending",
            "NotOnToken",
            "kubectl trustplane hsm create shop/late",
        ),
        (
            "gone",
            "Error",
            "NotOnToken",
            "the Secret stays as it was; write it with kubectl",
        ),
        (
            "broken",
            "Error",
            "SecretUnreadable",
            "token soft/a cannot read it: ",
        ),
        (
            "hidden",
            "Error",
            "SecretUnreadable",
            "token soft/a cannot read it: ",
        ),
        ("tls", "Error", "SecretUnsuitable", "tls.key"),
        (
            "half",
            "Error",
            "SecretUnsuitable",
            "change the secret on the token or spec.secretType",
        ),
    ] {
        tells(&stage, name, sync_status, reason, words).await?;
    }
    assert_eq!(versions(&stage).await?, before, "no Secret is touched");

    token.set(&Control::default())?;
    token.write_object("shop/broken/_metadata", b"{}")?;
    for name in ["gone", "late"] {
        token.write(&format!("shop/{name}"), &NEW)?;
    }
    for name in ["tls", "half"] {
        token.write(&format!("shop/{name}"), &[CERTIFICATE, KEY])?;
        stage.in_sync(name, &[CERTIFICATE, KEY]).await?;
    }
    for (name, pairs) in [
        ("broken", &PAIRS[..]),
        ("hidden", &PAIRS),
        ("gone", &NEW),
        ("late", &NEW),
    ] {
        let status = stage.in_sync(name, pairs).await?;
        assert_eq!(status.last_error, None, "{name}");
        assert_eq!(warnings(&stage, name).await?.len(), 1, "{name}");
    }
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn token_that_is_away_is_told_once_and_heals() -> Result<()> {
    let names = ["unplugged", "killed", "locked"];
    let tokens = vec![
        Token::fragile("unplugged").await?,
        Token::new("killed").await?,
        Token::new("locked").await?,
    ];
    let mut stage = Stage::new("away", tokens).await?;
    for (name, token) in names.iter().zip(&stage.tokens) {
        token.write(&format!("shop/{name}"), &PAIRS)?;
        stage.apply(name, spec(name)).await?;
    }
    let (_, running) = stage.start("first").await?;
    for name in names {
        stage.in_sync(name, &PAIRS).await?;
    }
    let mut before = versions(&stage).await?;

    let removed = Fault::before(1, Action::Answer(CKR_DEVICE_REMOVED)).lasting(Lasting::Always);
    stage.tokens[0].set(&Control::fault(removed))?;
    stage.tokens[1].kill()?;
    stage.tokens[2].kill()?;
    stage.tokens[2].set_pin("000000")?;
    stage.tokens[2].restart_unserved()?;
    for (name, words) in [
        (
            "unplugged",
            "token soft/unplugged cannot be asked: its agent says: ",
        ),
        (
            "killed",
            "token soft/killed cannot be asked: the connection to its agent broke",
        ),
        ("locked", "the PIN is wrong"),
    ] {
        tells(&stage, name, "Error", "TokenUnreachable", words).await?;
        let status = stage.problem(name, "TokenUnreachable").await?;
        let degraded = status.conditions.get("Degraded").context("Degraded")?;
        assert_eq!(
            (degraded.status.into(), &*degraded.reason),
            ("True", "TokenUnreachable")
        );
        let row = &status.device_sync_status[0];
        assert!(!row.online && row.last_error.is_some(), "{row:?}");
    }
    assert_eq!(versions(&stage).await?, before, "no Secret is touched");
    // Whoever deletes a Secret now gets it back with the token.
    let secrets = stage.secrets();
    secrets.delete("killed", &DeleteParams::default()).await?;

    stage.tokens[0].set(&Control::default())?;
    stage.tokens[1].restart()?;
    stage.tokens[2].kill()?;
    stage.tokens[2].mend_pin()?;
    stage.tokens[2].restart()?;
    stage
        .secret("killed", |live| content(live) == owned(&PAIRS))
        .await?;
    for name in names {
        let status = stage.in_sync(name, &PAIRS).await?;
        assert!(status.device_sync_status[0].online, "{name}");
        assert_eq!(warnings(&stage, name).await?.len(), 1, "{name}");
    }
    let mut after = versions(&stage).await?;
    assert_ne!(before.remove("killed"), after.remove("killed"));
    assert_eq!(before, after);
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_that_restarts_within_the_patience_is_not_told() -> Result<()> {
    let log = Log::collect()?;
    let (mut stage, _, running) = Stage::with_token("restart").await?;
    stage.kill(running).await?;
    // As long as the capability has it without a test.
    stage.setup.delivery.patience = Duration::from_secs(15);
    let looks = stage.count_looks();
    let (_, running) = stage.start("second").await?;
    stage.apply("db", spec("db")).await?;
    stage.in_sync("db", &PAIRS).await?;
    let all: Api<HsmSecret> = stage.sandbox.api();
    let before = all.get("db").await?.resource_version();
    let secrets = versions(&stage).await?;

    stage.token_mut().kill()?;
    until("the agent to be missed", DEADLINE, || async {
        Ok(log
            .text()
            .contains("an agent did not list its token")
            .then_some(()))
    })
    .await?;
    looks.more(10).await?;
    stage.token_mut().restart()?;
    until("the agent to be asked again", DEADLINE, || async {
        Ok((stage.token().lists()? > 0).then_some(()))
    })
    .await?;
    looks.more(10).await?;
    assert_eq!(
        all.get("db").await?.resource_version(),
        before,
        "the status did not move"
    );
    assert_eq!(versions(&stage).await?, secrets);
    assert_eq!(warnings(&stage, "db").await?, BTreeMap::new());
    stage.kill(running).await
}
