//! What people can ask.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::harness::{TestHub, pod, strings};

#[tokio::test]
async fn pages_show_each_of_a_thousand_objects_once() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let pods: Vec<Value> = (0..1_000)
        .map(|i| pod(&format!("u{i}"), &format!("Pod-{}", (i * 7919) % 1_000)))
        .collect();
    agent.snapshot(&hub, json!({"pods": pods})).await?;
    for query in [
        "",
        "sort=name&order=desc",
        "sort=changed&order=desc",
        "sort=created",
    ] {
        let mut seen: Vec<String> = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = person
                .see(&format!(
                    "/api/v1/objects?kind=Pod&limit=77&{query}&cursor={cursor}"
                ))
                .await?;
            assert_eq!(page["total"], 1_000);
            seen.extend(strings(&page["items"], "name"));
            match page["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen.len(), 1_000, "{query}");
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 1_000, "{query}");
        if query.is_empty() {
            let mut sorted = seen.clone();
            sorted.sort_by_key(|name| name.to_lowercase());
            assert_eq!(seen, sorted);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_cursor_stays_right_while_rows_come_and_go() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let pods: Vec<Value> = ["b", "d", "f", "h"].iter().map(|name| pod(name, name)).collect();
    agent.snapshot(&hub, json!({"pods": pods})).await?;
    let first = person.see("/api/v1/objects?limit=2").await?;
    assert_eq!(strings(&first["items"], "name"), ["b", "d"]);
    let next = first["next"].as_str().context("a next page")?.to_owned();
    agent.event(&hub, "deleted", "Pod", &pod("d", "d")).await?;
    agent.event(&hub, "added", "Pod", &pod("a", "a")).await?;
    agent.event(&hub, "added", "Pod", &pod("e", "e")).await?;
    let second = person
        .see(&format!("/api/v1/objects?limit=2&cursor={next}"))
        .await?;
    assert_eq!(strings(&second["items"], "name"), ["e", "f"]);
    let answer = person
        .get(&format!("/api/v1/objects?limit=2&kind=Node&cursor={next}"))
        .await?;
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_str()),
        (400, Some("bad_parameter"))
    );
    Ok(())
}

