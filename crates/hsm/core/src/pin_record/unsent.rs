//! A try that may stand in the record although the token has not seen it.

use jiff::Timestamp;
use trustplane_api::hsm::record::{Outcome, Try};

use super::settle::settle_one;
use super::{Key, MOST};

/// When one process began to write down a try that it has not sent. Any of these writes may stand in the record, also where nobody
/// was told that it does; what was written at another time is another try.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsent(Vec<Timestamp>);

impl Unsent {
    /// Another write of it begins. The oldest is forgotten when there are too many, and then counts as sent.
    pub fn begin(&mut self, now: Timestamp) {
        self.0.drain(..self.0.len().saturating_sub(MOST - 1));
        self.0.push(now);
    }

    /// The tries without it. An earlier one of the same PIN, which the token has seen, stays.
    pub fn withdraw(&self, mut tries: Vec<Try>, key: &Key<'_>, by: &str) -> Vec<Try> {
        let last = tries.iter_mut().rev().find(|tried| key.is(tried));
        if let Some(tried) = last.filter(|tried| tried.by == by && self.0.contains(&tried.at)) {
            settle_one(tried, by, Outcome::Withdrawn);
        }
        tries
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::super::entry;
    use super::super::tests::{key, now};
    use super::*;

    fn pending(by: &str, at: Timestamp) -> Vec<Try> {
        vec![entry(&key("a"), by, at, Outcome::Pending)]
    }

    fn outcome(unsent: &Unsent, tries: Vec<Try>) -> Outcome {
        unsent.withdraw(tries, &key("a"), "pod/1")[0].outcome
    }

    #[test]
    fn any_write_of_it_may_stand_in_the_record() {
        let (first, second) = (now(), now() + 1.second());
        let mut unsent = Unsent::default();
        unsent.begin(first);
        unsent.begin(second);
        for at in [first, second] {
            assert_eq!(outcome(&unsent, pending("pod/1", at)), Outcome::Withdrawn);
        }
    }

    #[test]
    fn a_try_of_another_time_or_process_or_pin_was_sent() {
        let mut unsent = Unsent::default();
        unsent.begin(now());
        assert_eq!(
            outcome(&unsent, pending("pod/1", now() - 1.second())),
            Outcome::Pending
        );
        assert_eq!(outcome(&unsent, pending("pod/2", now())), Outcome::Pending);
        let other = vec![entry(&key("b"), "pod/1", now(), Outcome::Pending)];
        assert_eq!(outcome(&unsent, other), Outcome::Pending);
    }

    #[test]
    fn a_second_try_is_taken_back_and_the_first_stays() {
        let mut unsent = Unsent::default();
        unsent.begin(now());
        let mut tries = pending("pod/1", now());
        tries[0].outcome = Outcome::PendingAgain;
        assert_eq!(outcome(&unsent, tries), Outcome::Pending);
    }

    #[test]
    fn what_is_forgotten_counts_as_sent() {
        let mut unsent = Unsent::default();
        for second in 0..=i64::try_from(MOST).unwrap() {
            unsent.begin(now() + second.seconds());
        }
        assert_eq!(outcome(&unsent, pending("pod/1", now())), Outcome::Pending);
        let next = pending("pod/1", now() + 1.second());
        assert_eq!(outcome(&unsent, next), Outcome::Withdrawn);
    }
}
