//! What a pass has found out about an operand, and the conditions that tell of it.

use jiff::Timestamp;
use trustplane_api::identity::conditions::{self, reason};
use trustplane_plan::{ConditionStatus, Conditions};

/// Reasons of a condition that is False only because something takes its time.
const IN_PROGRESS: [&str; 5] = [
    reason::STATEFUL_SET_NOT_READY,
    reason::DAEMON_SET_NOT_READY,
    reason::DEPLOYMENT_NOT_READY,
    reason::TERMINATING,
    reason::PROGRESSING,
];

/// One thing that was found out: the type of a condition, whether it holds, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    pub type_: &'static str,
    pub holds: bool,
    /// Whether it is wrong that it does not hold.
    pub matters: bool,
    pub reason: &'static str,
    pub message: String,
}

/// What a pass has found out about an operand: at most one fact for each type of condition.
#[derive(Debug, Default)]
pub(super) struct Facts(Vec<Fact>);

impl Facts {
    /// Something is as it should be. What is known to be wrong about the same type stays.
    pub fn good(&mut self, type_: &'static str, reason: &'static str) {
        self.note(type_, reason, String::new());
    }

    /// Something is as it should be, and there is something to say about it.
    pub fn note(&mut self, type_: &'static str, reason: &'static str, message: String) {
        if self.0.iter().all(|fact| fact.type_ != type_) {
            self.0.push(Fact {
                type_,
                holds: true,
                matters: true,
                reason,
                message,
            });
        }
    }

    /// Something is wrong. Several messages about the same type are joined.
    pub fn bad(&mut self, type_: &'static str, reason: &'static str, message: String) {
        let Some(fact) = self.0.iter_mut().find(|fact| fact.type_ == type_) else {
            self.0.push(Fact {
                type_,
                holds: false,
                matters: true,
                reason,
                message,
            });
            return;
        };
        if fact.holds {
            (fact.holds, fact.reason, fact.message) = (false, reason, message);
        } else if !fact.message.contains(&message) {
            fact.message = format!("{}; {message}", fact.message);
        }
    }

    /// Something does not hold any more, and that is as it should be.
    pub fn ended(&mut self, type_: &'static str, reason: &'static str) {
        self.0.push(Fact {
            type_,
            holds: false,
            matters: false,
            reason,
            message: String::new(),
        });
    }

    /// Whether something is wrong for this reason.
    pub fn tell_of(&self, reason: &str) -> bool {
        self.0.iter().any(|fact| !fact.holds && fact.reason == reason)
    }

    /// Whether nothing is wrong.
    pub fn are_good(&self) -> bool {
        self.0.iter().all(|fact| fact.holds || !fact.matters)
    }

    /// The conditions after this pass. Those of the last pass that this one does not speak of go, unless the pass was cut short.
    pub fn conditions(
        &self,
        last: &Conditions,
        cut_short: bool,
        generation: i64,
        now: Timestamp,
    ) -> Conditions {
        let mut told = last.clone();
        if !cut_short {
            let spoken_of =
                |type_: &str| type_ == conditions::READY || self.0.iter().any(|fact| fact.type_ == type_);
            for condition in last.iter().filter(|condition| !spoken_of(&condition.type_)) {
                told.remove(&condition.type_);
            }
        }
        let mut set = |fact: &Fact| {
            let status = match fact.holds {
                true => ConditionStatus::True,
                false => ConditionStatus::False,
            };
            told.set(fact.type_, status, fact.reason, &fact.message, generation, now);
        };
        self.0.iter().for_each(&mut set);
        set(&self.ready());
        told
    }

    /// Ready: Failed if anything is wrong that time alone does not mend, else Progressing, else Ready.
    fn ready(&self) -> Fact {
        let bad: Vec<&Fact> = self.0.iter().filter(|fact| !fact.holds && fact.matters).collect();
        let told = |fact: &&Fact| match fact.message.as_str() {
            "" => fact.type_.to_owned(),
            message => format!("{}: {message}", fact.type_),
        };
        let failed = bad.iter().any(|fact| !IN_PROGRESS.contains(&fact.reason));
        let reason = match (bad.is_empty(), failed) {
            (true, _) => reason::READY,
            (false, true) => reason::FAILED,
            (false, false) => reason::PROGRESSING,
        };
        Fact {
            type_: conditions::READY,
            holds: bad.is_empty(),
            matters: true,
            reason,
            message: bad.iter().map(told).collect::<Vec<_>>().join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn ready(facts: &Facts) -> (String, String) {
        let conditions = facts.conditions(&Conditions::default(), false, 1, NOW);
        let ready = conditions.get(conditions::READY).unwrap();
        (ready.reason.clone(), ready.message.clone())
    }

    #[test]
    fn ready_is_failed_when_time_alone_mends_nothing() {
        let mut facts = Facts::default();
        facts.good("A", reason::READY);
        assert_eq!(ready(&facts).0, "Ready");
        facts.bad("B", reason::DAEMON_SET_NOT_READY, "0 of 1".to_owned());
        assert_eq!(ready(&facts), ("Progressing".to_owned(), "B: 0 of 1".to_owned()));
        facts.bad("A", reason::RESOURCE_CONFLICT, "taken".to_owned());
        assert_eq!(
            ready(&facts),
            ("Failed".to_owned(), "A: taken; B: 0 of 1".to_owned())
        );
    }

    #[test]
    fn conditions_that_a_pass_does_not_speak_of_go_unless_it_was_cut_short() {
        let mut facts = Facts::default();
        facts.bad("Old", reason::FAILED, "x".to_owned());
        let last = facts.conditions(&Conditions::default(), false, 1, NOW);
        let mut facts = Facts::default();
        facts.good("New", reason::READY);
        let types = |cut_short| {
            let conditions = facts.conditions(&last, cut_short, 1, NOW);
            conditions.iter().map(|c| c.type_.clone()).collect::<Vec<_>>()
        };
        assert_eq!(types(false), ["Ready", "New"]);
        assert_eq!(types(true), ["Old", "Ready", "New"]);
    }

    #[test]
    fn times_of_conditions_stay_while_their_status_does() {
        let mut facts = Facts::default();
        facts.good("A", reason::READY);
        let first = facts.conditions(&Conditions::default(), false, 1, NOW);
        let later = NOW + jiff::SignedDuration::from_hours(1);
        assert_eq!(facts.conditions(&first, false, 1, later), first);
    }

    #[test]
    fn the_first_problem_of_a_type_names_the_reason_and_all_are_told() {
        let mut facts = Facts::default();
        facts.good("A", reason::READY);
        facts.bad("A", reason::RESOURCE_CONFLICT, "one".to_owned());
        facts.bad("A", reason::TERMINATING, "two".to_owned());
        facts.bad("A", reason::TERMINATING, "two".to_owned());
        facts.good("A", reason::READY);
        assert!(!facts.are_good());
        assert_eq!(facts.0[0].message, "one; two");
        assert_eq!(facts.0[0].reason, reason::RESOURCE_CONFLICT);
    }
}
