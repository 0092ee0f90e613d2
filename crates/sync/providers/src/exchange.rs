//! Between those who ask and those who answer: gathers questions, asks each once, and hands the answer to everybody.
//!
//! A question that comes while the same one is on its way waits for the next turn: an answer that was asked for before the
//! question came could be older than what made somebody ask.

mod desk;
mod news;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use trustplane_process::metrics::Metrics;
use trustplane_sync_core::fetch::{FetchError, Fetched};
use trustplane_sync_core::request::Source;

use crate::outage::unavailable;
use crate::{Identity, Locator, Opener, Opening, Principal, Provider, Registry};
use desk::Desk;
use news::Board;
pub use news::News;

/// How often what a store rests on is looked at again, if it is asked.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// An answer, shared by all who asked.
pub type Answer = Result<Arc<Fetched>, FetchError>;

/// What somebody wants to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    place: Place,
    path: String,
    version: Option<String>,
    namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Provider(String),
    Store { name: String, revision: Arc<str> },
}

impl Question {
    /// The question that a request of a namespace comes to. With a store goes its revision.
    pub fn of(source: &Source, namespace: &str, revision: Option<&Arc<str>>) -> Self {
        let place = match &source.store {
            Some(store) => Place::Store {
                name: store.clone(),
                revision: revision.cloned().unwrap_or_default(),
            },
            None => Place::Provider(source.provider.clone().unwrap_or_default()),
        };
        Self {
            place,
            path: source.path.clone(),
            version: source.version.clone(),
            namespace: namespace.to_owned(),
        }
    }
}

/// Asks providers. A cheap clone.
#[derive(Clone)]
pub struct Exchange(Arc<Inner>);

struct Inner {
    registry: Registry,
    opener: Option<Arc<dyn Opener>>,
    providers: Mutex<HashMap<String, Arc<Desk>>>,
    stores: Mutex<HashMap<String, Arc<AsyncMutex<Option<OpenStore>>>>>,
    board: Board,
    saved: Family<ProviderLabel, Counter>,
}

/// A store that is open.
struct OpenStore {
    revision: Arc<str>,
    content: u64,
    looked: Instant,
    desk: Arc<Desk>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabel {
    provider: &'static str,
}

impl Exchange {
    /// Asks these providers, and stores that are opened by this.
    pub fn new(registry: Registry, opener: Option<Arc<dyn Opener>>, metrics: &Metrics) -> Self {
        let saved = metrics.shared(|registry| {
            let saved = Family::<ProviderLabel, Counter>::default();
            let help = "questions that were answered by the answer to another one";
            registry.register("sync_calls_saved", help, saved.clone());
            Saved(saved)
        });
        Self(Arc::new(Inner {
            registry,
            opener,
            providers: Mutex::default(),
            stores: Mutex::default(),
            board: Board::default(),
            saved: saved.0,
        }))
    }

    /// The names that an annotation may use, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.registry.names()
    }

    /// Asks a question and waits for the answer. `account` finds out as whom the asking pod runs, and is waited for only if
    /// the answer hangs on that.
    pub async fn ask(
        &self,
        question: &Question,
        account: impl Future<Output = Result<Arc<str>, FetchError>>,
    ) -> Answer {
        let desk = match &question.place {
            Place::Provider(name) => self.provider(name)?,
            Place::Store { name, revision } => self.store(name, revision).await?,
        };
        let namespace = || question.namespace.clone();
        let on_behalf_of = match desk.identity() {
            Identity::Process => Principal::Process,
            Identity::Namespace => Principal::Namespace(namespace()),
            Identity::ServiceAccount => Principal::ServiceAccount {
                name: account.await?,
                namespace: namespace(),
            },
        };
        desk.ask(Locator {
            path: question.path.clone(),
            version: question.version.clone(),
            on_behalf_of,
        })
        .await
    }

    /// Waits until a provider says that secrets have changed, and gives all that have since it was last asked.
    pub async fn news(&self) -> Vec<News> {
        self.0.board.read().await
    }

    /// Closes a store that is no more.
    pub fn close(&self, store: &str) {
        let mut stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.remove(store);
    }

    /// The desk of a provider.
    fn provider(&self, name: &str) -> Result<Arc<Desk>, FetchError> {
        let mut desks = self.0.providers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = desks.get(name) {
            return Ok(desk.clone());
        }
        let provider = self.0.registry.get(name).ok_or(FetchError::NoStore)?;
        let desk = self.open(provider, {
            let name = name.to_owned();
            move |path| News::of_provider(&name, path)
        });
        desks.insert(name.to_owned(), desk.clone());
        Ok(desk)
    }

    /// The desk of a store. Whoever asks while it is opened waits for it.
    async fn store(&self, name: &str, revision: &Arc<str>) -> Result<Arc<Desk>, FetchError> {
        let opener = self.0.opener.as_ref().ok_or(FetchError::NoStore)?;
        let slot = {
            let mut stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
            stores.entry(name.to_owned()).or_default().clone()
        };
        let mut slot = slot.lock().await;
        let before = slot.as_ref().filter(|open| open.revision == *revision);
        if let Some(open) = before.filter(|open| open.looked.elapsed() < LOOK_AGAIN) {
            return Ok(open.desk.clone());
        }
        match opener.open(name, revision, before.map(|open| open.content)).await {
            Ok(Opening::Opened(opened)) => {
                let desk = self.open(opened.provider, {
                    let name = name.to_owned();
                    move |path| News::of_store(&name, path)
                });
                *slot = Some(OpenStore {
                    revision: revision.clone(),
                    content: opened.content,
                    looked: Instant::now(),
                    desk: desk.clone(),
                });
                Ok(desk)
            }
            // Whoever has judged by the new revision may have it open already.
            Ok(Opening::OtherRevision) => {
                slot.take_if(|open| open.revision == *revision);
                Err(unavailable("the store has changed since the request was judged"))
            }
            Ok(Opening::Unchanged) => {
                let open = slot.as_mut().ok_or(FetchError::NoStore)?;
                open.looked = Instant::now();
                Ok(open.desk.clone())
            }
            // What it rests on cannot be read just now: what was read before still counts.
            Err(FetchError::Unavailable { what }) => match before {
                Some(open) => Ok(open.desk.clone()),
                None => Err(FetchError::Unavailable { what }),
            },
            Err(error) => Err(error),
        }
    }

    fn open(&self, provider: Arc<dyn Provider>, news: impl Fn(String) -> News + Send + 'static) -> Arc<Desk> {
        let saved = self.0.saved.get_or_create_owned(&ProviderLabel {
            provider: provider.name(),
        });
        let forwarding = provider
            .changes()
            .map(|changes| self.0.board.forward(changes, news));
        Desk::open(provider, saved, forwarding)
    }
}

#[derive(Clone)]
struct Saved(Family<ProviderLabel, Counter>);

#[cfg(test)]
mod tests;
