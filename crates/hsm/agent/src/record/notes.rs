//! What has to be written into the record, however long that takes: one after the other, in the order in which it became known.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use trustplane_api::hsm::record::{Outcome, Record, Try};
use trustplane_hsm_core::pin_record::{Exchange, Exchanged, Key, end_change, settle};
use trustplane_process::backoff::Backoff;

use super::ledger::{Change, Ledger, LedgerError};

/// A PIN as the record knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tried {
    pub token: String,
    pub secret: String,
    pub digest: String,
    pub key: Arc<str>,
}

impl Tried {
    pub fn key(&self) -> Key<'_> {
        Key {
            token: &self.token,
            secret: &self.secret,
            digest: &self.digest,
            key: &self.key,
        }
    }
}

/// A change of the PIN that the record knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exchanging {
    pub(super) old: Tried,
    pub(super) new: Tried,
}

impl Exchanging {
    pub(super) fn exchange(&self) -> Exchange<'_> {
        Exchange {
            old: self.old.key(),
            new: self.new.key(),
        }
    }
}

/// What became known.
#[derive(Debug)]
pub(super) enum Note {
    /// What came of a try.
    Outcome(Tried, Outcome),
    /// How a change has ended.
    Change(Exchanging, Exchanged),
}

impl Note {
    /// The tries with it; nothing if there is nothing to write.
    fn tries(&self, tries: &[Try], by: &str) -> Option<Vec<Try>> {
        let now = Timestamp::now();
        match self {
            Self::Outcome(tried, outcome) => settle(tries, &tried.key(), by, *outcome, now),
            Self::Change(change, end) => end_change(tries, &change.exchange(), by, *end, now),
        }
    }
}

/// The notes of one process. Each waits for the one before it.
#[derive(Debug)]
pub(super) struct Notes {
    ledger: Arc<dyn Ledger>,
    by: Arc<str>,
    last: Option<JoinHandle<()>>,
}

impl Notes {
    pub fn new(ledger: Arc<dyn Ledger>, by: Arc<str>) -> Self {
        let last = None;
        Self { ledger, by, last }
    }

    /// Writes it as soon as that is possible.
    pub fn add(&mut self, note: Note) {
        let (ledger, by, before) = (self.ledger.clone(), self.by.clone(), self.last.take());
        self.last = Some(tokio::spawn(async move {
            if let Some(before) = before {
                // If it has panicked, it has said so.
                drop(before.await);
            }
            let backoff = Backoff::default();
            let mut failures = 0;
            while let Err(error) = write(&*ledger, &note, &by).await {
                if error != LedgerError::Conflict {
                    tracing::warn!(%error, "what came of a PIN is not written down yet");
                    tokio::time::sleep(backoff.jittered(failures)).await;
                }
                failures = failures.saturating_add(1);
            }
        }));
    }

    /// Waits until all is written, for so long; says whether it is.
    pub async fn written(&mut self, within: Duration) -> bool {
        let Some(last) = &mut self.last else {
            return true;
        };
        let written = timeout(within, last).await.is_ok();
        if written {
            self.last = None;
        }
        written
    }
}

async fn write(ledger: &dyn Ledger, note: &Note, by: &str) -> Result<(), LedgerError> {
    let loaded = ledger.load().await?;
    let Some(tries) = note.tries(&loaded.record.tries, by) else {
        return Ok(());
    };
    let record = Record {
        tries,
        ..Record::default()
    };
    let version = Some(loaded.version);
    let data = record.data();
    ledger.store(Change { version, data }).await
}
