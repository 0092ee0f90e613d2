//! One picture of what all nodes say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use trustplane_api::hsm::record::Record;
use trustplane_api::hsm::{DiscoveryStatus, ReportingPod};
use trustplane_plan::{Deadline, ObjectRef, Plan};

use super::past::Place;
use super::report::{Checked, MOST_TOKENS, check};
use super::serving::Serving;
use super::{
    Claim, Conflict, Double, Past, PodView, PoolDevice, Rival, Silence, identity, info, merge, whole_second,
};
use crate::device::{Device, Fixed, Search};

/// What is said of a pod whose report was given up. It names no time, so that it stays the same.
pub(super) const SILENT: &str =
    "the pod has not renewed its report for the grace period, so the report no longer counts";

/// The soonest next look for the sake of silence: it goes on only when the API server is heard again.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// What a picture is made from.
pub(crate) struct Situation<'a> {
    /// The names of the HSMDevices that the pool is for.
    pub names: &'a [String],
    pub devices: &'a [PoolDevice],
    pub claims: &'a [Claim],
    /// What agents have written, by their names.
    pub records: &'a BTreeMap<String, Record>,
    /// Agents that are awaited, and of which a pod may run.
    pub running: &'a BTreeSet<ObjectRef>,
    /// The agents that serve their token now.
    pub serving: &'a Serving,
    pub past: &'a Past<'a>,
    pub silence: &'a Silence,
    pub grace: Duration,
    pub now: Timestamp,
}

/// A token at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub device: String,
    pub node: String,
    pub path: String,
    pub serial: Option<String>,
    pub info: BTreeMap<String, String>,
    pub available: bool,
    /// Since when it is there, or is lost.
    pub since: Timestamp,
}

/// What all nodes say, without contradictions.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub tokens: Vec<Sighting>,
    pub pods: Vec<ReportingPod>,
    pub conflicts: Vec<Conflict>,
    pub doubles: Vec<Double>,
    pub rivals: Vec<Rival>,
    /// How many pods should report.
    pub expected: usize,
    /// How many have reported lately.
    pub fresh: usize,
    /// How many of these have seen all.
    pub completed: usize,
    /// How many of these have failed.
    pub failed: usize,
    /// HSMDevices and nodes of which all is known: what such a node does not tell of is gone.
    pub known: BTreeSet<(String, String)>,
}

impl Sighting {
    pub fn place(&self) -> Place {
        (
            self.device.clone(),
            self.node.clone(),
            self.serial.clone(),
            self.path.clone(),
        )
    }

    pub fn is_static(&self) -> bool {
        self.info
            .get(info::DISCOVERY_TYPE)
            .is_some_and(|how| how == info::STATIC)
    }

    /// Whether its node has had it, is not heard, and has not said that it is gone.
    pub fn is_unheard(&self) -> bool {
        self.info.contains_key(info::UNHEARD)
    }
}

/// A pod of a DaemonSet, and what it says.
struct Voice<'a> {
    pod: &'a PodView,
    node: &'a str,
    heard: Option<Result<Checked, String>>,
    /// The time of its report, by the clock of its node: it tells reports apart, and nothing else depends on it.
    time: Timestamp,
    fresh: bool,
}

impl Picture {
    /// Makes a picture. The plan looks again when something in it becomes old.
    pub fn of(situation: &Situation<'_>, plan: &mut Plan) -> Self {
        let mut picture = Self::default();
        let mut sightings = Vec::new();
        for device in situation.devices {
            sightings.extend(situation.listen(device, &mut picture, plan));
        }
        picture
            .pods
            .sort_by(|one, other| one.pod_name.cmp(&other.pod_name));
        situation.remember(&mut sightings, &picture.known);
        sightings.retain(|sighting| sighting.available || !situation.is_given_up(sighting, plan));
        picture.conflicts = merge::settle(&mut sightings, situation.devices, situation.claims);
        picture.doubles = identity::settle(&mut sightings, situation);
        picture.tokens = merge::once(sightings, situation.past);
        picture.rivals = merge::rivals(&picture.tokens, situation, plan);
        picture
    }
}

