//! Each token once: who has it, and where it is.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use trustplane_plan::{Deadline, Plan};

use super::picture::{Sighting, Situation};
use super::{Claim, Past, PoolDevice, info};
use crate::usb::serial_key;

/// A token that two HSMDevices want.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Conflict {
    /// The HSMDevice that does not get it.
    pub device: String,
    pub serial: String,
    pub node: String,
    /// The one that has it.
    pub holder: String,
}

/// Who comes first: the older one, then the one whose name does.
pub(super) type Age = (Timestamp, String, String);

pub(super) fn age(created: Option<Timestamp>, name: &str, uid: &str) -> Age {
    (created.unwrap_or(Timestamp::MAX), name.to_owned(), uid.to_owned())
}

/// Settles which HSMDevice has a token that several see on one node. It takes a node to see a token, so a lie about it can only
/// cost that node its own tokens.
pub(super) fn settle(sightings: &mut [Sighting], devices: &[PoolDevice], claims: &[Claim]) -> Vec<Conflict> {
    let mut ages: BTreeMap<&str, Age> = BTreeMap::new();
    for device in devices {
        let meta = &device.device.meta;
        ages.insert(
            meta.object.name(),
            age(meta.created, &meta.object.to_string(), &meta.uid),
        );
    }
    let mut holders: BTreeMap<(String, String), Age> = BTreeMap::new();
    let mut claim = |node: &str, serial: &str, age: &Age| {
        let holder = holders
            .entry((node.to_owned(), serial_key(serial)))
            .or_insert_with(|| age.clone());
        if age < holder {
            *holder = age.clone();
        }
    };
    let holds = |sighting: &&Sighting| is_claim(sighting) || sighting.is_unheard();
    for sighting in sightings.iter().filter(holds) {
        if let (Some(serial), Some(age)) = (&sighting.serial, ages.get(sighting.device.as_str())) {
            claim(&sighting.node, serial, age);
        }
    }
    for rival in claims {
        let age = age(rival.created, &rival.device.to_string(), &rival.uid);
        for (node, serial) in &rival.tokens {
            claim(node, serial, &age);
        }
    }
    let mut conflicts = Vec::new();
    for sighting in sightings.iter_mut().filter(|sighting| is_claim(sighting)) {
        let (Some(serial), Some(age)) = (&sighting.serial, ages.get(sighting.device.as_str())) else {
            continue;
        };
        let holder = holders.get(&(sighting.node.clone(), serial_key(serial)));
        let Some(holder) = holder.filter(|holder| **holder != *age) else {
            continue;
        };
        conflicts.push(Conflict {
            device: sighting.device.clone(),
            serial: serial.clone(),
            node: sighting.node.clone(),
            holder: holder.1.clone(),
        });
        sighting.available = false;
        sighting
            .info
            .insert(info::CLAIMED_BY.to_owned(), holder.1.clone());
    }
    conflicts.sort();
    conflicts
}

/// A static token is where its module finds it, and two may well have one name.
fn is_claim(sighting: &Sighting) -> bool {
    sighting.available && !sighting.is_static()
}

/// Makes one token of all that have its serial number, in a fixed order.
///
/// - On several nodes: the one that had it keeps it until it says that it is gone, or has not been heard for the grace period; then
///   the one that saw it last has it. A node that lies about a token of another one does not get its agent, and with that its
///   PIN, not even while that one starts anew. Of a token that was never listed before, the one that says it had it first has it.
/// - Several on one node cannot be told apart, so all stay and are marked.
/// - One that is lost is kept only if it is nowhere else, and only where it was lost last.
pub(super) fn once(sightings: Vec<Sighting>, past: &Past<'_>) -> Vec<Sighting> {
    let mut groups: BTreeMap<(bool, String, String), Vec<Sighting>> = BTreeMap::new();
    let mut tokens = Vec::new();
    for sighting in sightings {
        let claimed = sighting.info.contains_key(info::CLAIMED_BY);
        match &sighting.serial {
            Some(serial) if !claimed => {
                // Names of static tokens are only names.
                let scope = if sighting.is_static() {
                    sighting.device.clone()
                } else {
                    String::new()
                };
                let key = (sighting.is_static(), scope, serial_key(serial));
                groups.entry(key).or_default().push(sighting);
            }
            _ => tokens.push(sighting),
        }
    }
    tokens.extend(groups.into_values().flat_map(|group| placed(group, past)));
    let order = |token: &Sighting| (token.serial.is_none(), token.serial.clone(), token.place());
    tokens.sort_by_key(order);
    tokens
}

