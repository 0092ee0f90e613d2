//! Snapshots: what they say, what they leave out, and what happens when they end early.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::harness::{Agent, TestHub, pod, until};
use crate::pieces::Pieces;

/// All arrays of the original, empty.
fn empty() -> Value {
    let arrays = [
        "namespaces",
        "pods",
        "services",
        "nodes",
        "deployments",
        "statefulsets",
        "daemonsets",
        "jobs",
        "cronjobs",
        "ingresses",
        "network_policies",
        "configmaps",
        "secrets",
        "pvcs",
        "service_accounts",
        "roles",
        "cluster_roles",
        "role_bindings",
        "cluster_role_bindings",
        "events",
    ];
    Value::Object(
        arrays
            .iter()
            .map(|array| ((*array).to_owned(), json!([])))
            .collect(),
    )
}

fn with(pairs: &[(&str, Value)]) -> Value {
    let mut arrays = empty();
    for (array, value) in pairs {
        arrays[*array] = value.clone();
    }
    arrays
}

fn named(uid: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"uid": uid, "name": uid, "namespace": namespace}),
        None => json!({"uid": uid, "name": uid}),
    }
}

#[tokio::test]
async fn all_twenty_arrays_are_taken() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let mut arrays = empty();
    for (array, objects) in arrays.as_object_mut().context("an object")? {
        *objects = json!([named(&format!("{array}-uid"), Some("shop"))]);
    }
    arrays["agent_version"] = json!("0.3.7");
    arrays["kubernetes_version"] = json!("v1.37.0");
    arrays["platform"] = json!(null);
    agent.snapshot(&hub, arrays).await?;
    let cluster = person.cluster(&agent).await?;
    assert_eq!(cluster["objects"], 20);
    assert_eq!(
        cluster["counts"].as_object().map(serde_json::Map::len),
        Some(20),
        "{cluster}"
    );
    assert_eq!(cluster["name"], json!(format!("cluster of {}", agent.id)));
    assert_eq!(
        (&cluster["agent_version"], &cluster["kubernetes_version"]),
        (&json!("0.3.7"), &json!("v1.37.0"))
    );
    assert!(cluster["last_snapshot"].is_string());
    Ok(())
}

#[tokio::test]
async fn what_a_snapshot_lacks_is_removed_softly() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let both = json!([pod("u1", "one"), pod("u2", "two")]);
    agent
        .snapshot(
            &hub,
            with(&[("pods", both.clone()), ("nodes", json!([named("n1", None)]))]),
        )
        .await?;
    assert_eq!(person.names("").await?, ["n1", "one", "two"]);
    agent
        .snapshot(&hub, with(&[("pods", json!([pod("u1", "one")]))]))
        .await?;
    assert_eq!(
        person.names("").await?,
        ["one"],
        "empty arrays say that there is nothing"
    );
    agent.event(&hub, "modified", "Pod", &pod("u2", "two")).await?;
    assert_eq!(person.names("").await?, ["one", "two"], "an event brings it back");
    agent.snapshot(&hub, with(&[])).await?;
    assert!(person.names("").await?.is_empty());
    agent.snapshot(&hub, with(&[("pods", both)])).await?;
    assert_eq!(person.names("").await?, ["one", "two"], "so does a snapshot");
    Ok(())
}

#[tokio::test]
async fn an_array_that_is_missing_or_null_says_nothing() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent.event(&hub, "added", "Node", &named("n1", None)).await?;
    agent
        .event(&hub, "added", "Secret", &named("s1", Some("shop")))
        .await?;
    agent.event(&hub, "added", "Pod", &pod("u1", "one")).await?;
    // The first generation of the original knew three kinds.
    agent
        .snapshot(&hub, json!({"namespaces": [], "pods": [], "services": []}))
        .await?;
    assert_eq!(person.names("").await?, ["n1", "s1"]);
    agent
        .snapshot(&hub, json!({"nodes": null, "pods": [null]}))
        .await?;
    assert_eq!(person.names("").await?, ["n1", "s1"]);
    Ok(())
}

