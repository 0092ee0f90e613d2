//! What providers tell by themselves: which secrets have changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use trustplane_sync_core::request::Source;

/// A secret that has changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct News {
    provider: Option<String>,
    store: Option<String>,
    path: String,
}

impl News {
    pub(super) fn of_provider(name: &str, path: String) -> Self {
        Self {
            provider: Some(name.to_owned()),
            store: None,
            path,
        }
    }

    pub(super) fn of_store(name: &str, path: String) -> Self {
        Self {
            provider: None,
            store: Some(name.to_owned()),
            path,
        }
    }

    /// Whether it is about the secret that a request names.
    pub fn is_about(&self, source: &Source) -> bool {
        let same_place = match (&self.store, &source.store) {
            (None, None) => self.provider == source.provider,
            (ours, named) => ours == named,
        };
        same_place && source.path.trim_start_matches('/') == self.path.trim_start_matches('/')
    }
}

/// Where news are put up until somebody reads them. The same news twice is one, so that it never grows beyond the secrets
/// that there are.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Inner>);

#[derive(Default)]
struct Inner {
    news: Mutex<BTreeSet<News>>,
    changed: Notify,
}

/// Puts up the news of one provider until it is dropped.
pub(super) struct Forwarding(JoinHandle<()>);

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Board {
    /// Puts up what a provider tells.
    pub fn forward(
        &self,
        mut changes: BoxStream<'static, String>,
        news: impl Fn(String) -> News + Send + 'static,
    ) -> Forwarding {
        let board = self.clone();
        Forwarding(tokio::spawn(async move {
            while let Some(path) = changes.next().await {
                board.put(news(path));
            }
        }))
    }

    fn put(&self, news: News) {
        let mut all = self.0.news.lock().unwrap_or_else(PoisonError::into_inner);
        if all.insert(news) {
            self.0.changed.notify_one();
        }
    }

    /// Waits for news and takes all.
    pub async fn read(&self) -> Vec<News> {
        loop {
            let taken = std::mem::take(&mut *self.0.news.lock().unwrap_or_else(PoisonError::into_inner));
            if !taken.is_empty() {
                return taken.into_iter().collect();
            }
            self.0.changed.notified().await;
        }
    }
}
