//! Makes the status of an HSMSecret. The status is written only if it has changed.

use jiff::Timestamp;
use trustplane_api::hsm::delivery::{CONFLICT, DEGRADED, SYNCED, reason, sync_status};
use trustplane_api::hsm::names::SYNCED_AT_ANNOTATION;
use trustplane_api::hsm::{DeviceSyncStatus, HSM_SECRET, HsmSecretStatus, SecretRef};
use trustplane_plan::condition::READY;
use trustplane_plan::{ConditionStatus, Meta, Status, Step};

use super::assess::{Problem, Scope};
use super::copies::{Agreed, CopyState, TokenView};
use super::{SecretContent, Situation};

/// The reasons of conditions that report no problem.
const NO_CONFLICT: &str = "NoConflict";
const ALL_ASKED: &str = "AllAsked";

/// The status that an HSMSecret should have.
#[derive(Debug)]
pub(super) struct WantedStatus {
    pub status: HsmSecretStatus,
}

impl WantedStatus {
    /// The status while the Secret is in line.
    pub fn in_line(
        situation: &Situation,
        agreed: &Agreed,
        (secret, content): (&Meta, &SecretContent),
        now: Timestamp,
    ) -> Self {
        let mut status = situation.status.clone();
        let said = secret.annotations.get(SYNCED_AT_ANNOTATION);
        let written = said.and_then(|text| text.parse().ok());
        status.last_sync_time = written.or(status.last_sync_time).or(whole_second(now));
        status.hsm_checksum = Some(content.checksum.clone());
        status.secret_checksum = Some(content.checksum.clone());
        status.sync_status = Some(sync_status::IN_SYNC.to_owned());
        status.last_error = None;
        status.secret_ref = Some(SecretRef {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            name: Some(secret.object.name().to_owned()),
            namespace: secret.object.namespace().map(str::to_owned),
            uid: Some(secret.uid.to_string()),
            ..SecretRef::default()
        });
        status.primary_device = Some(agreed.primary.clone());
        status.sync_conflict = None;
        status.device_sync_status = rows(situation, Some(&content.checksum), true);
        let mut wanted_status = Self { status };
        wanted_status.condition(situation, SYNCED, true, (sync_status::IN_SYNC, ""), now);
        let lost = agreed.degraded.join("; ");
        wanted_status.degraded(situation, &lost, now);
        wanted_status.condition(situation, CONFLICT, false, (NO_CONFLICT, ""), now);
        wanted_status.condition(situation, READY, true, (sync_status::IN_SYNC, ""), now);
        wanted_status
    }

    /// The status while there is a problem.
    pub fn problem(situation: &Situation, problem: &Problem, now: Timestamp) -> Self {
        let mut status = situation.status.clone();
        status.sync_status = Some(problem.sync_status.to_owned());
        status.last_error = Some(problem.text.clone());
        status.sync_conflict = (problem.scope == Scope::Contradiction).then_some(true);
        match problem.scope {
            // The secret on the tokens belongs to another namespace, and so do its checksums.
            Scope::Nothing if problem.reason == reason::LOCATION_TAKEN => {
                status.hsm_checksum = None;
                status.primary_device = None;
                status.device_sync_status = Vec::new();
            }
            Scope::Nothing => {}
            Scope::Tokens | Scope::Contradiction => {
                let delivered = status.secret_checksum.clone();
                let learns = problem.scope == Scope::Contradiction;
                status.device_sync_status = rows(situation, delivered.as_deref(), learns);
            }
        }
        let mut wanted_status = Self { status };
        let (why, text) = (problem.reason, problem.text.as_str());
        wanted_status.condition(situation, SYNCED, false, (why, text), now);
        let unreachable = problem.reason == reason::TOKEN_UNREACHABLE;
        wanted_status.degraded(situation, if unreachable { text } else { "" }, now);
        let conflicts = [
            reason::SECRET_TAKEN,
            reason::LOCATION_TAKEN,
            reason::COPIES_DIFFER,
        ];
        let (disputed, told) = match conflicts.contains(&problem.reason) {
            true => (true, (why, text)),
            false => (false, (NO_CONFLICT, "")),
        };
        wanted_status.condition(situation, CONFLICT, disputed, told, now);
        wanted_status.condition(situation, READY, false, (problem.sync_status, text), now);
        wanted_status
    }

