//! Every fault of the proxy, seen from a client.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use trustplane_testkit::proxy::{
    Answer, EventFault, EventMatch, Fault, Gate, Match, Moment, Proxy, Rule, Twist, Verb,
};
use trustplane_testkit::{DEADLINE, Instance, Rules, Sandbox};

use crate::{config_map, value};

/// A namespace, a proxy, and one instance behind it.
struct Bench {
    sandbox: Sandbox,
    proxy: Proxy,
    instance: Instance,
}

impl Bench {
    async fn new(name: &str) -> Result<Self> {
        let sandbox = Sandbox::new(name).await?;
        let proxy = Proxy::start(sandbox.plane()).await?;
        let verbs = ["get", "list", "watch", "create", "update"];
        let rules = Rules::default().allow("", "configmaps", &verbs);
        let instance = sandbox.instance("client", &rules).await?.through(&proxy);
        Ok(Self {
            sandbox,
            proxy,
            instance,
        })
    }

    /// The objects as the instance sees them through the proxy.
    fn seen(&self) -> Result<Api<ConfigMap>> {
        Ok(Api::namespaced(self.instance.client()?, self.sandbox.namespace()))
    }

    async fn create(&self, name: &str, content: &str) -> Result<String> {
        let made = self
            .sandbox
            .api()
            .create(&PostParams::default(), &config_map(name, content))
            .await?;
        made.metadata
            .resource_version
            .context("a created object has a version")
    }

    async fn watch(&self) -> Result<impl Stream<Item = Result<WatchEvent<ConfigMap>, kube::Error>> + Unpin> {
        let api = self.seen()?;
        let version = api.list(&ListParams::default()).await?.metadata.resource_version;
        // The cluster itself puts this one into every namespace, some time after it was made.
        let ours = WatchParams::default().fields("metadata.name!=kube-root-ca.crt");
        let stream = api.watch(&ours, &version.unwrap_or_default()).await?;
        Ok(Box::pin(stream))
    }
}