fn placed(group: Vec<Sighting>, past: &Past<'_>) -> Vec<Sighting> {
    let held = |token: &&Sighting| past.counted(&token.place());
    let there = group.iter().filter(|token| token.available).find(held);
    let unheard = || group.iter().filter(|token| token.is_unheard()).find(held);
    let holder = there.or_else(unheard).map(|token| token.node.clone());
    // Of two at one time the first by name, so that the choice lasts.
    let place = |token: &&Sighting| (token.node.clone(), token.device.clone(), token.path.clone());
    let there = || group.iter().filter(|token| token.available);
    let gone = group.iter().filter(|token| !token.available);
    let newest = |token: &&Sighting| (Reverse(token.since), place(token));
    let is_new = |token: &Sighting| past.token(&token.device, token.serial.as_deref()).is_none();
    let chosen = || match group.iter().all(is_new) {
        true => there().min_by_key(|token| (token.since, place(token))),
        false => there().min_by_key(newest),
    };
    let chosen = holder.or_else(|| chosen().map(|token| token.node.clone()));
    let Some(node) = chosen else {
        let last = gone.min_by_key(newest).map(|token| token.node.clone());
        return group
            .into_iter()
            .filter(|token| Some(&token.node) == last.as_ref())
            .collect();
    };
    let is_kept = |token: &Sighting| token.available || (token.is_unheard() && token.node == node);
    let mut there: Vec<Sighting> = group.into_iter().filter(is_kept).collect();
    let twins = there.iter().filter(|token| token.available && token.node == node);
    let count = twins.count();
    for token in &mut there {
        if token.node != node {
            token.available = false;
            token.info.insert(info::MOVED_TO.to_owned(), node.clone());
        } else if count > 1 {
            token.info.insert(info::DUPLICATE.to_owned(), count.to_string());
        }
    }
    there
}

/// A token of one node that another node reports as its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rival {
    pub device: String,
    pub serial: String,
    /// The node that does not get it.
    pub node: String,
    /// The one that has it.
    pub holder: String,
}

/// How long two nodes may report one token before it is told: while a token is carried from one to the other, both may, until the
/// old node has looked.
const SETTLED: Duration = Duration::from_secs(30);

/// The nodes that report a token of another node which is there as well. The plan looks again when one has done so for too long.
pub(super) fn rivals(tokens: &[Sighting], situation: &Situation<'_>, plan: &mut Plan) -> Vec<Rival> {
    let mut rivals = Vec::new();
    for token in tokens {
        let (Some(serial), Some(holder)) = (&token.serial, token.info.get(info::MOVED_TO)) else {
            continue;
        };
        // A node that is not heard may have lost it.
        let is_there = |other: &Sighting| {
            let other_serial = other.serial.as_deref().map(serial_key);
            other.available && other.node == *holder && other_serial == Some(serial_key(serial))
        };
        let settled = Deadline::after(token.since, SETTLED.min(situation.grace));
        if tokens.iter().any(is_there) && settled.has_passed(situation.now, plan) {
            rivals.push(Rival {
                device: token.device.clone(),
                serial: serial.clone(),
                node: token.node.clone(),
                holder: holder.clone(),
            });
        }
    }
    rivals
}
