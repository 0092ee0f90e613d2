//! Decides which content counts when several tokens have copies of one secret.
//!
//! | the copies that can be read | tokens that cannot be asked | verdict |
//! |---|---|---|
//! | equal | none, or their last content is the same | agreed |
//! | equal, and the delivered content | with another last content | agreed: nothing changes |
//! | equal, on a token that had the delivered content before | with another last content | agreed: an edit |
//! | equal | with another last content, otherwise | they differ |
//! | not equal | any | they differ |
//! | none | at least one | unknown |
//! | none | none | absent |
//!
//! A token with a damaged copy counts like a token that cannot be asked. Once copies differ, the conflict lasts until all copies
//! that can be read are equal and no token that cannot be asked had another content last: otherwise pulling out a token would
//! decide which content is delivered.

use trustplane_api::hsm::HsmSecretStatus;
use trustplane_api::hsm::delivery::reason;
use trustplane_plan::ObjectRef;

use crate::metadata::Metadata;
use crate::version::newest;

/// What is known of one token at one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenView {
    /// Its name for people: HSMDevice and serial number.
    pub name: String,
    /// Its HSMDevice.
    pub device: ObjectRef,
    /// Its agent.
    pub agent: ObjectRef,
    /// What it has at the location.
    pub state: CopyState,
}

/// What a token has at a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyState {
    /// The token was not asked yet, or its list is too old to count. It may yet answer.
    Unasked,
    /// A copy of the secret.
    Held(Box<TokenCopy>),
    /// Nothing, or the tombstone of a deleted secret.
    Absent {
        /// Whether there is a tombstone.
        deleted: bool,
    },
    /// A copy that cannot be read, and why.
    Damaged(String),
    /// The token cannot be asked, and why.
    Away(String),
}

/// A copy of a secret, without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenCopy {
    /// Its metadata, with its version.
    pub metadata: Metadata,
    /// The checksum, as the original computes it.
    pub checksum: String,
    /// Our digest: two copies have the same digest only if they have the same data.
    pub digest: String,
    /// How many keys it has.
    pub keys: u32,
}

impl TokenView {
    /// Its copy, if it can be read.
    pub fn copy(&self) -> Option<&TokenCopy> {
        match &self.state {
            CopyState::Held(copy) => Some(copy),
            _ => None,
        }
    }

    /// Why the token does not show what it has now.
    fn obstacle(&self) -> Option<String> {
        match &self.state {
            CopyState::Damaged(why) => Some(format!("token {} cannot read it: {why}", self.name)),
            CopyState::Away(why) => Some(format!("token {} cannot be asked: {why}", self.name)),
            CopyState::Unasked | CopyState::Held(_) | CopyState::Absent { .. } => None,
        }
    }
}

/// Which content counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A token has not been asked yet.
    Unsettled,
    /// All copies that count are equal.
    Agreed(Agreed),
    /// Copies differ; the text names their tokens.
    Differ(String),
    /// No token has the secret.
    Absent {
        /// Whether a token has the tombstone of the secret.
        deleted: bool,
    },
    /// It is not known what counts.
    Unknown {
        /// The reason of the condition.
        reason: &'static str,
        /// What is wrong.
        text: String,
    },
}

/// What equal copies come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The token that is read: an index into the tokens.
    pub source: usize,
    /// The primary token, whose copy counts.
    pub primary: String,
    /// Tokens whose copy matters and that cannot be asked or cannot read it, each with the reason.
    pub degraded: Vec<String>,
}

/// Decides which content counts on these tokens. `status` remembers what each token had.
pub fn verdict(tokens: &[TokenView], status: &HsmSecretStatus) -> Verdict {
    if tokens.is_empty() {
        return Verdict::Unknown {
            reason: reason::NO_TOKEN,
            text: "no token is known: look at the HSMDevices and their HSMPools".to_owned(),
        };
    }
    if tokens.iter().any(|token| token.state == CopyState::Unasked) {
        return Verdict::Unsettled;
    }
    let copies = Copies { tokens, status };
    let mut held = tokens.iter().filter_map(|token| Some((token, token.copy()?)));
    let Some((first, copy)) = held.next() else {
        return copies.nobody_has_it();
    };
    if let Some((other, _)) = held.find(|(_, other)| other.digest != copy.digest) {
        return copies.differ(&[first, other]);
    }
    copies.agreed(copy)
}

struct Copies<'a> {
    tokens: &'a [TokenView],
    status: &'a HsmSecretStatus,
}

