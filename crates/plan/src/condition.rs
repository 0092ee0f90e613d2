//! Conditions in a status, as the API conventions want them: the one type of them, in kinds and in decisions.

use std::ops::Deref;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use strum::{Display, IntoStaticStr};

/// The type of the condition that sums up the others.
pub const READY: &str = "Ready";

/// Reasons that any controller may give.
pub mod reason {
    /// Everything is as it should be.
    pub const READY: &str = "Ready";
    /// Something is not known yet.
    pub const PENDING: &str = "Pending";
    /// A problem is over.
    pub const RESOLVED: &str = "Resolved";
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, IntoStaticStr, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// We cannot tell. A word that the API conventions do not have counts as this.
    #[serde(other)]
    Unknown,
}

impl ConditionStatus {
    /// The word in the status.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl PartialEq<&str> for ConditionStatus {
    fn eq(&self, word: &&str) -> bool {
        self.as_str() == *word
    }
}

/// A condition of a status, as the API conventions want it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    #[schemars(with = "String")]
    pub status: ConditionStatus,
    /// A CamelCase word that says why.
    pub reason: String,
    /// A line for people.
    #[serde(default)]
    pub message: String,
    /// The generation of the spec that it speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    /// When its status last changed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Timestamp,
}

/// The conditions of a status: a list that is a map by type.
///
/// **Guarantees.** The time of a condition moves only with its status, so that a status that says the same again is equal to
/// the last one and is not written. A condition that cannot be read costs no other.
///
/// ```
/// use trustplane_plan::condition::{Conditions, Part, READY, reason};
/// use trustplane_plan::ConditionStatus;
///
/// let now = jiff::Timestamp::UNIX_EPOCH;
/// let mut conditions = Conditions::default();
/// conditions.set("Installed", ConditionStatus::True, "Installed", "", 1, now);
/// conditions.set("Conflict", ConditionStatus::True, "Foreign", "the ConfigMap belongs to others", 1, now);
/// conditions.sum_up(READY, &[Part::Holds("Installed"), Part::Problem("Conflict")], 1, now);
/// let ready = conditions.get(READY).map(|ready| (ready.status, ready.reason.as_str(), ready.message.as_str()));
/// assert_eq!(ready, Some((ConditionStatus::False, "Foreign", "Conflict: the ConfigMap belongs to others")));
///
/// conditions.set("Conflict", ConditionStatus::False, reason::RESOLVED, "", 1, now);
/// conditions.sum_up(READY, &[Part::Holds("Installed"), Part::Problem("Conflict")], 1, now);
/// assert_eq!(conditions.get(READY).map(|ready| ready.status), Some(ConditionStatus::True));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
pub struct Conditions(Vec<Condition>);

/// What a summary rests on: the type of another condition, and what is good of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The condition should be True. While it is absent or Unknown, the summary is not True.
    Holds(&'a str),
    /// The condition tells of a problem, and should be False or absent. While it is Unknown, the summary is not True.
    Problem(&'a str),
}

impl Conditions {
    /// Sets one condition.
    pub fn set(
        &mut self,
        type_: &str,
        status: ConditionStatus,
        reason: &str,
        message: &str,
        observed_generation: i64,
        now: Timestamp,
    ) {
        let last = self.get(type_);
        let last_transition_time = match last {
            Some(last) if last.status == status => last.last_transition_time,
            // The API server keeps whole seconds; more would differ from what it answers.
            _ => Timestamp::from_second(now.as_second()).unwrap_or(now),
        };
        let new = Condition {
            type_: type_.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation,
            last_transition_time,
        };
        match self.0.iter_mut().find(|c| c.type_ == type_) {
            Some(slot) => *slot = new,
            None => self.0.push(new),
        }
    }

    /// Sets one condition from others. It is False with the reason of the first part that is bad, and the messages of all that
    /// are; else Unknown if a part is not known; else True.
    pub fn sum_up(&mut self, type_: &str, parts: &[Part<'_>], observed_generation: i64, now: Timestamp) {
        let bad: Vec<&Condition> = parts.iter().filter_map(|part| self.bad(*part)).collect();
        let unknown: Vec<&str> = parts.iter().filter_map(|part| self.unknown(*part)).collect();
        let (status, reason, message) = match (bad.first(), unknown.is_empty()) {
            (Some(first), _) => {
                let told = |part: &&Condition| match part.message.as_str() {
                    "" => part.type_.clone(),
                    message => format!("{}: {message}", part.type_),
                };
                let message = bad.iter().map(told).collect::<Vec<_>>().join("; ");
                (ConditionStatus::False, first.reason.clone(), message)
            }
            (None, false) => {
                let message = format!("not known yet: {}", unknown.join(", "));
                (ConditionStatus::Unknown, reason::PENDING.to_owned(), message)
            }
            (None, true) => (ConditionStatus::True, reason::READY.to_owned(), String::new()),
        };
        self.set(type_, status, &reason, &message, observed_generation, now);
    }

    fn bad(&self, part: Part<'_>) -> Option<&Condition> {
        let (type_, bad) = match part {
            Part::Holds(type_) => (type_, ConditionStatus::False),
            Part::Problem(type_) => (type_, ConditionStatus::True),
        };
        self.get(type_).filter(|condition| condition.status == bad)
    }

    fn unknown<'a>(&self, part: Part<'a>) -> Option<&'a str> {
        let status = |type_| self.get(type_).map(|condition| condition.status);
        match part {
            Part::Holds(type_) if matches!(status(type_), None | Some(ConditionStatus::Unknown)) => {
                Some(type_)
            }
            Part::Problem(type_) if status(type_) == Some(ConditionStatus::Unknown) => Some(type_),
            Part::Holds(_) | Part::Problem(_) => None,
        }
    }

    /// Removes one condition.
    pub fn remove(&mut self, type_: &str) {
        self.0.retain(|c| c.type_ != type_);
    }

    /// One condition by type.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        self.0.iter().find(|c| c.type_ == type_)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// All conditions, in the order in which they were first set.
impl Deref for Conditions {
    type Target = [Condition];

    fn deref(&self) -> &[Condition] {
        &self.0
    }
}

impl IntoIterator for Conditions {
    type Item = Condition;
    type IntoIter = std::vec::IntoIter<Condition>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de> Deserialize<'de> for Conditions {
    /// Reads what can be read: others may have written to the same status.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = Option::<Vec<serde_json::Value>>::deserialize(deserializer)?;
        let readable = all.into_iter().flatten().map(serde_json::from_value);
        Ok(Self(readable.filter_map(Result::ok).collect()))
    }
}

#[cfg(test)]
mod tests;