/// The next events that speak of objects, as `type name`.
async fn next(
    stream: &mut (impl Stream<Item = Result<WatchEvent<ConfigMap>, kube::Error>> + Unpin),
    n: usize,
) -> Result<Vec<String>> {
    let mut told = Vec::new();
    while told.len() < n {
        let event = tokio::time::timeout(DEADLINE, stream.next())
            .await
            .context("wait for an event")?
            .context("the watch ended")??;
        let name = |live: ConfigMap| live.metadata.name.unwrap_or_default();
        match event {
            WatchEvent::Added(live) => told.push(format!("added {}", name(live))),
            WatchEvent::Modified(live) => told.push(format!("modified {}", name(live))),
            WatchEvent::Deleted(live) => told.push(format!("deleted {}", name(live))),
            WatchEvent::Error(status) => told.push(format!("error {}", status.code)),
            WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(told)
}

fn on_events(fault: EventFault) -> Rule {
    let watches = Match::verb(Verb::Watch).resource("configmaps");
    Rule::new(watches, Fault::Events(EventMatch::any().name("a"), fault))
}

#[tokio::test]
async fn without_a_script_nothing_differs() -> Result<()> {
    let bench = Bench::new("plain").await?;
    let mut watch = bench.watch().await?;
    let seen = bench.seen()?;
    seen.create(&PostParams::default(), &config_map("a", "1")).await?;
    assert_eq!(value(&seen.get("a").await?), Some("1"));
    assert_eq!(next(&mut watch, 1).await?, ["added a"]);
    let journal = bench.proxy.requests(&Match::writes().by(&bench.instance));
    assert_eq!(journal.len(), 1);
    assert_eq!((journal[0].sent, journal[0].status), (true, Some(201)));
    assert!(
        seen.get("absent")
            .await
            .is_err_and(|error| matches!(error, kube::Error::Api(status) if status.code == 404))
    );
    Ok(())
}

#[tokio::test]
async fn answers_are_injected_as_often_as_scripted() -> Result<()> {
    let bench = Bench::new("answers").await?;
    let seen = bench.seen()?;
    let cases = [
        (Answer::unauthorized(), 401),
        (Answer::conflict(), 409),
        (Answer::expired(), 410),
        (Answer::too_many_requests(7), 429),
        (Answer::internal_error(), 500),
        (Answer::unavailable(), 503),
    ];
    for (answer, code) in cases {
        let script = bench
            .proxy
            .add(Rule::new(Match::verb(Verb::List), Fault::Answer(answer)).once());
        let error = seen.list(&ListParams::default()).await.unwrap_err();
        let kube::Error::Api(status) = error else {
            panic!("expected {code}, got {error}")
        };
        assert_eq!(status.code, code);
        if code == 429 {
            assert_eq!(status.details.unwrap().retry_after_seconds, 7);
        }
        assert_eq!(script.count(), 1);
        seen.list(&ListParams::default()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_lost_event_leaves_the_watch_alive() -> Result<()> {
    let bench = Bench::new("lost").await?;
    let mut watch = bench.watch().await?;
    let script = bench.proxy.add(on_events(EventFault::Drop));
    bench.create("a", "1").await?;
    bench.create("b", "1").await?;
    assert_eq!(next(&mut watch, 1).await?, ["added b"]);
    assert_eq!(script.count(), 1);
    Ok(())
}

#[tokio::test]
async fn events_come_twice_swapped_or_late() -> Result<()> {
    let bench = Bench::new("order").await?;
    let mut watch = bench.watch().await?;
    let gate = Gate::default();
    let scripts = [
        EventFault::Duplicate,
        EventFault::Swap,
        EventFault::Hold(gate.clone()),
    ];
    for fault in scripts {
        bench.proxy.add(on_events(fault).once());
    }
    bench.create("a", "1").await?;
    assert_eq!(next(&mut watch, 2).await?, ["added a", "added a"]);
    let api: Api<ConfigMap> = bench.sandbox.api();
    let mut live = api.get("a").await?;
    live.data = config_map("a", "2").data;
    let live = api.replace("a", &PostParams::default(), &live).await?;
    bench.create("b", "1").await?;
    assert_eq!(next(&mut watch, 2).await?, ["added b", "modified a"]);
    let later = ConfigMap { data: None, ..live };
    api.replace("a", &PostParams::default(), &later).await?;
    bench.create("c", "1").await?;
    let early = tokio::time::timeout(Duration::from_millis(200), watch.next()).await;
    assert!(early.is_err(), "an event passed a closed gate");
    gate.open();
    assert_eq!(next(&mut watch, 2).await?, ["modified a", "added c"]);
    Ok(())
}

#[tokio::test]
async fn a_watch_can_expire_break_or_fall_silent() -> Result<()> {
    let bench = Bench::new("ends").await?;
    let mut watch = bench.watch().await?;
    bench.proxy.add(on_events(EventFault::Expire).once());
    bench.create("a", "1").await?;
    assert_eq!(next(&mut watch, 1).await?, ["error 410"]);
    assert!(watch.next().await.is_none());

    let mut watch = bench.watch().await?;
    bench
        .proxy
        .wait_for(&Match::verb(Verb::Watch), 2, DEADLINE)
        .await?;
    assert_eq!(bench.proxy.cut(&Match::verb(Verb::Watch)), 1);
    // The client sees an error or an early end, but never another event.
    assert!(!matches!(watch.next().await, Some(Ok(_))));

    let mut watch = bench.watch().await?;
    let b = EventMatch::any().name("b");
    let frozen = bench.proxy.add(Rule::new(
        Match::verb(Verb::Watch),
        Fault::Events(b, EventFault::Freeze),
    ));
    bench.create("b", "1").await?;
    frozen.fired(1, DEADLINE).await?;
    let silence = tokio::time::timeout(Duration::from_millis(200), watch.next()).await;
    assert!(silence.is_err(), "a frozen watch said something");
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_took_effect_and_a_lost_request_did_not() -> Result<()> {
    let bench = Bench::new("halves").await?;
    let seen = bench.seen()?;
    bench
        .proxy
        .add(Rule::new(Match::verb(Verb::Create), Fault::CutAnswer).once());
    assert!(
        seen.create(&PostParams::default(), &config_map("a", "1"))
            .await
            .is_err()
    );
    bench
        .proxy
        .add(Rule::new(Match::verb(Verb::Create), Fault::Cut).once());
    assert!(
        seen.create(&PostParams::default(), &config_map("b", "1"))
            .await
            .is_err()
    );
    let api: Api<ConfigMap> = bench.sandbox.api();
    assert!(api.get_opt("a").await?.is_some());
    assert!(api.get_opt("b").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_halted_requester_says_nothing_more() -> Result<()> {
    let bench = Bench::new("halt").await?;
    let writes = Match::work().by(&bench.instance);
    let halt = bench
        .proxy
        .add(Rule::new(writes, Fault::Halt(Moment::After)).skip(1).once());
    let seen = bench.seen()?;
    seen.create(&PostParams::default(), &config_map("a", "1")).await?;
    let (second, third) = (seen.clone(), bench.seen()?);
    let never =
        tokio::spawn(async move { second.create(&PostParams::default(), &config_map("b", "1")).await });
    halt.fired(1, DEADLINE).await?;
    let late = tokio::spawn(async move { third.create(&PostParams::default(), &config_map("c", "1")).await });
    bench
        .proxy
        .wait_for(&Match::verb(Verb::Create), 3, DEADLINE)
        .await?;
    let api: Api<ConfigMap> = bench.sandbox.api();
    trustplane_testkit::wait_for_some(&api, "b", DEADLINE, |_| true).await?;
    assert!(api.get_opt("c").await?.is_none());
    assert!(!never.is_finished() && !late.is_finished());
    never.abort();
    late.abort();
    Ok(())
}

#[tokio::test]
async fn a_frozen_proxy_keeps_connections_and_goes_on() -> Result<()> {
    let bench = Bench::new("freeze").await?;
    let seen = bench.seen()?;
    seen.list(&ListParams::default()).await?;
    bench.proxy.freeze();
    let frozen = tokio::time::timeout(Duration::from_millis(200), seen.list(&ListParams::default())).await;
    assert!(frozen.is_err(), "a frozen proxy answered");
    let waiting = tokio::spawn(async move { seen.list(&ListParams::default()).await });
    bench
        .proxy
        .wait_for(&Match::verb(Verb::List), 3, DEADLINE)
        .await?;
    bench.proxy.thaw();
    tokio::time::timeout(DEADLINE, waiting).await???;
    bench.proxy.cut_all();
    bench.seen()?.list(&ListParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn the_past_is_shown_until_the_gate_opens() -> Result<()> {
    let bench = Bench::new("past").await?;
    let version = bench.create("a", "old").await?;
    let api: Api<ConfigMap> = bench.sandbox.api();
    let mut live = api.get("a").await?;
    live.data = config_map("a", "new").data;
    api.replace("a", &PostParams::default(), &live).await?;
    bench.create("b", "1").await?;

    let gate = Gate::default();
    let reads = Match::any().resource("configmaps");
    let past = Fault::Past {
        resource_version: version,
        gate: gate.clone(),
    };
    let script = bench.proxy.add(Rule::new(reads, past));
    let seen = bench.seen()?;
    assert_eq!(value(&seen.get("a").await?), Some("old"));
    assert!(seen.get_opt("b").await?.is_none());
    let list = seen.list(&ListParams::default()).await?;
    let names: Vec<_> = list
        .items
        .iter()
        .filter_map(|live| live.metadata.name.clone())
        .collect();
    assert!(
        names.contains(&"a".to_owned()) && !names.contains(&"b".to_owned()),
        "{names:?}"
    );
    let only_a = WatchParams::default().fields("metadata.name!=kube-root-ca.crt");
    let mut watch = Box::pin(seen.watch(&only_a, "0").await?);
    assert_eq!(next(&mut watch, 1).await?, ["added a"]);
    let early = tokio::time::timeout(Duration::from_millis(200), watch.next()).await;
    assert!(early.is_err(), "the present showed before the gate opened");
    gate.open();
    assert_eq!(next(&mut watch, 2).await?, ["modified a", "added b"]);
    script.end();
    assert_eq!(value(&seen.get("a").await?), Some("new"));
    Ok(())
}

#[tokio::test]
async fn the_past_is_shown_to_a_streaming_list_too() -> Result<()> {
    let bench = Bench::new("past-stream").await?;
    let version = bench.create("a", "old").await?;
    bench.create("b", "1").await?;
    let gate = Gate::default();
    let past = Fault::Past {
        resource_version: version,
        gate: gate.clone(),
    };
    bench.proxy.add(Rule::new(Match::verb(Verb::Watch), past));
    let params = WatchParams::streaming_lists().fields("metadata.name!=kube-root-ca.crt");
    let mut watch = Box::pin(bench.seen()?.watch(&params, "0").await?);
    assert_eq!(next(&mut watch, 1).await?, ["added a"]);
    let bookmark = tokio::time::timeout(DEADLINE, watch.next())
        .await?
        .context("the watch ended")??;
    let WatchEvent::Bookmark(bookmark) = bookmark else {
        panic!("expected the end of the initial list")
    };
    assert!(
        bookmark
            .metadata
            .annotations
            .contains_key("k8s.io/initial-events-end")
    );
    gate.open();
    assert_eq!(next(&mut watch, 1).await?, ["added b"]);
    Ok(())
}

#[tokio::test]
async fn a_twisted_answer_is_good_by_its_status_and_nothing_else() -> Result<()> {
    let bench = Bench::new("twist").await?;
    for name in ["a", "b"] {
        bench.create(name, "content").await?;
    }
    for twist in Twist::ALL {
        let gets = Match::verb(Verb::Get).resource("configmaps");
        let script = bench.proxy.add(Rule::new(gets, Fault::Twist(twist)).once());
        let path = format!("/api/v1/namespaces/{}/configmaps/a", bench.sandbox.namespace());
        let request = http::Request::get(path).body(Vec::new())?;
        let text = bench.instance.client()?.request_text(request).await?;
        assert_eq!(script.count(), 1);
        assert!(text.contains("content"), "{twist:?}: {text}");
        let json = serde_json::from_str::<serde_json::Value>(&text);
        match twist {
            Twist::List => assert_eq!(json?["kind"], "ConfigMapList"),
            Twist::Truncated | Twist::Garbage => assert!(json.is_err(), "{text}"),
        }
    }
    Ok(())
}