#[tokio::test]
async fn the_uid_of_the_cluster_may_come_after_objects() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let late = format!(
        r#"{{"pods": [{}], "cluster_uid": "{}"}}"#,
        pod("u", "web"),
        agent.uid
    );
    assert_eq!(
        agent
            .post_with(&hub, "/api/v1/agent/snapshot", &[], late)
            .await?
            .status,
        200
    );
    assert_eq!(person.names("").await?, ["web"]);
    let other = format!(r#"{{"pods": [{}], "cluster_uid": "another"}}"#, pod("v", "other"));
    assert_eq!(
        agent
            .post_with(&hub, "/api/v1/agent/snapshot", &[], other)
            .await?
            .status,
        403
    );
    assert_eq!(
        person.names("").await?,
        ["web"],
        "nothing is written before it is known whose it is"
    );
    // Small objects count too: each has a cost besides its bytes.
    let small: Vec<String> = (0..20_000)
        .map(|i| format!(r#"{{"uid":"{i}","name":"n"}}"#))
        .collect();
    let small = format!(
        r#"{{"nodes": [{}], "cluster_uid": "{}"}}"#,
        small.join(","),
        agent.uid
    );
    assert!(small.len() < 1 << 20);
    let answer = agent
        .post_with(&hub, "/api/v1/agent/snapshot", &[], small)
        .await?;
    assert_eq!(
        (answer.status, answer.message().as_str()),
        (400, "cluster_uid: required before so many objects")
    );
    let mut large = pod("w", "large");
    large["labels"]["x"] = json!("y".repeat(500_000));
    let many = vec![large.to_string(); 20].join(",");
    let too_late = format!(r#"{{"pods": [{many}], "cluster_uid": "{}"}}"#, agent.uid);
    let answer = agent
        .post_with(&hub, "/api/v1/agent/snapshot", &[], too_late)
        .await?;
    assert_eq!(
        (answer.status, answer.message().as_str()),
        (400, "cluster_uid: required before so many objects")
    );
    Ok(())
}

/// The beginning of a snapshot with as many Pods as are written together.
fn beginning(agent: &Agent) -> String {
    let pods: Vec<String> = (0..512)
        .map(|i| pod(&format!("p{i}"), &format!("pod-{i}")).to_string())
        .collect();
    format!(
        r#"{{"cluster_uid": "{}", "nodes": [], "pods": [{}"#,
        agent.uid,
        pods.join(",")
    )
}

/// Waits until the beginning is written.
async fn taken_in(person: &crate::harness::Person) -> Result<()> {
    until(async || Ok(person.see("/api/v1/objects?kind=Pod&limit=1&q=pod-").await?["total"] == 512)).await
}

#[tokio::test]
async fn a_snapshot_that_is_cut_off_removes_nothing() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent.event(&hub, "added", "Pod", &pod("u", "kept")).await?;
    agent.event(&hub, "added", "Node", &named("n1", None)).await?;
    let pieces = Pieces::begin(&hub, &agent, "snapshot").await?;
    pieces.send(beginning(&agent)).await?;
    taken_in(&person).await?;
    // The connection ends in the middle of the body.
    pieces.answer.abort();
    let broken = agent
        .post_with(&hub, "/api/v1/agent/snapshot", &[], beginning(&agent))
        .await?;
    assert_eq!(broken.status, 400, "JSON that ends early: {}", broken.text());
    let mut worse = beginning(&agent);
    worse.push_str("], \"services\": [{}]}");
    let refused = agent
        .post_with(&hub, "/api/v1/agent/snapshot", &[], worse)
        .await?;
    assert_eq!(
        (refused.status, refused.message().as_str()),
        (400, "services[0].uid: required")
    );
    assert_eq!(person.names("kind=Node").await?, ["n1"]);
    assert_eq!(person.names("q=kept").await?, ["kept"]);
    assert_eq!(person.cluster(&agent).await?["last_snapshot"], json!(null));
    Ok(())
}

#[tokio::test]
async fn an_event_during_a_snapshot_is_not_swept() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent
        .event(&hub, "added", "Pod", &pod("old", "unchanged"))
        .await?;
    agent.event(&hub, "added", "Pod", &pod("gone", "missing")).await?;
    let pieces = Pieces::begin(&hub, &agent, "snapshot").await?;
    pieces.send(beginning(&agent)).await?;
    taken_in(&person).await?;
    agent
        .event(&hub, "added", "Pod", &pod("new", "meanwhile"))
        .await?;
    agent
        .event(&hub, "modified", "Pod", &pod("old", "unchanged"))
        .await?;
    agent.event(&hub, "deleted", "Pod", &pod("p0", "pod-0")).await?;
    pieces.send("]}").await?;
    assert_eq!(pieces.end().await?, 200);
    assert_eq!(person.names("q=meanwhile").await?, ["meanwhile"]);
    assert_eq!(
        person.names("q=unchanged").await?,
        ["unchanged"],
        "mentioned, though not changed"
    );
    assert!(person.names("q=missing").await?.is_empty());
    assert_eq!(person.see("/api/v1/objects?q=pod-").await?["total"], 511);
    Ok(())
}

#[tokio::test]
async fn a_newer_snapshot_supersedes_one_under_way() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let pieces = Pieces::begin(&hub, &agent, "snapshot").await?;
    pieces.send(beginning(&agent)).await?;
    taken_in(&person).await?;
    agent
        .snapshot(&hub, with(&[("pods", json!([pod("u", "only")]))]))
        .await?;
    assert_eq!(person.names("").await?, ["only"]);
    pieces.send("]}").await?;
    assert_eq!(pieces.end().await?, 409);
    assert_eq!(person.names("").await?, ["only"]);
    Ok(())
}

