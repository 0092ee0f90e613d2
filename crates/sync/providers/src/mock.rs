//! A provider in memory, for tests and demonstrations: settable, and failing on order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::{FetchError, Fetched, Lease};

use crate::{Identity, Locator, Provider};

/// A provider in memory. Clones share their content.
#[derive(Clone, Default)]
pub struct Mock(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    secrets: BTreeMap<String, (Value, u64)>,
    /// Paths whose content is made anew for whoever asks, and how long it lasts.
    leased: BTreeMap<String, Duration>,
    writes: u64,
    identity: Identity,
    failure: Option<FetchError>,
    /// While it holds still, calls are taken and not answered.
    still: watch::Sender<bool>,
    latency: Duration,
    calls: Vec<Vec<Locator>>,
}

impl Mock {
    /// Puts a secret in place, as a new version.
    pub fn set(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.with(|mock| {
            mock.writes += 1;
            let version = mock.writes;
            mock.secrets
                .insert(path.to_owned(), (Value::new(content), version));
        });
    }

    /// Has a secret made anew whenever it is asked for: a user with a name of its own, for so long.
    pub fn lease(&self, path: &str, lasts: Duration) {
        self.with(|mock| {
            mock.leased.insert(path.to_owned(), lasts);
        });
    }

    /// Takes a secret away.
    pub fn remove(&self, path: &str) {
        self.with(|mock| drop(mock.secrets.remove(path)));
    }

    /// Takes all secrets away.
    pub fn clear(&self) {
        self.with(|mock| mock.secrets.clear());
    }

    /// Makes every call fail, until it is told otherwise.
    pub fn fail_with(&self, failure: Option<FetchError>) {
        self.with(|mock| mock.failure = failure);
    }

    /// Has the rights of these decide.
    pub fn decide_by(&self, identity: Identity) {
        self.with(|mock| mock.identity = identity);
    }

    /// Answers no call until it is told to go on.
    pub fn hold_still(&self, still: bool) {
        self.with(|mock| mock.still.send_replace(still));
    }

    /// Makes every call take this long.
    pub fn delay(&self, latency: Duration) {
        self.with(|mock| mock.latency = latency);
    }

    /// What was asked for, call by call.
    pub fn calls(&self) -> Vec<Vec<Locator>> {
        self.with(|mock| mock.calls.clone())
    }

    /// How often a path was asked for.
    pub fn asked_for(&self, path: &str) -> usize {
        let calls = self.calls();
        calls
            .iter()
            .flatten()
            .filter(|locator| locator.path == path)
            .count()
    }

    fn with<T>(&self, act: impl FnOnce(&mut Content) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Content {
    fn answer(&mut self, locator: &Locator) -> Result<Fetched, FetchError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if let Some(lasts) = self.leased.get(&locator.path).copied() {
            self.writes += 1;
            let user = format!("{}-{}", locator.path, self.writes);
            return Ok(Fetched {
                provider: "mock",
                payload: Payload::Bytes(Value::new(format!("{{\"user\":\"{user}\"}}"))),
                version: None,
                lease: Some(Lease { id: user, lasts }),
            });
        }
        let (value, version) = self.secrets.get(&locator.path).ok_or(FetchError::NotFound)?;
        let version = version.to_string();
        if locator.version.as_ref().is_some_and(|wanted| *wanted != version) {
            return Err(FetchError::NotFound);
        }
        Ok(Fetched {
            provider: "mock",
            payload: Payload::Bytes(value.clone()),
            version: Some(version),
            lease: None,
        })
    }
}

impl Provider for Mock {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn identity(&self) -> Identity {
        self.with(|mock| mock.identity)
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        Box::pin(async move {
            let (latency, mut still) = self.with(|mock| {
                mock.calls.push(wanted.to_vec());
                (mock.latency, mock.still.subscribe())
            });
            tokio::time::sleep(latency).await;
            // It ends only with the mock itself.
            let _ = still.wait_for(|still| !still).await;
            self.with(|mock| wanted.iter().map(|locator| mock.answer(locator)).collect())
        })
    }
}

/// Reads made-up secrets from where the admin keeps them.
pub type Read =
    Arc<dyn Fn() -> BoxFuture<'static, Result<BTreeMap<String, String>, FetchError>> + Send + Sync>;

/// Made-up secrets that are read with every call, such as from a ConfigMap. In their names `_` stands for each `/` of the path.
pub struct Written(pub Read);

impl Provider for Written {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        Box::pin(async move {
            let written = match (self.0)().await {
                Ok(written) => written,
                Err(error) => return vec![Err(error); wanted.len()],
            };
            let answer = |locator: &Locator| {
                let name = locator.path.trim_start_matches('/').replace('/', "_");
                let text = written
                    .get(&name)
                    .filter(|_| locator.version.is_none())
                    .ok_or(FetchError::NotFound)?;
                Ok(Fetched {
                    provider: "mock",
                    payload: Payload::Bytes(Value::new(text.as_str())),
                    version: None,
                    lease: None,
                })
            };
            wanted.iter().map(answer).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Principal;

    fn locator(path: &str, version: Option<&str>) -> Locator {
        Locator {
            path: path.to_owned(),
            version: version.map(str::to_owned),
            on_behalf_of: Principal::Process,
        }
    }

    #[tokio::test]
    async fn it_holds_what_was_put_and_fails_on_order() {
        let mock = Mock::default();
        mock.set("a", "1");
        mock.set("a", "2");
        let wanted = [locator("a", None), locator("a", Some("1")), locator("b", None)];
        let answers = mock.fetch(&wanted).await;
        assert_eq!(
            answers[0].as_ref().map(|fetched| fetched.version.as_deref()),
            Ok(Some("2"))
        );
        assert_eq!(answers[1].as_ref().err(), Some(&FetchError::NotFound));
        assert_eq!(answers[2].as_ref().err(), Some(&FetchError::NotFound));
        mock.fail_with(Some(FetchError::Throttled { retry_after: None }));
        assert!(mock.fetch(&wanted[..1]).await[0].is_err());
        assert_eq!((mock.calls().len(), mock.asked_for("a")), (2, 3));
    }
}
