//! The status of a pool: what is said of its tokens.

use std::collections::BTreeMap;

use trustplane_api::hsm::AggregatedDevice;
use trustplane_api::hsm::conditions::phase::{AGGREGATING, PARTIAL, PENDING, READY};
use trustplane_api::hsm::record::{AgentPhase, Record};

use super::picture::{Picture, Sighting};
use super::report::bounded;
use super::{Past, info};
use crate::objects::agent_name;
use crate::resource::token_resource;

/// The most bytes of what an agent says.
const LONGEST: usize = 256;
/// The most tokens of a status.
const MOST: usize = 500;
/// The most bytes of all tokens of a status: an object of Kubernetes has little more than a megabyte.
const LARGEST: usize = 1_000_000;

/// How a pool is doing.
pub(crate) fn phase(picture: &Picture, on_nodes: bool) -> &'static str {
    if !on_nodes {
        return READY;
    }
    match picture {
        Picture { pods, .. } if pods.is_empty() => PENDING,
        Picture {
            completed, expected, ..
        } if completed >= expected => READY,
        Picture {
            fresh,
            expected,
            failed,
            ..
        } if fresh < expected || *failed > 0 => PARTIAL,
        _ => AGGREGATING,
    }
}

/// The tokens, with what their agents know of them.
pub(crate) fn tokens(
    picture: &Picture,
    past: &Past<'_>,
    records: &BTreeMap<String, Record>,
) -> Vec<AggregatedDevice> {
    let all = picture.tokens.iter();
    fair(all.map(|token| aggregated(token, past, records)).collect())
}

/// If there are too many, or if they are too large, each node has the same share: one that claims thousands does not crowd out
/// others. Of a node that has more than its share, those that are there come first.
fn fair(tokens: Vec<AggregatedDevice>) -> Vec<AggregatedDevice> {
    let sizes: Vec<usize> = tokens.iter().map(size).collect();
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for (token, size) in tokens.iter().zip(&sizes) {
        *nodes.entry(&token.node_name).or_default() += size;
    }
    let most = match tokens.len() > MOST {
        true => (MOST / nodes.len().max(1)).max(1),
        false => MOST,
    };
    let largest = share(nodes.values().copied().collect(), LARGEST);
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|at| !tokens[*at].available);
    let mut taken: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut kept = vec![false; tokens.len()];
    for at in order {
        let (count, bytes) = taken.entry(&tokens[at].node_name).or_default();
        kept[at] = *count < most && *bytes + sizes[at] <= largest;
        if kept[at] {
            (*count, *bytes) = (*count + 1, *bytes + sizes[at]);
        }
    }
    let all = tokens.into_iter().zip(kept);
    all.filter_map(|(token, kept)| kept.then_some(token)).collect()
}

/// How much each of several may have so that all have no more than this together, and none has less for the sake of one that
/// wants more.
fn share(mut wants: Vec<usize>, all: usize) -> usize {
    wants.sort_unstable();
    let mut left = all;
    for (at, want) in wants.iter().enumerate() {
        let share = left / (wants.len() - at);
        if *want > share {
            return share;
        }
        left -= want;
    }
    all
}

fn size(token: &AggregatedDevice) -> usize {
    serde_json::to_string(token).map_or(LARGEST, |text| text.len())
}

fn aggregated(token: &Sighting, past: &Past<'_>, records: &BTreeMap<String, Record>) -> AggregatedDevice {
    let mut device_info = token.info.clone();
    device_info.insert(info::DEVICE.to_owned(), token.device.clone());
    let elsewhere = [info::MOVED_TO, info::CLAIMED_BY]
        .iter()
        .any(|mark| device_info.contains_key(*mark));
    let record = token.serial.as_ref().filter(|_| !elsewhere);
    let record = record.and_then(|serial| records.get(&agent_name(&token.device, serial)));
    if let Some(identity) = record.and_then(|record| record.token.as_ref()) {
        for (key, value) in [
            (info::TOKEN_SERIAL, &identity.serial),
            (info::TOKEN_LABEL, &identity.label),
            (info::TOKEN_MANUFACTURER, &identity.manufacturer),
            (info::TOKEN_MODEL, &identity.model),
            (info::TOKEN_FIRMWARE, &identity.firmware),
            (info::TOKEN_READER, &identity.reader),
        ] {
            if !value.is_empty() {
                device_info.insert(key.to_owned(), bounded(value, LONGEST));
            }
        }
    }
    let before = past
        .token(&token.device, token.serial.as_deref())
        .filter(|_| !elsewhere);
    AggregatedDevice {
        device_path: token.path.clone(),
        serial_number: token.serial.clone(),
        node_name: token.node.clone(),
        last_seen: token.since,
        available: token.available,
        device_info,
        // Ours, not the node's: pods request what is written here.
        resource_name: token
            .serial
            .as_deref()
            .filter(|_| !token.is_static())
            .map(token_resource),
        role: before.and_then(|before| before.role.clone()),
        mirrored_from: before.and_then(|before| before.mirrored_from.clone()),
        last_sync_time: before.and_then(|before| before.last_sync_time),
        health: record
            .and_then(|record| record.state.as_ref())
            .map(|state| state.phase.as_str().to_owned()),
    }
}

/// What the agent of a token says, if it says anything.
pub(crate) fn said<'a>(
    token: &AggregatedDevice,
    records: &'a BTreeMap<String, Record>,
) -> Option<(AgentPhase, &'a str)> {
    let device = token.device_info.get(info::DEVICE)?;
    let serial = token.serial_number.as_deref()?;
    let state = records.get(&agent_name(device, serial))?.state.as_ref()?;
    token.health.as_ref()?;
    Some((state.phase, state.message.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_is_shared_so_that_small_wishes_are_met() {
        assert_eq!(share(vec![], 100), 100);
        assert_eq!(share(vec![10, 20], 100), 100);
        assert_eq!(share(vec![10, 500, 20, 300], 100), 35);
        assert_eq!(share(vec![50, 50, 50], 100), 33);
    }
}
