//! One picture of many looks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use trustplane_api::hsm::ReportedDevice;

use super::{Found, serial_key, token_resource};

/// Says that another device of the node has the same serial number.
const DUPLICATE: &str = "duplicate-serial";

/// What is known of the devices of a node, from all looks so far.
///
/// - A device is known by its serial number, whatever its case; without one, by its device file.
/// - One that is at another file than before has moved: it stays the same device.
/// - One that is lost stays, as not available, until it comes back or the grace period has passed.
/// - Several that share a serial number are all kept, and each is marked. What becomes of one of them cannot be told from a
///   move; so while one of them is there, only those that are there are kept.
/// - If only some may be used, those that are there and used already stay so; free places go to the others in the order of their
///   serial numbers. So a device that is plugged in never takes the place of one in use, but it takes that of one that is lost.
#[derive(Debug, Clone)]
pub struct Tracker {
    limit: Option<usize>,
    grace: SignedDuration,
    tracked: Vec<Tracked>,
    left_out: usize,
}

/// A device as it is known now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracked {
    /// What was found, when it was last there.
    pub found: Found,
    /// Whether it is there.
    pub available: bool,
    /// Since when it is as it is.
    pub since: Timestamp,
}

/// How a device is known: by its serial number, or else by its device file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Serial(String),
    Path(String),
}

impl Key {
    fn of(found: &Found) -> Self {
        match &found.serial {
            Some(serial) => Self::Serial(serial_key(serial)),
            None => Self::Path(found.device_path.clone()),
        }
    }
}

impl Tracked {
    /// It, as a report of its node tells it.
    pub fn reported(&self, node: &str) -> ReportedDevice {
        ReportedDevice {
            device_path: self.found.device_path.clone(),
            serial_number: self.found.serial.clone(),
            node_name: Some(node.to_owned()),
            last_seen: Some(self.since),
            available: Some(self.available),
            device_info: self.found.info.clone(),
            resource_name: self.found.serial.as_deref().map(token_resource),
        }
    }
}

impl Tracker {
    /// Nothing is known yet. At most `limit` devices are used, and a lost one is kept for the grace period.
    pub fn new(limit: Option<usize>, grace: SignedDuration) -> Self {
        Self {
            limit,
            grace,
            tracked: Vec::new(),
            left_out: 0,
        }
    }

    /// Takes up what an earlier process has reported, of this pod or of the one before it. Nothing of it is of a time that is yet to
    /// come: it would be remembered until then, or lose the place that it has for having come first.
    pub fn restore(&mut self, reported: &[ReportedDevice], now: Timestamp) {
        let tracked = reported.iter().map(|device| Tracked {
            found: Found {
                device_path: device.device_path.clone(),
                node: device
                    .device_info
                    .get("resolved-path")
                    .unwrap_or(&device.device_path)
                    .clone(),
                serial: device.serial_number.clone(),
                info: device.device_info.clone(),
            },
            available: device.available.unwrap_or(true),
            since: device.last_seen.unwrap_or(now).min(now),
        });
        self.tracked = tracked.collect();
    }

    /// All devices that are there or were lent their place, in a fixed order.
    pub fn devices(&self) -> &[Tracked] {
        &self.tracked
    }