impl Situation<'_> {
    fn listen(&self, device: &PoolDevice, picture: &mut Picture, plan: &mut Plan) -> Vec<Sighting> {
        let name = device.device.meta.object.name();
        let read = device.device.read.as_ref().ok();
        if let Some(Device {
            search: Search::Fixed(tokens),
            ..
        }) = read
        {
            return tokens.iter().map(|token| self.fixed(name, token)).collect();
        }
        let mut sightings = match read {
            Some(_) => Vec::new(),
            None => self.standing_still(name),
        };
        let most = self.most(name);
        let Some(set) = &device.daemon_set else {
            return sightings;
        };
        picture.expected += usize::try_from(set.desired).unwrap_or_default();
        let is_of_set = |pod: &&PodView| {
            let labelled = set
                .selector
                .iter()
                .all(|(key, value)| pod.labels.get(key) == Some(value));
            labelled && !set.selector.is_empty() && pod.controller.as_deref() == Some(&*set.uid)
        };
        let mut voices: BTreeMap<&str, Voice<'_>> = BTreeMap::new();
        for pod in device.pods.iter().filter(is_of_set) {
            let voice = self.voice(pod, name, most, plan);
            picture.pods.push(self.reporting(&voice));
            if voice.is_better_than(voices.get(voice.node)) {
                voices.insert(voice.node, voice);
            }
        }
        for (node, voice) in voices {
            let Some(Ok(report)) = &voice.heard else {
                continue;
            };
            if voice.knows_all(report) {
                picture.known.insert((name.to_owned(), node.to_owned()));
            }
            picture.fresh += usize::from(voice.fresh);
            picture.completed += usize::from(voice.fresh && report.status == DiscoveryStatus::Completed);
            picture.failed += usize::from(voice.fresh && report.status == DiscoveryStatus::Error);
            sightings.extend(self.sightings(name, node, &voice, report));
        }
        sightings
    }

    /// How many tokens of a node are listed for an HSMDevice.
    pub(super) fn most(&self, device: &str) -> usize {
        let mut devices = self.devices.iter();
        let device = devices.find(|one| one.device.meta.object.name() == device);
        let read = device.and_then(|device| device.device.read.as_ref().ok());
        let most = read.and_then(|device| device.max_devices);
        most.unwrap_or(MOST_TOKENS).min(MOST_TOKENS)
    }

    fn voice<'a>(&self, pod: &'a PodView, device: &str, most: usize, plan: &mut Plan) -> Voice<'a> {
        let node = pod.node.as_deref().unwrap_or_default();
        let report = pod.report.as_deref().filter(|_| !node.is_empty());
        let heard = report.map(|text| check(text, device, node, most));
        let told = heard.as_ref().and_then(|heard| heard.as_ref().ok()?.time);
        let before = self.past.pod(&pod.name);
        let time = told.or(before.map(|before| before.last_report_time));
        // A report that was given up does not count again because we have restarted, or because there was an outage.
        let was_given_up = before.is_some_and(|before| {
            let same = told.map(whole_second) == Some(before.last_report_time);
            same && before.error.as_deref() == Some(SILENT)
        });
        let fresh = matches!(heard, Some(Ok(_))) && !was_given_up && self.is_heard(&pod.name, plan);
        Voice {
            pod,
            node,
            heard,
            time: time.unwrap_or(self.now),
            fresh,
        }
    }

    /// Whether the report of a pod was renewed within the grace period. If so, the plan looks again when that has passed.
    fn is_heard(&self, pod: &str, plan: &mut Plan) -> bool {
        let left = self.grace.checked_sub(self.silence.of(pod));
        let left = left.filter(|left| !left.is_zero());
        if let Some(left) = left {
            plan.look_again_in(left.max(SOON));
        }
        left.is_some()
    }

    /// Whether a token that is lost has had its grace period, in which its node could have told otherwise.
    fn is_given_up(&self, lost: &Sighting, plan: &mut Plan) -> bool {
        let passed = Deadline::after(lost.since, self.grace).has_passed(self.now, plan);
        let left = self.grace.saturating_sub(self.silence.watched);
        if passed && !left.is_zero() {
            plan.look_again_in(left.max(SOON));
        }
        passed && left.is_zero()
    }

    /// What the status says of a pod. Its time moves with the rest, and not with every sign of life.
    fn reporting(&self, voice: &Voice<'_>) -> ReportingPod {
        let (status, found, error) = match &voice.heard {
            Some(Ok(report)) => {
                let error = match voice.fresh {
                    true => report.error.clone(),
                    false => Some(SILENT.to_owned()),
                };
                (word(report.status), report.tokens.len(), error)
            }
            Some(Err(error)) => ("error", 0, Some(error.clone())),
            None => (state(&voice.pod.phase), 0, None),
        };
        let mut reporting = ReportingPod {
            pod_name: voice.pod.name.clone(),
            node_name: voice.node.to_owned(),
            devices_found: i32::try_from(found).unwrap_or(i32::MAX),
            last_report_time: whole_second(voice.time),
            discovery_status: status.to_owned(),
            error,
            fresh: voice.fresh,
        };
        if let Some(before) = self.past.pod(&voice.pod.name) {
            let now = reporting.last_report_time;
            reporting.last_report_time = before.last_report_time;
            if reporting != *before {
                reporting.last_report_time = now;
            }
        }
        reporting
    }

    fn sightings(&self, device: &str, node: &str, voice: &Voice<'_>, report: &Checked) -> Vec<Sighting> {
        let tokens = report.tokens.iter().map(|token| {
            let mut sighting = Sighting {
                device: device.to_owned(),
                node: node.to_owned(),
                path: token.path.clone(),
                serial: token.serial.clone(),
                info: token.info.clone(),
                available: token.available
                    && (voice.fresh || self.serving.on(device, token.serial.as_deref(), node)),
                since: self.now,
            };
            let before = self.past.since(&sighting.place(), sighting.available);
            let told = token.seen.filter(|seen| *seen <= self.now);
            let since = match (token.available, sighting.available) {
                (true, true) => before.or(told),
                // The node has fallen silent now.
                (true, false) => before,
                // By the clock of its node it may have been lost long ago, but we have learned it now.
                (false, _) if self.past.since(&sighting.place(), true).is_some() => None,
                // It may have come back and gone again.
                (false, _) => before.max(told),
            };
            sighting.since = whole_second(since.unwrap_or(self.now));
            sighting
        });
        // What was given up is not lost anew with each old report.
        let known = self.past.pod(&voice.pod.name).is_some();
        tokens
            .filter(|token| voice.fresh || !known || self.past.has(&token.place()))
            .collect()
    }

    fn fixed(&self, device: &str, token: &Fixed) -> Sighting {
        let mut info = BTreeMap::from([(info::DISCOVERY_TYPE.to_owned(), info::STATIC.to_owned())]);
        for (key, value) in [
            (info::TOKEN_LABEL, &token.token_label),
            (info::TOKEN_SERIAL, &token.token_serial),
        ] {
            info.extend(value.clone().map(|value| (key.to_owned(), value)));
        }
        let mut sighting = Sighting {
            device: device.to_owned(),
            node: token.node.clone().unwrap_or_default(),
            path: String::new(),
            serial: Some(token.name.clone()),
            info,
            available: true,
            since: self.now,
        };
        let before = self.past.since(&sighting.place(), true);
        sighting.since = whole_second(before.unwrap_or(self.now));
        sighting
    }
}

impl Voice<'_> {
    /// Whether what it does not tell of is gone: it has looked at everything, or has been silent for the grace period.
    fn knows_all(&self, report: &Checked) -> bool {
        !self.fresh || report.status == DiscoveryStatus::Completed
    }

    /// Whether it speaks for its node: of two pods the one that stays, and that was heard last.
    fn is_better_than(&self, other: Option<&Self>) -> bool {
        let rank = |voice: &Self| {
            (
                matches!(voice.heard, Some(Ok(_))),
                voice.fresh,
                !voice.pod.terminating,
                voice.time,
                voice.pod.name.clone(),
            )
        };
        !self.node.is_empty() && other.is_none_or(|other| rank(self) > rank(other))
    }
}

fn word(status: DiscoveryStatus) -> &'static str {
    match status {
        DiscoveryStatus::Discovering => "discovering",
        DiscoveryStatus::Completed => "completed",
        DiscoveryStatus::Error => "error",
    }
}

/// What a pod without a report is doing.
fn state(phase: &str) -> &'static str {
    match phase {
        "Running" => "discovering",
        "Pending" => "pending",
        "Failed" => "failed",
        _ => "unknown",
    }
}
