//! One process's use of the record: may this PIN be tried, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use trustplane_api::hsm::record::{OFFICER, Outcome, Record, TokenIdentity, Try};
use trustplane_hsm_core::pin_record::{
    Account, Case, Caution, DigestKey, Exchanged, Flags, Refusal, Sightings, Unsent, Verdict, begin_change,
    decide,
};
use trustplane_process::secret::Secret;

use super::ledger::{Change, Ledger, LedgerError, Loaded};
use super::notes::{Exchanging, Note, Notes, Tried};

/// From writing a try down to sending it to the token. Who takes longer has to ask again.
const MARGIN: Duration = Duration::from_secs(10);

/// How long what is known from before may take to be written, before something new is asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often others may be faster before we give up this time.
const CONFLICTS: usize = 8;

/// The tries of one process, in a record that others share.
#[derive(Debug)]
pub struct Book {
    ledger: Arc<dyn Ledger>,
    digests: DigestKey,
    /// The id of the key of the digests.
    key: Arc<str>,
    by: Arc<str>,
    begun: Instant,
    seen: Sightings,
    /// A try of ours that may stand in the record, and that the token has not seen.
    unsent: Option<(Tried, Unsent)>,
    notes: Notes,
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
    /// The digest of the text with which somebody allows another try.
    pub again: &'a str,
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
        let by: Arc<str> = format!("{pod}/{}-{}", Timestamp::now(), std::process::id()).into();
        Self {
            notes: Notes::new(ledger.clone(), by.clone()),
            ledger,
            key: digests.id().into(),
            digests,
            by,
            begun: Instant::now(),
            seen: Sightings::default(),
            unsent: None,
        }
    }

    fn tried(&self, token: &str, secret: &str, pin: &Secret<String>) -> Tried {
        Tried {
            token: token.to_owned(),
            secret: secret.to_owned(),
            digest: self.digests.digest(pin.expose()),
            key: self.key.clone(),
        }
    }

    /// Writes a try down, if it may be made.
    pub(crate) async fn permit(&mut self, asked: &Asked<'_>) -> Result<Grant, Denial> {
        // An outcome of before must not be taken for one of this try.
        if !self.notes.written(PATIENCE).await {
            return Err(Denial::Ledger(unwritten()));
        }
        let tried = self.tried(&asked.token.serial, asked.secret, asked.pin);
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
            again: asked.again,
            account: asked.account,
            flags: asked.flags,
            now: Timestamp::now(),
            window: asked.opening + MARGIN,
        };
        self.seen.look(&record.tries, self.begun.elapsed());
        let tries = self.without_unsent(record.tries.clone());
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
            self.remember(tried, case.now);
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

    fn remember(&mut self, tried: &Tried, now: Timestamp) {
        let known = self.unsent.take().filter(|(known, _)| known == tried);
        let (tried, mut unsent) = known.unwrap_or_else(|| (tried.clone(), Unsent::default()));
        unsent.begin(now);
        self.unsent = Some((tried, unsent));
    }

    fn without_unsent(&self, tries: Vec<Try>) -> Vec<Try> {
        match &self.unsent {
            Some((tried, unsent)) => unsent.withdraw(tries, &tried.key(), &self.by),
            None => tries,
        }
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
        self.unsent.take_if(|(tried, _)| *tried == grant.tried);
    }

    /// Writes down what came of a try, as soon as that is possible.
    pub(crate) fn settle(&mut self, grant: Grant, outcome: Outcome) {
        self.notes.add(Note::Outcome(grant.tried, outcome));
    }

    /// Writes down what is known of a PIN by other means than a try of its own.
    pub(crate) fn know(&mut self, token: &str, secret: &str, pin: &Secret<String>, outcome: Outcome) {
        let tried = self.tried(token, secret, pin);
        self.notes.add(Note::Outcome(tried, outcome));
    }

    /// Writes down that the PIN of a token is about to be changed: whoever starts meanwhile knows of both.
    pub(crate) async fn begin_change(
        &mut self,
        (token, secret): (&str, &str),
        [old, new]: [&Secret<String>; 2],
        within: Duration,
    ) -> Result<Exchanging, Denial> {
        let [old, new] = [old, new].map(|pin| self.tried(token, secret, pin));
        let change = Exchanging { old, new };
        let begun = self.begin(&change, Instant::now() + within).await;
        if begun.is_err() {
            // It may stand there all the same.
            self.end_change(change.clone(), Exchanged::Undone);
        }
        begun.map(|()| change)
    }

    /// A write that is under way is waited for, also when it is too late: it could land after it was taken back, and stand there.
    async fn begin(&mut self, change: &Exchanging, until: Instant) -> Result<(), Denial> {
        if !self.notes.written(until - Instant::now()).await {
            return Err(Denial::Ledger(unwritten()));
        }
        loop {
            let loaded = self.load().await?;
            let (tries, now) = (&loaded.record.tries, Timestamp::now());
            let tries = begin_change(tries, &change.exchange(), &self.by, now);
            let tries = tries.ok_or(Denial::Refused(Refusal::Full))?;
            let token = loaded.record.token.clone();
            match self.replace(&loaded, tries, token).await {
                Ok(()) | Err(Denial::Ledger(LedgerError::Conflict)) if Instant::now() > until => {
                    return Err(Denial::Ledger(unwritten()));
                }
                Err(Denial::Ledger(LedgerError::Conflict)) => {}
                other => return other,
            }
        }
    }

    /// Writes down how a change has ended, as soon as that is possible.
    pub(crate) fn end_change(&mut self, change: Exchanging, end: Exchanged) {
        self.notes.add(Note::Change(change, end));
    }

    /// Waits until all is written down, for so long; says whether it is.
    pub(crate) async fn written(&mut self, within: Duration) -> bool {
        self.notes.written(within).await
    }

    /// The serial number of the token of the first contact, if there was one and the record can be read.
    pub(crate) async fn known_serial(&self) -> Option<String> {
        let record = self.ledger.load().await.ok()?.record;
        let serial = record.token.map(|token| token.serial);
        serial.filter(|serial| !serial.is_empty())
    }

    /// Whether a token was made ours by this agent before, or is being made so.
    pub(crate) async fn has_provisioned(&self) -> Result<bool, LedgerError> {
        let record = self.ledger.load().await?.record;
        let is_made = |tried: &Try| tried.secret == OFFICER && tried.outcome == Outcome::Accepted;
        Ok(record.tries.iter().any(is_made))
    }
}

fn unwritten() -> LedgerError {
    LedgerError::Unreachable("what was known before is not written down yet".to_owned())
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
