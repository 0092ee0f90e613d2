//! One process's use of the record: may this PIN be tried, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use trustplane_api::hsm::record::{OFFICER, Outcome, Record, TokenIdentity, Try};
use trustplane_hsm_core::pin_record::{
    Account, Case, Caution, DigestKey, Flags, Key, Refusal, Sightings, Verdict, decide, settle,
};
use trustplane_process::backoff::Backoff;
use trustplane_process::secret::Secret;

use super::ledger::{Change, Ledger, LedgerError, Loaded};

/// From writing a try down to sending it to the token. Who takes longer has to ask again.
const MARGIN: Duration = Duration::from_secs(10);

/// How often others may be faster before we give up this time.
const CONFLICTS: usize = 8;

/// The tries of one process, in a record that others share.
#[derive(Debug)]
pub struct Book {
    ledger: Arc<dyn Ledger>,
    digests: DigestKey,
    by: Arc<str>,
    begun: Instant,
    seen: Sightings,
    /// A try of ours that may stand in the record, and that the token has not seen.
    unsent: Option<Tried>,
    pub(super) settling: TaskTracker,
}

/// A PIN as the record knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tried {
    token: String,
    secret: String,
    digest: String,
}

impl Tried {
    fn key(&self) -> Key<'_> {
        Key {
            token: &self.token,
            secret: &self.secret,
            digest: &self.digest,
        }
    }
}

/// The right to try a PIN once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    tried: Tried,
    since: Instant,
    /// What the token must show when it is tried.
    pub caution: Caution,
}

impl Grant {
    /// Whether it is too late: others may take us for gone.
    pub fn is_over(&self) -> bool {
        self.since.elapsed() > MARGIN
    }
}

/// What is asked of the record.
pub(crate) struct Asked<'a> {
    pub token: TokenIdentity,
    pub secret: &'a str,
    pub pin: &'a Secret<String>,
    pub account: Account,
    pub flags: Flags,
    /// How long the token may take to answer.
    pub opening: Duration,
}

/// Why a PIN may not be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denial {
    /// Another process may be at it.
    Wait(Duration),
    Refused(Refusal),
    /// The record is of this token.
    AnotherToken(TokenIdentity),
    Ledger(LedgerError),
}

impl Book {
    /// The tries of a process of this pod. The digests of PINs are made with the key.
    pub fn new(ledger: Arc<dyn Ledger>, digests: DigestKey, pod: &str) -> Self {
        // Where nobody says which pod it is, no other process may be taken for its last one.
        let pod = if pod.is_empty() { unique() } else { pod.to_owned() };
        let by = format!("{pod}/{}-{}", Timestamp::now(), std::process::id());
        Self {
            ledger,
            digests,
            by: by.into(),
            begun: Instant::now(),
            seen: Sightings::default(),
            unsent: None,
            settling: TaskTracker::new(),
        }
    }

    /// Writes a try down, if it may be made.
    pub(crate) async fn permit(&mut self, asked: &Asked<'_>) -> Result<Grant, Denial> {
        let tried = Tried {
            token: asked.token.serial.clone(),
            secret: asked.secret.to_owned(),
            digest: self.digests.digest(asked.pin.expose()),
        };
        for _ in 0..CONFLICTS {
            match self.permit_once(asked, &tried).await {
                Err(Denial::Ledger(LedgerError::Conflict)) => {}
                other => return other,
            }
        }
        Err(Denial::Ledger(LedgerError::Conflict))
    }

    async fn permit_once(&mut self, asked: &Asked<'_>, tried: &Tried) -> Result<Grant, Denial> {
        let loaded = self.load().await?;
        let record = &loaded.record;
        if let Some(known) = record
            .token
            .as_ref()
            .filter(|known| !is_same(known, &asked.token))
        {
            return Err(Denial::AnotherToken(known.clone()));
        }
        let case = Case {
            key: tried.key(),
            by: &self.by,
            account: asked.account,
            flags: asked.flags,
            now: Timestamp::now(),
            window: asked.opening + MARGIN,
        };
        self.seen.look(&record.tries, self.begun.elapsed());
        let tries = self.without_unsent(&record.tries);
        let (tries, verdict) = match decide(&tries, &case, &self.seen) {
            Verdict::Try { tries, caution } => (tries, Ok(caution)),
            Verdict::Refused {
                why,
                tries: Some(tries),
            } => (tries, Err(why)),
            Verdict::Refused { why, tries: None } => return Err(Denial::Refused(why)),
            Verdict::Wait(wait) => return Err(Denial::Wait(wait)),
        };
        let since = Instant::now();
        if verdict.is_ok() {
            // Also if nobody tells us that it was written.
            self.unsent = Some(tried.clone());
        }
        // The token of a first contact is written down with the first try.
        let token = record.token.clone().or_else(|| Some(asked.token.clone()));
        let token = token.filter(|_| asked.secret != OFFICER || record.token.is_some());
        self.replace(&loaded, tries, token).await?;
        let caution = verdict.map_err(Denial::Refused)?;
        Ok(Grant {
            tried: tried.clone(),
            since,
            caution,
        })
    }

