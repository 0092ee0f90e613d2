//! The health port.
//!
//! | path | answers |
//! |---|---|
//! | `/healthz` | 200 if the token answers, or has within the last second, else 503, and JSON as the original has it |
//! | `/readyz` | the same for whether calls are served |
//! | `/livez` | 200 while the process itself moves, whatever the token does: a pod is not killed for a token that is gone |
//! | `/metrics` | OpenMetrics text |
//!
//! A token that cannot be asked because so many wait for it answers them: it counts as one that does, unless it is known to be gone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_process::admin::Liveness;
use trustplane_process::metrics::{CONTENT_TYPE, Metrics};

use crate::catalogue::Catalogue;
use crate::host::Host;
use crate::meters::Meters;

/// How long the token may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an answer of the token counts.
const FRESH: Duration = Duration::from_secs(1);

/// What the health port tells of.
#[derive(Debug, Clone)]
pub struct Probes {
    /// The token.
    pub host: Arc<Host>,
    /// What is known of its secrets.
    pub catalogue: Arc<Catalogue>,
    /// What the agent counts.
    pub meters: Meters,
    /// Where that is registered.
    pub metrics: Metrics,
    /// What must keep moving.
    pub liveness: Liveness,
    /// Whether pcscd runs, where it is ours to run.
    pub pcscd: Option<watch::Receiver<bool>>,
    /// The end of the process.
    pub stop: CancellationToken,
}

#[derive(Debug, Clone)]
struct Shared {
    probes: Arc<Probes>,
    begun: Instant,
    /// The last look at the token.
    last: Arc<Mutex<Option<Look>>>,
}

impl Probes {
    /// The paths.
    pub fn router(self) -> Router {
        let shared = Shared {
            probes: Arc::new(self),
            begun: Instant::now(),
            last: Arc::default(),
        };
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/livez", get(livez))
            .route("/metrics", get(metrics))
            .with_state(shared)
    }
}

/// A question to the token: nothing as long as it has no answer, and then when it got which.
type Look = watch::Receiver<Option<(Instant, bool)>>;

impl Shared {
    /// Asks the token itself, and not what we remember of it; but anybody may ask this port, so all who ask at once ask once, and
    /// nobody asks for what was answered just now.
    async fn token_answers(&self) -> bool {
        let mut look = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let look = last.take().filter(|look| match *look.borrow() {
                Some((at, _)) => at.elapsed() < FRESH,
                None => look.has_changed().is_ok(),
            });
            let look = look.unwrap_or_else(|| self.look());
            last.insert(look).clone()
        };
        let answer = tokio::time::timeout(PATIENCE, look.wait_for(Option::is_some)).await;
        matches!(answer, Ok(Ok(answer)) if answer.is_some_and(|(_, answers)| answers))
    }

    /// Asks the token. It is waited for to the end, so that it has one place in the queue however many go away meanwhile.
    fn look(&self) -> Look {
        let (told, look) = watch::channel(None);
        let probes = self.probes.clone();
        tokio::spawn(async move {
            let answers = probes.host.fault().await.is_none();
            told.send_replace(Some((Instant::now(), answers)));
        });
        look
    }

    async fn lacks(&self) -> Option<&'static str> {
        let probes = &self.probes;
        let pcscd = probes.pcscd.as_ref().is_none_or(|runs| *runs.borrow());
        match () {
            () if probes.stop.is_cancelled() => Some("shutting_down"),
            () if !pcscd => Some("pcscd_unavailable"),
            () if !self.token_answers().await => Some("hsm_token_unavailable"),
            () => None,
        }
    }
}

async fn healthz(State(shared): State<Shared>) -> Response {
    let connected = shared.token_answers().await;
    let (code, status) = match connected {
        true => (StatusCode::OK, "healthy"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    let body = json!({
        "status": status,
        "hsmConnected": connected,
        "uptime": uptime(shared.begun.elapsed()),
        "timestamp": format!("{:.0}", Timestamp::now()),
    });
    (code, Json(body)).into_response()
}

async fn readyz(State(shared): State<Shared>) -> Response {
    match shared.lacks().await {
        None => (StatusCode::OK, Json(json!({"status": "ready"}))).into_response(),
        Some(reason) => {
            let body = json!({"status": "not_ready", "reason": reason});
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

async fn livez(State(shared): State<Shared>) -> Response {
    let report = shared.probes.liveness.report();
    let late: Vec<String> = report
        .iter()
        .filter_map(|(name, verdict)| Some(format!("{name}: {}\n", verdict.as_ref().err()?)))
        .collect();
    match late.is_empty() {
        true => (StatusCode::OK, "ok\n").into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, late.concat()).into_response(),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let probes = &shared.probes;
    let health = probes.host.health().borrow().clone();
    let capacity = probes.catalogue.figures_known().map(|(capacity, _)| capacity);
    probes
        .meters
        .observe(&health, probes.host.waiting(), capacity.as_ref());
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], probes.metrics.encode()).into_response()
}

/// Hours, minutes and seconds, as Go writes them.
fn uptime(age: Duration) -> String {
    let seconds = age.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_written_as_go_does() {
        let of = |seconds| uptime(Duration::from_secs(seconds));
        assert_eq!(
            [of(0), of(59), of(60), of(3600), of(90_061)],
            ["0s", "59s", "1m0s", "1h0m0s", "25h1m1s"]
        );
    }
}
