//! What is remembered of tokens of which nobody tells any more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use trustplane_api::hsm::AggregatedDevice;

use super::past::{is_unheard, was_there};
use super::picture::{Sighting, Situation};
use super::{info, whole_second};
use crate::usb::{access, serial_key};

impl Situation<'_> {
    /// The static tokens of an HSMDevice that is faulty. Nobody else tells of them, and their agents go on, so they are where they
    /// were. Who has them is settled anew.
    pub(super) fn standing_still(&self, device: &str) -> Vec<Sighting> {
        let of_it = self.past.tokens().filter(|(place, _)| place.0 == device);
        let fixed = of_it.filter(|(_, before)| is_static(before));
        let still = fixed.map(|((device, node, serial, path), before)| {
            let mut info = before.device_info.clone();
            info.remove(info::CLAIMED_BY);
            info.remove(info::CLAIMED_AS);
            Sighting {
                device: device.clone(),
                node: node.clone(),
                path: path.clone(),
                serial: serial.clone(),
                info,
                available: true,
                since: before.last_seen,
            }
        });
        still.collect()
    }

    /// Adds what was known and is no longer told: it is lost now, unless it was before, or unless its agent serves it. A node has no more tokens that way than it
    /// may have at all, those that it tells of first: otherwise one that tells of others each time would have any number.
    pub(super) fn remember(&self, sightings: &mut Vec<Sighting>, known: &BTreeSet<(String, String)>) {
        let mut told: BTreeSet<(String, String, String)> = BTreeSet::new();
        let mut places = BTreeSet::new();
        let mut count: BTreeMap<(String, String), usize> = BTreeMap::new();
        for sighting in sightings.iter() {
            let (device, node) = (&sighting.device, &sighting.node);
            places.insert(sighting.place());
            let serial = sighting.serial.as_deref().map(serial_key);
            told.extend(serial.map(|serial| (device.clone(), node.clone(), serial)));
            *count.entry((device.clone(), node.clone())).or_default() += 1;
        }
        let mut lost = Vec::new();
        for (place, before) in self.past.tokens() {
            let (device, node, serial, path) = place;
            let serial_told = serial
                .as_deref()
                .is_some_and(|serial| told.contains(&(device.clone(), node.clone(), serial_key(serial))));
            let is_told = places.contains(place) || serial_told;
            if is_told || !is_memorable(before) || !self.names.contains(device) {
                continue;
            }
            let is_known = known.contains(&(device.clone(), node.clone()));
            let unheard = !is_known && (before.available || is_unheard(before));
            let available = !is_known && before.available && self.serving.on(device, serial.as_deref(), node);
            let since = if was_there(before) && !available {
                self.now
            } else {
                before.last_seen
            };
            lost.push(Sighting {
                device: device.clone(),
                node: node.clone(),
                path: path.clone(),
                serial: serial.clone(),
                info: match available {
                    true => before.device_info.clone(),
                    false => lasting(&before.device_info, unheard),
                },
                available,
                since: whole_second(since),
            });
        }
        lost.sort_by_key(|lost| {
            (
                !lost.available,
                !lost.is_unheard(),
                Reverse(lost.since),
                lost.place(),
            )
        });
        for lost in lost {
            let count = count.entry((lost.device.clone(), lost.node.clone())).or_default();
            *count += 1;
            if *count <= self.most(&lost.device) {
                sightings.push(lost);
            }
        }
    }
}

/// A static token is where its HSMDevice says. One that belongs to another node all the time was never lost here.
fn is_memorable(before: &AggregatedDevice) -> bool {
    !is_static(before) && !before.device_info.contains_key(info::MOVED_TO)
}

fn is_static(before: &AggregatedDevice) -> bool {
    let how = before.device_info.get(info::DISCOVERY_TYPE);
    how.is_some_and(|how| how == info::STATIC)
}

/// What has to be known of a token that is lost: as whom its agent runs, which goes on for a time.
fn lasting(given: &BTreeMap<String, String>, unheard: bool) -> BTreeMap<String, String> {
    let needed = [access::MODE, access::GID, info::DISCOVERY_TYPE];
    let kept = given
        .iter()
        .filter(|(key, _)| needed.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()));
    let mark = unheard.then(|| (info::UNHEARD.to_owned(), "true".to_owned()));
    kept.chain(mark).collect()
}
