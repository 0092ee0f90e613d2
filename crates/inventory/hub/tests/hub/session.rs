//! Who may open the console: links, sessions, hosts and origins.

use anyhow::Result;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;

use crate::harness::{TestHub, pod, until};

#[tokio::test]
async fn a_link_signs_in_once() -> Result<()> {
    let hub = TestHub::start().await?;
    let link = hub.link().await?;
    let answer = hub.console().send(Method::GET, &link, &[], "").await?;
    assert_eq!((answer.status, answer.header("location")), (303, "/"));
    let cookie = answer.header("set-cookie");
    let name = format!("trustplane_hub_{}=", hub.console().at.port());
    assert!(cookie.starts_with(&name), "{cookie}");
    assert!(
        cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"),
        "{cookie}"
    );
    let again = hub.console().send(Method::GET, &link, &[], "").await?;
    assert_eq!(again.status, 403);
    assert!(
        again.text().contains("trustplane-hub sign-in"),
        "{}",
        again.text()
    );
    assert!(again.header("set-cookie").is_empty());
    for link in ["/sign-in", "/sign-in?token=", "/sign-in?token=x"] {
        assert_eq!(
            hub.console().send(Method::GET, link, &[], "").await?.status,
            403,
            "{link}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn links_and_sessions_end() -> Result<()> {
    let hub = TestHub::start().await?;
    let link = hub.link().await?;
    hub.pass(600);
    assert_eq!(
        hub.console().send(Method::GET, &link, &[], "").await?.status,
        403,
        "after ten minutes"
    );
    let person = hub.person().await?;
    assert_eq!(person.get("/api/v1/clusters").await?.status, 200);
    hub.pass(12 * 3600 - 1);
    assert_eq!(person.get("/api/v1/clusters").await?.status, 200);
    hub.pass(1);
    assert_eq!(
        person.get("/api/v1/clusters").await?.status,
        401,
        "after twelve hours"
    );
    let person = hub.person().await?;
    let cookie = [("cookie", person.cookie.as_str())];
    let out = hub
        .console()
        .send(Method::POST, "/api/v1/sign-out", &cookie, "")
        .await?;
    assert_eq!(out.status, 204);
    let cleared = format!("trustplane_hub_{}=;", hub.console().at.port());
    assert!(out.header("set-cookie").starts_with(&cleared), "{out:?}");
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(
        person.get("/api/v1/clusters").await?.status,
        401,
        "after signing out"
    );
    Ok(())
}

#[tokio::test]
async fn sessions_of_two_hubs_on_one_machine_do_not_end_each_other() -> Result<()> {
    let (one, other) = (TestHub::start().await?, TestHub::start().await?);
    // A browser keeps the cookies of both hubs and sends them to both.
    let cookies = format!("{}; {}", one.person().await?.cookie, other.person().await?.cookie);
    let headers = [("cookie", cookies.as_str())];
    for hub in [&one, &other] {
        let console = hub.console();
        let answer = console
            .send(Method::GET, "/api/v1/clusters", &headers, "")
            .await?;
        assert_eq!(answer.status, 200);
    }
    let out = other
        .console()
        .send(Method::POST, "/api/v1/sign-out", &headers, "")
        .await?;
    assert_eq!(out.status, 204);
    for (hub, status) in [(&one, 200), (&other, 401)] {
        let console = hub.console();
        let answer = console
            .send(Method::GET, "/api/v1/clusters", &headers, "")
            .await?;
        assert_eq!(answer.status, status);
    }
    Ok(())
}

#[tokio::test]
async fn stream_of_changes_ends_with_its_session_also_under_traffic() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, person) = (hub.signed_in_agent("a").await?, hub.person().await?);
    let console = hub.console();
    let request = http::Request::get("/api/v1/live")
        .header("host", console.host())
        .header("cookie", &person.cookie)
        .body(http_body_util::Empty::<bytes::Bytes>::new())?;
    let mut sender = console.connect().await?;
    let response = sender.send_request(request).await?;
    assert_eq!(response.status(), 200);
    let ended = tokio::spawn(response.into_body().collect());
    let headers = [("cookie", person.cookie.as_str())];
    let out = console
        .send(Method::POST, "/api/v1/sign-out", &headers, "")
        .await?;
    assert_eq!(out.status, 204);
    until(async || {
        let uid = trustplane_inventory_hub::secret::random_id("p");
        agent.event(&hub, "added", "Pod", &pod(&uid, &uid)).await?;
        Ok(ended.is_finished())
    })
    .await?;
    ended.await??;
    Ok(())
}

