//! Conditions in a status, as the API conventions want them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// We cannot tell.
    Unknown,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
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
    pub last_transition_time: Timestamp,
}

/// The conditions of a status. The time of a condition moves only with its status, so that a status that says the same
/// again is equal to the last one and is not written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(Vec<Condition>);

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

    /// Removes one condition.
    pub fn remove(&mut self, type_: &str) {
        self.0.retain(|c| c.type_ != type_);
    }

    /// One condition by type.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        self.0.iter().find(|c| c.type_ == type_)
    }

    /// All conditions, in the order in which they were first set.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_only_with_the_status() {
        let (early, late): (Timestamp, Timestamp) = (
            "2026-01-01T00:00:00.5Z".parse().unwrap(),
            "2026-01-02T00:00:00Z".parse().unwrap(),
        );
        let mut conditions = Conditions::default();
        conditions.set(
            "Ready",
            ConditionStatus::False,
            "Waiting",
            "for a token",
            1,
            early,
        );
        let first = conditions.clone();
        conditions.set("Ready", ConditionStatus::False, "Waiting", "for a token", 1, late);
        assert_eq!(conditions, first, "the same again must not differ");
        conditions.set(
            "Ready",
            ConditionStatus::False,
            "StillWaiting",
            "for another",
            2,
            late,
        );
        assert_eq!(
            conditions.get("Ready").unwrap().last_transition_time.to_string(),
            "2026-01-01T00:00:00Z"
        );
        conditions.set("Ready", ConditionStatus::True, "Ready", "", 2, late);
        assert_eq!(conditions.get("Ready").unwrap().last_transition_time, late);
    }
}
