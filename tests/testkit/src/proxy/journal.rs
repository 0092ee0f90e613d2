//! What passed through the proxy.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::watch;

use super::request::{Match, Request};

/// One request and what became of it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// Its body.
    pub body: Bytes,
    /// When it arrived, on the clock of the machine.
    pub arrived: Timestamp,
    /// When it arrived, on a clock that never jumps.
    pub arrived_at: Instant,
    /// Whether it was sent on to the API server.
    pub sent: bool,
    /// The status that was answered, by the API server or by a fault. Nothing while it is not answered.
    pub status: Option<u16>,
}

/// Every request that came, in order.
#[derive(Debug)]
pub(crate) struct Journal {
    entries: Mutex<Vec<Entry>>,
    changed: watch::Sender<()>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }
}

impl Journal {
    pub(crate) fn arrive(&self, request: Request, body: Bytes) -> usize {
        let mut entries = self.lock();
        entries.push(Entry {
            request,
            body,
            arrived: Timestamp::now(),
            arrived_at: Instant::now(),
            sent: false,
            status: None,
        });
        let index = entries.len() - 1;
        drop(entries);
        self.changed.send_replace(());
        index
    }

    pub(crate) fn sent(&self, index: usize) {
        self.update(index, |entry| entry.sent = true);
    }

    pub(crate) fn answered(&self, index: usize, status: u16) {
        self.update(index, |entry| entry.status = Some(status));
    }

    fn update(&self, index: usize, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.lock().get_mut(index) {
            change(entry);
        }
        self.changed.send_replace(());
    }

    pub(crate) fn entries(&self, on: &Match) -> Vec<Entry> {
        self.lock()
            .iter()
            .filter(|entry| on.matches(&entry.request))
            .cloned()
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn entries_from(&self, start: usize, on: &Match) -> Vec<Entry> {
        let entries = self.lock();
        let tail = entries.get(start..).unwrap_or_default();
        tail.iter()
            .filter(|entry| on.matches(&entry.request))
            .cloned()
            .collect()
    }

    pub(crate) async fn wait(&self, on: &Match, n: usize, deadline: Duration) -> Result<Vec<Entry>> {
        let enough = |found: Vec<Entry>| (found.len() >= n).then_some(found);
        self.until(on, deadline, enough)
            .await
            .with_context(|| format!("wait for {n} requests like {on:?}"))
    }

    pub(crate) async fn answer(&self, on: &Match, index: usize, deadline: Duration) -> Result<Entry> {
        let answered = |found: Vec<Entry>| {
            found
                .into_iter()
                .nth(index)
                .filter(|entry| entry.status.is_some())
        };
        self.until(on, deadline, answered)
            .await
            .with_context(|| format!("wait for the answer to request {index} like {on:?}"))
    }

    async fn until<T>(
        &self,
        on: &Match,
        deadline: Duration,
        enough: impl Fn(Vec<Entry>) -> Option<T>,
    ) -> Result<T> {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = enough(self.entries(on)) {
                    return Ok(found);
                }
                changed.changed().await?;
            }
        };
        let waited = tokio::time::timeout(deadline, waiting).await;
        waited.map_err(|_| anyhow!("waited {deadline:?} in vain; {} came", self.entries(on).len()))?
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
