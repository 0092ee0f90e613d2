//! The rotation: which step is due, and when the next one will be.

use jiff::Timestamp;

use super::authority::{Authority, generate};
use super::state::{AuthorityState, RetiringCa};
use super::{BACKDATE, CaError};

/// What [`Authority::step`] found.
#[derive(Debug)]
pub struct Step {
    /// The authority after the step; `None` when none is due. It counts once it is stored.
    pub next: Option<Authority>,
    /// When to call again. May be in the past when a further step is due at once.
    pub look_again: Timestamp,
}

/// The step that an authority waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// Put a successor into the bundle.
    Announce,
    /// Let the successor sign.
    Promote,
    /// Take the predecessor out of the bundle.
    Retire,
}

impl Authority {
    /// The one step that is due at `now`, if any.
    ///
    /// Steps follow one another: a successor is announced only when the predecessor has retired. [`Policy::validate`]
    /// leaves room for that, and a step that comes late only stretches the overlap.
    ///
    /// [`Policy::validate`]: super::Policy::validate
    pub fn step(&self, now: Timestamp) -> Result<Step, CaError> {
        let (due, at) = self.due();
        if now < at {
            return Ok(Step {
                next: None,
                look_again: at,
            });
        }
        let next = Self {
            state: self.take(due, now)?,
            ..self.clone()
        };
        let look_again = next.due().1;
        Ok(Step {
            next: Some(next),
            look_again,
        })
    }

    /// Steps until it can sign at `now`: for an authority that nobody has stepped for so long that its CA has expired.
    pub fn revive(mut self, now: Timestamp) -> Result<Self, CaError> {
        while !self.can_sign(now) {
            let Some(next) = self.step(now)?.next else {
                return Err(CaError::Expired(self.state.current.expires));
            };
            self = next;
        }
        Ok(self)
    }

    fn due(&self) -> (Due, Timestamp) {
        let AuthorityState {
            current,
            next,
            previous,
        } = &self.state;
        match (next, previous) {
            (_, Some(previous)) => (Due::Retire, previous.retire_at),
            // A CA that has expired has no leaves that a client would take, so waiting on has no use.
            (Some(next), None) => (
                Due::Promote,
                plus(next.created, self.policy.propagation).min(current.expires),
            ),
            // By its own life, which an older policy may have chosen.
            (None, None) => {
                let life = current.expires.duration_since(current.created);
                (Due::Announce, plus(current.created, life / 3 * 2))
            }
        }
    }

    fn take(&self, due: Due, now: Timestamp) -> Result<AuthorityState, CaError> {
        let AuthorityState {
            current,
            next,
            previous,
        } = self.state.clone();
        let fresh = || generate(&self.name, &self.policy, now);
        Ok(match (due, next) {
            (Due::Announce, _) if now < current.expires => AuthorityState {
                current,
                next: Some(fresh()?),
                previous,
            },
            (Due::Retire, next) => AuthorityState {
                current,
                next,
                previous: None,
            },
            (Due::Promote, Some(next)) if now < next.expires => {
                // A signer that has not heard of this yet signs with the old CA for up to a propagation more.
                let last_leaf = plus(plus(now, self.policy.propagation), self.policy.leaf_life);
                let retire_at = plus(last_leaf, BACKDATE).min(current.expires);
                let previous = Some(RetiringCa {
                    certificate: current.certificate,
                    retire_at,
                });
                AuthorityState {
                    current: next,
                    next: None,
                    previous,
                }
            }
            // Everything has expired: there is no trust left to overlap with.
            _ => AuthorityState {
                current: fresh()?,
                next: None,
                previous: None,
            },
        })
    }
}

fn plus(time: Timestamp, by: jiff::SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}
