//! Values of tokens go into Secrets, and nowhere else.

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use serde_json::json;
use trustplane_api::hsm::{HsmPool, HsmSecret};
use trustplane_testkit::Log;
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule};

use crate::delivery::seed;
use crate::stage::Stage;
use crate::token::Token;

#[tokio::test(flavor = "multi_thread")]
async fn values_are_nowhere_but_in_secrets() -> Result<()> {
    let log = Log::collect()?;
    let canaries = ["delivered", "unsuitable", "contested", "unreadable"].map(Canary::new);
    let [delivered, unsuitable, contested, unreadable] = &canaries;
    let tokens = vec![Token::new("a").await?, Token::new("b").await?];
    let stage = Stage::new("leaks", tokens).await?;
    let [first, second] = &stage.tokens[..] else {
        anyhow::bail!("two tokens");
    };
    first.write("shop/db", &[("password", delivered.value())])?;
    // Data that does not suit its type, copies that differ, and metadata that is a value by mistake.
    first.write("shop/tls", &[("tls.crt", unsuitable.value())])?;
    first.write("shop/both", &[("password", contested.value())])?;
    second.write("shop/both", &[("password", "another")])?;
    first.write_object("shop/odd/password", unreadable.value().as_bytes())?;
    first.write_object("shop/odd/_metadata", unreadable.value().as_bytes())?;

    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    // The API server refuses the Secret at first: the error must not quote what was sent.
    let writes = Match::writes().resource("secrets").name("db-credentials");
    let refused = proxy.add(Rule::new(writes, Fault::Answer(Answer::invalid())).times(2));
    let (_, running) = stage.start_through("first", &proxy).await?;
    stage.apply("db", seed()).await?;
    for (name, path, secret_type) in [
        ("tls", "shop/tls", "kubernetes.io/tls"),
        ("both", "shop/both", "Opaque"),
        ("odd", "shop/odd", "Opaque"),
    ] {
        stage
            .apply(name, json!({ "hsmPath": path, "secretType": secret_type }))
            .await?;
    }
    for (name, reason) in [
        ("tls", "SecretUnsuitable"),
        ("both", "CopiesDiffer"),
        ("odd", "SecretUnreadable"),
    ] {
        stage.problem(name, reason).await?;
        stage.told(name, reason, "").await?;
    }
    stage.in_sync("db", &[("password", delivered.value())]).await?;
    assert_eq!(refused.count(), 2, "the write was refused before");
    stage.told("db", "SecretDelivered", "").await?;
    stage.kill(running).await?;

    let every = ListParams::default();
    let mut search = Search::for_canaries(&canaries);
    search.text("the manager's log", &log.text());
    for token in &stage.tokens {
        search.text("an agent's log", &token.log());
        search.text("an agent's metrics", &token.metrics()?);
    }
    let sandbox = &stage.sandbox;
    search.json("events", &sandbox.api::<Event>().list(&every).await?.items)?;
    search.json(
        "HSMSecrets",
        &sandbox.api::<HsmSecret>().list(&every).await?.items,
    )?;
    search.json("HSMPools", &sandbox.api::<HsmPool>().list(&every).await?.items)?;
    search.json(
        "ConfigMaps",
        &sandbox.api::<ConfigMap>().list(&every).await?.items,
    )?;
    let secrets = sandbox.api::<Secret>().list(&every).await?;
    let metadata: Vec<_> = secrets.iter().map(|secret| &secret.metadata).collect();
    search.json("the metadata of Secrets", &metadata)?;
    for entry in proxy.requests(&Match::writes().except(&["secrets"])) {
        search.bytes(&entry.request.to_string(), &entry.body);
    }
    search.assert_clean();
    Ok(())
}
