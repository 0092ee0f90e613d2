//! Changes and heartbeats.

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::harness::{TestHub, pod};

#[tokio::test]
async fn changes_of_both_generations_are_taken() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent.event(&hub, "added", "Pod", &pod("u1", "one")).await?;
    agent.event(&hub, "ADDED", "Pod", &pod("u2", "two")).await?;
    let mut changed = pod("u2", "two");
    changed["phase"] = json!("Failed");
    agent.event(&hub, "UPDATED", "Pod", &changed).await?;
    let node = json!({"uid": "n", "name": "node-1", "status": "Ready", "labels": null, "roles": null});
    agent.event(&hub, "modified", "Node", &node).await?;
    assert_eq!(person.names("kind=Pod").await?, ["one", "two"]);
    assert_eq!(person.names("status=error").await?, ["two"]);
    assert_eq!(person.names("kind=Node").await?, ["node-1"]);
    agent.event(&hub, "DELETED", "Pod", &changed).await?;
    agent.event(&hub, "deleted", "Node", &node).await?;
    assert_eq!(person.names("").await?, ["one"]);
    Ok(())
}

#[tokio::test]
async fn a_path_with_two_slashes_and_any_bearer_case_is_taken() -> Result<()> {
    let hub = TestHub::start().await?;
    let agent = hub.signed_in_agent("a").await?;
    let event = agent.event_of("added", "Pod", &pod("u1", "one"));
    assert_eq!(
        agent.post(&hub, "//api/v1/agent/events", &event).await?.status,
        200
    );
    let bearer = format!("bearer {}", agent.token);
    let headers = [("authorization", bearer.as_str())];
    let answer = hub
        .agents()
        .send(Method::POST, "/api/v1/agent/events", &headers, event.to_string())
        .await?;
    assert_eq!(answer.status, 200, "no content type is needed");
    Ok(())
}

#[tokio::test]
async fn a_deleted_object_never_comes_back() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let gone = pod("gone", "one");
    agent.event(&hub, "added", "Pod", &gone).await?;
    agent.event(&hub, "deleted", "Pod", &gone).await?;
    agent.event(&hub, "modified", "Pod", &gone).await?;
    assert!(person.names("").await?.is_empty());
    agent.snapshot(&hub, json!({"pods": [gone]})).await?;
    assert!(person.names("").await?.is_empty(), "not by a snapshot either");
    let detail = person
        .see(&format!("/api/v1/clusters/{}/objects/gone", agent.id))
        .await?;
    assert!(
        detail["deleted"].is_string(),
        "what was there can still be looked at: {detail}"
    );
    agent
        .event(&hub, "deleted", "Pod", &pod("unknown", "two"))
        .await?;
    agent.event(&hub, "added", "Pod", &pod("unknown", "two")).await?;
    assert!(
        person.names("").await?.is_empty(),
        "a deletion that came first counts"
    );
    assert!(
        hub.metrics().contains("trustplane_hub_ignored_records_total 3"),
        "{}",
        hub.metrics()
    );
    Ok(())
}

#[tokio::test]
async fn a_new_object_under_a_name_replaces_the_old_one() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent.event(&hub, "added", "Pod", &pod("old", "web-0")).await?;
    let mut new = pod("new", "web-0");
    new["k8s_created_at"] = json!("2026-01-02T03:05:05Z");
    agent.event(&hub, "added", "Pod", &new).await?;
    agent.event(&hub, "modified", "Pod", &pod("old", "web-0")).await?;
    let list = person.see("/api/v1/objects?kind=Pod").await?;
    assert_eq!(list["total"], 1);
    assert_eq!(list["items"][0]["uid"], "new");
    Ok(())
}

