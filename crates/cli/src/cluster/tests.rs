use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde::Deserialize;
use serde_json::json;
use trustplane_plan::kinds::SECRET;
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::proxy::{Fault, Match, Proxy, Rule, Twist, Verb};
use trustplane_testkit::{Log, Rules, Sandbox};

use super::*;

#[derive(Debug, Deserialize)]
struct Content {
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

#[tokio::test]
async fn a_wrong_answer_about_a_pin_is_neither_shown_nor_taken() -> Result<()> {
    let log = Log::collect()?;
    let canary = Canary::new("PIN");
    let sandbox = Sandbox::new("cli-read").await?;
    let secret = json!({ "metadata": { "name": "pin" }, "stringData": { "pin": canary.value() } });
    sandbox
        .api::<Secret>()
        .create(&PostParams::default(), &serde_json::from_value(secret)?)
        .await?;
    let proxy = Proxy::start(sandbox.plane()).await?;
    let rules = Rules::default().allow("", "secrets", &["get"]);
    let person = sandbox.instance("person", &rules).await?.through(&proxy);
    let cluster = Cluster::of(person.client()?, sandbox.namespace());
    let pin = ObjectRef::new(Some(sandbox.namespace()), "pin");
    let mut search = Search::for_canaries([&canary]);
    for twist in Twist::ALL {
        let reads = Match::verb(Verb::Get).resource("secrets");
        proxy.add(Rule::new(reads, Fault::Twist(twist)).once());
        let obstacle = cluster.read::<Content>(&SECRET, &pin).await.unwrap_err();
        assert!(
            obstacle.to_string().contains("is not this object"),
            "{twist:?}: {obstacle}"
        );
        search.text("what is printed", &format!("{obstacle} {obstacle:?}"));
    }
    search.text("the log", &log.text());
    search.assert_clean();
    let found = cluster.read::<Content>(&SECRET, &pin).await;
    assert_eq!(
        found.map(|found| found.data["pin"].clone()),
        Ok(ByteString(canary.value().into()))
    );
    let none = ObjectRef::new(Some(sandbox.namespace()), "none");
    assert_eq!(
        cluster.read::<Content>(&SECRET, &none).await.map(drop),
        Err(Obstacle::Failed("it does not exist".to_owned()))
    );
    Ok(())
}
