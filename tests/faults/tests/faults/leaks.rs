//! No value leaks: canaries are planted in a source, everything goes wrong that can, and then they are searched for.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use trustplane_kit::apply::INSTALLATION_KEY;
use trustplane_sample::api::{Mirror, SOURCE};
use trustplane_testkit::audit::Mark;
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::proxy::{Answer, EventFault, EventMatch, Fault, Match, Rule, Twist, Verb};
use trustplane_testkit::{DEADLINE, Process, until, wait_for};

use crate::stage::{SOURCE_NAME, Stage, remove, single};

/// Plants values as a text, as bytes, and as JSON within a text.
async fn plant(stage: &Stage, canaries: &[Canary; 3]) -> Result<()> {
    let [text, bytes, nested] = canaries;
    let wish = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": SOURCE_NAME, "labels": { SOURCE: "" } },
        "stringData": {
            "value": text.value(),
            "bytes": bytes.value(),
            "nested": json!({ "password": nested.value() }).to_string(),
        },
    });
    let hand = PatchParams::apply("hand-of-the-test").force();
    stage
        .secrets()
        .patch(SOURCE_NAME, &hand, &Patch::Apply(wish))
        .await
        .context("plant the canaries")?;
    Ok(())
}

/// Every way to fail while values are at hand.
fn trouble(stage: &Stage) -> Vec<trustplane_testkit::proxy::Script> {
    let copies = || Match::writes().resource("secrets");
    let reads = || Match::verb(Verb::Get).resource("secrets").name(SOURCE_NAME);
    let rules = [
        Rule::new(copies(), Fault::Answer(Answer::conflict()))
            .skip(1)
            .times(4),
        Rule::new(copies(), Fault::Answer(Answer::internal_error())).times(1),
        Rule::new(copies(), Fault::Answer(Answer::unavailable())).times(1),
        Rule::new(copies(), Fault::Cut).times(1),
        // The last of the writes that fail: this one takes effect, and after it there may be nothing left to write.
        Rule::new(copies(), Fault::CutAnswer).times(1),
        Rule::new(reads(), Fault::CutAnswer).times(1),
        // Answers that are something else, in every way.
        Rule::new(reads(), Fault::Twist(Twist::Truncated)).times(1),
        Rule::new(reads(), Fault::Twist(Twist::List)).times(1),
        Rule::new(reads(), Fault::Twist(Twist::Garbage)).times(1),
        Rule::new(
            Match::verb(Verb::Watch).resource("secrets"),
            Fault::Events(EventMatch::any().name(SOURCE_NAME), EventFault::Cut),
        )
        .once(),
    ];
    rules.into_iter().map(|rule| stage.proxy.add(rule)).collect()
}

/// The admin port, as the log names it.
async fn admin(running: &Process) -> Result<String> {
    until("the address of the admin port", DEADLINE, || async {
        let log = running.log()?;
        let address = log
            .split("127.0.0.1:")
            .nth(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
        Ok(address.map(|port: String| format!("http://127.0.0.1:{port}")))
    })
    .await
}

async fn fetch(base: &str, path: &str) -> Result<String> {
    let client = kube::Client::try_from(kube::Config::new(base.parse()?))?;
    let request = http::Request::get(path).body(Vec::new())?;
    client
        .request_text(request)
        .await
        .with_context(|| format!("read {path} of the admin port"))
}

#[tokio::test]
async fn no_value_shows_anywhere() -> Result<()> {
    let stage = Stage::new("leaks").await?;
    let canaries = ["text", "bytes", "nested value"].map(Canary::new);
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let program = single().arg("--log=trace");
    let (instance, running) = stage.start(&program, "binary").await?;
    // Trouble with the key would end the process, which is not what is looked at here.
    wait_for(&stage.secrets(), INSTALLATION_KEY, DEADLINE, |key| {
        key.is_some_and(|key| key.data.is_some())
    })
    .await?;
    let scripts = trouble(&stage);
    plant(&stage, &canaries).await?;
    stage.mirror("m", &["a"]).await?;
    stage.mirror("n", &["a", "b"]).await?;
    stage.in_step("a", canaries[0].value()).await?;
    for script in &scripts {
        script.fired(1, DEADLINE).await?;
    }
    let admin = admin(&running).await?;
    let mut search = Search::for_canaries(&canaries);
    for path in ["/metrics", "/readyz?verbose", "/debug/state.json"] {
        search.text(path, &fetch(&admin, path).await?);
    }
    search.text("the log", &running.log()?);
    let (mirrors, events): (Api<Mirror>, Api<Event>) = (stage.mirrors(), stage.sandbox.api());
    search.json("the mirrors", &mirrors.list(&ListParams::default()).await?.items)?;
    search.json("the events", &events.list(&ListParams::default()).await?.items)?;
    let copies = stage.secrets().list(&ListParams::default()).await?;
    let metadata: Vec<_> = copies.items.iter().map(|copy: &Secret| &copy.metadata).collect();
    search.json("the metadata of the copies", &metadata)?;
    for entry in stage
        .proxy
        .requests(&Match::writes().except(&["secrets"]).by(&instance))
    {
        search.bytes(&entry.request.to_string(), &entry.body);
    }
    let audit = mark.since().await?.by(&instance);
    let sent: Vec<&Value> = audit
        .events()
        .iter()
        .filter_map(|event| event.request_object.as_ref())
        .collect();
    assert!(!sent.is_empty(), "the audit log holds no body of a write");
    search.json("the audit log of our writes", &sent)?;
    search.assert_clean();
    remove(&stage.sandbox, "n").await?;
    running.kill().await
}