    /// The tries without ours that the token has never seen.
    fn without_unsent(&self, tries: &[Try]) -> Vec<Try> {
        let withdrawn = self.unsent.as_ref().and_then(|unsent| {
            settle(
                tries,
                &unsent.key(),
                &self.by,
                Outcome::Withdrawn,
                Timestamp::now(),
            )
        });
        withdrawn.unwrap_or_else(|| tries.to_vec())
    }

    async fn load(&self) -> Result<Loaded, Denial> {
        self.ledger.load().await.map_err(Denial::Ledger)
    }

    async fn replace(
        &self,
        loaded: &Loaded,
        tries: Vec<Try>,
        token: Option<TokenIdentity>,
    ) -> Result<(), Denial> {
        let state = None;
        let change = Change {
            version: Some(loaded.version.clone()),
            data: Record { tries, token, state }.data(),
        };
        self.ledger.store(change).await.map_err(Denial::Ledger)
    }

    /// The PIN is sent to the token now.
    pub(crate) fn sent(&mut self, grant: &Grant) {
        if self.unsent.as_ref() == Some(&grant.tried) {
            self.unsent = None;
        }
    }

    /// Writes down what came of a try, as soon as that is possible.
    pub(crate) fn settle(&self, grant: Grant, outcome: Outcome) {
        self.settle_tried(grant.tried, outcome);
    }

    /// Writes down what is known of a PIN by other means than a try of its own.
    pub(crate) fn know(&self, token: &str, secret: &str, pin: &Secret<String>, outcome: Outcome) {
        let tried = Tried {
            token: token.to_owned(),
            secret: secret.to_owned(),
            digest: self.digests.digest(pin.expose()),
        };
        self.settle_tried(tried, outcome);
    }

    fn settle_tried(&self, tried: Tried, outcome: Outcome) {
        let (ledger, by) = (self.ledger.clone(), self.by.clone());
        self.settling.spawn(async move {
            let backoff = Backoff::default();
            let mut failures = 0;
            while let Err(error) = settle_once(&*ledger, &tried, &by, outcome).await {
                if error != LedgerError::Conflict {
                    tracing::warn!(%error, "what came of a PIN is not written down yet");
                    tokio::time::sleep(backoff.jittered(failures)).await;
                }
                failures = failures.saturating_add(1);
            }
        });
    }

    /// Waits until all is written down, for so long.
    pub(crate) async fn finish(&self, grace: Duration) {
        self.settling.close();
        // What is not written by then is found open, and judged by the token's flags.
        drop(tokio::time::timeout(grace, self.settling.wait()).await);
    }

    /// Whether a token was made ours by this agent before, or is being made so.
    pub(crate) async fn has_provisioned(&self) -> Result<bool, LedgerError> {
        let record = self.ledger.load().await?.record;
        let is_made = |tried: &Try| tried.secret == OFFICER && tried.outcome == Outcome::Accepted;
        Ok(record.tries.iter().any(is_made))
    }
}

async fn settle_once(
    ledger: &dyn Ledger,
    tried: &Tried,
    by: &str,
    outcome: Outcome,
) -> Result<(), LedgerError> {
    let loaded = ledger.load().await?;
    let Some(tries) = settle(&loaded.record.tries, &tried.key(), by, outcome, Timestamp::now()) else {
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

/// A name that no other process has.
fn unique() -> String {
    let mut bytes = [0; 16];
    // Without chance there is still the time and the number of the process.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}-{}", std::process::id())
}

/// Whether it is the same token, in whichever reader and with whichever label.
fn is_same(one: &TokenIdentity, other: &TokenIdentity) -> bool {
    one.serial == other.serial && one.model == other.model && one.manufacturer == other.manufacturer
}
