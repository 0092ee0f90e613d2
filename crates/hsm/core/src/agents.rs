//! Agents: which tokens should have one, and what each consists of.

mod deployment;
#[cfg(test)]
mod original_tests;
mod rights;

use std::collections::BTreeMap;

use trustplane_api::hsm::conditions::phase;
use trustplane_api::hsm::names::{DEVICE_LABEL, OPERATOR, PATH_LABEL, SERIAL_LABEL};
use trustplane_api::hsm::{AggregatedDevice, HsmPoolStatus};
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Manifest, ObjectRef, Owner};

use crate::decide::PoolView;
use crate::device::{Device, Fixed, Opening, Search};
use crate::objects::{AGENT, APP_LABEL, COMPONENT_LABEL, agent_name, label_value};
use crate::pool::info;
use crate::rules::Rules;
use crate::usb::access::Access;
use crate::usb::standing;

/// A token that should have an agent, and everything that its objects are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent<'a> {
    /// Its name, and that of every object of its own.
    pub name: String,
    /// The serial number of the token on the bus; the name of a static one.
    pub serial: String,
    /// The node that has the token; none if any will do.
    pub node: Option<String>,
    /// The device file of the token; empty for a static one.
    pub path: String,
    /// Whether the token is there, in a pool that can be trusted: only then a new agent is made.
    pub ready: bool,
    /// How the token is opened.
    pub opening: &'a Opening,
    /// The token, if it is a static one.
    pub fixed: Option<&'a Fixed>,
    /// Who may open the device file, as the node that has the token tells.
    access: Access,
    device: &'a Device,
}

impl<'a> Agent<'a> {
    fn of(device: &'a Device, token: &AggregatedDevice, trusted: bool) -> Option<Self> {
        let opening = device.opening.as_ref()?;
        let serial = token
            .serial_number
            .as_deref()
            .filter(|serial| !serial.is_empty())?;
        let fixed = match &device.search {
            Search::Nodes(_) => None,
            // One that has left the list has no agent.
            Search::Fixed(tokens) => Some(tokens.iter().find(|fixed| fixed.name == serial)?),
        };
        let is_static = token
            .device_info
            .get(info::DISCOVERY_TYPE)
            .is_some_and(|how| how == info::STATIC);
        if fixed.is_none() && (is_static || token.node_name.is_empty()) {
            return None;
        }
        Some(Self {
            name: agent_name(&device.name, serial),
            serial: serial.to_owned(),
            node: match fixed {
                Some(fixed) => fixed.node.clone(),
                None => Some(token.node_name.clone()),
            },
            path: token.device_path.clone(),
            ready: trusted && token.available,
            opening,
            fixed,
            access: match fixed {
                // It has no device file, so nothing of it can belong to root.
                Some(_) => Access::Anybody,
                None => Access::of(&token.device_info),
            },
            device,
        })
    }

    /// Whether an object of its own is in the namespace of its PIN, and not in that of its HSMDevice.
    pub fn is_away(&self, object: &ObjectRef) -> bool {
        object.namespace() != Some(&self.device.namespace)
    }

    /// The objects of the agent, in the order in which they are needed, without its Secrets: their values are made when they are
    /// written. With `so_pin` the agent's pod mounts the Secret with the SO-PIN of its token.
    pub fn wishes(&self, owner: &Owner, rules: &Rules, so_pin: bool) -> Vec<Manifest> {
        let mut wishes = rights::manifests(self);
        wishes.push(self.object(CONFIG_MAP));
        wishes.push(deployment::manifest(self, rules, so_pin));
        let owned = |wish: Manifest| match self.is_away(wish.object()) {
            true => wish,
            false => wish.owner(owner.clone()),
        };
        wishes.into_iter().map(owned).collect()
    }

    /// The labels of its objects, as the original has them.
    fn labels(&self) -> Vec<(&'static str, String)> {
        let mut labels = vec![
            (APP_LABEL, self.name.clone()),
            (COMPONENT_LABEL, AGENT.to_owned()),
            ("app.kubernetes.io/name", AGENT.to_owned()),
            ("app.kubernetes.io/instance", self.name.clone()),
            ("app.kubernetes.io/part-of", OPERATOR.to_owned()),
            (DEVICE_LABEL, label_value(&self.device.name)),
            (SERIAL_LABEL, label_value(&self.serial)),
        ];
        if !self.path.is_empty() {
            labels.push((PATH_LABEL, label_value(self.path.trim_matches('/'))));
        }
        labels
    }

    /// An object of its name, with its labels.
    fn object(&self, kind: trustplane_plan::Kind) -> Manifest {
        // The place of a token changes, and few objects have to follow it.
        let lasting = self.labels().into_iter().filter(|(key, _)| *key != PATH_LABEL);
        let bare = Manifest::new(kind, Some(&self.device.namespace), &self.name);
        lasting.fold(bare, |wish, (key, value)| wish.label(key, &value))
    }
}

/// The tokens of an HSMDevice that have or should have an agent, by the name of the agent.
///
/// A token is listed by the pools as long as it is there, or was within the grace period. Where several entries have one serial
/// number, the one that is there counts; of several that are there, the one that was there first ([`standing`]).
pub fn agents<'a>(device: &'a Device, pools: &[PoolView]) -> BTreeMap<String, Agent<'a>> {
    let mut listed: Vec<(&AggregatedDevice, bool)> = Vec::new();
    for pool in pools {
        let trusted = is_trusted(&pool.status);
        let of_device = |token: &&AggregatedDevice| {
            token.device_info.get(info::DEVICE) == Some(&device.name)
                && !token.device_info.contains_key(info::CLAIMED_BY)
        };
        let tokens = pool.status.aggregated_devices.iter().filter(of_device);
        listed.extend(tokens.map(|token| (token, trusted)));
    }
    listed.sort_by_key(|(token, trusted)| {
        (
            !token.available,
            !trusted,
            token.device_info.contains_key(info::MOVED_TO),
            standing(token.available, token.last_seen, &token.device_path),
            &token.node_name,
        )
    });
    let mut agents = BTreeMap::new();
    for (token, trusted) in listed {
        if let Some(agent) = Agent::of(device, token, trusted) {
            agents.entry(agent.name.clone()).or_insert(agent);
        }
    }
    agents
}

/// Whether new agents are made for the tokens of a pool. One of which a part is missing goes on serving.
pub fn is_trusted(status: &HsmPoolStatus) -> bool {
    matches!(status.phase.as_deref(), Some(phase::READY | phase::PARTIAL))
}
