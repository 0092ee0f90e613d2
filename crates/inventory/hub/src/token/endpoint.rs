//! The token endpoint: the form, the errors of RFC 6749, replay and throttling.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use serde_json::{Value, json};
use tokio::time::Instant;
use trustplane_api::inventory::wire::JWT_BEARER;
use trustplane_process::tls::TlsPeer;

use super::assertion::{AssertionError, check, claimed, verify};
use crate::app::App;
use crate::error::retry_after;
use crate::ingest::body::{BodyLimits, BodyReader};
use crate::secret::{Hash, Token};
use crate::store::StoreError;
use crate::store::identity::{TOKEN_LIFE, issue_token, keys};
use crate::store::writer::cause;
use crate::time::SECOND;

/// What the form may be: whoever sends it is not known yet.
const FORM: BodyLimits = BodyLimits {
    bytes: 16 * 1024,
    pause: Duration::from_secs(10),
    whole: Duration::from_secs(10),
};
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// Why no token is given.
#[derive(Debug, thiserror::Error)]
enum TokenError {
    #[error("{0}")]
    InvalidRequest(&'static str),
    #[error("grant_type: must be {JWT_BEARER}")]
    UnsupportedGrantType,
    #[error(transparent)]
    Assertion(#[from] AssertionError),
    #[error("the assertion was used before: each try needs a new jti")]
    Replayed,
    #[error("too many requests: try again later")]
    SlowDown(Duration),
    #[error("the database could not be read or written")]
    Store(#[from] StoreError),
}

impl TokenError {
    fn code(&self) -> &'static str {
        match self {
            Self::InvalidRequest(_) => "invalid_request",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::Assertion(_) | Self::Replayed => "invalid_grant",
            Self::SlowDown(_) => "slow_down",
            Self::Store(_) => "temporarily_unavailable",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::SlowDown(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl IntoResponse for TokenError {
    fn into_response(self) -> Response {
        let body = json!({"error": self.code(), "error_description": self.to_string()});
        let mut response = (self.status(), Json(body)).into_response();
        if let Self::SlowDown(wait) = self {
            response.headers_mut().insert(RETRY_AFTER, retry_after(wait));
        }
        response
    }
}

/// Answers a token request.
pub async fn answer(app: &App, parts: &Parts, body: Body) -> Response {
    match exchange(app, parts, body).await {
        Ok(token) => Json(token).into_response(),
        Err(error) => {
            match &error {
                TokenError::Store(failed) => tracing::error!(error = cause(failed), "cannot issue a token"),
                // Which client it was is not proven, so it is not told.
                refused => tracing::info!(address = %address(parts), reason = %refused, "token refused"),
            }
            error.into_response()
        }
    }
}

async fn exchange(app: &App, parts: &Parts, body: Body) -> Result<Value, TokenError> {
    let throttles = &app.throttles;
    throttles
        .token_address
        .take(&address(parts), Instant::now())
        .map_err(TokenError::SlowDown)?;
    let assertion = form(parts, body).await?;
    let claimed = claimed(&assertion).ok_or(AssertionError::Unproven)?;
    let known = keys(&app.identities, &claimed.client).await?;
    let claims = verify(&assertion, &claimed, &known)?;
    let now = app.now();
    let accepted = check(claims, &app.audiences, now / SECOND)?;
    throttles
        .token_client
        .take(&accepted.client, Instant::now())
        .map_err(TokenError::SlowDown)?;
    let token = Token::random();
    let remember = accepted.remember_until.saturating_mul(SECOND);
    let jti = Hash::of(accepted.jti.as_bytes());
    if !issue_token(&app.writer, accepted.client, jti, remember, token.hash()).await? {
        return Err(TokenError::Replayed);
    }
    Ok(json!({"access_token": token.expose(), "token_type": "Bearer", "expires_in": TOKEN_LIFE / SECOND}))
}

/// The assertion of a form that asks for the grant that we have.
async fn form(parts: &Parts, body: Body) -> Result<String, TokenError> {
    let content_type = parts
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let mime = content_type
        .and_then(|text| text.split(';').next())
        .unwrap_or_default();
    if !mime.trim().eq_ignore_ascii_case(FORM_TYPE) {
        return Err(TokenError::InvalidRequest(
            "Content-Type: must be application/x-www-form-urlencoded",
        ));
    }
    let unreadable =
        |_| TokenError::InvalidRequest("body: must be a form of at most 16 KiB that arrives in time");
    let reader = BodyReader::new(&parts.headers, body, FORM).map_err(unreadable)?;
    let body = reader.all().await.map_err(unreadable)?;
    let (mut grant, mut assertion) = (None, None);
    for (key, value) in form_urlencoded::parse(&body) {
        let field = match key.as_ref() {
            "grant_type" => &mut grant,
            "assertion" => &mut assertion,
            _ => continue,
        };
        if field.replace(value.into_owned()).is_some() {
            return Err(TokenError::InvalidRequest("a parameter is there twice"));
        }
    }
    match grant.as_deref() {
        None | Some("") => return Err(TokenError::InvalidRequest("grant_type: required")),
        Some(JWT_BEARER) => {}
        Some(_) => return Err(TokenError::UnsupportedGrantType),
    }
    assertion
        .filter(|assertion| !assertion.is_empty())
        .ok_or(TokenError::InvalidRequest("assertion: required"))
}

/// From where a request comes.
fn address(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<TlsPeer>();
    let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.address.ip());
    match address {
        // One household has a whole /64.
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => IpAddr::V4(mapped),
            None => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
        },
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn addresses_of_one_network_count_together() {
        let of = |text: &str| {
            let address: SocketAddr = text.parse().unwrap();
            let certificates = Arc::from([]);
            let request = http::Request::builder().extension(TlsPeer {
                address,
                certificates,
            });
            super::address(&request.body(()).unwrap().into_parts().0).to_string()
        };
        assert_eq!(of("192.0.2.7:1"), "192.0.2.7");
        assert_eq!(of("[::ffff:192.0.2.7]:1"), "192.0.2.7");
        assert_eq!(of("[2001:db8:1:2:3:4:5:6]:1"), "2001:db8:1:2::");
    }
}
