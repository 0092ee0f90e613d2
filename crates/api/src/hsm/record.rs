//! What an agent writes down, in the one ConfigMap that it may patch: the PINs that it tries, the token that it serves, and
//! how it is doing. The manager makes the ConfigMap and reads it; only the agent fills it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The key of the tries.
pub const TRIES: &str = "tries";
/// The key of the token's identity.
pub const TOKEN: &str = "token";
/// The key of the agent's state.
pub const STATE: &str = "state";

/// What stands for the Secret in a try of the security officer's PIN.
pub const OFFICER: &str = "so-pin";

/// The whole record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Which PINs were tried, newest last. No two are of the same PIN.
    pub tries: Vec<Try>,
    /// The token of the first contact.
    pub token: Option<TokenIdentity>,
    /// How the agent is doing.
    pub state: Option<AgentState>,
}

/// A part of a record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The key in the ConfigMap.
    pub key: &'static str,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the record's key {:?} cannot be read", self.key)
    }
}

impl std::error::Error for Unreadable {}

impl Record {
    /// Reads the data of the ConfigMap. What is absent was never written; what makes no sense is an error, because a PIN that
    /// was refused must not be forgotten.
    ///
    /// ```
    /// use trustplane_api::hsm::record::Record;
    ///
    /// assert_eq!(Record::read(&Default::default()).unwrap(), Record::default());
    /// assert!(Record::read(&[("tries".into(), "?".into())].into()).is_err());
    /// ```
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, Unreadable> {
        Ok(Self {
            tries: part(data, TRIES)?.unwrap_or_default(),
            token: part(data, TOKEN)?,
            // Nothing depends on it: a state of another version of ours is no reason to stop.
            state: part(data, STATE).unwrap_or_default(),
        })
    }

    /// The data of the ConfigMap, without the parts that were never written.
    pub fn data(&self) -> BTreeMap<String, String> {
        let tries = (!self.tries.is_empty()).then(|| text(&self.tries));
        let token = self.token.as_ref().map(text);
        let state = self.state.as_ref().map(text);
        let parts = [(TRIES, tries), (TOKEN, token), (STATE, state)];
        let written = parts.into_iter().filter_map(|(key, part)| Some((key, part?)));
        written.map(|(key, part)| (key.to_owned(), part)).collect()
    }
}

fn part<T: for<'a> Deserialize<'a>>(
    data: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Option<T>, Unreadable> {
    let Some(text) = data.get(key) else {
        return Ok(None);
    };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|_| Unreadable { key })
}

fn text(part: &impl Serialize) -> String {
    // Texts and times: nothing in them can fail.
    serde_json::to_string(part).unwrap_or_default()
}

/// A PIN that was tried, or was going to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// The serial number of the token.
    pub token: String,
    /// The uid of the Secret that the PIN is from, or [`OFFICER`]. Which Secret it is decides nothing.
    pub secret: String,
    /// A keyed digest of the PIN.
    pub digest: String,
    /// The id of the key of the digest: digests of different keys cannot be compared.
    #[serde(default)]
    pub key: String,
    /// Who tries it: the uid of the pod and when the process began, with a slash between them.
    pub by: String,
    /// When it was written down.
    pub at: Timestamp,
    /// What came of it.
    pub outcome: Outcome,
    /// What was known of the PIN before, while it is open what came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Outcome>,
    /// Digests of the texts with which people have allowed it once more, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
}

/// What came of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nobody knows yet. It is written down before the token sees the PIN.
    Pending,
    /// The same, for a PIN whose first try had no outcome.
    PendingAgain,
    /// The PIN is right.
    Accepted,
    /// The PIN is wrong.
    Rejected,
    /// The PIN is locked.
    Locked,
    /// The PIN has to be changed before it can be used.
    Expired,
    /// The token takes no such PIN.
    Form,
    /// It may have been tried, and nobody will ever know what came of it. It counts as refused.
    Unanswered,
    /// The token has never seen it.
    Withdrawn,
    /// A change from this PIN, or to it, is under way.
    Changing,
    /// It was right, and was changed to another one. The token has not refused it.
    Replaced,
    /// A word of another version of ours. It counts as refused.
    #[serde(other)]
    Other,
}

impl Outcome {
    /// Whether the token may have been asked, and nobody has written down yet what it said.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::Pending | Self::PendingAgain)
    }

    /// Whether somebody may still be at it.
    pub fn is_open(self) -> bool {
        self.is_pending() || self == Self::Changing
    }

    /// Whether the token has refused it, or may have.
    pub fn is_refused(self) -> bool {
        matches!(
            self,
            Self::Rejected | Self::Locked | Self::Expired | Self::Form | Self::Unanswered | Self::Other
        )
    }
}

/// A token, as it was at the first contact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenIdentity {
    /// Its serial number.
    pub serial: String,
    /// Its label.
    pub label: String,
    /// Who made it.
    pub manufacturer: String,
    /// Its model.
    pub model: String,
    /// The version of its firmware.
    pub firmware: String,
    /// The name of its reader, which often holds the serial number of the USB device.
    pub reader: String,
}

