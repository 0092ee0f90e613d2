//! Tokens by what they say of themselves: two names for one token are found here, once agents have met it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use trustplane_api::hsm::record::Record;
use trustplane_api::hsm::{AggregatedDevice, HsmPoolStatus};
use trustplane_plan::ObjectRef;

use super::info;
use super::merge::{Age, age};
use super::past::is_unheard;
use super::picture::{Sighting, Situation};
use crate::objects::agent_name;
use crate::usb::serial_key;

/// What a token says of itself. Two that agree in all of it are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    manufacturer: String,
    model: String,
    serial: String,
    label: String,
}

/// A token that an agent has met.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Met {
    /// What it says of itself.
    pub identity: Identity,
    /// Its serial number on the bus, or its name.
    pub token: String,
    /// Whether it is a static one.
    pub fixed: bool,
}

impl Identity {
    fn of_record(record: &Record) -> Option<Self> {
        let token = record.token.as_ref()?;
        Self {
            manufacturer: token.manufacturer.clone(),
            model: token.model.clone(),
            serial: token.serial.clone(),
            label: token.label.clone(),
        }
        .telling()
    }

    fn of_info(info: &BTreeMap<String, String>) -> Option<Self> {
        let text = |key: &str| info.get(key).cloned().unwrap_or_default();
        Self {
            manufacturer: text(info::TOKEN_MANUFACTURER),
            model: text(info::TOKEN_MODEL),
            serial: text(info::TOKEN_SERIAL),
            label: text(info::TOKEN_LABEL),
        }
        .telling()
    }

    /// Serial number and label may be what somebody expects of a token; who made it is known only of one that was met.
    fn telling(self) -> Option<Self> {
        let met = !self.manufacturer.is_empty() || !self.model.is_empty();
        (met && !self.serial.is_empty()).then_some(self)
    }
}

impl Met {
    /// The tokens that agents of an HSMDevice have met, by the status of a pool that is for it.
    pub(super) fn all_of(device: &str, status: &HsmPoolStatus) -> BTreeSet<Self> {
        let is_its_own = |token: &&AggregatedDevice| {
            token
                .device_info
                .get(info::DEVICE)
                .is_some_and(|its| its == device)
        };
        let tokens = status.aggregated_devices.iter().filter(is_its_own);
        let held = tokens.filter(|token| token.available || is_unheard(token));
        let met = held.filter_map(|token| {
            let how = token.device_info.get(info::DISCOVERY_TYPE);
            Some(Self {
                identity: Identity::of_info(&token.device_info)?,
                token: token.serial_number.clone()?,
                fixed: how.is_some_and(|how| how == info::STATIC),
            })
        });
        met.collect()
    }
}

/// Whether a change of one pool may matter to another: they have a token in common, or the other one waits for any.
pub fn concerns(changed: &HsmPoolStatus, other: &HsmPoolStatus) -> bool {
    let waits = |token: &AggregatedDevice| token.device_info.contains_key(info::CLAIMED_BY);
    if other.aggregated_devices.iter().any(waits) {
        return true;
    }
    let place = |token: &AggregatedDevice| {
        let serial = token.serial_number.as_deref()?;
        Some((token.node_name.clone(), serial_key(serial)))
    };
    let places: BTreeSet<_> = changed.aggregated_devices.iter().filter_map(place).collect();
    let met = |token: &AggregatedDevice| Identity::of_info(&token.device_info);
    let identities: BTreeSet<_> = changed.aggregated_devices.iter().filter_map(met).collect();
    other.aggregated_devices.iter().any(|token| {
        place(token).is_some_and(|place| places.contains(&place))
            || met(token).is_some_and(|met| identities.contains(&met))
    })
}

/// A token that has another name already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Double {
    /// The HSMDevice that does not get it.
    pub device: String,
    /// What that one calls it.
    pub token: String,
    /// The HSMDevice that has it.
    pub holder: String,
    /// What that one calls it.
    pub same_as: String,
}

/// Who comes first among those that have met a token.
type Rank = (Age, String);

/// Before everybody: an HSMDevice that is faulty keeps what its agents hold, because nobody stops them.
const FIRST: Option<Timestamp> = Some(Timestamp::MIN);

