//! What pods are told: what lasts once in a while, what happens each time, and once that their Secret is there.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use trustplane_plan::Step;

use super::Decision;
use crate::claims::Claim;
use crate::reason::{Problem, Reason};

/// What lasts is told again after this time: events do not live for ever.
pub(super) const TELL_AGAIN: SignedDuration = SignedDuration::from_mins(30);

impl Decision<'_> {
    pub(super) fn tell_all(&mut self, claims: &[Claim<'_>], problem: &Problem) {
        for claim in by_pod(claims) {
            self.tell(claim, problem);
        }
    }

    /// Tells something that lasts, unless it was told not long ago.
    pub(super) fn tell(&mut self, claim: &Claim<'_>, problem: &Problem) {
        let id = hash(&(&claim.pod.uid, claim.index, problem.reason, &problem.text));
        let recent = |at: &Timestamp| self.situation.looked.duration_since(*at) < TELL_AGAIN;
        if let Some(at) = self.record.told.get(&id).filter(|at| recent(at)) {
            self.told.insert(id, *at);
            return;
        }
        self.told.insert(id, self.situation.looked);
        self.plan
            .push(Step::Tell(claim.pod.note(problem.reason, &problem.text)));
    }

    /// Tells something that has just happened.
    pub(super) fn announce(&mut self, claims: &[Claim<'_>], reason: Reason, text: &str) {
        for claim in by_pod(claims) {
            self.plan.push(Step::Tell(claim.pod.note(reason, text)));
        }
        self.record.greeted = by_pod(claims).map(|claim| hash(&claim.pod.uid)).collect();
    }

    /// Tells each pod once that its Secret is there. Who was there before this process knows it, or it would be told again by
    /// every new leader.
    pub(super) fn greet(&mut self, claims: &[Claim<'_>], text: &str) {
        let mut greeted = BTreeSet::new();
        for claim in by_pod(claims) {
            let id = hash(&claim.pod.uid);
            // A pod's time of creation has no fraction of a second.
            let is_new = claim.pod.created.as_second() >= self.record.since.as_second();
            if is_new && !self.record.greeted.contains(&id) {
                self.plan
                    .push(Step::Tell(claim.pod.note(Reason::SecretSyncSuccess, text)));
            }
            if is_new {
                greeted.insert(id);
            }
        }
        self.record.greeted = greeted;
    }
}

/// One claim of each pod.
fn by_pod<'a, 'b>(claims: &'b [Claim<'a>]) -> impl Iterator<Item = &'b Claim<'a>> {
    let mut seen = BTreeSet::new();
    claims
        .iter()
        .filter(move |claim| seen.insert(claim.pod.uid.clone()))
}

/// A hash that stays in memory.
pub(super) fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
