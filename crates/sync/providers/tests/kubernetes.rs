//! The provider `kubernetes` on a real API server: what a path may name, and what an answer may be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::json;
use trustplane_kit::watch::{Tuning, Watches};
use trustplane_process::metrics::Metrics;
use trustplane_sync_core::data::Payload;
use trustplane_sync_core::fetch::FetchError;
use trustplane_sync_providers::kubernetes::{CONSENT, Kubernetes};
use trustplane_sync_providers::{Locator, Principal, Provider};
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::proxy::{Fault, Match, Proxy, Rule, Script, Twist, Verb};
use trustplane_testkit::{Log, Rules, Sandbox};

/// So many faults in a row open the breaker that all namespaces share.
const ENOUGH_FOR_THE_BREAKER: usize = 12;

/// A provider behind a proxy, and two Secrets in the namespace that it offers.
struct Bench {
    sandbox: Sandbox,
    proxy: Proxy,
    provider: Kubernetes,
    canaries: [Canary; 2],
    log: Log,
}

impl Bench {
    async fn new(name: &str) -> Result<Self> {
        let log = Log::collect()?;
        let sandbox = Sandbox::new(name).await?;
        let canaries = ["offered value", "value of somebody else"].map(Canary::new);
        let consent = json!({ CONSENT: "shop" });
        for (name, annotations, canary) in [
            ("open", consent, &canaries[0]),
            ("admin", json!({}), &canaries[1]),
        ] {
            let secret = json!({
                "metadata": {"name": name, "annotations": annotations}, "stringData": {"password": canary.value()},
            });
            sandbox
                .api::<Secret>()
                .create(&PostParams::default(), &serde_json::from_value(secret)?)
                .await?;
        }
        let proxy = Proxy::start(sandbox.plane()).await?;
        let rules = Rules::default().allow("", "secrets", &["get", "list", "watch"]);
        let client = sandbox.instance("sync", &rules).await?.through(&proxy).client()?;
        let metrics = Metrics::new();
        let watches = Watches::new(client.clone(), Tuning::default(), &metrics);
        let offered = [sandbox.namespace().to_owned()];
        let called = ("kubernetes".to_owned(), None);
        Ok(Self {
            provider: Kubernetes::new(client, watches, offered, called, &metrics),
            sandbox,
            proxy,
            canaries,
            log,
        })
    }

    async fn fetch(&self, name: &str) -> Result<Payload, FetchError> {
        let locator = Locator {
            path: format!("{}/{name}", self.sandbox.namespace()),
            version: None,
            on_behalf_of: Principal::Namespace("shop".to_owned()),
        };
        let answer = self.provider.fetch(&[locator]).await.remove(0);
        answer.map(|fetched| fetched.payload)
    }

    fn twist(&self, twist: Twist) -> Script {
        let reads = Match::verb(Verb::Get).resource("secrets");
        self.proxy.add(Rule::new(reads, Fault::Twist(twist)))
    }

    /// Nobody else waits for the mistakes of one.
    async fn assert_serves(&self) {
        let Ok(Payload::Map(data)) = self.fetch("open").await else {
            panic!("the provider does not serve")
        };
        assert_eq!(data["password"].expose(), self.canaries[0].value().as_bytes());
    }
}

#[tokio::test]
async fn a_path_that_is_no_name_is_refused_before_any_call() -> Result<()> {
    let bench = Bench::new("odd-path").await?;
    let mut search = Search::for_canaries(&bench.canaries);
    for odd in [
        "?",
        "admin?",
        "open?watch=1",
        "admin#",
        "?limit=500",
        "",
        "open/status",
        "%61dmin",
    ] {
        for _ in 0..ENOUGH_FOR_THE_BREAKER {
            let told = bench.fetch(odd).await.unwrap_err();
            assert!(matches!(told, FetchError::Invalid { .. }), "{odd}: {told}");
            assert!(told.to_string().contains("DNS-1123"), "{odd}: {told}");
            search.text("the event", &told.to_string());
        }
    }
    assert_eq!(bench.proxy.requests(&Match::any()).len(), 0);
    bench.assert_serves().await;
    assert_eq!(bench.fetch("admin").await, Err(FetchError::NotOffered));
    search.text("the log", &bench.log.text());
    search.assert_clean();
    Ok(())
}

#[tokio::test]
async fn an_answer_of_another_kind_is_told_as_such_and_nothing_of_it() -> Result<()> {
    let bench = Bench::new("odd-answer").await?;
    let mut search = Search::for_canaries(&bench.canaries);
    for wrong in Twist::ALL {
        let script = bench.twist(wrong);
        for count in 1..=ENOUGH_FOR_THE_BREAKER {
            let told = bench.fetch("open").await.unwrap_err();
            let expected = FetchError::Invalid {
                what: "the API server's answer is not this Secret".to_owned(),
            };
            assert_eq!(told, expected, "{wrong:?}");
            assert_eq!(script.count(), count, "it is not tried again");
            search.text("the event", &told.to_string());
        }
        script.end();
        // At once: the breaker is closed.
        bench.assert_serves().await;
    }
    search.text("the log", &bench.log.text());
    search.assert_clean();
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_is_away_opens_the_breaker() -> Result<()> {
    let bench = Bench::new("away").await?;
    bench
        .proxy
        .add(Rule::new(Match::verb(Verb::Get).resource("secrets"), Fault::Cut));
    let told = bench.fetch("open").await.unwrap_err();
    assert!(matches!(told, FetchError::Unavailable { .. }), "{told}");
    let tries = bench.proxy.requests(&Match::any()).len();
    let told = bench.fetch("open").await.unwrap_err();
    assert!(told.to_string().contains("failed too often"), "{told}");
    assert_eq!(bench.proxy.requests(&Match::any()).len(), tries);
    Ok(())
}
