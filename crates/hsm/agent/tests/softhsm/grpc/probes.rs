//! The health port.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use trustplane_hsm_agent::Phase;
use trustplane_hsm_agent::probes::Probes;
use trustplane_pkcs11_shim::pkcs11::CKR_TOKEN_NOT_PRESENT;
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault};
use trustplane_process::admin::Liveness;

use super::{Agent, read, write};
use crate::stage::until;

pub struct Port {
    pub router: axum::Router,
    pcscd: watch::Sender<bool>,
    stop: CancellationToken,
}

impl Port {
    pub fn of(agent: &Agent) -> Self {
        let ((pcscd, runs), stop) = (watch::channel(true), CancellationToken::new());
        let probes = Probes {
            host: agent.host.clone(),
            catalogue: agent.catalogue.clone(),
            meters: agent.meters.clone(),
            metrics: agent.metrics.clone(),
            liveness: Liveness::default(),
            pcscd: Some(runs),
            stop: stop.clone(),
        };
        Self {
            router: probes.router(),
            pcscd,
            stop,
        }
    }

    pub async fn get(&self, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn json(&self, path: &str) -> (StatusCode, Value) {
        let (status, body) = self.get(path).await;
        (status, serde_json::from_str(&body).unwrap())
    }
}

#[tokio::test]
async fn probes_answer_as_the_original_does_and_a_lost_token_does_not_kill_the_pod() {
    let agent = Agent::start().await;
    let port = Port::of(&agent);
    assert_eq!(
        port.json("/readyz").await,
        (StatusCode::OK, json!({"status": "ready"}))
    );
    let (status, health) = port.json("/healthz").await;
    assert_eq!(
        (status, &health["status"], &health["hsmConnected"]),
        (StatusCode::OK, &json!("healthy"), &json!(true))
    );
    let keys: Vec<&String> = health.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 4, "{health}");
    assert!(health["timestamp"].as_str().unwrap().ends_with('Z') && health["uptime"].is_string());

    let gone = Fault::before(1, Action::Answer(CKR_TOKEN_NOT_PRESENT)).lasting(Duration::Always);
    agent.stage.set(Control::fault(gone));
    let (status, health) = port.json("/healthz").await;
    assert_eq!(
        (status, &health["hsmConnected"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!(false))
    );
    let unready = json!({"status": "not_ready", "reason": "hsm_token_unavailable"});
    assert_eq!(
        port.json("/readyz").await,
        (StatusCode::SERVICE_UNAVAILABLE, unready)
    );
    until(&agent.host, |health| health.phase == Phase::Unavailable).await;
    assert_eq!(port.get("/livez").await, (StatusCode::OK, "ok\n".to_owned()));
    agent.stage.heal();
    crate::stage::serving(&agent.host).await;
    assert_eq!(port.json("/readyz").await.0, StatusCode::OK);

    port.pcscd.send_replace(false);
    assert_eq!(port.json("/readyz").await.1["reason"], "pcscd_unavailable");
    port.stop.cancel();
    assert_eq!(port.json("/readyz").await.1["reason"], "shutting_down");
}

#[tokio::test]
async fn a_module_that_hangs_does_not_hold_the_probe() {
    let agent = Agent::start().await;
    let port = Port::of(&agent);
    agent.stage.set(Control::fault(Fault::before(1, Action::Freeze)));
    let answer = tokio::time::timeout(std::time::Duration::from_secs(8), port.get("/readyz")).await;
    assert_eq!(answer.unwrap().0, StatusCode::SERVICE_UNAVAILABLE);
    agent.stage.heal();
}

#[tokio::test]
async fn what_happens_is_counted() {
    let agent = Agent::start().await;
    let (mut client, port) = (agent.client(), Port::of(&agent));
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    client.read_secret(read("a")).await.unwrap();
    client.read_secret(read("b")).await.unwrap_err();
    client
        .list_secrets(trustplane_api::hsm::v1::ListSecretsRequest::default())
        .await
        .unwrap();
    let (_, text) = port.get("/metrics").await;
    for line in [
        r#"trustplane_hsm_agent_requests_total{method="ReadSecret",code="OK"} 1"#,
        r#"trustplane_hsm_agent_requests_total{method="ReadSecret",code="NOT_FOUND"} 1"#,
        r#"trustplane_hsm_agent_request_duration_seconds_count{method="WriteSecret"} 1"#,
        r#"trustplane_hsm_agent_phase{phase="Serving"} 1"#,
        r#"trustplane_hsm_agent_module_events_total{event="start"} 1"#,
        r#"trustplane_hsm_agent_module_events_total{event="crash"} 0"#,
        r#"trustplane_hsm_agent_token_objects{state="used"} "#,
        "trustplane_hsm_agent_queue_depth 0",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
