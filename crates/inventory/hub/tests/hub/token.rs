//! The token endpoint, rule by rule.

use anyhow::Result;
use http::Method;
use serde_json::json;
use trustplane_api::inventory::wire::JWT_BEARER;
use trustplane_inventory_hub::store;
use trustplane_inventory_hub::store::identity::{Added, RetiredKeys};

use crate::client::Answer;
use crate::harness::{TestHub, ask_token, exchange, form, pod};

fn refused(answer: &Answer, code: &str) {
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.json()["error"], code, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(answer.body.len() < 4096);
}

#[tokio::test]
async fn a_signed_assertion_gives_a_token_for_an_hour() -> Result<()> {
    let hub = TestHub::start().await?;
    let mut agent = hub.agent("a").await?;
    let answer = exchange(&hub, &agent.sign(&agent.claims(&hub, "j"))).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    assert_eq!(
        (&body["token_type"], &body["expires_in"]),
        (&json!("Bearer"), &json!(3600))
    );
    assert_eq!(answer.header("cache-control"), "no-store");
    agent.token = body["access_token"].as_str().unwrap_or_default().to_owned();
    agent.heartbeat(&hub).await?;
    hub.pass(3599);
    agent.heartbeat(&hub).await?;
    hub.pass(1);
    let body = json!({"cluster_uid": agent.uid});
    let answer = agent.post(&hub, "/api/v1/agent/heartbeat", &body).await?;
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert!(answer.header("www-authenticate").starts_with("Bearer"));
    Ok(())
}

#[tokio::test]
async fn the_form_has_its_rules() -> Result<()> {
    let hub = TestHub::start().await?;
    let agent = hub.agent("a").await?;
    let assertion = agent.sign(&agent.claims(&hub, "j"));
    let assertion = assertion.as_str();
    for (body, code) in [
        (String::new(), "invalid_request"),
        (form(&[("assertion", assertion)]), "invalid_request"),
        (form(&[("grant_type", JWT_BEARER)]), "invalid_request"),
        (
            form(&[("grant_type", JWT_BEARER), ("assertion", "")]),
            "invalid_request",
        ),
        (
            form(&[("grant_type", "client_credentials"), ("assertion", assertion)]),
            "unsupported_grant_type",
        ),
        (
            form(&[
                ("grant_type", JWT_BEARER),
                ("assertion", assertion),
                ("assertion", assertion),
            ]),
            "invalid_request",
        ),
        (
            form(&[("grant_type", JWT_BEARER), ("assertion", "a.b.c")]),
            "invalid_grant",
        ),
        ("x".repeat(20_000), "invalid_request"),
    ] {
        refused(&ask_token(&hub, body).await?, code);
    }
    let body = form(&[("grant_type", JWT_BEARER), ("assertion", assertion)]);
    let json = [("content-type", "application/json")];
    refused(
        &hub.agents()
            .send(Method::POST, "/oauth/token", &json, body.clone())
            .await?,
        "invalid_request",
    );
    let answer = hub.agents().send(Method::GET, "/oauth/token", &[], "").await?;
    assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
    let charset = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
    let answer = hub
        .agents()
        .send(Method::POST, "//oauth/token", &charset, body)
        .await?;
    assert_eq!(
        answer.status,
        200,
        "two slashes and a charset are fine: {}",
        answer.text()
    );
    Ok(())
}

#[tokio::test]
async fn an_unknown_client_and_a_bad_signature_look_alike() -> Result<()> {
    let hub = TestHub::start().await?;
    let (agent, other) = (hub.agent("a").await?, hub.agent("b").await?);
    let forged = exchange(&hub, &other.sign(&agent.claims(&hub, "j1"))).await?;
    let mut claims = agent.claims(&hub, "j2");
    claims["iss"] = json!("nobody");
    claims["sub"] = json!("nobody");
    let unknown = exchange(&hub, &agent.sign(&claims)).await?;
    refused(&forged, "invalid_grant");
    assert_eq!(forged.text(), unknown.text());
    assert_eq!(forged.status, unknown.status);
    Ok(())
}

