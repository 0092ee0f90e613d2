//! What the hub refuses, and what it says then.

use std::io::Write;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Method;
use serde_json::{Value, json};
use trustplane_inventory_hub::app::BODIES_OF_CLIENT;
use trustplane_inventory_hub::rate::Rate;

use crate::harness::{TestHub, pod};
use crate::pieces::Pieces;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn bodies_may_be_packed_with_gzip() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let packed = [("content-encoding", "gzip")];
    let snapshot = agent.snapshot_of(json!({"pods": [pod("u1", "one")]})).to_string();
    let answer = agent
        .post_with(&hub, "/api/v1/agent/snapshot", &packed, gzip(snapshot.as_bytes()))
        .await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("accept-encoding"), "gzip, identity");
    let event = agent.event_of("added", "Pod", &pod("u2", "two")).to_string();
    let answer = agent
        .post_with(&hub, "/api/v1/agent/events", &packed, gzip(event.as_bytes()))
        .await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(person.names("").await?, ["one", "two"]);
    let answer = agent
        .post_with(&hub, "/api/v1/agent/events", &[("content-encoding", "br")], event)
        .await?;
    assert_eq!(
        (answer.status, answer.header("accept-encoding")),
        (415, "gzip, identity")
    );
    Ok(())
}

#[tokio::test]
async fn bodies_that_are_too_large_are_refused_also_when_packed() -> Result<()> {
    let hub = TestHub::with(|limits, _| {
        limits.snapshot_bytes = 200_000;
        limits.event_bytes = 10_000;
    })
    .await?;
    let agent = hub.signed_in_agent("a").await?;
    let mut large = pod("u", "large");
    large["labels"]["x"] = json!("y".repeat(10_000));
    let many: Vec<Value> = (0..1_000)
        .map(|i| pod(&format!("u{i}"), &format!("pod-{i}")))
        .collect();
    let event = agent.event_of("added", "Pod", &large).to_string();
    let one = agent.snapshot_of(json!({"pods": [large]})).to_string();
    let all = agent.snapshot_of(json!({"pods": many})).to_string();
    let spaces = format!("{}{}", " ".repeat(100_000_000), all);
    for (path, packed, body, says) in [
        (
            "events",
            false,
            event.clone(),
            "body: must have at most 10000 bytes",
        ),
        ("events", true, event, "body: must have at most 10000 bytes"),
        ("snapshot", false, one, "pods[0]: must have at most 10000 bytes"),
        (
            "snapshot",
            false,
            all.clone(),
            "body: must have at most 200000 bytes",
        ),
        ("snapshot", true, all, "body: must have at most 200000 bytes"),
        ("snapshot", true, spaces, "body: must have at most 200000 bytes"),
    ] {
        let path = format!("/api/v1/agent/{path}");
        let answer = if packed {
            let headers = [("content-encoding", "gzip")];
            agent
                .post_with(&hub, &path, &headers, gzip(body.as_bytes()))
                .await?
        } else {
            agent.post_with(&hub, &path, &[], body).await?
        };
        assert_eq!(answer.status, 413, "{path}: {}", answer.text());
        assert!(answer.message().starts_with(says), "{}", answer.message());
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_names_the_field_and_the_rule() -> Result<()> {
    let hub = TestHub::start().await?;
    let agent = hub.signed_in_agent("a").await?;
    let event = |change: &dyn Fn(&mut Value)| {
        let mut event = agent.event_of("added", "Pod", &pod("u", "web"));
        change(&mut event);
        event
    };
    let mut deep = json!(1);
    for _ in 0..70 {
        deep = json!({"d": deep});
    }
    let long = "x".repeat(254);
    for (path, body, says) in [
        (
            "events",
            event(&|event| event["name"] = json!(long)),
            "name: must have at most 253 bytes",
        ),
        (
            "events",
            event(&|event| event["uid"] = json!("u".repeat(129))),
            "uid: must have at most 128 bytes",
        ),
        (
            "events",
            event(&|event| event["namespace"] = json!(7)),
            "namespace: must be a text",
        ),
        (
            "events",
            event(&|event| event["object"]["deep"] = deep.clone()),
            "body: must be nested at most 64 deep",
        ),
        (
            "events",
            event(&|event| event["kind"] = json!("k".repeat(64))),
            "kind: must have at most 63 bytes",
        ),
        (
            "snapshot",
            agent.snapshot_of(json!({"pods": [pod("u", "a"), {"uid": "v"}]})),
            "pods[1].name: required",
        ),
        (
            "snapshot",
            agent.snapshot_of(json!({"pods": {"a": 1}})),
            "pods: must be an array",
        ),
        (
            "snapshot",
            agent.snapshot_of(json!({"pods": [7]})),
            "pods[0].uid: required",
        ),
        (
            "snapshot",
            agent.snapshot_of(json!({"pods": [{"deep": deep}]})),
            "pods[0]: must be nested at most 64 deep",
        ),
        (
            "snapshot",
            json!({"cluster_uid": 7}),
            "cluster_uid: must be a text",
        ),
        ("snapshot", json!([1]), "body: must be a JSON object"),
    ] {
        let answer = agent.post(&hub, &format!("/api/v1/agent/{path}"), &body).await?;
        assert_eq!(
            (answer.status, answer.message().as_str()),
            (400, says),
            "{}",
            answer.text()
        );
        assert_eq!(answer.json()["error"]["code"], "invalid");
        assert!(
            !answer.json()["error"]["request_id"]
                .as_str()
                .unwrap_or_default()
                .is_empty()
        );
    }
    let metrics = hub.metrics();
    assert!(
        metrics.contains(r#"trustplane_hub_rejected_records_total{reason="limit"} 5"#),
        "{metrics}"
    );
    Ok(())
}

#[tokio::test]
async fn agents_without_a_token_are_refused() -> Result<()> {
    let hub = TestHub::start().await?;
    let mut agent = hub.agent("a").await?;
    for token in ["", "nonsense"] {
        agent.token = token.to_owned();
        let answer = agent
            .post(&hub, "/api/v1/agent/heartbeat", &json!({"cluster_uid": "c"}))
            .await?;
        assert_eq!(answer.status, 401, "{token}");
    }
    Ok(())
}

#[tokio::test]
async fn the_listener_for_agents_has_five_paths() -> Result<()> {
    let hub = TestHub::start().await?;
    let agents = hub.agents();
    let health = agents.send(Method::GET, "/health", &[], "").await?;
    assert_eq!((health.status, health.json()), (200, json!({"status": "ok"})));
    for path in [
        "/",
        "/index.html",
        "/api/v1/clusters",
        "/api/v1/live",
        "/sign-in?token=x",
        "/metrics",
        "/api/v2/agent/session",
    ] {
        assert_eq!(
            agents.send(Method::GET, path, &[], "").await?.status,
            404,
            "{path}"
        );
    }
    assert_eq!(
        agents
            .send(Method::GET, "/api/v1/agent/events", &[], "")
            .await?
            .status,
        405
    );
    let plain = crate::client::Peer { tls: None, ..agents };
    assert!(
        plain.send(Method::GET, "/health", &[], "").await.is_err(),
        "TLS only"
    );
    Ok(())
}

#[tokio::test]
async fn each_client_has_its_own_rate() -> Result<()> {
    let rare = Rate {
        burst: 2.0,
        per_second: 0.01,
    };
    let hub = TestHub::with(|_, rates| {
        rates.events = rare;
        rates.snapshots = rare;
    })
    .await?;
    let (agent, other) = (hub.signed_in_agent("a").await?, hub.signed_in_agent("b").await?);
    for path in ["events", "snapshot"] {
        let body = match path {
            "events" => agent.event_of("added", "Pod", &pod("u", "web")),
            _ => agent.snapshot_of(json!({"pods": []})),
        };
        let path = format!("/api/v1/agent/{path}");
        for _ in 0..2 {
            assert_eq!(agent.post(&hub, &path, &body).await?.status, 200);
        }
        let answer = agent.post(&hub, &path, &body).await?;
        assert_eq!(answer.status, 429, "{path}");
        let wait: u64 = answer.header("retry-after").parse()?;
        assert!((1..=100).contains(&wait), "{wait}");
    }
    other.heartbeat(&hub).await?;
    Ok(())
}

#[tokio::test]
async fn snapshot_is_refused_when_it_has_too_many_elements() -> Result<()> {
    let hub = TestHub::with(|limits, _| limits.snapshot_objects = 100).await?;
    let agent = hub.signed_in_agent("a").await?;
    for (array, status) in [
        (vec![json!(null); 100], 200),
        (vec![json!(null); 101], 413),
        (vec![pod("u", "web"); 101], 413),
    ] {
        let body = agent.snapshot_of(json!({"pods": array}));
        let answer = agent.post(&hub, "/api/v1/agent/snapshot", &body).await?;
        assert_eq!(answer.status, status, "{}", answer.text());
        if status == 413 {
            assert_eq!(
                answer.message(),
                "body: must have at most 100 objects, null ones included"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn slow_client_leaves_room_for_others() -> Result<()> {
    let hub = TestHub::start().await?;
    let (slow, other) = (hub.signed_in_agent("a").await?, hub.signed_in_agent("b").await?);
    let (mut bodies, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..=BODIES_OF_CLIENT {
        let request = Pieces::begin(&hub, &slow, "events").await?;
        request.send("{").await?;
        let Pieces { sender, answer } = request;
        bodies.push(sender);
        answers.push(answer);
    }
    // All others are under way until their bodies end.
    let (refused, _, answers) = futures::future::select_all(answers).await;
    assert_eq!(refused??, 429);
    let body = json!({"cluster_uid": slow.uid});
    let answer = slow.post(&hub, "/api/v1/agent/heartbeat", &body).await?;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "1"));
    other.heartbeat(&hub).await?;
    drop(bodies);
    for answer in answers {
        assert_eq!(answer.await??, 400, "the body is no JSON");
    }
    slow.heartbeat(&hub).await
}

#[tokio::test]
async fn cluster_is_refused_when_it_has_too_many_objects() -> Result<()> {
    let hub = TestHub::with(|limits, _| limits.cluster.rows = 3).await?;
    let (agent, other) = (hub.signed_in_agent("a").await?, hub.signed_in_agent("b").await?);
    let person = hub.person().await?;
    for name in ["one", "two", "three"] {
        agent.event(&hub, "added", "Pod", &pod(name, name)).await?;
    }
    let rule = "cluster: may have at most 3 objects and 17179869184 bytes at the hub, objects that are gone included";
    let add = agent.event_of("added", "Pod", &pod("four", "four"));
    let snapshot = agent.snapshot_of(json!({"pods": [pod("four", "four"), pod("five", "five")]}));
    for (path, body) in [("events", &add), ("snapshot", &snapshot)] {
        let answer = agent.post(&hub, &format!("/api/v1/agent/{path}"), body).await?;
        assert_eq!(
            (answer.status, answer.message().as_str()),
            (413, rule),
            "{}",
            answer.text()
        );
        assert_eq!(answer.json()["error"]["code"], "too_large");
    }
    assert_eq!(person.names("").await?, ["one", "three", "two"]);
    let mut changed = pod("one", "one");
    changed["phase"] = json!("Failed");
    agent.event(&hub, "modified", "Pod", &changed).await?;
    agent.event(&hub, "deleted", "Pod", &pod("two", "two")).await?;
    agent.event(&hub, "added", "Pod", &pod("four", "four")).await?;
    assert_eq!(
        person.names(&format!("cluster={}", agent.id)).await?,
        ["four", "one", "three"],
        "objects that are gone make room"
    );
    other.event(&hub, "added", "Pod", &pod("one", "one")).await?;
    Ok(())
}

#[tokio::test]
async fn cluster_is_refused_when_its_objects_are_too_large() -> Result<()> {
    let hub = TestHub::with(|limits, _| limits.cluster.bytes = 20_000).await?;
    let agent = hub.signed_in_agent("a").await?;
    let large = |uid: &str, bytes: usize| {
        let mut pod = pod(uid, uid);
        pod["labels"]["x"] = json!("y".repeat(bytes));
        pod
    };
    agent.event(&hub, "added", "Pod", &large("one", 8_000)).await?;
    agent.event(&hub, "added", "Pod", &large("two", 8_000)).await?;
    for (type_, object) in [
        ("added", large("three", 8_000)),
        ("modified", large("two", 16_000)),
    ] {
        let event = agent.event_of(type_, "Pod", &object);
        assert_eq!(
            agent.post(&hub, "/api/v1/agent/events", &event).await?.status,
            413
        );
    }
    agent.event(&hub, "modified", "Pod", &large("two", 4_000)).await?;
    agent.event(&hub, "deleted", "Pod", &large("one", 0)).await?;
    agent.event(&hub, "added", "Pod", &large("three", 12_000)).await?;
    let mut connection = trustplane_inventory_hub::store::open(hub.folder()).await?;
    let stored: (i64, i64) = sqlx::query_as("SELECT stored_rows, stored_bytes FROM clusters")
        .fetch_one(&mut connection)
        .await?;
    let counted: (i64, i64) = sqlx::query_as("SELECT count(*), sum(octet_length(object)) FROM objects")
        .fetch_one(&mut connection)
        .await?;
    assert_eq!(stored, counted);
    Ok(())
}
