//! What is wrong with a pool, with the HSMDevice that is to be told.

use std::collections::BTreeMap;

use trustplane_api::hsm::AggregatedDevice;

use super::Round;
use crate::pool::serving::obstacle;
use crate::pool::{PoolDevice, Sighting, bounded, info};
use crate::usb::{serial_key, standing};

impl Round<'_> {
    /// Why nothing can be said of the pool as a whole.
    pub(super) fn faults(&self, names: &[String]) -> Vec<String> {
        if names.is_empty() {
            return vec!["the pool is for no HSMDevice".to_owned()];
        }
        let exists = |name: &&String| {
            let mut devices = self.input.devices.iter();
            devices.any(|device| device.device.meta.object.name() == name.as_str())
        };
        let missing = names.iter().filter(|name| !exists(name));
        let mut faults: Vec<String> = missing
            .map(|name| format!("there is no HSMDevice {name}"))
            .collect();
        faults.extend(self.invalid().into_iter().map(|(_, text)| text));
        faults
    }

    pub(super) fn invalid(&self) -> Vec<(&PoolDevice, String)> {
        let faulty = |device: &'_ PoolDevice| device.device.read.as_ref().err().map(ToString::to_string);
        let devices = self.input.devices.iter();
        devices
            .filter_map(|device| Some((device, faulty(device)?)))
            .collect()
    }

    pub(super) fn warnings(&self) -> Vec<(&PoolDevice, String)> {
        let warned = |device: &'_ PoolDevice| {
            let device = device.device.read.as_ref().ok()?;
            (!device.warnings.is_empty()).then(|| device.warnings.join("; "))
        };
        let devices = self.input.devices.iter();
        devices
            .filter_map(|device| Some((device, warned(device)?)))
            .collect()
    }

    pub(super) fn conflicts(&self) -> Vec<(&PoolDevice, String)> {
        let conflicts = self.picture.conflicts.iter().filter_map(|conflict| {
            let text = format!(
                "the token {:?} on node {} belongs to the HSMDevice {}, which is older",
                bounded(&conflict.serial, 64),
                conflict.node,
                conflict.holder
            );
            Some((self.device(&conflict.device)?, text))
        });
        conflicts.collect()
    }

    /// Tokens of a node that cannot be told apart. One of them is used, and always the same.
    pub(super) fn duplicates(&self) -> Vec<(&PoolDevice, String)> {
        let mut twins: BTreeMap<(&str, &str, String), Vec<&Sighting>> = BTreeMap::new();
        let tokens = self.picture.tokens.iter();
        for token in tokens.filter(|token| token.available && !token.is_static()) {
            if let Some(serial) = &token.serial {
                let key = (token.device.as_str(), token.node.as_str(), serial_key(serial));
                twins.entry(key).or_default().push(token);
            }
        }
        let duplicates = twins.into_iter().filter_map(|((device, node, _), mut twins)| {
            twins.sort_by_key(|token| standing(token.available, token.since, &token.path));
            let [used, others @ ..] = twins.as_slice() else {
                return None;
            };
            let others: Vec<_> = others.iter().map(|token| bounded(&token.path, 256)).collect();
            let text = format!(
                "{} tokens on node {node} have the serial number {:?}: the one at {} was there first and is used, not {}",
                twins.len(),
                bounded(used.serial.as_deref().unwrap_or_default(), 64),
                bounded(&used.path, 256),
                others.join(", "),
            );
            (!others.is_empty()).then_some((self.device(device)?, text))
        });
        duplicates.collect()
    }

    /// Tokens that another node reports as well. Either there are two with one serial number, or one of the nodes does not tell the
    /// truth.
    pub(super) fn rivals(&self) -> Vec<(&PoolDevice, String)> {
        let rivals = self.picture.rivals.iter().filter_map(|rival| {
            let text = format!(
                "the serial number {:?} is reported by node {} and by node {}: the token of node {} is used",
                bounded(&rival.serial, 64),
                rival.holder,
                rival.node,
                rival.holder,
            );
            Some((self.device(&rival.device)?, text))
        });
        rivals.collect()
    }

    /// Tokens for which a status has no room: they are not listed, so they have no agent.
    pub(super) fn left_out(&self, listed: &[AggregatedDevice]) -> Vec<(&PoolDevice, String)> {
        let left_out = self.input.devices.iter().filter_map(|device| {
            let name = device.device.meta.object.name();
            let all = self.picture.tokens.iter().filter(|token| token.device == name);
            let of_it = |token: &&AggregatedDevice| {
                let its = token.device_info.get(info::DEVICE);
                its.is_some_and(|its| its == name)
            };
            let (all, kept) = (all.count(), listed.iter().filter(of_it).count());
            let text = format!(
                "{} of {all} tokens are not used: a pool has no room for more",
                all - kept.min(all)
            );
            (kept < all).then_some((device, text))
        });
        left_out.collect()
    }

    /// Tokens that are there and that no agent serves, with why.
    pub(super) fn unserved(&self, listed: &[AggregatedDevice]) -> Vec<(&PoolDevice, String)> {
        let waiting = listed
            .iter()
            .filter(|token| token.available && !self.serving.has(token));
        let unserved = waiting.filter_map(|token| {
            let device = self.device(token.device_info.get(info::DEVICE)?)?;
            let text = obstacle(token, device, &self.input.records, &self.input.agent_pods)?;
            Some((device, text))
        });
        unserved.collect()
    }

    pub(super) fn device(&self, name: &str) -> Option<&PoolDevice> {
        let mut devices = self.input.devices.iter();
        devices.find(|device| device.device.meta.object.name() == name)
    }
}