#[tokio::test]
async fn filters_narrow_a_list() -> Result<()> {
    let hub = TestHub::start().await?;
    let person = hub.person().await?;
    let (one, other) = (
        hub.signed_in_agent("one").await?,
        hub.signed_in_agent("other").await?,
    );
    let mut failed = pod("u2", "Web-2");
    failed["phase"] = json!("Failed");
    let mut elsewhere = pod("u3", "web-3");
    elsewhere["namespace"] = json!("ops");
    let service = json!({"uid": "s", "name": "web", "namespace": "shop", "service_type": "ClusterIP"});
    one.snapshot(
        &hub,
        json!({"pods": [pod("u1", "web-1"), failed, elsewhere], "services": [service]}),
    )
    .await?;
    other.snapshot(&hub, json!({"pods": [pod("u1", "db-1")]})).await?;
    for (query, names, total) in [
        ("kind=Pod", vec!["db-1", "web-1", "Web-2", "web-3"], 4),
        ("cluster=c-one", vec!["web", "web-1", "Web-2", "web-3"], 4),
        ("cluster=c-one&kind=Pod&namespace=shop", vec!["web-1", "Web-2"], 2),
        ("q=WEB&kind=Pod", vec!["web-1", "Web-2", "web-3"], 3),
        ("status=error", vec!["Web-2"], 1),
        ("q=nothing", vec![], 0),
        ("q=%25", vec![], 0),
        ("limit=1&sort=name&order=desc", vec!["web-3"], 5),
    ] {
        let list = person.see(&format!("/api/v1/objects?{query}")).await?;
        assert_eq!(strings(&list["items"], "name"), names, "{query}");
        assert_eq!(list["total"], total, "{query}");
    }
    for (query, says) in [
        ("limit=0", "limit: must be between 1 and 500"),
        ("limit=501", "limit: must be between 1 and 500"),
        ("limit=many", "limit: must be between 1 and 500"),
        ("sort=size", "sort: must be name, changed or created"),
        ("order=up", "order: must be asc or desc"),
        (
            "status=bad",
            "status: must be ok, progress, warning, error or none",
        ),
        (
            "cursor=x",
            "cursor: must be the `next` of an answer to the same query",
        ),
    ] {
        let answer = person.get(&format!("/api/v1/objects?{query}")).await?;
        assert_eq!((answer.status, answer.message().as_str()), (400, says), "{query}");
    }
    assert_eq!(person.get("/api/v1/objects?cluster=nobody").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_known_is_not_sent_again() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    agent.snapshot(&hub, json!({"pods": [pod("u", "web")]})).await?;
    let id = &agent.id;
    for path in [
        "/api/v1/clusters".to_owned(),
        format!("/api/v1/clusters/{id}"),
        format!("/api/v1/clusters/{id}/counts"),
        format!("/api/v1/clusters/{id}/namespaces"),
        format!("/api/v1/clusters/{id}/objects/u"),
        format!("/api/v1/clusters/{id}/objects/u/related"),
        "/api/v1/objects".to_owned(),
        "/api/v1/events".to_owned(),
    ] {
        let first = person.get(&path).await?;
        let tag = first.header("etag").to_owned();
        assert!(!tag.is_empty(), "{path}");
        let second = person.get_with(&path, &[("if-none-match", &tag)]).await?;
        assert_eq!((second.status, second.body.len()), (304, 0), "{path}");
        assert_eq!(second.header("etag"), tag, "{path}");
    }
    let tag = person.get("/api/v1/objects").await?.header("etag").to_owned();
    agent.event(&hub, "deleted", "Pod", &pod("u", "web")).await?;
    assert_eq!(
        person
            .get_with("/api/v1/objects", &[("if-none-match", &tag)])
            .await?
            .status,
        200
    );
    Ok(())
}

#[tokio::test]
async fn a_cluster_tells_counts_namespaces_and_agents() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let mut failed = pod("u2", "two");
    failed["phase"] = json!("Failed");
    let warning = json!({"uid": "e", "name": "e", "namespace": "shop", "type": "Warning", "reason": "BackOff", "message": "m",
        "involved_object": {"kind": "Pod", "name": "two", "uid": "u2"}, "source": {}, "count": 1});
    let namespace = json!({"uid": "n", "name": "shop", "phase": "Active"});
    let empty = json!({"uid": "m", "name": "empty", "phase": "Terminating"});
    let arrays =
        json!({"pods": [pod("u1", "one"), failed], "events": [warning], "namespaces": [namespace, empty]});
    agent.snapshot(&hub, arrays).await?;
    let id = &agent.id;
    let counts = person
        .see(&format!("/api/v1/clusters/{id}/counts?namespace=shop"))
        .await?;
    assert_eq!(
        counts["items"],
        json!([{"kind": "Event", "count": 1, "problems": 1}, {"kind": "Pod", "count": 2, "problems": 1}])
    );
    let namespaces = person.see(&format!("/api/v1/clusters/{id}/namespaces")).await?;
    assert_eq!(
        namespaces["items"],
        json!([{"name": "empty", "phase": "Terminating", "uid": "m", "objects": 0, "problems": 0, "counts": {}},
            {"name": "shop", "phase": "Active", "uid": "n", "objects": 3, "problems": 1, "counts": {"Event": 1, "Pod": 2}}])
    );
    agent.heartbeat(&hub).await?;
    let agents = person.see(&format!("/api/v1/clusters/{id}/agents")).await?;
    assert_eq!(agents["items"][0]["agent_version"], "0.3.7");
    assert_eq!(agents["items"][0]["state"], "connected");
    let cluster = person.cluster(&agent).await?;
    let activity = cluster["activity"].as_array().context("activity")?;
    assert_eq!(activity.len(), 30);
    assert_eq!(activity.iter().filter_map(Value::as_i64).sum::<i64>(), 5);
    assert_eq!(person.get("/api/v1/clusters/nobody").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn events_are_listed_the_latest_first() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let event = |number: usize, about: &str, type_: &str| {
        json!({"uid": format!("e{number}"), "name": format!("e{number}"), "namespace": "shop", "type": type_,
            "reason": "Pulled", "message": "image pulled", "count": 3, "source": {"component": "kubelet", "host": "n1"},
            "first_timestamp": "2026-01-01T00:00:00Z", "last_timestamp": format!("2026-01-01T00:00:{number:02}Z"),
            "involved_object": {"kind": "Pod", "name": about, "namespace": "shop", "uid": about}})
    };
    let events: Vec<Value> = (0..30)
        .map(|i| {
            event(
                i,
                if i % 2 == 0 { "even" } else { "odd" },
                if i % 10 == 0 { "Warning" } else { "Normal" },
            )
        })
        .collect();
    agent.snapshot(&hub, json!({"events": events})).await?;
    let first = person.see("/api/v1/events?limit=20").await?;
    let next = first["next"].as_str().context("a next page")?;
    let second = person
        .see(&format!("/api/v1/events?limit=20&cursor={next}"))
        .await?;
    let uids = [strings(&first["items"], "uid"), strings(&second["items"], "uid")].concat();
    let wanted: Vec<String> = (0..30).rev().map(|i| format!("e{i}")).collect();
    assert_eq!(uids, wanted);
    assert_eq!(second["next"], json!(null));
    assert_eq!(
        first["items"][0],
        json!({"cluster": agent.id, "uid": "e29", "namespace": "shop", "type": "Normal", "reason": "Pulled",
            "message": "image pulled", "count": 3, "first": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:00:29Z",
            "involved": {"kind": "Pod", "name": "odd", "namespace": "shop", "uid": "odd"}, "source": "kubelet"})
    );
    let about = person
        .see("/api/v1/events?involved=even&type=Warning&cluster=c-a&namespace=shop")
        .await?;
    assert_eq!(strings(&about["items"], "uid"), ["e20", "e10", "e0"]);
    Ok(())
}

#[tokio::test]
async fn an_object_shows_what_it_has_to_do_with() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let mut web = pod("p", "web-0");
    web["volumes"] = json!([{"name": "c", "type": "configMap", "source": "conf"}]);
    let arrays = json!({
        "pods": [web, pod("q", "web-1")],
        "nodes": [{"uid": "n", "name": "node-1", "status": "Ready"}],
        "services": [{"uid": "s", "name": "web", "namespace": "shop", "selector": {"app": "web"}},
            {"uid": "t", "name": "other", "namespace": "shop", "selector": {"app": "db"}}],
        "deployments": [{"uid": "d", "name": "web", "namespace": "shop", "selector": {"app": "web"}, "replicas": 2, "ready_replicas": 2}],
        "configmaps": [{"uid": "c", "name": "conf", "namespace": "shop"}, {"uid": "x", "name": "conf", "namespace": "ops"}],
    });
    agent.snapshot(&hub, arrays).await?;
    let related = async |uid: &str| -> Result<Vec<(String, Vec<String>)>> {
        let list = person
            .see(&format!("/api/v1/clusters/{}/objects/{uid}/related", agent.id))
            .await?;
        let groups = list["groups"].as_array().context("groups")?;
        Ok(groups
            .iter()
            .map(|group| {
                (
                    group["relation"].as_str().unwrap_or_default().to_owned(),
                    strings(&group["items"], "uid"),
                )
            })
            .collect())
    };
    let group = |relation: &str, uids: &[&str]| {
        (
            relation.to_owned(),
            uids.iter().map(|uid| (*uid).to_owned()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        related("p").await?,
        [
            group("Runs on", &["n"]),
            group("Mounts", &["c"]),
            group("Belongs to", &["d"]),
            group("Served by", &["s"])
        ]
    );
    assert_eq!(related("d").await?, [group("Pods", &["p", "q"])]);
    assert_eq!(related("n").await?, [group("Pods", &["p", "q"])]);
    assert_eq!(related("c").await?, [group("Mounted by", &["p"])]);
    assert_eq!(related("t").await?, []);
    assert_eq!(
        person
            .get("/api/v1/clusters/c-a/objects/none/related")
            .await?
            .status,
        404
    );
    Ok(())
}

#[tokio::test]
async fn an_open_page_hears_of_changes() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let console = hub.console();
    let request = Request::get("/api/v1/live")
        .header("host", console.host())
        .header("cookie", &person.cookie)
        .body(Full::new(Bytes::new()))?;
    let response = console.connect().await?.send_request(request).await?;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut heard = String::new();
    agent.event(&hub, "added", "Pod", &pod("u", "web")).await?;
    while !(heard.contains("event: change") && heard.contains("event: cluster") && heard.ends_with("\n\n")) {
        let frame = body.frame().await.context("the stream ended")??;
        heard.push_str(&String::from_utf8(
            frame
                .into_data()
                .map_err(|_| anyhow::anyhow!("no data"))?
                .to_vec(),
        )?);
    }
    let line = heard
        .lines()
        .find(|line| line.contains("kinds"))
        .context("a change")?;
    let change: Value = serde_json::from_str(line.trim_start_matches("data: "))?;
    assert_eq!(
        (&change["cluster"], &change["kinds"]),
        (&json!(agent.id), &json!(["Pod"]))
    );
    assert!(
        heard.contains(&format!(
            "event: cluster\ndata: {{\"cluster\":\"{}\"}}\n\n",
            agent.id
        )),
        "{heard}"
    );
    Ok(())
}