impl<'a> Copies<'a> {
    /// The checksum of the copy that a token had, as the status remembers it.
    fn last(&self, token: &TokenView) -> Option<&'a str> {
        let mut rows = self.status.device_sync_status.iter();
        let row = rows.find(|row| row.device_name == token.name)?;
        row.checksum.as_deref()
    }

    /// Tokens that cannot be asked or cannot read their copy, each with the reason.
    fn obstructed(&self) -> impl Iterator<Item = (&'a TokenView, String)> {
        self.tokens
            .iter()
            .filter_map(|token| Some((token, token.obstacle()?)))
    }

    fn nobody_has_it(&self) -> Verdict {
        let all: Vec<_> = self.obstructed().collect();
        let damaged = |token: &TokenView| matches!(token.state, CopyState::Damaged(_));
        let texts = |chosen: &dyn Fn(&TokenView) -> bool| {
            let chosen = all.iter().filter(|(token, _)| chosen(token));
            chosen
                .map(|(_, text)| text.as_str())
                .collect::<Vec<_>>()
                .join("; ")
        };
        let unknown = |reason, text| Verdict::Unknown { reason, text };
        if all.iter().any(|(token, _)| damaged(token)) {
            return unknown(reason::UNREADABLE, texts(&damaged));
        }
        if all.iter().any(|(token, _)| self.last(token).is_some()) {
            return unknown(
                reason::TOKEN_UNREACHABLE,
                texts(&|token| self.last(token).is_some()),
            );
        }
        if !all.is_empty() {
            return unknown(reason::TOKEN_UNREACHABLE, texts(&|_| true));
        }
        let deleted = |token: &TokenView| token.state == CopyState::Absent { deleted: true };
        Verdict::Absent {
            deleted: self.tokens.iter().any(deleted),
        }
    }

    fn agreed(&self, copy: &TokenCopy) -> Verdict {
        let matters = |token: &TokenView| {
            let last = self.last(token);
            matches!(token.state, CopyState::Damaged(_)) || last.is_some()
        };
        let obstructed: Vec<_> = self.obstructed().filter(|(token, _)| matters(token)).collect();
        let other = obstructed
            .iter()
            .find(|(token, _)| self.last(token).is_some_and(|last| last != copy.checksum));
        if let Some((other, _)) = other {
            let delivered = self.status.secret_checksum.as_deref();
            let same = delivered == Some(&copy.checksum);
            let edited = || {
                let mut holders = self.tokens.iter().filter(|token| token.copy().is_some());
                delivered.is_some() && holders.any(|token| self.last(token) == delivered)
            };
            let disputed = self.status.sync_conflict == Some(true);
            if disputed || !(same || edited()) {
                let holder = self.tokens.iter().find(|token| token.copy().is_some());
                return self.differ(&holder.into_iter().chain([*other]).collect::<Vec<_>>());
            }
        }
        let Some((source, primary)) = self.primary(copy) else {
            return self.nobody_has_it();
        };
        Verdict::Agreed(Agreed {
            source,
            primary,
            degraded: obstructed.into_iter().map(|(_, text)| text).collect(),
        })
    }

    /// The token to read, and the primary token. The primary token stays as long as it has this content; else the newest copy's
    /// token takes its place.
    fn primary(&self, copy: &TokenCopy) -> Option<(usize, String)> {
        let before = self.status.primary_device.as_deref();
        let keeps = |token: &&TokenView| {
            let same = match token.copy() {
                Some(own) => own.digest == copy.digest,
                None => token.obstacle().is_some() && self.last(token) == Some(&copy.checksum),
            };
            before == Some(&token.name) && same
        };
        let kept = self.tokens.iter().find(keeps).map(|token| token.name.clone());
        let stamps = self
            .tokens
            .iter()
            .filter_map(|token| Some((token.name.as_str(), &token.copy()?.metadata.stamp)));
        let latest = newest(stamps)?.to_owned();
        let primary = kept.unwrap_or_else(|| latest.clone());
        let read = |name: &str| {
            let mut tokens = self.tokens.iter();
            tokens.position(|token| token.name == name && token.copy().is_some())
        };
        let source = read(&primary).or_else(|| read(&latest))?;
        Some((source, primary))
    }

    fn differ(&self, tokens: &[&TokenView]) -> Verdict {
        let named = |token: &&TokenView| match (&token.state, self.last(token)) {
            (CopyState::Held(copy), _) => {
                format!("{} has version {}", token.name, copy.metadata.stamp.version)
            }
            _ => format!("{} cannot be asked and had another one", token.name),
        };
        let named: Vec<_> = tokens.iter().map(named).collect();
        Verdict::Differ(format!(
            "tokens have different contents at this location: {}; make them equal with kubectl trustplane hsm update, or delete \
             the copy that is wrong with kubectl trustplane hsm delete --token",
            named.join(", ")
        ))
    }
}
