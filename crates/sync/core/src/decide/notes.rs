//! What pods are told: each thing once, and what could not be told before is told at the next look.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use trustplane_plan::Step;

use super::{Action, Decision};
use crate::claims::Claim;
use crate::reason::{Problem, Reason};
use crate::situation::{Basis, Owed};

/// What lasts is told again after this time: events do not live for ever.
pub(super) const TELL_AGAIN: SignedDuration = SignedDuration::from_mins(30);

impl Decision<'_> {
    pub(super) fn tell_all(&mut self, claims: &[Claim], problem: &Problem, basis: Basis) {
        for claim in by_pod(claims) {
            self.tell(claim, problem, basis);
        }
    }

    /// Tells something that lasts, unless it was told not long ago.
    pub(super) fn tell(&mut self, claim: &Claim, problem: &Problem, basis: Basis) {
        let id = identify(claim, problem.reason, &problem.text);
        let recent = |at: &Timestamp| self.situation.looked.duration_since(*at) < TELL_AGAIN;
        if let Some(at) = self.record.told.get(&id).filter(|at| recent(at)) {
            self.told.insert(id, *at);
            return;
        }
        let owed = Owed {
            basis,
            reason: problem.reason,
            text: problem.text.as_str().into(),
        };
        self.push_note(claim, id, &owed);
        self.owed.insert(id, owed);
    }

    /// Tells something that has just happened.
    pub(super) fn announce(&mut self, claims: &[Claim], reason: Reason, text: &str) {
        self.record.greeted = by_pod(claims).map(|claim| hash(&claim.pod.uid)).collect();
        self.tell_or_owe(by_pod(claims), reason, text);
    }

    /// Tells each pod once that its Secret is there. A pod that is older than this process knows it, or every new leader would
    /// tell it again.
    pub(super) fn greet(&mut self, claims: &[Claim], text: &str) {
        // A pod's time of creation has no fraction of a second.
        let since = self.record.since.as_second();
        let is_new = |claim: &&Claim| claim.pod.created.as_second() >= since;
        let new: Vec<&Claim> = by_pod(claims).filter(is_new).collect();
        let greeted = new.iter().map(|claim| hash(&claim.pod.uid)).collect();
        let greeted = std::mem::replace(&mut self.record.greeted, greeted);
        let mut ungreeted = new
            .into_iter()
            .filter(|claim| !greeted.contains(&hash(&claim.pod.uid)))
            .peekable();
        if ungreeted.peek().is_some() {
            self.tell_or_owe(ungreeted, Reason::SecretSyncSuccess, text);
        }
    }

    /// Tells something that has happened. Whoever cannot be told now is told at the next look.
    fn tell_or_owe<'a>(&mut self, claims: impl Iterator<Item = &'a Claim>, reason: Reason, text: &str) {
        let owed = Owed {
            basis: Basis::Happened,
            reason,
            text: text.into(),
        };
        let claims: Vec<(u64, &Claim)> = claims
            .map(|claim| (identify(claim, reason, text), claim))
            .collect();
        let all = claims.iter().map(|(id, _)| (*id, owed.clone())).collect();
        let owe = Action::Owe(self.situation.secret.clone(), all);
        self.plan.push(Step::Remember(owe));
        for (id, claim) in claims {
            self.push_note(claim, id, &owed);
        }
    }

    /// Tells what could not be told before and still holds.
    pub(super) fn remind(&mut self, claims: &[Claim], still_holds: &[Basis]) {
        let before = &self.situation.record.owed;
        let texts: BTreeSet<&Owed> = before.values().collect();
        for owed in texts.into_iter().filter(|owed| still_holds.contains(&owed.basis)) {
            for claim in claims {
                let id = identify(claim, owed.reason, &owed.text);
                if before.contains_key(&id) && !self.owed.contains_key(&id) {
                    self.push_note(claim, id, owed);
                    self.owed.insert(id, owed.clone());
                }
            }
        }
    }

    fn push_note(&mut self, claim: &Claim, id: u64, owed: &Owed) {
        let told = Action::Told {
            secret: self.situation.secret.clone(),
            id,
            at: self.situation.looked,
        };
        let note = claim.pod.note(owed.reason, &owed.text);
        self.plan.push(Step::TellOnce(note, told));
    }
}

/// What is told to a pod about one of its requests.
fn identify(claim: &Claim, reason: Reason, text: &str) -> u64 {
    hash(&(&claim.pod.uid, claim.index, reason, text))
}

/// A hash that stays in memory.
pub(super) fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// One claim of each pod.
fn by_pod(claims: &[Claim]) -> impl Iterator<Item = &Claim> {
    let mut seen = BTreeSet::new();
    claims
        .iter()
        .filter(move |claim| seen.insert(claim.pod.uid.clone()))
}