#[tokio::test]
async fn an_object_that_did_not_change_is_not_written_again() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent.event(&hub, "added", "Pod", &pod("u", "web")).await?;
    let before = (
        person.see("/api/v1/objects").await?,
        person.cluster(&agent).await?,
    );
    hub.pass(10);
    let same = agent.event_of("modified", "Pod", &pod("u", "web"));
    let answer = agent.post(&hub, "/api/v1/agent/events", &same).await?;
    assert_eq!(
        answer.json(),
        json!({"status": "accepted", "objects": 1, "changed": 0})
    );
    let after = (
        person.see("/api/v1/objects").await?,
        person.cluster(&agent).await?,
    );
    assert_eq!(before.0, after.0);
    assert_ne!(
        before.1["last_contact"], after.1["last_contact"],
        "but the cluster was heard of"
    );
    Ok(())
}

#[tokio::test]
async fn kinds_that_the_hub_does_not_know_are_kept() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let widget = json!({"uid": "w", "name": "widget", "spec": {"size": 3}});
    agent.event(&hub, "added", "Widget", &widget).await?;
    let detail = person
        .see(&format!("/api/v1/clusters/{}/objects/w", agent.id))
        .await?;
    assert_eq!(detail["kind"], "Widget");
    assert_eq!(detail["object"]["spec"]["size"], 3);
    assert_eq!(detail["status"], json!({"class": "none", "word": ""}));
    agent
        .snapshot(&hub, json!({"pods": [], "widgets": [{"x": 1}]}))
        .await?;
    assert_eq!(
        person.names("kind=Widget").await?,
        ["widget"],
        "a snapshot does not speak of them"
    );
    Ok(())
}

#[tokio::test]
async fn a_client_is_bound_to_its_first_cluster() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent.event(&hub, "added", "Pod", &pod("u", "web")).await?;
    let mut other = agent.clone();
    other.uid = "another-cluster".to_owned();
    let event = other.event_of("deleted", "Pod", &pod("u", "web"));
    let snapshot = other.snapshot_of(json!({"pods": []}));
    let heartbeat = json!({"cluster_uid": other.uid});
    for (path, body) in [
        ("events", event),
        ("snapshot", snapshot),
        ("heartbeat", heartbeat),
    ] {
        let answer = agent.post(&hub, &format!("/api/v1/agent/{path}"), &body).await?;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "other_cluster");
    }
    assert_eq!(person.names("").await?, ["web"]);
    let cluster = person.cluster(&agent).await?;
    assert_eq!(cluster["uid"], json!(agent.uid));
    assert_eq!(cluster["alerts"].as_array().map(Vec::len), Some(1), "{cluster}");
    assert!(
        cluster["alerts"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .contains("another-cluster")
    );
    agent.heartbeat(&hub).await?;
    for (path, body) in [
        ("events", json!({"type": "added"})),
        ("snapshot", json!({"pods": []})),
        ("snapshot", json!({"cluster_uid": null})),
        ("heartbeat", json!({})),
    ] {
        let answer = agent.post(&hub, &format!("/api/v1/agent/{path}"), &body).await?;
        assert_eq!(answer.status, 400, "{path}");
        assert!(
            answer.message().starts_with("cluster_uid: required"),
            "{}",
            answer.text()
        );
    }
    Ok(())
}

#[tokio::test]
async fn clusters_do_not_reach_into_each_other() -> Result<()> {
    let hub = TestHub::start().await?;
    let person = hub.person().await?;
    let (one, other) = (
        hub.signed_in_agent("one").await?,
        hub.signed_in_agent("other").await?,
    );
    one.event(&hub, "added", "Pod", &pod("same-uid", "web")).await?;
    other.event(&hub, "added", "Pod", &pod("same-uid", "web")).await?;
    other
        .event(&hub, "deleted", "Pod", &pod("same-uid", "web"))
        .await?;
    other.snapshot(&hub, json!({"pods": []})).await?;
    let left = person.see("/api/v1/objects").await?;
    assert_eq!(left["total"], 1);
    assert_eq!(left["items"][0]["cluster"], json!(one.id));
    Ok(())
}

