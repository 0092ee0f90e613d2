//! What a queue tells about itself: the numbers of its metrics, and the state that people look at.

use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};

use super::schedule::Phase;
use super::{Key, Lane, Schedule};

/// How full a queue is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Depths {
    /// All keys that it knows: what its memory grows with.
    pub keys: usize,
    /// Keys that are due, by lane: urgent ones.
    pub urgent: usize,
    /// Those of the normal lane.
    pub normal: usize,
    /// Those of the bulk lane.
    pub bulk: usize,
    /// Keys whose time has not come.
    pub delayed: usize,
    /// Keys that are worked on.
    pub running: usize,
    /// Keys that have failed since their last success.
    pub failing: usize,
    /// How long the key that has waited longest has been due.
    #[serde(rename = "oldest_seconds", serialize_with = "seconds")]
    pub oldest: Duration,
    /// How long the key that has been worked on longest has been with its worker.
    #[serde(rename = "longest_running_seconds", serialize_with = "seconds")]
    pub longest_running: Duration,
}

impl Depths {
    /// The number of keys that are due in one lane.
    pub fn lane(&self, lane: Lane) -> usize {
        match lane {
            Lane::Urgent => self.urgent,
            Lane::Normal => self.normal,
            Lane::Bulk => self.bulk,
        }
    }
}

/// The state of a queue for people to look at. It names keys, never values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueState {
    /// How full it is.
    #[serde(flatten)]
    pub depths: Depths,
    /// What is worked on, oldest first.
    pub running_keys: Vec<RunningKey>,
    /// What fails.
    pub backoff: BackoffState,
}

/// A key that is worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningKey {
    /// The key.
    pub key: String,
    /// For how long.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub running: Duration,
}

/// The keys that have failed since their last success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackoffState {
    /// How many.
    pub keys: usize,
    /// The one that has failed most often in a row.
    pub worst: Option<FailingKey>,
}

/// A key that fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailingKey {
    /// The key.
    pub key: String,
    /// How often in a row.
    pub failures: u32,
    /// The class of the last failure.
    pub class: &'static str,
    /// When it is tried again, if it waits for that.
    #[serde(rename = "retry_in_seconds", serialize_with = "maybe_seconds")]
    pub retry_in: Option<Duration>,
}

impl<K: Key> Schedule<K> {
    /// The state for people to look at.
    pub fn state(&mut self, now: Instant) -> QueueState {
        let depths = self.depths(now);
        let mut running_keys: Vec<_> = self
            .entries()
            .filter_map(|(key, entry)| match entry.phase {
                Phase::Running { since, .. } => Some((since, key)),
                _ => None,
            })
            .collect();
        running_keys.sort();
        let running_keys = running_keys
            .into_iter()
            .map(|(since, key)| RunningKey {
                key: key.to_string(),
                running: now.saturating_duration_since(since),
            })
            .collect();
        let failing = self
            .entries()
            .filter_map(|(key, entry)| Some((key, entry, entry.trouble?)));
        let worst = failing.max_by_key(|(key, _, trouble)| (trouble.failures, *key));
        let worst = worst.map(|(key, entry, trouble)| FailingKey {
            key: key.to_string(),
            failures: trouble.failures,
            class: trouble.class.as_str(),
            retry_in: match entry.phase {
                Phase::Delayed { due, .. } => Some(due.saturating_duration_since(now)),
                _ => None,
            },
        });
        QueueState {
            depths,
            running_keys,
            backoff: BackoffState {
                keys: depths.failing,
                worst,
            },
        }
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn maybe_seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.as_ref().map(Duration::as_secs_f64).serialize(serializer)
}