#[tokio::test]
async fn claims_that_break_a_rule_are_refused() -> Result<()> {
    let hub = TestHub::start().await?;
    let agent = hub.agent("a").await?;
    let now = hub.now();
    for (claim, value, rule) in [
        (
            "aud",
            json!("https://elsewhere"),
            "aud must name a URL of this hub (--url)",
        ),
        ("sub", json!("c-b"), "iss and sub must be the same client"),
        ("exp", json!(now + 601), "exp may be at most 600 s after iat"),
        ("iat", json!(now + 120), "iat is in the future"),
    ] {
        let mut claims = agent.claims(&hub, &format!("j-{claim}"));
        claims[claim] = value;
        let answer = exchange(&hub, &agent.sign(&claims)).await?;
        refused(&answer, "invalid_grant");
        assert_eq!(answer.json()["error_description"], rule);
    }
    let mut claims = agent.claims(&hub, "j");
    claims["aud"] = json!(["https://other", "https://hub.example/"]);
    assert_eq!(exchange(&hub, &agent.sign(&claims)).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn an_assertion_works_once_also_across_a_restart() -> Result<()> {
    let mut hub = TestHub::start().await?;
    let agent = hub.agent("a").await?;
    let assertion = agent.sign(&agent.claims(&hub, "once"));
    assert_eq!(exchange(&hub, &assertion).await?.status, 200);
    refused(&exchange(&hub, &assertion).await?, "invalid_grant");
    hub.restart().await?;
    let again = exchange(&hub, &assertion).await?;
    refused(&again, "invalid_grant");
    assert!(again.text().contains("used before"), "{}", again.text());
    let same_id = agent.sign(&agent.claims(&hub, "once"));
    refused(&exchange(&hub, &same_id).await?, "invalid_grant");
    assert_eq!(
        exchange(&hub, &agent.sign(&agent.claims(&hub, "twice")))
            .await?
            .status,
        200
    );
    Ok(())
}

#[tokio::test]
async fn assertion_is_remembered_while_its_expiry_is_tolerated() -> Result<()> {
    let hub = TestHub::start().await?;
    let agent = hub.agent("a").await?;
    let claims = agent.claims(&hub, "once");
    let assertion = agent.sign(&claims);
    assert_eq!(exchange(&hub, &assertion).await?.status, 200);
    // A hub whose clock is 59 s ahead of the agent's still accepts `exp`, so that it must still know the `jti`.
    for seconds in [301, 358 - 301, 1] {
        hub.pass(seconds);
        hub.clean().await?;
        let again = exchange(&hub, &assertion).await?;
        refused(&again, "invalid_grant");
        assert!(
            again.text().contains("used before"),
            "{seconds}: {}",
            again.text()
        );
        let mut other = claims.clone();
        other["jti"] = json!(format!("other-{seconds}"));
        assert_eq!(
            exchange(&hub, &agent.sign(&other)).await?.status,
            200,
            "another assertion of the same time is accepted"
        );
    }
    hub.pass(1);
    let late = exchange(&hub, &assertion).await?;
    assert_eq!(late.json()["error_description"], "exp has passed");
    Ok(())
}

#[tokio::test]
async fn tokens_survive_a_restart_and_are_kept_as_hashes() -> Result<()> {
    let mut hub = TestHub::start().await?;
    let agent = hub.signed_in_agent("a").await?;
    hub.restart().await?;
    agent.event(&hub, "added", "Pod", &pod("u", "web")).await?;
    for (file, bytes) in hub.files()? {
        let found = bytes
            .windows(agent.token.len())
            .any(|some| some == agent.token.as_bytes());
        assert!(!found, "a token in {}", file.display());
    }
    Ok(())
}

#[tokio::test]
async fn a_disabled_client_is_refused_at_once() -> Result<()> {
    let hub = TestHub::start().await?;
    let agent = hub.signed_in_agent("a").await?;
    agent.heartbeat(&hub).await?;
    let mut connection = store::open(hub.folder()).await?;
    sqlx::query("UPDATE clients SET disabled = 1")
        .execute(&mut connection)
        .await?;
    let answer = agent
        .post(
            &hub,
            "/api/v1/agent/heartbeat",
            &json!({"cluster_uid": agent.uid}),
        )
        .await?;
    assert_eq!(answer.status, 401);
    refused(
        &exchange(&hub, &agent.sign(&agent.claims(&hub, "j"))).await?,
        "invalid_grant",
    );
    Ok(())
}

#[tokio::test]
async fn a_client_has_at_most_four_keys_and_loses_all_but_the_newest() -> Result<()> {
    let hub = TestHub::start().await?;
    let first = hub.agent("a").await?;
    assert_eq!(hub.add_key(&first, "a").await?, Added::Known);
    let mut newest = first.clone();
    for number in 2..=5 {
        // Another key, whose id the test's helper takes from the name.
        let mut other = hub.agent(&format!("spare{number}")).await?;
        assert_eq!(hub.add_key(&other, "x").await?, Added::Known);
        let mut connection = store::open(hub.folder()).await?;
        sqlx::query("DELETE FROM clients WHERE id = ?1")
            .bind(&other.id)
            .execute(&mut connection)
            .await?;
        let mut key = other.public();
        key.kid = format!("kid-{number}");
        let now = hub.now() * 1000;
        let added = store::identity::add_client(&mut connection, &first.id, "a", &key, now).await?;
        assert_eq!(added, if number <= 4 { Added::Key } else { Added::Full });
        if number <= 4 {
            other.id.clone_from(&first.id);
            newest = other;
        }
    }
    let mut connection = store::open(hub.folder()).await?;
    for (removed, accepted) in [(None, [200, 200]), (Some(3), [400, 200]), (Some(0), [400, 200])] {
        if let Some(removed) = removed {
            let retired = store::identity::retire_keys(&mut connection, &first.id).await?;
            let kept = Some("kid-4".to_owned());
            assert_eq!(retired, Some(RetiredKeys { removed, kept }));
        }
        for (agent, status) in [&first, &newest].into_iter().zip(accepted) {
            let jti = trustplane_inventory_hub::secret::random_id("j");
            let answer = exchange(&hub, &agent.sign(&agent.claims(&hub, &jti))).await?;
            assert_eq!(answer.status, status);
        }
    }
    assert_eq!(
        store::identity::retire_keys(&mut connection, "nobody").await?,
        None
    );
    Ok(())
}

#[tokio::test]
async fn too_many_requests_are_asked_to_wait() -> Result<()> {
    use trustplane_inventory_hub::rate::Rate;
    let rare = Rate {
        burst: 2.0,
        per_second: 1e-6,
    };
    let hub = TestHub::with(|_, rates| rates.token_address = rare).await?;
    let agent = hub.agent("a").await?;
    for jti in ["1", "2"] {
        assert_eq!(
            exchange(&hub, &agent.sign(&agent.claims(&hub, jti)))
                .await?
                .status,
            200
        );
    }
    let answer = exchange(&hub, &agent.sign(&agent.claims(&hub, "3"))).await?;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "3600"));
    assert_eq!(answer.json()["error"], "slow_down");

    let hub = TestHub::with(|_, rates| rates.token_client = rare).await?;
    let (agent, other) = (hub.agent("a").await?, hub.agent("b").await?);
    for jti in ["1", "2"] {
        assert_eq!(
            exchange(&hub, &agent.sign(&agent.claims(&hub, jti)))
                .await?
                .status,
            200
        );
        // Whoever only claims to be a client does not use up its turns.
        refused(
            &exchange(&hub, &other.sign(&agent.claims(&hub, jti))).await?,
            "invalid_grant",
        );
    }
    assert_eq!(
        exchange(&hub, &agent.sign(&agent.claims(&hub, "3")))
            .await?
            .status,
        429
    );
    assert_eq!(
        exchange(&hub, &other.sign(&other.claims(&hub, "3")))
            .await?
            .status,
        200
    );
    Ok(())
}