    /// How many devices are there and not used, because there are more than may be.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Takes in a look. Answers whether anything is different from before.
    pub fn see(&mut self, found: Vec<Found>, now: Timestamp) -> bool {
        let mut groups = grouped(found);
        let mut known: BTreeMap<Key, Vec<Tracked>> = BTreeMap::new();
        for tracked in &self.tracked {
            let key = Key::of(&tracked.found);
            known.entry(key).or_default().push(tracked.clone());
        }
        let (mut next, mut lost): (Vec<Tracked>, Vec<Tracked>) = (Vec::new(), Vec::new());
        let mut newcomers: Vec<Found> = Vec::new();
        for (key, before) in known {
            match groups.remove(&key) {
                None => lost.extend(before.into_iter().filter_map(|tracked| self.lost(tracked, now))),
                Some(present) => {
                    let (stay, new) = continued(before, present, now);
                    next.extend(stay);
                    newcomers.extend(new);
                }
            }
        }
        // An earlier process may have been told to use more. Whoever came first stays.
        next.sort_by_key(|tracked| {
            (
                tracked.since,
                Key::of(&tracked.found),
                tracked.found.device_path.clone(),
            )
        });
        let most = self.limit.unwrap_or(usize::MAX).min(next.len());
        newcomers.extend(next.split_off(most).into_iter().map(|tracked| tracked.found));
        newcomers.extend(groups.into_values().flatten());
        newcomers.sort_by_key(|found| (Key::of(found), found.device_path.clone()));
        let free = |used: usize| self.limit.map_or(usize::MAX, |limit| limit.saturating_sub(used));
        let left_out = newcomers.len().saturating_sub(free(next.len()));
        newcomers.truncate(free(next.len()));
        next.extend(newcomers.into_iter().map(|found| Tracked {
            found,
            available: true,
            since: now,
        }));
        // Whoever was lost last may come back soonest.
        lost.sort_by_key(|lost| (Reverse(lost.since), Key::of(&lost.found)));
        lost.truncate(free(next.len()));
        next.extend(lost);
        next.sort_by_key(|tracked| (Key::of(&tracked.found), tracked.found.device_path.clone()));
        let changed = next != self.tracked || left_out != self.left_out;
        (self.tracked, self.left_out) = (next, left_out);
        changed
    }

    /// What becomes of a device that is not there.
    fn lost(&self, tracked: Tracked, now: Timestamp) -> Option<Tracked> {
        if tracked.available {
            return Some(Tracked {
                available: false,
                since: now,
                ..tracked
            });
        }
        // A clock that was set back only makes it stay longer.
        (now.duration_since(tracked.since) < self.grace).then_some(tracked)
    }
}

/// What was found by how it is known, each file once, with those marked that share a serial number.
fn grouped(found: Vec<Found>) -> BTreeMap<Key, Vec<Found>> {
    let mut groups: BTreeMap<Key, Vec<Found>> = BTreeMap::new();
    let mut nodes = BTreeSet::new();
    // Of two ways to the same device the one that knows more wins: the bus knows serial numbers.
    let mut found = found;
    found.sort_by_key(|found| {
        (
            found.serial.is_none(),
            found.serial.clone(),
            found.device_path.clone(),
        )
    });
    for found in found {
        if nodes.insert(found.node.clone()) {
            groups.entry(Key::of(&found)).or_default().push(found);
        }
    }
    for group in groups.values_mut().filter(|group| group.len() > 1) {
        let count = group.len().to_string();
        for found in group.iter_mut() {
            found.info.insert(DUPLICATE.to_owned(), count.clone());
        }
    }
    groups
}

/// Of devices that are known by one name: those that stay, as they are now, and those that are new.
fn continued(before: Vec<Tracked>, present: Vec<Found>, now: Timestamp) -> (Vec<Tracked>, Vec<Found>) {
    let mut before = before;
    let (mut stay, mut moved) = (Vec::new(), Vec::new());
    for found in present {
        let same = |tracked: &Tracked| tracked.found.device_path == found.device_path;
        match before.iter().position(same) {
            Some(at) => stay.push(as_now(before.swap_remove(at), found, now)),
            None => moved.push(found),
        }
    }
    // Whoever is left of the old ones has gone somewhere: to one of the new places, as long as there are any.
    let new = moved.split_off(moved.len().min(before.len()));
    stay.extend(
        before
            .into_iter()
            .zip(moved)
            .map(|(tracked, found)| as_now(tracked, found, now)),
    );
    (stay, new)
}

fn as_now(before: Tracked, found: Found, now: Timestamp) -> Tracked {
    // Whatever else is known of it, it has been at this place since then: the pool of all nodes remembers it so too.
    let place = |found: &Found| (found.device_path.clone(), found.node.clone());
    let same = before.available && place(&before.found) == place(&found);
    Tracked {
        since: if same { before.since } else { now },
        available: true,
        found,
    }
}

#[cfg(test)]
mod tests;
