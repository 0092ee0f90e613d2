//! How many series one object may start: a bucket of tokens for each, in a bounded table.

use std::collections::HashMap;
use std::time::Duration;

/// As many different things can be told about an object at once, …
const BURST: f64 = 25.0;
/// … and one more each time this has passed.
const REFILL: Duration = Duration::from_secs(300);
const MAX_OBJECTS: usize = 4096;

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Budgets(HashMap<String, Bucket>);

impl Budgets {
    /// Takes one token of the object, if it has one.
    pub fn take(&mut self, uid: &str, now: Duration) -> bool {
        if !self.0.contains_key(uid) && self.0.len() >= MAX_OBJECTS {
            self.make_room(now);
        }
        let bucket = self.0.entry(uid.to_owned()).or_insert(Bucket {
            tokens: BURST,
            at: now,
        });
        bucket.refill(now);
        let has = bucket.tokens >= 1.0;
        if has {
            bucket.tokens -= 1.0;
        }
        has
    }

    /// A full bucket is the same as none. If no bucket is full, the fullest is forgotten, so that those that have spent
    /// most stay known.
    fn make_room(&mut self, now: Duration) {
        self.0.retain(|_, bucket| {
            bucket.refill(now);
            bucket.tokens < BURST
        });
        if self.0.len() >= MAX_OBJECTS {
            let fullest = self
                .0
                .iter()
                .max_by(|(_, one), (_, other)| one.tokens.total_cmp(&other.tokens));
            if let Some(uid) = fullest.map(|(uid, _)| uid.clone()) {
                self.0.remove(&uid);
            }
        }
    }
}

impl Bucket {
    fn refill(&mut self, now: Duration) {
        let gained = now.saturating_sub(self.at).as_secs_f64() / REFILL.as_secs_f64();
        self.tokens = (self.tokens + gained).min(BURST);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_by_one() {
        let mut budgets = Budgets::default();
        let taken = (0..100).filter(|_| budgets.take("u", Duration::ZERO)).count();
        assert_eq!(taken, 25);
        assert!(!budgets.take("u", REFILL - Duration::from_secs(1)));
        assert!(budgets.take("u", REFILL));
        assert!(!budgets.take("u", REFILL));
    }

    #[test]
    fn many_objects_do_not_wash_out_a_loud_one() {
        let mut budgets = Budgets::default();
        while budgets.take("loud", Duration::ZERO) {}
        for n in 0..2 * MAX_OBJECTS {
            assert!(budgets.take(&n.to_string(), Duration::ZERO));
        }
        assert!(budgets.0.len() <= MAX_OBJECTS);
        assert!(!budgets.take("loud", Duration::ZERO));
    }
}
