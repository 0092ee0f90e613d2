//! Who may speak to the console's listener, and what every answer carries.
//!
//! The listener is on loopback, but every page in the user's browser can reach it there. So a request must be addressed to this hub by
//! name (against DNS rebinding), must not come from another page (against forged requests), and needs a session.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderName, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::app::App;
use crate::error::ApiError;
use crate::secret::Hash;
use crate::store::identity::has_session;

/// What the name of the cookie with the session begins with; the port of the request's `Host` follows.
const COOKIE_PREFIX: &str = "trustplane_hub_";
/// The port of a `Host` that names none.
const HTTP_PORT: u16 = 80;

/// The name of the cookie with the session. Browsers send a cookie to every port of a host, so that hubs on different ports need different
/// names.
pub fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .and_then(|(_, port)| port.parse::<u16>().ok());
    format!("{COOKIE_PREFIX}{}", port.unwrap_or(HTTP_PORT))
}

/// What pages of the console may load: what the hub itself serves.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Whether a `Host` is a name of this machine. Any port will do: the local end of a port-forward has its own.
fn is_loopback(host: &str) -> bool {
    let names = ["localhost", "127.0.0.1", "[::1]"];
    names.iter().any(|name| {
        let after = host.split_at_checked(name.len());
        let after = after.filter(|(head, _)| head.eq_ignore_ascii_case(name));
        let port = after.map(|(_, port)| port);
        port.is_some_and(|port| {
            let number = port.strip_prefix(':');
            port.is_empty() || number.is_some_and(|number| number.parse::<u16>().is_ok())
        })
    })
}

/// Checks `Host` and `Origin`, counts the answer, and adds the headers that keep pages safe.
pub async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = if request.uri().path().starts_with("/api/") {
        "api"
    } else {
        "console"
    };
    let refused = refusal(request.headers());
    let mut response = match refused {
        Some(error) => error.into_response(),
        None => next.run(request).await,
    };
    app.metrics.request(path, response.status());
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Why a request is not for this hub, or not from its own pages.
fn refusal(headers: &HeaderMap) -> Option<ApiError> {
    let text = |name| {
        headers
            .get(name)
            .map(|value: &HeaderValue| value.to_str().unwrap_or("?"))
    };
    let host = text(HOST).unwrap_or_default();
    if !is_loopback(host) {
        return Some(ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "other_host",
            "Host: must be localhost, 127.0.0.1 or [::1]",
        ));
    }
    let origin = text(ORIGIN)?;
    let own = origin
        .strip_prefix("http://")
        .is_some_and(|from| from.eq_ignore_ascii_case(host));
    (!own).then(|| {
        ApiError::new(
            StatusCode::FORBIDDEN,
            "other_origin",
            "Origin: must be the console itself",
        )
    })
}

/// Lets only people pass who are signed in.
pub async fn require_session(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match is_signed_in(&app, request.headers()).await {
        Ok(true) => next.run(request).await,
        Ok(false) => ApiError::signed_out().into_response(),
        Err(error) => error.into_response(),
    }
}

/// Whether the cookie of a request is that of a session.
pub async fn is_signed_in(app: &App, headers: &HeaderMap) -> Result<bool, ApiError> {
    match session(headers) {
        Some(session) => Ok(has_session(&app.identities, session, app.now()).await?),
        None => Ok(false),
    }
}

/// The session that the cookie of a request names.
pub fn session(headers: &HeaderMap) -> Option<Hash> {
    let wanted = cookie_name(headers);
    let cookies = headers
        .get_all(COOKIE)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find(|(name, _)| *name == wanted)
        .map(|(_, value)| Hash::of(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    fn refused(pairs: &[(HeaderName, &str)]) -> Option<&'static str> {
        refusal(&headers(pairs)).map(|error| error.code())
    }

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        for host in [
            "localhost:8480",
            "127.0.0.1:9001",
            "[::1]:8480",
            "LOCALHOST:8480",
            "localhost",
        ] {
            assert_eq!(refused(&[(HOST, host)]), None, "{host}");
        }
        for host in [
            "evil.example:8480",
            "127.0.0.1.evil.example:8480",
            "localhost@evil.example",
            "",
            "localhost:8480.evil.example",
        ] {
            assert_eq!(refused(&[(HOST, host)]), Some("other_host"), "{host}");
        }
        assert_eq!(refused(&[]), Some("other_host"));
    }

    #[test]
    fn requests_of_other_pages_are_refused() {
        let from = |origin| refused(&[(HOST, "localhost:8480"), (ORIGIN, origin)]);
        assert_eq!(from("http://localhost:8480"), None);
        for origin in [
            "http://localhost:3000",
            "https://localhost:8480",
            "null",
            "http://evil.example",
            "",
        ] {
            assert_eq!(from(origin), Some("other_origin"), "{origin}");
        }
    }

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let cookies = "a=b; trustplane_hub_8480=abc; trustplane_hub_9000=def; c=d";
        let at = |host| session(&headers(&[(HOST, host), (COOKIE, cookies)]));
        assert_eq!(at("localhost:8480"), Some(Hash::of(b"abc")));
        assert_eq!(at("[::1]:9000"), Some(Hash::of(b"def")));
        assert_eq!(at("localhost:848"), None);
        assert_eq!(at("localhost"), None);
        assert_eq!(session(&HeaderMap::new()), None);
    }

    #[test]
    fn cookie_has_the_port_of_the_host_in_its_name() {
        for (host, name) in [
            ("localhost:8480", "trustplane_hub_8480"),
            ("127.0.0.1:08480", "trustplane_hub_8480"),
            ("[::1]:9000", "trustplane_hub_9000"),
            ("localhost", "trustplane_hub_80"),
            ("[::1]", "trustplane_hub_80"),
        ] {
            assert_eq!(cookie_name(&headers(&[(HOST, host)])), name, "{host}");
        }
    }
}
