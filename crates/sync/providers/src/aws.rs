//! AWS Secrets Manager, by a thin client of our own: two calls, signed by hand.

mod api;
mod credentials;
mod environment;
mod sign;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream;
use trustplane_process::clock::SystemClock;
use trustplane_process::metrics::Metrics;
use trustplane_process::outside::{Limit, Outside};
use trustplane_process::secret::Secret;
use trustplane_process::web::WebError;
use trustplane_sync_core::fetch::{FetchError, Fetched};

use crate::{Locator, Provider, outage};
use api::{Api, CallError};
use environment::Environment;

pub(crate) const NAME: &str = "aws-secretsmanager";

/// The most secrets of one batch.
const BATCH: usize = 20;
/// How many calls are on their way at once.
const AT_ONCE: usize = 16;

/// Secrets Manager with the identity of the process.
pub struct Aws {
    api: Api,
    /// Identities that may not ask for batches.
    no_batches: Mutex<HashSet<String>>,
}

/// The provider cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up aws-secretsmanager: {0}")]
pub struct AwsError(WebError);

/// How a store differs from the environment of the process.
pub struct AwsSettings {
    /// What it is called in metrics.
    pub target: String,
    variables: BTreeMap<&'static str, Secret<String>>,
    /// Certificates that are trusted besides the usual ones, as PEM.
    pub ca_bundle: Option<String>,
    /// How often it is called.
    pub limit: Option<Limit>,
}

impl AwsSettings {
    /// As the environment, under this name in metrics.
    pub fn new(target: String) -> Self {
        Self {
            target,
            variables: BTreeMap::new(),
            ca_bundle: None,
            limit: None,
        }
    }

    /// Asks this region.
    pub fn region(&mut self, region: &str) {
        self.set("AWS_REGION", region);
    }

    /// Asks at this address.
    pub fn endpoint(&mut self, endpoint: &str) {
        self.set("AWS_ENDPOINT_URL_SECRETS_MANAGER", endpoint);
    }

    /// Asks with these keys.
    pub fn keys(&mut self, id: &str, secret: &str, token: Option<&str>) {
        self.set("AWS_ACCESS_KEY_ID", id);
        self.set("AWS_SECRET_ACCESS_KEY", secret);
        // One of the process would belong to other keys.
        self.set("AWS_SESSION_TOKEN", token.unwrap_or_default());
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.variables.insert(name, Secret::new(value.to_owned()));
    }
}

type Answers = BTreeMap<Locator, Result<Fetched, FetchError>>;

impl Aws {
    /// Takes region, endpoints and credentials from where the AWS tools take them.
    pub fn from_environment(metrics: &Metrics) -> Result<Self, AwsError> {
        Self::told(Environment::of_process(), metrics)
    }

    /// The same, with other variables than those of the process.
    pub fn from_variables(
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        metrics: &Metrics,
    ) -> Result<Self, AwsError> {
        Self::told(Environment::new(Arc::new(variables)), metrics)
    }

    /// With settings of its own; what they do not say is taken from the environment.
    pub fn with(settings: AwsSettings, metrics: &Metrics) -> Result<Self, AwsError> {
        let outside = outage::outside(settings.target, settings.limit, metrics);
        let environment = Environment::of_process().with(settings.variables);
        Self::new(environment, settings.ca_bundle.as_deref(), outside)
    }

    fn told(environment: Environment, metrics: &Metrics) -> Result<Self, AwsError> {
        let outside = outage::outside(NAME.to_owned(), None, metrics);
        Self::new(environment, None, outside)
    }

    fn new(environment: Environment, ca_bundle: Option<&str>, outside: Outside) -> Result<Self, AwsError> {
        let api = Api::new(environment, ca_bundle, outside, Arc::new(SystemClock)).map_err(AwsError)?;
        Ok(Self {
            api,
            no_batches: Mutex::default(),
        })
    }