#[tokio::test]
async fn sessions_survive_a_restart_and_are_kept_as_hashes() -> Result<()> {
    let mut hub = TestHub::start().await?;
    let cookie = hub.person().await?.cookie;
    // The cookie belongs to a port, and the second hub has another one.
    let host = hub.console().host();
    hub.restart().await?;
    let headers = [("cookie", cookie.as_str()), ("host", host.as_str())];
    assert_eq!(
        hub.console()
            .send(Method::GET, "/api/v1/clusters", &headers, "")
            .await?
            .status,
        200
    );
    let value = cookie.split_once('=').map_or("", |(_, value)| value);
    for (file, bytes) in hub.files()? {
        assert!(
            !bytes.windows(value.len()).any(|some| some == value.as_bytes()),
            "{}",
            file.display()
        );
    }
    Ok(())
}

#[tokio::test]
async fn without_a_session_there_is_no_data() -> Result<()> {
    let hub = TestHub::start().await?;
    let guess = format!("trustplane_hub_{}=guess", hub.console().at.port());
    for path in [
        "/api/v1/clusters",
        "/api/v1/clusters/x",
        "/api/v1/objects",
        "/api/v1/events",
        "/api/v1/live",
        "/api/v1/nonsense",
        "/api/v1/clusters/x/objects/y",
        "/api/v1/clusters/x/agents",
    ] {
        for headers in [&[][..], &[("cookie", guess.as_str())][..]] {
            let answer = hub.console().send(Method::GET, path, headers, "").await?;
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.json()["error"]["code"], "signed_out");
        }
    }
    assert_eq!(
        hub.console()
            .send(Method::POST, "/api/v1/sign-out", &[], "")
            .await?
            .status,
        401
    );
    let health = hub.console().send(Method::GET, "/health", &[], "").await?;
    assert_eq!(health.json(), json!({"status": "ok"}));
    Ok(())
}

#[tokio::test]
async fn other_hosts_and_origins_are_refused() -> Result<()> {
    let hub = TestHub::start().await?;
    let person = hub.person().await?;
    let port = hub.console().at.port();
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let host = format!("{host}:{port}");
        let origin = format!("http://{host}");
        for headers in [
            vec![("host", host.as_str())],
            vec![("host", host.as_str()), ("origin", origin.as_str())],
        ] {
            assert_eq!(
                person.get_with("/api/v1/clusters", &headers).await?.status,
                200,
                "{headers:?}"
            );
        }
    }
    for path in ["/api/v1/clusters", "/", "/health", "/sign-in?token=x"] {
        let answer = person.get_with(path, &[("host", "evil.example")]).await?;
        assert_eq!(answer.status, 421, "{path}");
        for origin in ["http://evil.example", "null", "http://localhost:1"] {
            assert_eq!(
                person.get_with(path, &[("origin", origin)]).await?.status,
                403,
                "{path} {origin}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_answer_carries_the_headers_that_keep_pages_safe() -> Result<()> {
    let hub = TestHub::start().await?;
    let person = hub.person().await?;
    for path in [
        "/",
        "/clusters/x",
        "/api/v1/clusters",
        "/api/v1/nonsense",
        "/sign-in",
        "/api/nonsense",
    ] {
        let answer = person.get(path).await?;
        let policy = answer.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn paths_that_are_no_files_are_pages_of_the_console() -> Result<()> {
    let hub = TestHub::start().await?;
    let home = hub.console().send(Method::GET, "/", &[], "").await?;
    assert_eq!(home.status, 200);
    assert!(home.header("content-type").starts_with("text/html"));
    let page = hub
        .console()
        .send(Method::GET, "/clusters/x/pods?q=a", &[], "")
        .await?;
    assert_eq!((page.status, page.body), (200, home.body.clone()));
    let tag = home.header("etag").to_owned();
    let known = hub
        .console()
        .send(Method::GET, "/", &[("if-none-match", &tag)], "")
        .await?;
    assert_eq!((known.status, known.body.len()), (304, 0));
    assert_eq!(
        hub.console()
            .send(Method::POST, "/clusters", &[], "")
            .await?
            .status,
        405
    );
    assert_eq!(
        hub.console()
            .send(Method::POST, "/api/v1/agent/events", &[], "")
            .await?
            .status,
        401
    );
    let person = hub.person().await?;
    assert_eq!(
        person.get("/api/v1/agent/events").await?.status,
        404,
        "agents have a listener of their own"
    );
    assert_eq!(person.get("/api/v2/anything").await?.status, 404);
    Ok(())
}
