//! What the hub answers when it cannot do what was asked.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::record::Rejection;
use crate::store::StoreError;
use crate::store::writer::cause;

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after: Option<Duration>,
}

/// The body of every error.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ErrorDetail {
    /// For programs.
    #[schema(value_type = String)]
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// By which the log knows the request.
    pub request_id: String,
}

impl ApiError {
    /// An error with a code for programs and a message for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The request has no valid session.
    pub fn signed_out() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "signed_out",
            "sign in first: run `trustplane-hub sign-in` and open the link",
        )
    }

    /// There is no such thing.
    pub fn not_found(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is no such {what}"),
        )
    }

    /// A parameter breaks a rule.
    pub fn bad_parameter(name: &str, rule: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad_parameter",
            format!("{name}: {rule}"),
        )
    }

    /// The body breaks a rule.
    pub fn rejected(rejection: &Rejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", rejection.to_string())
    }

    /// A body is too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// Too many requests.
    pub fn slow_down(wait: Duration) -> Self {
        let mut error = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "slow_down",
            "too many requests: try again later",
        );
        error.retry_after = Some(wait);
        error
    }

    /// The hub cannot do it now.
    pub fn unavailable(message: &'static str) -> Self {
        let mut error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        error.retry_after = Some(Duration::from_secs(1));
        error
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The code for programs.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::ClusterFull(_)) {
            return Self::too_large(error.to_string());
        }
        tracing::error!(error = cause(&error), "a request failed");
        Self::unavailable("the database could not be read or written")
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        Self::rejected(&rejection)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let request_id = crate::secret::random_id("");
        if self.status.is_server_error() {
            tracing::warn!(
                request_id,
                code = self.code,
                message = self.message,
                "answered with an error"
            );
        } else {
            tracing::debug!(
                request_id,
                code = self.code,
                message = self.message,
                "answered with an error"
            );
        }
        let body = ErrorBody {
            error: ErrorDetail {
                code: self.code,
                message: self.message,
                request_id,
            },
        };
        let mut response = (self.status, Json(body)).into_response();
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, retry_after(wait));
        }
        response
    }
}

/// Whole seconds, at least one.
pub fn retry_after(wait: Duration) -> HeaderValue {
    let seconds = wait.as_secs_f64().ceil().clamp(1.0, 3600.0);
    HeaderValue::from(seconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_in_whole_seconds() {
        assert_eq!(retry_after(Duration::from_millis(1)), "1");
        assert_eq!(retry_after(Duration::from_millis(1_001)), "2");
        assert_eq!(retry_after(Duration::MAX), "3600");
    }

    #[test]
    fn an_answer_tells_when_to_try_again() {
        let response = ApiError::slow_down(Duration::from_secs(7)).into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "7");
    }
}