    async fn fetch_all(&self, wanted: &[Locator]) -> Answers {
        let mut regions: BTreeMap<Option<String>, Vec<Locator>> = BTreeMap::new();
        for locator in wanted {
            regions
                .entry(region_of(&locator.path).or_else(|| self.api.region()))
                .or_default()
                .push(locator.clone());
        }
        let mut answers = Answers::new();
        for (region, of_one) in regions {
            let Some(region) = region else {
                let what = "no region is known: set AWS_REGION, or name the secret by its ARN".to_owned();
                answers.extend(
                    of_one
                        .into_iter()
                        .map(|locator| (locator, Err(FetchError::Invalid { what: what.clone() }))),
                );
                continue;
            };
            answers.extend(self.fetch_region(&region, of_one).await);
        }
        answers
    }

    async fn fetch_region(&self, region: &str, wanted: Vec<Locator>) -> Answers {
        let (current, mut single): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|locator| locator.version.is_none());
        let mut answers = Answers::new();
        if current.len() > 1 && self.may_batch().await {
            let batches: Vec<Vec<Locator>> = current.chunks(BATCH).map(<[_]>::to_vec).collect();
            let asked = batches.into_iter().map(|batch| self.fetch_batch(region, batch));
            let mut done = stream::iter(asked).buffer_unordered(AT_ONCE);
            while let Some((found, left)) = done.next().await {
                answers.extend(found);
                single.extend(left);
            }
        } else {
            single.extend(current);
        }
        let asked = single.into_iter().map(|locator| async move {
            let answer = self
                .api
                .get(region, &locator)
                .await
                .map_err(CallError::into_fetch);
            (locator, answer.and_then(api::SecretValue::into_fetched))
        });
        answers.extend(
            stream::iter(asked)
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<_>>()
                .await,
        );
        answers
    }

    /// One batch: what it gave, and what has to be asked for one by one.
    async fn fetch_batch(&self, region: &str, batch: Vec<Locator>) -> (Answers, Vec<Locator>) {
        let paths: Vec<&str> = batch.iter().map(|locator| locator.path.as_str()).collect();
        let mut answer = match self.api.get_batch(region, &paths).await {
            Ok(answer) => answer,
            // One secret that a rule forbids can make the whole batch be refused.
            Err(CallError::Refused(refusal)) => {
                if refusal.code == "AccessDeniedException" {
                    self.remember_refusal().await;
                }
                return (Answers::new(), batch);
            }
            Err(CallError::Unreadable) => return (Answers::new(), batch),
            Err(error) => {
                let error = error.into_fetch();
                return (
                    batch
                        .into_iter()
                        .map(|locator| (locator, Err(error.clone())))
                        .collect(),
                    Vec::new(),
                );
            }
        };
        let (mut answers, mut left) = (Answers::new(), Vec::new());
        for locator in batch {
            let found = answer
                .secret_values
                .iter()
                .position(|value| value.answers(&locator.path));
            let failed = answer.errors.iter().find(|error| error.secret_id == locator.path);
            match (found, failed) {
                (Some(index), _) => {
                    let value = answer.secret_values.swap_remove(index);
                    answers.insert(locator, value.into_fetched());
                }
                (None, Some(error)) => {
                    let error = CallError::Refused(error.refusal()).into_fetch();
                    answers.insert(locator, Err(error));
                }
                (None, None) => left.push(locator),
            }
        }
        (answers, left)
    }

    async fn may_batch(&self) -> bool {
        // Without credentials the call itself tells what is wrong.
        let Ok(identity) = self.api.identity().await else {
            return true;
        };
        !self
            .no_batches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&identity)
    }

    async fn remember_refusal(&self) {
        if let Ok(identity) = self.api.identity().await {
            self.no_batches
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(identity);
        }
    }
}

/// The region that an ARN names. It becomes a part of the host to which we prove who we are, so it must be a word.
fn region_of(path: &str) -> Option<String> {
    let region = path.strip_prefix("arn:")?.split(':').nth(2)?;
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (!region.is_empty() && region.len() <= 32 && region.chars().all(is_word)).then(|| region.to_owned())
}

impl Provider for Aws {
    fn name(&self) -> &'static str {
        NAME
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        Box::pin(async move {
            let mut answers = self.fetch_all(wanted).await;
            let unanswered = || FetchError::Unavailable {
                what: "it left a question unanswered".to_owned(),
            };
            wanted
                .iter()
                .map(|locator| answers.remove(locator).unwrap_or_else(|| Err(unanswered())))
                .collect()
        })
    }
}

#[cfg(test)]
mod tests;
