//! The REST API of the console, and the console itself.
//!
//! - [`guard`]: `Host`, `Origin`, the session, and the headers of every answer.
//! - [`types`]: what the API says; [`doc`] describes it as OpenAPI.
//! - [`clusters`], [`objects`], [`events`], [`related`], [`stream`]: the paths.
//! - [`cursor`], [`tagged`]: pages of lists, and answers that need not be sent again.
//! - [`pages`]: signing in, and the files of the console.

pub mod clusters;
pub mod cursor;
pub mod doc;
pub mod events;
pub mod guard;
pub mod objects;
pub mod pages;
pub mod related;
pub mod stream;
pub mod tagged;
pub mod types;

use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Router, middleware};

use crate::app::App;
use crate::error::ApiError;

/// The routes of the console's listener.
pub fn router(app: Arc<App>) -> Router {
    let api = Router::new()
        .route("/clusters", get(clusters::list))
        .route("/clusters/{cluster}", get(clusters::one))
        .route("/clusters/{cluster}/counts", get(clusters::counts))
        .route("/clusters/{cluster}/namespaces", get(clusters::namespaces))
        .route("/clusters/{cluster}/agents", get(clusters::agents))
        .route("/clusters/{cluster}/objects/{uid}", get(objects::one))
        .route("/clusters/{cluster}/objects/{uid}/related", get(related::list))
        .route("/objects", get(objects::list))
        .route("/events", get(events::list))
        .route("/live", get(stream::live))
        .route("/sign-out", post(pages::sign_out))
        .fallback(async || ApiError::not_found("path"))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            guard::require_session,
        ));
    Router::new()
        .nest("/api/v1", api)
        .route("/health", get(pages::health))
        .route("/sign-in", get(pages::sign_in))
        .fallback(get(pages::console))
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .with_state(app)
}
