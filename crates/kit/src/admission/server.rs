//! Routes reviews to judges, within limits.

use std::{
    collections::BTreeMap, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use futures::FutureExt;
use http_body_util::LengthLimitError;
use kube::core::{
    DynamicObject,
    admission::{AdmissionResponse, AdmissionReview},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use trustplane_process::metrics::Metrics;

use super::{Effect, Request, Verdict, Webhook, verdict::Unanswered};

/// The largest review that is read. The API server sends the old and the new object, at most 1.5 MiB each, as JSON.
pub const MAX_REVIEW: usize = 8 * 1024 * 1024;
/// How many reviews are in memory at once; more wait for their turn.
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

/// Judges and declared webhooks do not fit together: a mistake in a capability.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JudgesError {
    /// The installation would call a path where nobody answers.
    #[error("webhook {0} is declared, but nobody judges it")]
    Unjudged(String),
    /// Nobody would ever call it.
    #[error("webhook {0} has a judge, but is not declared in the same words")]
    Undeclared(String),
    /// One of them would never be asked.
    #[error("two webhooks have the path {0}")]
    SamePath(String),
    /// No path that can be served.
    #[error(
        "{0:?} is no path of a webhook: want words of lower-case letters, digits and dashes, each after a slash"
    )]
    Path(String),
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    webhook: String,
    outcome: &'static str,
}

/// The judges of an installation, by webhook.
#[derive(Default)]
pub struct Judges(Vec<(Webhook, Arc<dyn Judge>)>);

impl Judges {
    /// Adds a webhook with its judge.
    pub fn add(&mut self, webhook: Webhook, judge: impl Judge) {
        self.0.push((webhook, Arc::new(judge)));
    }

    /// Whether there is no webhook.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether these are the judges of exactly the declared webhooks, which is what the installation configures.
    pub fn check(&self, declared: &[Webhook]) -> Result<(), JudgesError> {
        let judged = |webhook: &Webhook| self.0.iter().any(|(judged, _)| judged == webhook);
        if let Some(webhook) = declared.iter().find(|webhook| !judged(webhook)) {
            return Err(JudgesError::Unjudged(webhook.name.clone()));
        }
        let mut paths = BTreeMap::new();
        for (webhook, _) in &self.0 {
            let Webhook { name, path, .. } = webhook;
            if !declared.contains(webhook) {
                return Err(JudgesError::Undeclared(name.clone()));
            }
            if !is_path(path) {
                return Err(JudgesError::Path(path.clone()));
            }
            if paths.insert(path, name).is_some() {
                return Err(JudgesError::SamePath(path.clone()));
            }
        }
        Ok(())
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
        for (webhook, judge) in self.0 {
            let bench = Bench {
                deadline: Duration::from_secs(u64::from(webhook.timeout_seconds.saturating_sub(1)).max(1)),
                name: webhook.name,
                effect: webhook.effect,
                judge,
                reviews: reviews.clone(),
                slots: slots.clone(),
            };
            router = router.route(&webhook.path, post(review).with_state(Arc::new(bench)));
        }
        router
    }
}

fn is_path(path: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let word = |word: &str| !word.is_empty() && word.chars().all(letter);
    path.strip_prefix('/')
        .is_some_and(|words| words.split('/').all(word))
}

/// Where one judge sits.
struct Bench {
    name: String,
    effect: Effect,
    judge: Arc<dyn Judge>,
    deadline: Duration,
    reviews: Family<Labels, Counter>,
    slots: Arc<Semaphore>,
}

// An answer other than 200 is a failure of the webhook, and its failure policy says what becomes of the request.
async fn review(State(bench): State<Arc<Bench>>, body: Body) -> Response {
    match bench.answer(body).await {
        Ok((outcome, answer)) => {
            bench.count(outcome);
            Json(answer.into_review()).into_response()
        }
        Err(unanswered) => {
            bench.count(unanswered.outcome());
            tracing::warn!(
                webhook = bench.name,
                outcome = unanswered.outcome(),
                "an admission review was not answered: {unanswered}"
            );
            (unanswered.status(), unanswered.to_string()).into_response()
        }
    }
}

impl Bench {
    fn count(&self, outcome: &'static str) {
        let webhook = self.name.clone();
        self.reviews.get_or_create(&Labels { webhook, outcome }).inc();
    }

    /// All of it within the deadline: the wait for a slot, a body that comes slowly, and the judge.
    async fn answer(&self, body: Body) -> Result<(&'static str, AdmissionResponse), Unanswered> {
        let until = Instant::now() + self.deadline;
        let Ok(Ok(_slot)) = timeout_at(until, self.slots.acquire()).await else {
            return Err(Unanswered::Busy);
        };
        let body = match timeout_at(until, to_bytes(body, MAX_REVIEW)).await {
            Err(_) => return Err(Unanswered::SlowBody),
            Ok(Err(error)) => {
                let source = std::error::Error::source(&error);
                let too_large = source.is_some_and(<dyn std::error::Error + 'static>::is::<LengthLimitError>);
                return Err(if too_large {
                    Unanswered::TooLarge
                } else {
                    Unanswered::Malformed
                });
            }
            Ok(Ok(body)) => body,
        };
        let request = decode(&body).ok_or(Unanswered::Malformed)?;
        drop(body);
        // A judge may panic when it is called, not only when it is waited for.
        let judged = AssertUnwindSafe(async { self.judge.judge(&request).await }).catch_unwind();
        match timeout_at(until, judged).await {
            Err(_) => Err(Unanswered::Timeout),
            Ok(Err(_)) => Err(Unanswered::Panic),
            Ok(Ok(verdict)) => verdict.answer(&request, self.effect),
        }
    }
}

fn decode(body: &[u8]) -> Option<Request> {
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(body).ok()?;
    review.try_into().ok()
}

#[cfg(test)]
mod tests;
