//! Routes reviews to judges, within limits.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use futures::FutureExt;
use kube::core::{DynamicObject, admission::AdmissionReview};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use tokio::sync::Semaphore;
use trustplane_process::metrics::Metrics;

use super::{Request, Verdict, Webhook};

/// The largest review that is read. The API server sends the old and the new object, at most 1.5 MiB each, as JSON.
pub const MAX_REVIEW: usize = 8 * 1024 * 1024;
const MOST_AT_ONCE: usize = 64;

/// Says what becomes of a request. See the module for what it may do.
pub trait Judge: Send + Sync + 'static {
    /// The verdict on one request. It is asked for dry runs, too, and must not write.
    fn judge<'a>(&'a self, request: &'a Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;
}

/// A pure judge: a function of the request alone.
impl<F: Fn(&Request) -> Verdict + Send + Sync + 'static> Judge for F {
    fn judge<'a>(&'a self, request: &'a Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>> {
        std::future::ready(self(request)).boxed()
    }
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    webhook: String,
    outcome: &'static str,
}

/// The judges of an installation, by webhook.
#[derive(Default)]
pub struct Judges {
    judges: BTreeMap<String, (Webhook, Arc<dyn Judge>)>,
}

impl Judges {
    /// Adds a webhook with its judge.
    pub fn add(&mut self, webhook: Webhook, judge: impl Judge) {
        self.judges
            .insert(webhook.path.clone(), (webhook, Arc::new(judge)));
    }

    /// Whether there is no webhook.
    pub fn is_empty(&self) -> bool {
        self.judges.is_empty()
    }

    /// The routes of all webhooks.
    pub fn router(self, metrics: &Metrics) -> Router {
        let reviews = Family::<Labels, Counter>::default();
        metrics.register(|registry| {
            registry.register(
                "admission_reviews",
                "Admission reviews by webhook and outcome",
                reviews.clone(),
            );
        });
        let slots = Arc::new(Semaphore::new(MOST_AT_ONCE));
        let mut router = Router::new();
        for (path, (webhook, judge)) in self.judges {
            let deadline = Duration::from_secs(u64::from(webhook.timeout_seconds.saturating_sub(1)).max(1));
            let bench = Bench {
                name: webhook.name,
                judge,
                deadline,
                reviews: reviews.clone(),
                slots: slots.clone(),
            };
            router = router.route(&path, post(review).with_state(Arc::new(bench)));
        }
        router.layer(DefaultBodyLimit::max(MAX_REVIEW))
    }
}

/// Where one judge sits.
struct Bench {
    name: String,
    judge: Arc<dyn Judge>,
    deadline: Duration,
    reviews: Family<Labels, Counter>,
    slots: Arc<Semaphore>,
}

impl Bench {
    fn count(&self, outcome: &'static str) {
        self.reviews
            .get_or_create(&Labels {
                webhook: self.name.clone(),
                outcome,
            })
            .inc();
    }

    fn refuse(&self, outcome: &'static str, status: StatusCode, why: &str) -> Response {
        self.count(outcome);
        tracing::warn!(
            webhook = self.name,
            outcome,
            "an admission review was not answered: {why}"
        );
        (status, why.to_owned()).into_response()
    }
}

// An answer other than 200 is a failure of the webhook, and its failure policy says what becomes of the request.
async fn review(State(bench): State<Arc<Bench>>, body: Bytes) -> Response {
    let Ok(_slot) = bench.slots.try_acquire() else {
        return bench.refuse("busy", StatusCode::TOO_MANY_REQUESTS, "too many reviews at once");
    };
    let Some(request) = decode(&body) else {
        return bench.refuse(
            "malformed",
            StatusCode::BAD_REQUEST,
            "the body is not an AdmissionReview with a request",
        );
    };
    let judged = std::panic::AssertUnwindSafe(bench.judge.judge(&request)).catch_unwind();
    match tokio::time::timeout(bench.deadline, judged).await {
        Err(_) => bench.refuse(
            "timeout",
            StatusCode::GATEWAY_TIMEOUT,
            "the judge did not answer in time",
        ),
        Ok(Err(_)) => bench.refuse("panic", StatusCode::INTERNAL_SERVER_ERROR, "the judge failed"),
        Ok(Ok(verdict)) => {
            bench.count(match verdict {
                Verdict::Deny { .. } => "denied",
                Verdict::Change { .. } => "changed",
                Verdict::Allow { .. } => "allowed",
            });
            Json(verdict.answer(&request)).into_response()
        }
    }
}

fn decode(body: &[u8]) -> Option<Request> {
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(body).ok()?;
    review.try_into().ok()
}
