//! Faults that a test scripts: which requests meet them, how often, and whether they have happened.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::sync::watch;

/// A fault and when it happens.
#[derive(Debug, Clone)]
pub struct Rule<M, F> {
    on: M,
    fault: F,
    skip: usize,
    times: usize,
}

impl<M, F> Rule<M, F> {
    /// The fault happens to everything that `on` chooses.
    pub fn new(on: M, fault: F) -> Self {
        Self {
            on,
            fault,
            skip: 0,
            times: usize::MAX,
        }
    }

    /// It spares the first `n`.
    #[must_use]
    pub fn skip(mut self, n: usize) -> Self {
        self.skip = n;
        self
    }

    /// It happens `n` times.
    #[must_use]
    pub fn times(mut self, n: usize) -> Self {
        self.times = n;
        self
    }

    /// It happens once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }
}

/// A rule that is in force, and the test's hold on it.
#[derive(Debug, Clone)]
pub struct Script<M, F> {
    rule: Arc<Rule<M, F>>,
    seen: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
    fired: Arc<watch::Sender<usize>>,
}

impl<M: Debug, F: Debug> Script<M, F> {
    pub(crate) fn new(rule: Rule<M, F>) -> Self {
        Self {
            rule: Arc::new(rule),
            seen: Arc::default(),
            ended: Arc::default(),
            fired: Arc::new(watch::Sender::new(0)),
        }
    }

    pub(crate) fn on(&self) -> &M {
        &self.rule.on
    }

    pub(crate) fn fault(&self) -> &F {
        &self.rule.fault
    }

    /// Counts one more of what the rule chooses; gives whether the fault happens to it.
    pub(crate) fn strike(&self) -> bool {
        if self.ended.load(Ordering::SeqCst) {
            return false;
        }
        let index = self.seen.fetch_add(1, Ordering::SeqCst);
        let strikes = index >= self.rule.skip && index - self.rule.skip < self.rule.times;
        if strikes {
            self.fired.send_modify(|fired| *fired += 1);
        }
        strikes
    }

    /// How often it has happened.
    pub fn count(&self) -> usize {
        *self.fired.borrow()
    }

    /// Waits until it has happened `n` times.
    pub async fn fired(&self, n: usize, deadline: Duration) -> Result<()> {
        let mut fired = self.fired.subscribe();
        let waited = tokio::time::timeout(deadline, fired.wait_for(|count| *count >= n)).await;
        match waited {
            Ok(_) => Ok(()),
            Err(_) => Err(anyhow!(
                "waited {deadline:?} in vain for {:?} to happen {n} times; it happened {} times",
                self.rule,
                self.count()
            )),
        }
    }

    /// Takes it out of force. Requests that it froze stay frozen.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_spares_the_first_and_ends_after_its_count() {
        let script = Script::new(Rule::new((), ()).skip(1).times(2));
        let strikes: Vec<bool> = (0..5).map(|_| script.strike()).collect();
        assert_eq!(strikes, [false, true, true, false, false]);
        assert_eq!(script.count(), 2);
        let script = Script::new(Rule::new((), ()));
        assert!(script.strike());
        script.end();
        assert!(!script.strike());
    }
}
