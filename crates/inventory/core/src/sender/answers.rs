//! What a sender makes of an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use trustplane_api::inventory::wire::EventType;

use super::gate::{OUTAGE, doubled};
use super::replay::Replay;
use super::{Answered, Outcome, Phase, Sender};
use crate::pending::{Record, Room};

/// The longest wait before a change that failed is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// The longest wait before a snapshot that failed is sent again, and the wait after the platform refused it for another reason than
/// its content.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(60);

impl Sender {
    /// Takes note of what became of a request.
    pub fn answered(&mut self, what: &Answered, outcome: Outcome, now: Instant, time: Timestamp) {
        match &outcome {
            Outcome::Accepted | Outcome::Refused(..) => self.gate.answered(),
            Outcome::Unreachable(why) => self.gate.unreachable(why.clone(), now),
            Outcome::Throttled(wait) => self.gate.throttled(*wait, now),
            Outcome::Unauthorized(why) => self.gate.unauthorized(why.clone(), now),
            Outcome::Forbidden(why) => self.gate.forbidden(why.clone(), now),
        }
        match what {
            Answered::Heartbeat => {
                self.heartbeat_flies = false;
                match outcome {
                    Outcome::Accepted => {
                        self.report.last_sync = Some(time);
                        self.report.heartbeat_refused = None;
                    }
                    Outcome::Refused(status, why) => {
                        self.report.heartbeat_refused = Some(format!("{status}: {why}"));
                    }
                    _ => {}
                }
            }
            Answered::Snapshot => self.snapshot_answered(outcome, now, time),
            Answered::Event(uid) => {
                if let Some(record) = self.flying.remove(uid) {
                    self.event_answered(record, outcome, now);
                }
            }
        }
    }

    fn snapshot_answered(&mut self, outcome: Outcome, now: Instant, time: Timestamp) {
        let sent = self.flying_snapshot.take();
        let snapshot = match (&self.phase, sent) {
            (Phase::Holding(held), Some(sent)) if Arc::ptr_eq(held, &sent) => sent,
            // It was given up while it was on its way.
            _ => return,
        };
        match outcome {
            Outcome::Accepted => {
                self.phase = Phase::Live;
                self.refused.clear();
                self.last_snapshot = Some(now);
                self.snapshot_after = None;
                self.snapshot_failures = 0;
                self.report.snapshot_failed = None;
                self.report.last_snapshot = Some(time);
                self.report.last_sync = Some(time);
            }
            Outcome::Refused(status, why) => {
                self.report.snapshot_failed =
                    Some(format!("the platform refused the snapshot: {status}: {why}"));
                if matches!(status, 400 | 413 | 422) {
                    self.last_snapshot = Some(now);
                    self.phase = Phase::Replaying(Replay::new(snapshot));
                } else {
                    self.snapshot_after = Some(now + SNAPSHOT_RETRY);
                }
            }
            Outcome::Unreachable(why) => {
                // The platform may take small requests all the while: they do not end this wait.
                self.snapshot_after = Some(now + doubled(self.snapshot_failures, SNAPSHOT_RETRY));
                self.snapshot_failures = self.snapshot_failures.saturating_add(1);
                if self.snapshot_failures >= OUTAGE {
                    self.report.snapshot_failed = Some(format!("failed to send the snapshot: {why}"));
                }
            }
            Outcome::Throttled(_) | Outcome::Unauthorized(_) | Outcome::Forbidden(_) => {}
        }
    }

    fn event_answered(&mut self, mut record: Record, outcome: Outcome, now: Instant) {
        let not_before = match outcome {
            Outcome::Accepted => {
                self.refused.remove(&record.uid);
                self.report.sent += 1;
                return;
            }
            Outcome::Refused(status, _) => {
                match record.is_deletion() {
                    // A platform that does not know the object has nothing to delete.
                    true if matches!(status, 404 | 410) => {}
                    // The object will never change again: only a snapshot can tell that it is gone.
                    true => self.report.lost_deletions += 1,
                    false if self.pending.has(&record.uid) => {}
                    false => self.refused.add(record, status),
                }
                return;
            }
            Outcome::Throttled(_) | Outcome::Unauthorized(_) | Outcome::Forbidden(_) => None,
            Outcome::Unreachable(_) => {
                record.attempts += 1;
                Some(now + doubled(record.attempts - 1, RETRY))
            }
        };
        // A list that began after the change was taken shows a state that is at least as new.
        let is_listed = matches!(
            self.phase,
            Phase::Owing | Phase::Collecting(_) | Phase::Holding(_)
        );
        if is_listed && record.type_ != EventType::Deleted {
            return;
        }
        // Only deletions that a snapshot does not hold are on their way while one is made.
        if self.pending.put_back(record.clone(), not_before, is_listed) == Room::Full {
            self.is_behind |= !is_listed;
            self.make_room(record, is_listed);
        }
    }
}