#[tokio::test]
async fn heartbeats_teach_the_interval_and_silence_shows() -> Result<()> {
    let hub = TestHub::start().await?;
    let person = hub.person().await?;
    let agent = hub.agent("a").await?;
    let state = async |wanted: &str| -> Result<Value> {
        let cluster = person.cluster(&agent).await?;
        assert_eq!(cluster["state"], wanted, "{cluster}");
        Ok(cluster)
    };
    state("pending").await?;
    let mut agent2 = agent.clone();
    agent2.renew(&hub).await?;
    for _ in 0..4 {
        agent2.heartbeat(&hub).await?;
        hub.pass(60);
    }
    let cluster = state("connected").await?;
    assert_eq!(cluster["heartbeat_seconds"], 60);
    assert_eq!(cluster["agent_version"], "0.3.7");
    hub.pass(90);
    state("connected").await?;
    hub.pass(1);
    state("stale").await?;
    hub.pass(15 * 60 - 150);
    state("disconnected").await?;
    agent2.event(&hub, "added", "Pod", &pod("u", "web")).await?;
    let back = state("connected").await?;
    assert_eq!(
        back["state_since"], back["last_contact"],
        "any request ends the silence"
    );
    Ok(())
}

#[tokio::test]
async fn objects_of_a_silent_cluster_are_marked_stale() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent.event(&hub, "added", "Pod", &pod("u", "web")).await?;
    assert_eq!(person.see("/api/v1/objects").await?["items"][0]["stale"], false);
    hub.pass(11 * 60);
    assert_eq!(person.see("/api/v1/objects").await?["items"][0]["stale"], true);
    Ok(())
}

#[tokio::test]
async fn values_never_reach_the_disk() -> Result<()> {
    const CANARY: &str = "canary-5f0c1d7e";
    let mut hub = TestHub::start().await?;
    let agent = hub.signed_in_agent("a").await?;
    let manifest = format!(r#"{{"apiVersion":"v1","kind":"Secret","data":{{"password":"{CANARY}"}}}}"#);
    let secret = json!({"uid": "s", "name": "db", "namespace": "shop", "type": "Opaque", "data_keys": ["password"],
        "data": {"password": CANARY}, "stringData": {"password": CANARY}, "labels": {"marker": "control-7a1b"},
        "annotations": {"kapp.k14s.io/original": manifest, "kubectl.kubernetes.io/last-applied-configuration": manifest,
            "some.tool/copy": manifest}, "immutable": false});
    let config = json!({"uid": "c", "name": "conf", "namespace": "shop", "data_keys": ["k"], "data": {"k": CANARY},
        "binaryData": {"b": CANARY}, "immutable": false});
    let widget = json!({"uid": "w", "name": "widget", "data": {"x": CANARY},
        "metadata": {"annotations": {"kapp.k14s.io/original": manifest}}});
    agent.event(&hub, "added", "Secret", &secret).await?;
    agent.event(&hub, "added", "ConfigMap", &config).await?;
    agent.event(&hub, "added", "Widget", &widget).await?;
    agent
        .snapshot(&hub, json!({"secrets": [secret], "configmaps": [config]}))
        .await?;
    let search = |hub: &TestHub, what: &str| -> Result<Vec<String>> {
        let files = hub.files()?.into_iter();
        let hits = files.filter(|(_, bytes)| bytes.windows(what.len()).any(|some| some == what.as_bytes()));
        Ok(hits.map(|(file, _)| file.display().to_string()).collect())
    };
    assert!(
        !search(&hub, "control-7a1b")?.is_empty(),
        "the search finds what is there"
    );
    assert!(search(&hub, CANARY)?.is_empty());
    let detail = hub
        .person()
        .await?
        .see(&format!("/api/v1/clusters/{}/objects/s", agent.id))
        .await?;
    assert_eq!(detail["object"]["data_keys"], json!(["password"]));
    hub.stop().await?;
    assert!(
        search(&hub, CANARY)?.is_empty(),
        "nor after the log was folded into the file"
    );
    Ok(())
}
