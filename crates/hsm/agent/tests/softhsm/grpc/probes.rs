//! The health port.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use trustplane_hsm_agent::catalogue::Catalogue;
use trustplane_hsm_agent::meters::Meters;
use trustplane_hsm_agent::probes::Probes;
use trustplane_hsm_agent::{AgentError, Host, Phase};
use trustplane_pkcs11_shim::pkcs11::CKR_TOKEN_NOT_PRESENT;
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault};
use trustplane_process::admin::Liveness;
use trustplane_process::metrics::Metrics;

use super::{Agent, NO_PASSES, read, write};
use crate::stage::{PATIENCE, Stage, eventually, open, until};

pub struct Port {
    pub router: axum::Router,
    pcscd: watch::Sender<bool>,
    stop: CancellationToken,
}

impl Port {
    pub fn of(agent: &Agent) -> Self {
        Self::over(
            agent.host.clone(),
            agent.catalogue.clone(),
            (agent.meters.clone(), agent.metrics.clone()),
        )
    }

    fn over(host: Arc<Host>, catalogue: Arc<Catalogue>, (meters, metrics): (Meters, Metrics)) -> Self {
        let ((pcscd, runs), stop) = (watch::channel(true), CancellationToken::new());
        let probes = Probes {
            host,
            catalogue,
            meters,
            metrics,
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

    /// Asks until it is so.
    async fn until(&self, path: &str, wanted: StatusCode) -> Value {
        let asked = || async {
            let (status, body) = self.json(path).await;
            Ok((status == wanted).then_some(body))
        };
        trustplane_testkit::until(path, PATIENCE, asked).await.unwrap()
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
    // An answer counts for a second.
    let health = port.until("/healthz", StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(health["hsmConnected"], json!(false));
    let unready = json!({"status": "not_ready", "reason": "hsm_token_unavailable"});
    assert_eq!(
        port.json("/readyz").await,
        (StatusCode::SERVICE_UNAVAILABLE, unready)
    );
    until(&agent.host, |health| health.phase == Phase::Unavailable).await;
    assert_eq!(port.get("/livez").await, (StatusCode::OK, "ok\n".to_owned()));
    agent.stage.heal();
    crate::stage::serving(&agent.host).await;
    port.until("/readyz", StatusCode::OK).await;

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
async fn any_number_of_probes_has_one_place_in_the_queue_and_callers_the_rest() {
    const PLACES: usize = 3;
    let stage = Stage::new();
    let mut settings = stage.settings();
    (settings.queue, settings.deadline) = (PLACES, std::time::Duration::from_secs(3600));
    // Nobody asks but those who are counted here.
    let (host, metrics) = (Arc::new(open(settings).await), Metrics::new());
    let port = Port::over(
        host.clone(),
        Arc::new(Catalogue::new(NO_PASSES)),
        (Meters::new(&metrics), metrics),
    );
    stage.set(Control::fault(Fault::before(1, Action::Freeze)));
    let frozen = tokio::spawn({
        let host = host.clone();
        async move { host.info().await }
    });
    stage.failed().await;
    let ask = |path: &'static str| {
        let router = port.router.clone();
        tokio::spawn(async move {
            let request = Request::get(path).body(Body::empty()).unwrap();
            router.oneshot(request).await.unwrap().status()
        })
    };
    // Half of them go away before they are answered.
    let probes: Vec<_> = (0..50).map(|_| (ask("/healthz"), ask("/readyz"))).collect();
    eventually("the token is asked once", || host.waiting() == 1).await;
    for (left, _) in &probes {
        left.abort();
    }
    for (_, patient) in probes {
        assert_eq!(patient.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    let more: Vec<_> = (0..50).map(|_| ask("/healthz")).collect();
    let calls: Vec<_> = (1..PLACES)
        .map(|_| {
            let host = host.clone();
            tokio::spawn(async move { host.info().await })
        })
        .collect();
    eventually("they wait", || host.waiting() == PLACES).await;
    for probe in more {
        assert_eq!(probe.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(host.waiting(), PLACES, "none was refused, and none has gone");
    assert_eq!(host.info().await, Err(AgentError::Busy));
    stage.heal();
    crate::process::kill(host.health().borrow().process.unwrap());
    for call in calls.into_iter().chain([frozen]) {
        assert!(!matches!(call.await.unwrap(), Err(AgentError::Busy)));
    }
}

#[tokio::test]
async fn a_token_whose_queue_is_full_is_served() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    (settings.queue, settings.deadline) = (1, std::time::Duration::from_secs(3600));
    let (host, metrics) = (Arc::new(open(settings).await), Metrics::new());
    let port = Port::over(
        host.clone(),
        Arc::new(Catalogue::new(NO_PASSES)),
        (Meters::new(&metrics), metrics),
    );
    stage.set(Control::fault(Fault::before(1, Action::Freeze)));
    let ask = || {
        let host = host.clone();
        tokio::spawn(async move { host.info().await })
    };
    let frozen = ask();
    stage.failed().await;
    let waiting = ask();
    eventually("the queue is full", || host.waiting() == 1).await;
    for path in ["/readyz", "/healthz"] {
        assert_eq!(port.get(path).await.0, StatusCode::OK, "{path}");
    }
    stage.heal();
    crate::process::kill(host.health().borrow().process.unwrap());
    for call in [frozen, waiting] {
        call.await.unwrap().unwrap_err();
    }
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
