//! Signing in and out, and the files of the console.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, LOCATION, SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde::Deserialize;
use trustplane_inventory_console as files;

use super::guard::{cookie_name, session};
use super::tagged;
use super::types::Health;
use crate::app::App;
use crate::error::{ApiError, ErrorBody};
use crate::secret::Hash;
use crate::store::identity::{self, SESSION_LIFE};
use crate::time::SECOND;

const BAD_LINK: &str = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Sign in</title></head>\n<body>\n\
    <h1>This link cannot be used</h1>\n\
    <p>A link signs in once, and within ten minutes. To get another one, run:</p>\n\
    <pre>trustplane-hub sign-in</pre>\n</body>\n</html>\n";

/// What a link to sign in has.
#[derive(Debug, Deserialize)]
pub struct SignInParameters {
    token: Option<String>,
}

/// The hub answers.
#[utoipa::path(get, path = "/health", tag = "hub", responses((status = 200, body = Health)))]
pub async fn health() -> axum::Json<Health> {
    axum::Json(Health { status: "ok" })
}

/// Uses up a link: sets the cookie of a session and goes to the console.
pub async fn sign_in(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(parameters): Query<SignInParameters>,
) -> Result<Response, ApiError> {
    let token = parameters.token.unwrap_or_default();
    let session = identity::sign_in(&app.writer, Hash::of(token.as_bytes())).await?;
    let Some(session) = session else {
        let mut response = (StatusCode::FORBIDDEN, BAD_LINK).into_response();
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, html);
        response
            .headers_mut()
            .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return Ok(response);
    };
    tracing::info!("a person signed in");
    Ok(go_home(&cookie(
        &headers,
        session.expose(),
        SESSION_LIFE / SECOND,
    )))
}

/// Ends the session.
#[utoipa::path(post, path = "/api/v1/sign-out", tag = "hub", responses(
    (status = 204, description = "Signed out"), (status = 401, body = ErrorBody)))]
pub async fn sign_out(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    if let Some(session) = session(&headers) {
        identity::sign_out(&app.writer, session).await?;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&mut response, &cookie(&headers, "", 0));
    Ok(response)
}

/// Not `Secure`: the listener is on loopback and speaks plain HTTP.
fn cookie(headers: &HeaderMap, value: &str, seconds: i64) -> String {
    let name = cookie_name(headers);
    format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}")
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(mut value) = HeaderValue::from_str(cookie) {
        value.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, value);
    }
}

fn go_home(cookie: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    response
        .headers_mut()
        .insert(LOCATION, HeaderValue::from_static("/"));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_cookie(&mut response, cookie);
    response
}

/// A file of the console. Paths that are no files are pages of it: their program in the browser shows them.
pub async fn console(uri: Uri, headers: HeaderMap) -> Response {
    if uri.path().starts_with("/api/") {
        return ApiError::not_found("path").into_response();
    }
    let accept = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let file = files::file(uri.path(), accept).unwrap_or_else(|| files::index(accept));
    let mut response = if tagged::matches(&headers, &file.etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(Body::from(file.bytes.into_owned()))
    };
    let answer = response.headers_mut();
    answer.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    answer.insert(CACHE_CONTROL, HeaderValue::from_static(file.cache));
    answer.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Some(encoding) = file.encoding {
        answer.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    if let Ok(tag) = HeaderValue::from_str(&file.etag) {
        answer.insert(ETAG, tag);
    }
    response
}
