//! The paths of the admin port.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::{Report, Sources};
use crate::metrics::CONTENT_TYPE;

/// Which paths one listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Routes {
    health: bool,
    metrics: bool,
    debug: bool,
}

impl Routes {
    pub(super) const ALL: Self = Self {
        health: true,
        metrics: true,
        debug: true,
    };
    pub(super) const HEALTH: Self = Self {
        health: true,
        metrics: false,
        debug: false,
    };
    pub(super) const METRICS: Self = Self {
        health: false,
        metrics: true,
        debug: false,
    };

    pub(super) fn union(self, other: Self) -> Self {
        Self {
            health: self.health | other.health,
            metrics: self.metrics | other.metrics,
            debug: self.debug | other.debug,
        }
    }
}

pub(super) fn router(routes: Routes, sources: &Sources) -> Router {
    let mut router = Router::new();
    if routes.health {
        router = router
            .route("/livez", get(livez))
            .route("/healthz", get(livez))
            .route("/readyz", get(readyz));
    }
    if routes.metrics {
        router = router.route("/metrics", get(metrics));
    }
    if routes.debug {
        router = router.route("/debug/state.json", get(state));
    }
    router.with_state(sources.clone())
}

async fn livez(State(sources): State<Sources>, RawQuery(query): RawQuery) -> Response {
    verdict(&sources.liveness.report(), query)
}

async fn readyz(State(sources): State<Sources>, RawQuery(query): RawQuery) -> Response {
    verdict(&sources.readiness.report(), query)
}

async fn metrics(State(sources): State<Sources>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], sources.metrics.encode()).into_response()
}

async fn state(State(sources): State<Sources>, Extension(peer): Extension<SocketAddr>) -> Response {
    if !may_debug(peer.ip()) {
        let told = "debug state is served to loopback only: use kubectl port-forward\n";
        return (StatusCode::FORBIDDEN, told).into_response();
    }
    axum::Json(sources.state.snapshot()).into_response()
}

/// Whether a peer may see debug state: only one in the pod itself, where `kubectl port-forward` ends.
fn may_debug(peer: IpAddr) -> bool {
    // A listener of both families sees 127.0.0.1 as ::ffff:127.0.0.1.
    peer.to_canonical().is_loopback()
}

/// 200 and `ok`, or 503 and one line per failing check; `verbose` adds the passing ones.
fn verdict(report: &Report, query: Option<String>) -> Response {
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
    let failing = report.iter().any(|(_, state)| state.is_err());
    let mut text = String::new();
    for (name, state) in report {
        // Writing to a string cannot fail.
        let _ = match state {
            Ok(()) if verbose => writeln!(text, "[+] {name}: ok"),
            Ok(()) => Ok(()),
            Err(reason) => writeln!(text, "[-] {name}: {reason}"),
        };
    }
    if !failing {
        text.push_str("ok\n");
    }
    let status = if failing {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    (
        status,
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
        text,
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_state_is_for_loopback_peers_only() {
        let may = |text: &str| may_debug(text.parse().unwrap());
        for peer in ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"] {
            assert!(may(peer), "{peer}");
        }
        for peer in [
            "10.244.0.7",
            "169.254.1.1",
            "0.0.0.0",
            "::",
            "fe80::1",
            "fd00::7",
            "::ffff:10.244.0.7",
            "::127.0.0.1",
        ] {
            assert!(!may(peer), "{peer}");
        }
    }
}