#[tokio::test]
async fn a_long_snapshot_keeps_its_cluster_connected() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let pieces = Pieces::begin(&hub, &agent, "snapshot").await?;
    pieces.send(beginning(&agent)).await?;
    taken_in(&person).await?;
    hub.pass(11 * 60);
    assert_eq!(person.cluster(&agent).await?["state"], "stale");
    pieces.send(" ").await?;
    until(async || Ok(person.cluster(&agent).await?["state"] == "connected")).await?;
    pieces.send("]}").await?;
    assert_eq!(pieces.end().await?, 200);
    Ok(())
}

#[tokio::test]
async fn a_displaced_object_is_shown_when_the_holder_of_its_name_is_gone() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let at = |uid: &str, created: &str| {
        let mut pod = pod(uid, "web-0");
        pod["k8s_created_at"] = json!(created);
        pod
    };
    let uid = async || -> Result<Value> {
        Ok(person.see("/api/v1/objects?q=web-0").await?["items"][0]["uid"].clone())
    };
    let (first, second) = (
        at("first", "2026-01-02T03:04:06Z"),
        at("second", "2026-01-02T03:04:05Z"),
    );
    // The clocks of two API servers differ, and the report of the second Pod overtakes the deletion of the first.
    agent.event(&hub, "added", "Pod", &first).await?;
    agent.event(&hub, "added", "Pod", &second).await?;
    assert_eq!(uid().await?, "first");
    agent.event(&hub, "deleted", "Pod", &first).await?;
    assert_eq!(uid().await?, "second");
    // The deletion of the holder is lost, and a snapshot does not name it.
    let third = at("third", "2026-01-02T03:04:04Z");
    agent.event(&hub, "added", "Pod", &third).await?;
    assert_eq!(uid().await?, "second");
    agent.snapshot(&hub, json!({"pods": [third]})).await?;
    assert_eq!(uid().await?, "third");
    // A displaced object that a snapshot does not name does not come back.
    let fourth = at("fourth", "2026-01-02T03:04:09Z");
    agent.event(&hub, "added", "Pod", &fourth).await?;
    agent.snapshot(&hub, json!({"pods": [fourth]})).await?;
    agent.event(&hub, "deleted", "Pod", &fourth).await?;
    assert!(person.names("").await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn counts_follow_every_kind_of_change() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let mut failing = pod("u2", "two");
    failing["phase"] = json!("Failed");
    agent
        .snapshot(
            &hub,
            with(&[("pods", json!([pod("u1", "one"), failing, pod("u3", "three")]))]),
        )
        .await?;
    agent.event(&hub, "deleted", "Pod", &pod("u3", "three")).await?;
    agent.event(&hub, "added", "Pod", &pod("u4", "four")).await?;
    agent.event(&hub, "added", "Pod", &pod("u5", "four")).await?;
    agent
        .snapshot(&hub, json!({"pods": [pod("u1", "one"), failing]}))
        .await?;
    agent.event(&hub, "modified", "Pod", &pod("u5", "four")).await?;
    agent.event(&hub, "modified", "Pod", &pod("u2", "two")).await?;
    agent.event(&hub, "modified", "Pod", &failing).await?;
    let mut connection = trustplane_inventory_hub::store::open(hub.folder()).await?;
    let kept: Vec<(String, String, String, i64)> =
        sqlx::query_as("SELECT kind, namespace, class, n FROM counts ORDER BY 1, 2, 3")
            .fetch_all(&mut connection)
            .await?;
    let counted: Vec<(String, String, String, i64)> = sqlx::query_as(
        "SELECT kind, namespace, class, count(*) FROM objects WHERE deleted_at IS NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    )
    .fetch_all(&mut connection)
    .await?;
    assert_eq!(kept, counted);
    let cluster = person.cluster(&agent).await?;
    assert_eq!(
        (&cluster["counts"]["Pod"], &cluster["problems"]["Pod"]),
        (&json!(3), &json!(1))
    );
    Ok(())
}

#[tokio::test]
async fn acknowledged_data_survives_a_restart() -> Result<()> {
    let mut hub = TestHub::start().await?;
    let agent = hub.signed_in_agent("a").await?;
    agent
        .snapshot(&hub, with(&[("pods", json!([pod("u1", "one")]))]))
        .await?;
    agent.event(&hub, "deleted", "Pod", &pod("u2", "two")).await?;
    hub.restart().await?;
    let person = hub.person().await?;
    assert_eq!(person.names("").await?, ["one"]);
    agent.event(&hub, "added", "Pod", &pod("u2", "two")).await?;
    assert_eq!(person.names("").await?, ["one"], "tombstones survive too");
    Ok(())
}

#[tokio::test]
async fn tombstones_are_forgotten_after_their_time() -> Result<()> {
    let mut hub = TestHub::start().await?;
    let agent = hub.signed_in_agent("a").await?;
    let event = named("e", Some("shop"));
    agent.event(&hub, "added", "Event", &event).await?;
    for (kind, object) in [("Event", &event), ("Pod", &pod("p", "web"))] {
        agent.event(&hub, "deleted", kind, object).await?;
    }
    agent.event(&hub, "added", "Node", &named("n", None)).await?;
    let known = async |hub: &TestHub| -> Result<Vec<String>> {
        let mut connection = trustplane_inventory_hub::store::open(hub.folder()).await?;
        Ok(sqlx::query_scalar("SELECT kind FROM objects ORDER BY kind")
            .fetch_all(&mut connection)
            .await?)
    };
    assert_eq!(known(&hub).await?, ["Event", "Node", "Pod"]);
    hub.pass(24 * 3600 + 1);
    hub.restart().await?;
    until(async || Ok(known(&hub).await? == ["Node", "Pod"])).await?;
    hub.pass(29 * 24 * 3600);
    hub.restart().await?;
    until(async || Ok(known(&hub).await? == ["Node"])).await
}