    fn degraded(&mut self, situation: &Situation, lost: &str, now: Timestamp) {
        let told = match lost {
            "" => (ALL_ASKED, ""),
            lost => (reason::TOKEN_UNREACHABLE, lost),
        };
        self.condition(situation, DEGRADED, !lost.is_empty(), told, now);
    }

    fn condition(
        &mut self,
        situation: &Situation,
        type_: &str,
        holds: bool,
        (reason, message): (&str, &str),
        now: Timestamp,
    ) {
        let status = match holds {
            true => ConditionStatus::True,
            false => ConditionStatus::False,
        };
        let generation = situation.object.generation;
        self.status
            .conditions
            .set(type_, status, reason, message, generation, now);
    }

    /// Whether the condition `Synced` changes, so that an event has to report the problem.
    pub fn is_news(&self, situation: &Situation) -> bool {
        let told = |status: &HsmSecretStatus| {
            let synced = status.conditions.get(SYNCED)?;
            Some((synced.status, synced.reason.clone(), synced.message.clone()))
        };
        told(&self.status) != told(&situation.status)
    }

    /// Whether the condition `Degraded` has a new message, so that an event has to report it.
    pub fn is_newly_degraded(&self, situation: &Situation) -> bool {
        let message = |status: &HsmSecretStatus| {
            let degraded = status.conditions.get(DEGRADED)?;
            (degraded.status == ConditionStatus::True).then(|| degraded.message.clone())
        };
        let now = message(&self.status);
        now.is_some() && now != message(&situation.status)
    }

    /// The write of the status, if the status has changed.
    pub fn step<A>(&self, situation: &Situation) -> Option<Step<A>> {
        // A status always has a JSON form: it holds texts, numbers and times.
        let json = |status: &HsmSecretStatus| serde_json::to_value(status).unwrap_or_default();
        Status::step(
            situation.object.target(&HSM_SECRET),
            &situation.object.uid,
            &json(&situation.status),
            json(&self.status),
        )
    }
}

/// Whether the Secret was delivered since the last status.
pub(super) fn changed(before: &HsmSecretStatus, now: &HsmSecretStatus) -> bool {
    before.sync_status != now.sync_status
        || before.secret_checksum != now.secret_checksum
        || before.last_sync_time != now.last_sync_time
}

/// The rows of all tokens that have a copy, or had one when they were last asked. `wanted` is the checksum that counts. Unless the
/// status `learns`, a row keeps its last checksum and version: they show that a new content is an edit, also while another token
/// cannot be asked and while the edit is not delivered yet.
fn rows(situation: &Situation, wanted: Option<&str>, learns: bool) -> Vec<DeviceSyncStatus> {
    let before = &situation.status.device_sync_status;
    let row = |token: &TokenView| {
        let last = before.iter().find(|row| row.device_name == token.name);
        let bare = DeviceSyncStatus {
            device_name: token.name.clone(),
            ..DeviceSyncStatus::default()
        };
        let failed = |why: &str, online| DeviceSyncStatus {
            status: Some(sync_status::ERROR.to_owned()),
            last_error: Some(why.to_owned()),
            online,
            ..last.cloned().unwrap_or_else(|| bare.clone())
        };
        match &token.state {
            CopyState::Held(copy) => {
                let same = wanted == Some(copy.checksum.as_str());
                let word = if same {
                    sync_status::IN_SYNC
                } else {
                    sync_status::OUT_OF_SYNC
                };
                let (checksum, version) = match last {
                    Some(last) if !learns => (last.checksum.clone(), last.version),
                    _ => {
                        let version = i64::try_from(copy.metadata.stamp.version).unwrap_or(i64::MAX);
                        (Some(copy.checksum.clone()), version)
                    }
                };
                Some(DeviceSyncStatus {
                    checksum,
                    status: Some(word.to_owned()),
                    online: true,
                    version,
                    ..bare
                })
            }
            CopyState::Damaged(why) => Some(failed(why, true)),
            CopyState::Away(why) => last.is_some().then(|| failed(why, false)),
            CopyState::Unasked => last.cloned(),
            CopyState::Absent { .. } => None,
        }
    };
    situation.tokens.iter().filter_map(row).collect()
}

/// The time in whole seconds, as the API server keeps it.
fn whole_second(now: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(now.as_second()).ok()
}
