//! The listener for agents: four paths and a health check, nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;
use tokio::time::Instant;
use trustplane_api::inventory::wire::{EVENTS_PATH, HEARTBEAT_PATH, SNAPSHOT_PATH, TOKEN_PATH};

use crate::app::{App, NoRoom};
use crate::error::ApiError;
use crate::ingest::body::{BodyReader, announce_encodings};
use crate::ingest::{Acknowledged, events, heartbeat, snapshot};
use crate::record::Rejection;
use crate::secret::Hash;
use crate::store::StoreError;
use crate::store::identity::{Agent, agent};
use crate::token::endpoint;

/// Where load balancers and people see that the hub answers.
pub const HEALTH_PATH: &str = "/health";
/// How long a snapshot that finds no room is asked to wait.
const BUSY: Duration = Duration::from_secs(10);
/// How long any other body waits for room.
const ROOM: Duration = Duration::from_secs(10);
/// How long a body is asked to wait whose client has too many under way.
const CROWDED: Duration = Duration::from_secs(1);

/// Why a request of an agent is refused.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It says something else than its client may.
    #[error("the client is bound to another cluster")]
    OtherCluster,
    /// A newer snapshot of the same cluster has begun.
    #[error("a newer snapshot of this cluster has begun")]
    Superseded,
    /// A field breaks a rule.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Anything else that has an answer already.
    #[error("refused")]
    Answer(ApiError),
}

impl From<ApiError> for AgentError {
    fn from(error: ApiError) -> Self {
        Self::Answer(error)
    }
}

impl From<AgentError> for ApiError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::OtherCluster => Self::new(
                StatusCode::FORBIDDEN,
                "other_cluster",
                "cluster_uid: must be that of the cluster which this client was first used for",
            ),
            AgentError::Superseded => Self::new(
                StatusCode::CONFLICT,
                "superseded",
                "a newer snapshot of this cluster has begun",
            ),
            AgentError::Rejected(rejection) => Self::rejected(&rejection),
            AgentError::Store(error) => error.into(),
            AgentError::Answer(error) => error,
        }
    }
}

/// The routes of the listener for agents.
pub fn router(app: Arc<App>) -> Router {
    Router::new().fallback(dispatch).with_state(app)
}

/// The paths that agents know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Token,
    Snapshot,
    Events,
    Heartbeat,
    Health,
}

impl Path {
    /// Reads a path. A platform URL that ends with a slash makes agents write two of them.
    fn read(path: &str) -> Option<Self> {
        let path = path.trim_start_matches('/');
        let is = |known: &str| path == known.trim_start_matches('/');
        [
            (TOKEN_PATH, Self::Token),
            (SNAPSHOT_PATH, Self::Snapshot),
            (EVENTS_PATH, Self::Events),
            (HEARTBEAT_PATH, Self::Heartbeat),
            (HEALTH_PATH, Self::Health),
        ]
        .into_iter()
        .find_map(|(known, path)| is(known).then_some(path))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Snapshot => "snapshot",
            Self::Events => "events",
            Self::Heartbeat => "heartbeat",
            Self::Health => "health",
        }
    }

    fn method(self) -> Method {
        if self == Self::Health {
            Method::GET
        } else {
            Method::POST
        }
    }
}

async fn dispatch(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(path) = Path::read(request.uri().path()) else {
        app.metrics.request("other", StatusCode::NOT_FOUND);
        return ApiError::not_found("path").into_response();
    };
    let mut response = answer(&app, path, request).await;
    app.metrics.request(path.name(), response.status());
    announce_encodings(response.headers_mut());
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn answer(app: &App, path: Path, request: Request) -> Response {
    if request.method() != path.method() {
        let mut response = ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "use another method",
        )
        .into_response();
        let allow = HeaderValue::from_str(path.method().as_str());
        response
            .headers_mut()
            .extend(allow.ok().map(|allow| (ALLOW, allow)));
        return response;
    }
    let (parts, body) = request.into_parts();
    match path {
        Path::Health => Json(json!({"status": "ok"})).into_response(),
        Path::Token => endpoint::answer(app, &parts, body).await,
        _ => match take(app, path, &parts, body).await {
            Ok(acknowledged) => Json(acknowledged).into_response(),
            Err(error) => {
                if let AgentError::Rejected(rejection) = &error {
                    app.metrics.rejected(rejection.reason);
                }
                refuse(error.into())
            }
        },
    }
}

fn refuse(error: ApiError) -> Response {
    let unauthorized = error.status() == StatusCode::UNAUTHORIZED;
    let mut response = error.into_response();
    if unauthorized {
        let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

async fn take(app: &App, path: Path, parts: &Parts, body: Body) -> Result<Acknowledged, AgentError> {
    let agent = authenticate(app, parts).await?;
    let now = Instant::now();
    if path == Path::Snapshot {
        app.throttles
            .snapshots
            .take(&agent.client, now)
            .map_err(ApiError::slow_down)?;
        let room = app.throttles.room_for_snapshot(&agent.client);
        let _room = room.ok_or_else(|| ApiError::slow_down(BUSY))?;
        let body = BodyReader::new(&parts.headers, body, app.limits.snapshot())?;
        // The future holds a whole batch: it is kept off the stack.
        return Box::pin(snapshot::take(app, &agent, body)).await;
    }
    app.throttles
        .events
        .take(&agent.client, now)
        .map_err(ApiError::slow_down)?;
    let room = app.throttles.room_for_body(&agent.client, ROOM).await;
    let _room = room.map_err(|full| match full {
        NoRoom::Client => ApiError::slow_down(CROWDED),
        NoRoom::Hub => ApiError::unavailable("too many requests are being read"),
    })?;
    let body = BodyReader::new(&parts.headers, body, app.limits.event())?
        .all()
        .await?;
    if path == Path::Heartbeat {
        heartbeat::take(app, &agent, &body).await
    } else {
        events::take(app, &agent, &body).await
    }
}

/// Who sends a request.
async fn authenticate(app: &App, parts: &Parts) -> Result<Agent, AgentError> {
    let refused = || {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "Authorization: want a Bearer token of this hub that has not expired",
        )
    };
    let token = parts
        .headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(bearer)
        .ok_or_else(refused)?;
    let found = agent(&app.identities, Hash::of(token.as_bytes()), app.now()).await?;
    Ok(found.ok_or_else(refused)?)
}

/// The token of an `Authorization` header.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_with_any_slashes_before_them() {
        for (path, read) in [
            ("/oauth/token", Some(Path::Token)),
            ("//oauth/token", Some(Path::Token)),
            ("//api/v1/agent/snapshot", Some(Path::Snapshot)),
            ("/api/v1/agent/events", Some(Path::Events)),
            ("/api/v1/agent/heartbeat", Some(Path::Heartbeat)),
            ("/health", Some(Path::Health)),
            ("/api/v1/clusters", None),
            ("/", None),
            ("/health/", None),
        ] {
            assert_eq!(Path::read(path), read, "{path}");
        }
    }

    #[test]
    fn tokens_are_read_from_bearer_headers() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        assert_eq!(bearer("Basic abc"), None);
        assert_eq!(bearer("Bearer"), None);
    }
}
