//! What parts of a process say of themselves, for people who look for a fault.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

type Describe = Arc<dyn Fn() -> Value + Send + Sync>;
type Entries = BTreeMap<Cow<'static, str>, Describe>;

/// A registry of named descriptions; a cheap clone.
#[derive(Clone, Default)]
pub struct StateSource(Arc<Mutex<Entries>>);

/// One description. Dropped, it is no longer shown.
#[must_use = "a dropped entry is no longer shown"]
pub struct StateEntry {
    source: StateSource,
    name: Cow<'static, str>,
    describe: Describe,
}

impl StateSource {
    /// Adds a description, which is asked at each request: quick, without waiting, without values of secrets.
    ///
    /// A later description of the same name takes the place of an earlier one.
    pub fn register(
        &self,
        name: impl Into<Cow<'static, str>>,
        describe: impl Fn() -> Value + Send + Sync + 'static,
    ) -> StateEntry {
        let (name, describe): (_, Describe) = (name.into(), Arc::new(describe));
        self.lock().insert(name.clone(), describe.clone());
        StateEntry {
            source: self.clone(),
            name,
            describe,
        }
    }

    /// All descriptions as one object.
    pub fn snapshot(&self) -> Value {
        // Copied first: a description may itself register or drop one.
        let entries = self.lock().clone();
        entries
            .into_iter()
            .map(|(name, describe)| (name.into_owned(), describe()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StateEntry {
    fn drop(&mut self) {
        let mut entries = self.source.lock();
        if entries
            .get(&self.name)
            .is_some_and(|describe| Arc::ptr_eq(describe, &self.describe))
        {
            entries.remove(&self.name);
        }
    }
}

impl fmt::Debug for StateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

impl fmt::Debug for StateEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateEntry").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_what_is_registered_while_it_is() {
        let state = StateSource::default();
        let queue = state.register("queue", || json!({"depth": 3}));
        let lease = state.register("lease", || json!("held"));
        assert_eq!(state.snapshot(), json!({"lease": "held", "queue": {"depth": 3}}));
        let newer = state.register("lease", || json!("lost"));
        drop(lease);
        assert_eq!(
            state.snapshot()["lease"],
            "lost",
            "the older handle does not take the newer entry away"
        );
        drop((queue, newer));
        assert_eq!(state.snapshot(), json!({}));
    }
}
