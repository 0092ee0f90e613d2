//! What is known of the tokens of a pool, from what the nodes report. Reports are hostile until they are checked.

mod hearing;
mod identity;
mod memory;
mod merge;
mod past;
mod picture;
mod report;
pub(crate) mod serving;
pub(crate) mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trustplane_api::duration::parse_go_duration;
use trustplane_api::hsm::{AggregatedDevice, DEVICE, HsmPoolSpec, HsmPoolStatus};
use trustplane_plan::{ObjectRef, Owner};

use crate::decide::DeviceView;
use crate::usb::serial_key;

pub use hearing::{Hearing, Silence, Span};
pub(crate) use identity::Double;
pub use identity::{Identity, Met, awaited, concerns};
pub(crate) use merge::{Conflict, Rival};
pub(crate) use past::{Past, whole_second};
pub(crate) use picture::{Picture, SOON, Sighting, Situation};
pub(crate) use report::bounded;

/// The grace period where nothing else is said.
const DEFAULT_GRACE: Duration = Duration::from_secs(300);
/// The shortest grace period.
const SHORTEST_GRACE: Duration = Duration::from_secs(5);
/// The longest grace period: a year is as good as for ever.
const LONGEST_GRACE: Duration = Duration::from_secs(31_536_000);

/// An HSMDevice of a pool, and what runs for it.
#[derive(Debug, Clone)]
pub struct PoolDevice {
    /// The HSMDevice.
    pub device: DeviceView,
    /// Its DaemonSet ([`discovery_name`](crate::objects::discovery_name)), if there is one.
    pub daemon_set: Option<DaemonSetView>,
    /// Pods of its namespace that may be of the DaemonSet.
    pub pods: Vec<PodView>,
}

/// What matters of a DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSetView {
    /// Its uid.
    pub uid: Arc<str>,
    /// The labels that its pods have.
    pub selector: BTreeMap<String, String>,
    /// How many pods it should have: `status.desiredNumberScheduled`.
    pub desired: i32,
}

/// What matters of a discovery pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The uid of its controller.
    pub controller: Option<String>,
    /// The node that it runs on: `spec.nodeName`.
    pub node: Option<String>,
    /// `status.phase`.
    pub phase: String,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Its report, as it is.
    pub report: Option<Arc<str>>,
}

/// What an HSMDevice holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The HSMDevice.
    pub device: ObjectRef,
    /// Its uid.
    pub uid: Arc<str>,
    /// When it was created: the older one keeps a token.
    pub created: Option<Timestamp>,
    /// Nodes and serial numbers, as they are compared, of the tokens that it has there.
    pub tokens: BTreeSet<(String, String)>,
    /// The tokens that its agents have met.
    pub met: BTreeSet<Met>,
    /// Whether it is faulty. Its agents go on until it makes sense again, so what they have met is theirs before anybody's.
    pub faulty: bool,
}

impl Claim {
    /// What an HSMDevice holds by the status of a pool that is for it.
    pub fn of(view: &DeviceView, status: &HsmPoolStatus) -> Self {
        let device = &view.meta;
        // One whose node is not heard for a moment is still its own.
        let is_its_own = |token: &&AggregatedDevice| {
            (token.available || past::is_unheard(token))
                && token.device_info.get(info::DEVICE).map(String::as_str) == Some(device.object.name())
        };
        let place = |token: &AggregatedDevice| {
            let serial = token.serial_number.as_deref()?;
            Some((token.node_name.clone(), serial_key(serial)))
        };
        Self {
            device: device.object.clone(),
            uid: device.uid.clone(),
            created: device.created,
            tokens: status
                .aggregated_devices
                .iter()
                .filter(is_its_own)
                .filter_map(place)
                .collect(),
            met: Met::all_of(device.object.name(), status),
            faulty: view.read.is_err(),
        }
    }
}

/// What we say in `deviceInfo`, besides what nodes say. A report cannot set any of these.
pub mod info {
    /// The HSMDevice that a token is of.
    pub const DEVICE: &str = "hsm-device";
    /// The node that a token has moved to.
    pub const MOVED_TO: &str = "moved-to";
    /// The HSMDevice that a token belongs to, because it is older than the one of the pool.
    pub const CLAIMED_BY: &str = "claimed-by";
    /// What that one calls it, where it has another name there.
    pub const CLAIMED_AS: &str = "claimed-as";
    /// Its node has not said that it is gone, and is not heard.
    pub const UNHEARD: &str = "unheard";
    /// How many tokens of a node have the same serial number.
    pub const DUPLICATE: &str = "duplicate-serial";
    /// The serial number of the token itself; that on the bus is often another one.
    pub const TOKEN_SERIAL: &str = "token-serial";
    /// The label of the token.
    pub const TOKEN_LABEL: &str = "token-label";
    /// Who made the token.
    pub const TOKEN_MANUFACTURER: &str = "token-manufacturer";
    /// The model of the token.
    pub const TOKEN_MODEL: &str = "token-model";
    /// The version of the token's firmware.
    pub const TOKEN_FIRMWARE: &str = "token-firmware";
    /// The name of the token's reader.
    pub const TOKEN_READER: &str = "token-reader";
    /// How a token was found.
    pub const DISCOVERY_TYPE: &str = "discovery-type";
    /// What that says of a static token.
    pub const STATIC: &str = "static";

    /// All that only we say.
    pub const OURS: [&str; 12] = [
        DEVICE,
        MOVED_TO,
        CLAIMED_BY,
        CLAIMED_AS,
        UNHEARD,
        DUPLICATE,
        TOKEN_SERIAL,
        TOKEN_LABEL,
        TOKEN_MANUFACTURER,
        TOKEN_MODEL,
        TOKEN_FIRMWARE,
        TOKEN_READER,
    ];
}

/// The HSMDevices that a pool is for: those that it lists, else the one that it names, else its owner.
pub fn device_names(spec: &HsmPoolSpec, owners: &[Owner]) -> Vec<String> {
    let mut names: Vec<String> = spec.hsm_device_refs.clone();
    if names.is_empty() {
        names.extend(spec.hsm_device_ref.clone());
    }
    names.retain(|name| !name.is_empty());
    if names.is_empty() {
        let group = format!("{}/", DEVICE.group);
        let is_device = |owner: &&Owner| owner.kind == DEVICE.kind && owner.api_version.starts_with(&group);
        names.extend(owners.iter().find(is_device).map(|owner| owner.name.clone()));
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// The grace period of a pool. One that cannot be read is the default, and none is shorter than 5 s.
pub fn grace_period(spec: &HsmPoolSpec) -> Duration {
    let parsed = parse_go_duration(&spec.grace_period);
    parsed
        .unwrap_or(DEFAULT_GRACE)
        .clamp(SHORTEST_GRACE, LONGEST_GRACE)
}

#[cfg(test)]
mod tests;
