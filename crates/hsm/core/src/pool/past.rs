//! What was known before: the status of the pool is the only memory that there is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trustplane_api::hsm::{AggregatedDevice, HsmPoolStatus, ReportingPod};

use super::info;
use crate::usb::serial_key;

/// Where a token is: HSMDevice, node, serial number and device file.
pub(crate) type Place = (String, String, Option<String>, String);

/// What was known before.
pub(crate) struct Past<'a> {
    tokens: BTreeMap<Place, &'a AggregatedDevice>,
    pods: BTreeMap<&'a str, &'a ReportingPod>,
}

impl<'a> Past<'a> {
    pub fn of(status: &'a HsmPoolStatus) -> Self {
        let tokens = status.aggregated_devices.iter();
        Self {
            tokens: tokens.filter_map(|token| Some((place(token)?, token))).collect(),
            pods: status
                .reporting_pods
                .iter()
                .map(|pod| (pod.pod_name.as_str(), pod))
                .collect(),
        }
    }

    /// Since when a token is as it is: a heart-beat does not change that, whatever time it bears.
    pub fn since(&self, place: &Place, available: bool) -> Option<Timestamp> {
        let before = self.tokens.get(place)?;
        (was_there(before) == available).then_some(before.last_seen)
    }

    /// Whether a token was at this place, by what counted then, and its node has not said since that it is gone.
    pub fn counted(&self, place: &Place) -> bool {
        let same_node = |(before, _): &(&Place, &&AggregatedDevice)| {
            before.0 == place.0 && before.1 == place.1 && is_same(&before.2, &place.2)
        };
        self.tokens
            .iter()
            .filter(same_node)
            .any(|(_, token)| token.available || is_unheard(token))
    }

    /// Whether a token was listed at this place.
    pub fn has(&self, place: &Place) -> bool {
        self.tokens.contains_key(place)
    }

    pub fn tokens(&self) -> impl Iterator<Item = (&Place, &'a AggregatedDevice)> {
        self.tokens.iter().map(|(place, token)| (place, *token))
    }

    /// The token with this serial number as it was, wherever that was; the one that was there, if there were several.
    pub fn token(&self, device: &str, serial: Option<&str>) -> Option<&'a AggregatedDevice> {
        let serial = Some(serial?.to_owned());
        let is_it = |place: &Place| place.0 == device && is_same(&place.2, &serial);
        let mut known = self.tokens.iter().filter(|(place, _)| is_it(place));
        let first = known.clone().next();
        let there = known.find(|(_, token)| token.available);
        there.or(first).map(|(_, token)| *token)
    }

    pub fn pod(&self, name: &str) -> Option<&'a ReportingPod> {
        self.pods.get(name).copied()
    }
}

/// Whether two serial numbers are one.
fn is_same(one: &Option<String>, other: &Option<String>) -> bool {
    one.as_deref().map(serial_key) == other.as_deref().map(serial_key)
}

/// Whether the node of a token has not said what became of it.
pub(crate) fn is_unheard(token: &AggregatedDevice) -> bool {
    token.device_info.contains_key(info::UNHEARD)
}

/// Whether a token was reported as there, even if it did not count.
pub(crate) fn was_there(token: &AggregatedDevice) -> bool {
    token.available
        || token.device_info.contains_key(info::MOVED_TO)
        || token.device_info.contains_key(info::CLAIMED_BY)
}

fn place(token: &AggregatedDevice) -> Option<Place> {
    Some((
        token.device_info.get(info::DEVICE)?.clone(),
        token.node_name.clone(),
        token.serial_number.clone(),
        token.device_path.clone(),
    ))
}

/// Times in a status have whole seconds, as all of Kubernetes does.
pub(crate) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
