//! The manager dies at each of its writes. Whoever comes next brings HSMSecret and Secret to the same end.

use std::sync::Arc;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use trustplane_api::hsm::HsmSecret;
use trustplane_api::hsm::names::LOCATIONS;
use trustplane_hsm_controller::{Setup, run_alone};
use trustplane_kit::controller::Options;
use trustplane_kit::watch::Tuning;
use trustplane_plan::FINGERPRINT;
use trustplane_testkit::crash::{InProcess, Picture, Scenario};
use trustplane_testkit::proxy::Moment;
use trustplane_testkit::{DEADLINE, Rules, Sandbox, wait_for};

use crate::stage::{PAIRS, Stage, apply, in_sync, rules};
use crate::token::Token;

const SECOND: [(&str, &str); 1] = [("password", "second")];

/// The capability for the HSMSecrets of the namespace that an instance is from. Tokens and claims are at home.
fn capability(setup: Setup, options: Options) -> InProcess {
    InProcess::new(move |mut config| {
        let mut setup = setup.clone();
        let home = setup.delivery.operator.namespace.clone();
        let tenant = std::mem::replace(&mut config.default_namespace, home);
        setup.delivery.namespaces = [tenant].into();
        let run = run_alone(config, setup, options.clone(), Tuning::default(), None);
        async move { run.await.map_err(|error| anyhow::anyhow!("{error}")) }
    })
}

/// The secret of each run is at a place of its own, and has a name of the same length everywhere.
fn location(sandbox: &Sandbox) -> String {
    format!("shop/{}", sandbox.namespace())
}

fn spec(sandbox: &Sandbox) -> Value {
    json!({ "hsmPath": location(sandbox), "secretName": "db-credentials", "syncInterval": 5 })
}

async fn delete(sandbox: &Sandbox) -> Result<()> {
    let all: Api<HsmSecret> = sandbox.api();
    all.delete("db", &DeleteParams::default()).await?;
    wait_for(&all, "db", DEADLINE, |live| live.is_none()).await?;
    let left = sandbox.api::<Secret>().get_opt("db-credentials").await?;
    assert!(left.is_none(), "the Secret goes before the HSMSecret");
    Ok(())
}

/// An HSMSecret is made, its secret changes on the token, it is deleted and made again.
fn scenario(name: &'static str, token: Token) -> Scenario {
    let token = Arc::new(token);
    let edited = token.clone();
    let picture = Picture::default()
        .kind::<HsmSecret>()
        .kind::<Secret>()
        // Times, and what has the name of the namespace in it or a key of the namespace.
        .without("hsm.j5t.io/synced-at")
        .without("lastSyncTime")
        .without("hsmPath")
        .without("hsm-path")
        .without(FINGERPRINT);
    let everywhere = Rules {
        cluster: rules().namespaced,
        namespaced: Vec::new(),
    };
    Scenario::new(name, everywhere, picture)
        .phase(move |sandbox| {
            let token = token.clone();
            Box::pin(async move {
                token.write(&location(sandbox), &PAIRS)?;
                apply(sandbox, "db", spec(sandbox)).await?;
                in_sync(sandbox, "db", &PAIRS).await.map(drop)
            })
        })
        .phase(move |sandbox| {
            let token = edited.clone();
            Box::pin(async move {
                token.write(&location(sandbox), &SECOND)?;
                in_sync(sandbox, "db", &SECOND).await.map(drop)
            })
        })
        .phase(|sandbox| {
            Box::pin(async move {
                delete(sandbox).await?;
                apply(sandbox, "db", spec(sandbox)).await?;
                in_sync(sandbox, "db", &SECOND).await.map(drop)
            })
        })
}

async fn crash(name: &'static str, moment: Moment) -> Result<()> {
    let mut stage = Stage::new(name, vec![Token::new("a").await?]).await?;
    let subject = capability(stage.setup.clone(), stage.options.clone());
    let token = stage.tokens.remove(0);
    let report = scenario(name, token)
        .crash_at_every_write(&subject, moment)
        .await?;
    // Claim; twice a finalizer, a Secret and a status; a changed Secret and its status; a Secret and a finalizer that go.
    assert!(
        report.crashes >= 11,
        "only {} writes were counted",
        report.crashes
    );
    assert_eq!(report.end.as_array().map(Vec::len), Some(2), "{:#}", report.end);
    let claims = stage.sandbox.api::<ConfigMap>().get(LOCATIONS).await?;
    let claims = claims.data.context("claims")?;
    // The undisturbed run, and one for each write.
    assert!(claims.len() > report.crashes, "{claims:?}");
    for (namespace, paths) in claims {
        assert_eq!(paths, format!("shop/{namespace}\n"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_write() -> Result<()> {
    crash("delivery-crash-after", Moment::After).await
}

#[tokio::test(flavor = "multi_thread")]
async fn before_every_write() -> Result<()> {
    crash("delivery-crash-before", Moment::Before).await
}
