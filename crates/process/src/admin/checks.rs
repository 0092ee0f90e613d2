//! Readiness and liveness: named checks that their owners keep up to date.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The name of a check, and why it fails: text for people.
pub type Text = Cow<'static, str>;

/// Checks by name, each with its verdict.
pub type Report = Vec<(Text, Verdict)>;

/// Fine, or why not.
pub type Verdict = Result<(), Text>;

/// A table of named entries that disappear with their handles.
#[derive(Debug)]
struct Table<T>(Mutex<Entries<T>>);

#[derive(Debug)]
struct Entries<T> {
    last: u64,
    by_id: BTreeMap<u64, (Text, T)>,
}

impl<T> Table<T> {
    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, name: Text, entry: T) -> Handle<T> {
        let mut entries = self.lock();
        entries.last += 1;
        let id = entries.last;
        entries.by_id.insert(id, (name, entry));
        Handle {
            table: self.clone(),
            id,
        }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Mutex::new(Entries {
            last: 0,
            by_id: BTreeMap::new(),
        }))
    }
}

#[derive(Debug)]
struct Handle<T> {
    table: Arc<Table<T>>,
    id: u64,
}

impl<T> Handle<T> {
    fn set(&self, change: impl FnOnce(&mut T)) {
        if let Some((_, entry)) = self.table.lock().by_id.get_mut(&self.id) {
            change(entry);
        }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        self.table.lock().by_id.remove(&self.id);
    }
}

/// What must be ready before the process takes work; a cheap clone.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Table<Verdict>>);

/// One thing that must be ready. Dropped, it is no longer asked for.
#[derive(Debug)]
#[must_use = "a dropped check is no longer asked for"]
pub struct Check(Handle<Verdict>);

impl Readiness {
    /// Adds a check, which is not ready at first.
    pub fn check(&self, name: impl Into<Text>) -> Check {
        Check(self.0.add(name.into(), Err("starting".into())))
    }

    /// Whether every check is ready.
    pub fn is_ready(&self) -> bool {
        self.0.lock().by_id.values().all(|(_, state)| state.is_ok())
    }

    /// Every check by name, with the reason why it is not ready.
    pub fn report(&self) -> Report {
        self.0.lock().by_id.values().cloned().collect()
    }
}

impl Check {
    /// This is ready.
    pub fn ready(&self) {
        self.0.set(|state| *state = Ok(()));
    }

    /// This is not ready, for a reason that a person understands.
    pub fn not_ready(&self, reason: impl Into<Text>) {
        self.0.set(|state| *state = Err(reason.into()));
    }
}

/// What must keep moving while the process lives; a cheap clone.
#[derive(Debug, Clone, Default)]
pub struct Liveness(Arc<Table<Pulse>>);

#[derive(Debug, Clone, Copy)]
struct Pulse {
    last: Instant,
    max_age: Duration,
}

/// The pulse of one loop. Dropped, it is no longer listened for.
#[derive(Debug)]
#[must_use = "a dropped heartbeat is no longer listened for"]
pub struct Heartbeat(Handle<Pulse>);

impl Liveness {
    /// Adds a pulse that counts as lost when the last beat is older than `max_age`.
    pub fn heartbeat(&self, name: impl Into<Text>, max_age: Duration) -> Heartbeat {
        Heartbeat(self.0.add(
            name.into(),
            Pulse {
                last: Instant::now(),
                max_age,
            },
        ))
    }

    /// Every pulse by name, with the reason why it counts as lost.
    pub fn report(&self) -> Report {
        let verdict = |(name, pulse): &(Text, Pulse)| {
            let age = pulse.last.elapsed();
            let late = format!(
                "last beat {} s ago, allowed {} s",
                age.as_secs(),
                pulse.max_age.as_secs()
            );
            (
                name.clone(),
                if age <= pulse.max_age {
                    Ok(())
                } else {
                    Err(late.into())
                },
            )
        };
        self.0.lock().by_id.values().map(verdict).collect()
    }
}

impl Heartbeat {
    /// The loop has moved.
    pub fn beat(&self) {
        self.0.set(|pulse| pulse.last = Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_when_every_check_that_lives_says_so() {
        let readiness = Readiness::default();
        assert!(readiness.is_ready());
        let (store, lease) = (readiness.check("store"), readiness.check("lease"));
        assert!(!readiness.is_ready());
        store.ready();
        lease.not_ready("held by another");
        assert_eq!(
            readiness.report(),
            [
                ("store".into(), Ok(())),
                ("lease".into(), Err("held by another".into()))
            ]
        );
        drop(lease);
        assert!(readiness.is_ready());
        store.not_ready("lost");
        assert!(!readiness.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pulse_is_lost_after_its_age_and_comes_back_with_a_beat() {
        let liveness = Liveness::default();
        let heartbeat = liveness.heartbeat("queue", Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(liveness.report(), [("queue".into(), Ok(()))]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            liveness.report(),
            [("queue".into(), Err("last beat 31 s ago, allowed 30 s".into()))]
        );
        heartbeat.beat();
        assert_eq!(liveness.report(), [("queue".into(), Ok(()))]);
        drop(heartbeat);
        assert!(liveness.report().is_empty());
    }
}