/// How an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentState {
    /// In a word.
    pub phase: AgentPhase,
    /// In a sentence. It holds no PIN and no value.
    #[serde(default)]
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// Which pod says so: its uid.
    #[serde(default)]
    pub by: String,
}

/// How an agent is doing, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, Serialize, Deserialize)]
pub enum AgentPhase {
    /// It has not opened the token yet.
    Opening,
    /// The token is served.
    Serving,
    /// The token, its module or the record cannot be reached; that is tried again and again.
    Unavailable,
    /// The PIN is wrong. It is not tried again.
    PinRejected,
    /// The PIN is locked.
    PinLocked,
    /// A wrong PIN was tried before, so none is tried automatically.
    PinLow,
    /// There is no PIN that could be tried.
    PinMissing,
    /// The PIN has to be changed before it can be used.
    PinExpired,
    /// The token takes no such PIN.
    PinInvalid,
    /// The token has no user PIN.
    PinNotSet,
    /// The PIN was tried, and nobody knows what came of it. It is not tried again.
    PinUnanswered,
    /// Earlier tries were written down with another key, so nobody can tell whether the PIN was among them.
    PinKeyLost,
    /// A blank token was found that may be set up, and there is no SO-PIN for it yet: the manager makes one.
    SoPinWanted,
    /// A blank token is being made ours.
    Provisioning,
    /// A blank token was made ours.
    Provisioned,
    /// No token is made ours, and the message says why.
    ProvisionSkipped,
    /// A blank token could not be made ours.
    ProvisionFailed,
    /// The agent has ended.
    Ended,
    /// A word of another version of ours.
    #[serde(other)]
    Other,
}

impl AgentPhase {
    /// The word in the record, in the status of a pool, in conditions and in events.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            tries: vec![Try {
                token: "DENK0105501".to_owned(),
                secret: "5f1c".to_owned(),
                digest: "00ff".to_owned(),
                key: "1f2e".to_owned(),
                by: "8a2e/2026-07-07T08:00:00Z".to_owned(),
                at: "2026-07-07T08:00:01Z".parse().unwrap(),
                outcome: Outcome::Pending,
                before: Some(Outcome::Accepted),
                again: vec!["9c1d".to_owned()],
            }],
            token: Some(TokenIdentity {
                serial: "DENK0105501".to_owned(),
                ..TokenIdentity::default()
            }),
            state: Some(AgentState {
                phase: AgentPhase::PinRejected,
                message: "the PIN is wrong".to_owned(),
                since: "2026-07-07T08:00:02Z".parse().unwrap(),
                by: "8a2e".to_owned(),
            }),
        }
    }

    #[test]
    fn the_words_are_those_of_the_contract() {
        let data = record().data();
        assert_eq!(
            data[TRIES],
            r#"[{"token":"DENK0105501","secret":"5f1c","digest":"00ff","key":"1f2e","by":"8a2e/2026-07-07T08:00:00Z","at":"2026-07-07T08:00:01Z","outcome":"pending","before":"accepted","again":["9c1d"]}]"#
        );
        assert_eq!(
            data[TOKEN],
            r#"{"serial":"DENK0105501","label":"","manufacturer":"","model":"","firmware":"","reader":""}"#
        );
        assert_eq!(
            data[STATE],
            r#"{"phase":"PinRejected","message":"the PIN is wrong","since":"2026-07-07T08:00:02Z","by":"8a2e"}"#
        );
        assert_eq!(Record::read(&data), Ok(record()));
    }

    #[test]
    fn a_try_without_what_is_newer_than_it_is_read() {
        let mut data = record().data();
        let newer = r#","before":"accepted","again":["9c1d"]"#;
        let older = data[TRIES].replace(newer, "").replace(r#""key":"1f2e","#, "");
        data.insert(TRIES.to_owned(), older);
        let tried = &Record::read(&data).unwrap().tries[0];
        assert_eq!(
            (tried.key.as_str(), tried.before, tried.again.len()),
            ("", None, 0)
        );
    }

    #[test]
    fn words_of_another_version_are_read() {
        let mut data = record().data();
        data.insert(TRIES.to_owned(), data[TRIES].replace("pending", "deferred"));
        data.insert(STATE.to_owned(), data[STATE].replace("PinRejected", "Dancing"));
        let read = Record::read(&data).unwrap();
        assert_eq!(read.tries[0].outcome, Outcome::Other);
        assert_eq!(read.state.unwrap().phase, AgentPhase::Other);
    }

    #[test]
    fn tries_that_make_no_sense_are_not_taken_for_none() {
        for key in [TRIES, TOKEN] {
            let mut data = record().data();
            data.insert(key.to_owned(), "[{".to_owned());
            assert_eq!(Record::read(&data), Err(Unreadable { key }));
        }
        let mut data = record().data();
        data.insert(STATE.to_owned(), "[{".to_owned());
        assert_eq!(Record::read(&data).unwrap().state, None);
    }
}