/// Settles which of several names has a token that is one. Those on the bus are told apart by their place, so one of the two has
/// to be static.
pub(super) fn settle(sightings: &mut [Sighting], situation: &Situation<'_>) -> Vec<Double> {
    let own: Vec<Option<(Met, Rank)>> = sightings
        .iter()
        .map(|sighting| own(sighting, situation))
        .collect();
    let theirs = situation.claims.iter().flat_map(|claim| {
        let created = match claim.faulty {
            true => FIRST,
            false => claim.created,
        };
        let age = age(created, &claim.device.to_string(), &claim.uid);
        let ranked = move |met: &Met| (met.clone(), (age.clone(), met.token.clone()));
        claim.met.iter().map(ranked)
    });
    let all: Vec<(Met, Rank)> = own.iter().flatten().cloned().chain(theirs).collect();
    let mut doubles = Vec::new();
    for (sighting, own) in sightings.iter_mut().zip(&own) {
        let double = own.as_ref().and_then(|own| second(sighting, own, &all));
        let Some(double) = double.or_else(|| held_back(sighting, own.as_ref(), &all, situation)) else {
            continue;
        };
        sighting.available = false;
        for (mark, value) in [
            (info::CLAIMED_BY, &double.holder),
            (info::CLAIMED_AS, &double.same_as),
        ] {
            sighting.info.insert(mark.to_owned(), value.clone());
        }
        doubles.push(double);
    }
    doubles
}

/// What stands against a name for a token: another one that comes first.
fn second(sighting: &Sighting, (met, rank): &(Met, Rank), all: &[(Met, Rank)]) -> Option<Double> {
    let same = |other: &&(Met, Rank)| {
        other.0.identity == met.identity && (other.0.fixed || met.fixed) && other.1 < *rank
    };
    let (first, ((_, holder, _), _)) = all.iter().filter(same).min_by_key(|(_, rank)| rank)?;
    Some(Double {
        device: sighting.device.clone(),
        token: met.token.clone(),
        holder: holder.clone(),
        same_as: first.token.clone(),
    })
}

/// A name that came second stays so while a pod of the agent that has the token may run, whatever has become of its HSMDevice:
/// unless that agent is known to have met another token since.
fn held_back(
    sighting: &Sighting,
    own: Option<&(Met, Rank)>,
    all: &[(Met, Rank)],
    situation: &Situation<'_>,
) -> Option<Double> {
    let token = sighting.serial.clone().filter(|_| sighting.available)?;
    let before = situation.past.token(&sighting.device, Some(&token))?;
    let (holder, same_as, agent) = holder(before)?;
    let has_another = |(met, ((_, name, _), _)): &(Met, Rank)| {
        let other = own.is_some_and(|(own, _)| own.identity != met.identity);
        name == holder && met.token == same_as && other
    };
    let waits = situation.running.contains(&agent) && !all.iter().any(has_another);
    waits.then(|| Double {
        device: sighting.device.clone(),
        token,
        holder: holder.to_owned(),
        same_as: same_as.to_owned(),
    })
}

/// The HSMDevice that has a token under another name, that name, and its agent.
fn holder(token: &AggregatedDevice) -> Option<(&str, &str, ObjectRef)> {
    let holder = token.device_info.get(info::CLAIMED_BY)?;
    let same_as = token.device_info.get(info::CLAIMED_AS)?;
    let (namespace, device) = holder.split_once('/')?;
    let agent = ObjectRef::new(Some(namespace), &agent_name(device, same_as));
    Some((holder, same_as, agent))
}

/// The agents that a pool waits for: each has a token that the pool knows by another name.
pub fn awaited(status: &HsmPoolStatus) -> BTreeSet<ObjectRef> {
    let tokens = status.aggregated_devices.iter();
    tokens.filter_map(|token| Some(holder(token)?.2)).collect()
}

/// What the agent of a token that is there has met, and how old its claim is.
fn own(sighting: &Sighting, situation: &Situation<'_>) -> Option<(Met, Rank)> {
    let token = sighting.serial.clone().filter(|_| sighting.available)?;
    let record = situation.records.get(&agent_name(&sighting.device, &token))?;
    let mut devices = situation.devices.iter().map(|device| &device.device);
    let device = devices.find(|device| device.meta.object.name() == sighting.device)?;
    let meta = &device.meta;
    let created = match device.read.is_err() && situation.past.counted(&sighting.place()) {
        true => FIRST,
        false => meta.created,
    };
    let rank = (age(created, &meta.object.to_string(), &meta.uid), token.clone());
    let met = Met {
        identity: Identity::of_record(record)?,
        fixed: sighting.is_static(),
        token,
    };
    Some((met, rank))
}
