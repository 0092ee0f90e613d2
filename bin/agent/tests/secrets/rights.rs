//! Least power: what is granted for HSMSecrets, their Secrets and the claims of locations is used, and nothing else is needed.

use anyhow::Result;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trustplane_hsm_controller::rights;
use trustplane_kit::rights::Place;
use trustplane_testkit::audit::{Mark, granted};
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule};
use trustplane_testkit::{ControlPlane, Rules};

use crate::delivery::seed;
use crate::stage::{PAIRS, Stage, content, owned};
use crate::token::Token;

/// As many keys as before: the event says the same.
const SECOND: [(&str, &str); 2] = [("password", "second"), ("username", "admin")];

#[tokio::test(flavor = "multi_thread")]
async fn rights_used_are_rights_granted() -> Result<()> {
    // From the beginning: the CA and the key of the installation are made once.
    let mark = Mark::now(&ControlPlane::shared().await?).await?;
    let stage = Stage::new("rights", vec![Token::new("a").await?]).await?;
    for path in ["shop/db", "shop/other"] {
        stage.token().write(path, &PAIRS)?;
    }
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    // A server that does not stream lists is listed by pages: the right to list is for that.
    for resource in ["hsmsecrets", "secrets", "configmaps"] {
        let streams = Match::streamed_lists().resource(resource);
        proxy.add(Rule::new(streams, Fault::Answer(Answer::invalid())));
    }
    let (_, running) = stage.start_through("first", &proxy).await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    // The claim of the second location changes the ConfigMap that the first one has made.
    stage.apply("other", json!({ "hsmPath": "shop/other" })).await?;
    stage.in_sync("other", &PAIRS).await?;
    // Whoever adds a key holds its field, which becomes ours: only a look at the live Secret shows that.
    let edit = json!({ "stringData": { "added": "by hand" } });
    let (secrets, hand) = (stage.secrets(), PatchParams::default());
    secrets
        .patch("db-credentials", &hand, &Patch::Merge(&edit))
        .await?;
    stage
        .secret("db-credentials", |live| content(live) == owned(&PAIRS))
        .await?;
    // The next manager has the same to tell, and joins the event of the first one.
    stage.kill(running).await?;
    let (_, running) = stage.start_through("second", &proxy).await?;
    stage.token().write("shop/db", &SECOND)?;
    stage.in_sync("db", &SECOND).await?;
    stage.told_again("db", "SecretDelivered").await?;
    stage.delete("db").await?;
    stage.kill(running).await?;

    let report = mark.since().await?.rights(&stage.account);
    assert!(report.beyond.is_empty(), "{report}");
    // Those on HSMDevices and agents are used where tokens come and go: `rights` among the tests of the controller.
    let delivery = granted(&Rules {
        cluster: Vec::new(),
        namespaced: [rights().of(Place::Tenants), rights().of(Place::Home)].concat(),
    });
    let unused: Vec<_> = report.unused.intersection(&delivery).collect();
    assert!(unused.is_empty(), "{report}");
    Ok(())
}
