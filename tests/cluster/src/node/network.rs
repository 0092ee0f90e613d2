//! The network of a cluster with nodes: a namespace of its own, so that bridge, Service addresses and packet filter
//! never touch the machine's, and one link to the machine.
//!
//! Inside, every cluster looks the same. Only the link needs addresses that are free on the machine; the API server
//! listens on its inner end, which the machine, the nodes and the pods all reach. Nothing else leads out: there is no
//! default route.

use std::ffi::OsStr;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::command::{self, words};
use crate::cache::Lock;
use crate::resource::Resource;
use crate::site::Construction;

/// Where pods get their addresses from.
pub(super) const POD_RANGE: &str = "10.244.0.0/16";
/// The bridge, which is the pods' gateway.
pub(super) const BRIDGE: &str = "cni0";
pub(super) const BRIDGE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// Where Services get their addresses from.
pub(super) const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The Service of the cluster's DNS.
pub(super) const DNS_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// The inner end of the link.
const UPLINK: &str = "host0";
/// 198.18.0.0/15 is set aside for tests between networks (RFC 2544): no network that a machine is part of uses it.
const LINK_RANGE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// How many links with four addresses each fit into the range.
const LINKS: u32 = 1 << 14;
/// Of the machine, not of a cache.
const LINK_LOCK: &str = "/run/lock/trustplane-addresses.lock";

const LIMIT: Duration = Duration::from_secs(60);

/// A network that stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Network {
    namespace: String,
    link: String,
    /// The machine, as pods see it.
    pub(super) outer: Ipv4Addr,
    /// The cluster, as the machine sees it.
    pub(super) inner: Ipv4Addr,
}

impl Network {
    /// Makes the network of a cluster. `id` is unique on the machine.
    pub(super) fn build(construction: &mut Construction, id: &str) -> Result<Self> {
        let namespace = format!("trustplane-{id}");
        construction.record(Resource::NetworkNamespace {
            name: namespace.clone(),
        })?;
        ip(&format!("netns add {namespace}"))?;
        let link = link_name(id);
        construction.record(Resource::Link { name: link.clone() })?;
        let network = Self::link(namespace, link).context("link the cluster's network to the machine")?;
        network.furnish().context("furnish the cluster's network")?;
        network.verify()?;
        Ok(network)
    }

    /// Makes the link with addresses that are free. Clusters that start at the same moment choose one after the other,
    /// whatever cache they belong to.
    fn link(namespace: String, link: String) -> Result<Self> {
        let _lock = Lock::wait(Path::new(LINK_LOCK), "the choice of addresses")?;
        let used = used_ranges()?;
        let (outer, inner) = (0..LINKS)
            .map(ends)
            .find(|(outer, _)| !used.iter().any(|range| range.overlaps(*outer)))
            .with_context(|| format!("no addresses are free in {LINK_RANGE}/16"))?;
        ip(&format!(
            "link add {link} type veth peer name {UPLINK} netns {namespace}"
        ))?;
        ip(&format!("address add {outer}/30 dev {link}"))?;
        ip(&format!("link set {link} up"))?;
        Ok(Self {
            namespace,
            link,
            outer,
            inner,
        })
    }

    fn furnish(&self) -> Result<()> {
        let inner = self.inner;
        self.inside("ip link set lo up")?;
        self.inside(&format!("ip address add {inner}/30 dev {UPLINK}"))?;
        self.inside(&format!("ip link set {UPLINK} up"))?;
        self.inside(&format!("ip link add {BRIDGE} type bridge"))?;
        self.inside(&format!("ip address add {BRIDGE_ADDRESS}/16 dev {BRIDGE}"))?;
        self.inside(&format!("ip link set {BRIDGE} up"))?;
        // The API server calls webhooks by their Services. Pods need no such route, they have their gateway.
        self.inside(&format!(
            "ip route add {SERVICE_RANGE} dev {BRIDGE} src {BRIDGE_ADDRESS}"
        ))?;
        // The machine knows no way back to a pod.
        self.inside(&format!(
            "iptables --table nat --append POSTROUTING --out-interface {UPLINK} --jump MASQUERADE"
        ))?;
        self.switch_on("net/ipv4/ip_forward")?;
        // The answer of a Service goes from pod to pod over the bridge and must pass the filter that knows the Service.
        if !Path::new("/proc/sys/net/bridge").exists() {
            command::run(&mut words("modprobe br_netfilter"), LIMIT)?;
        }
        self.switch_on("net/bridge/bridge-nf-call-iptables")
    }

    /// Sets a kernel setting that every network namespace has for itself.
    fn switch_on(&self, setting: &str) -> Result<()> {
        let mut shell = self.command("sh");
        shell.args(["-c", &format!("echo 1 >/proc/sys/{setting}")]);
        command::run(&mut shell, LIMIT).map(drop)
    }

    /// Gives a node its address.
    pub(super) fn add_node(&self, address: Ipv4Addr) -> Result<()> {
        self.inside(&format!("ip address add {address}/16 dev {BRIDGE} noprefixroute"))
            .map(drop)
    }

    /// Makes sure that the addresses lead into the namespace. A private address without an interface of ours behind it
    /// would lead out of the machine, so nothing may be sent before.
    pub(super) fn verify(&self) -> Result<()> {
        let inner = self.inner;
        let route: Value = serde_json::from_str(&ip(&format!("-json route get {inner}"))?)?;
        ensure!(
            route[0]["dev"] == self.link.as_str(),
            "{inner} does not lead to {}",
            self.link
        );
        let addresses: Value =
            serde_json::from_str(&self.inside(&format!("ip -json -4 address show dev {UPLINK}"))?)?;
        let stands =
            addresses[0]["addr_info"][0]["local"] == inner.to_string() && addresses[0]["operstate"] == "UP";
        ensure!(stands, "{inner} is not up in the namespace {}", self.namespace);
        Ok(())
    }

    /// The words that take a command into the namespace. `ip netns exec` would not do: it mounts a new /sys, without
    /// control groups.
    pub(super) fn wrapper(&self) -> Vec<String> {
        vec!["nsenter".into(), format!("--net={}", self.path())]
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.namespace)
    }

    /// Takes the calling thread into the namespace.
    pub(super) fn enter(&self) -> Result<()> {
        let namespace = File::open(self.path()).with_context(|| format!("open {}", self.path()))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("enter {}", self.path()))
    }

    /// A command in the namespace.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = words(&self.wrapper().join(" "));
        command.arg(program);
        command
    }

    fn inside(&self, line: &str) -> Result<String> {
        command::run(&mut words(&format!("{} {line}", self.wrapper().join(" "))), LIMIT)
    }
}

fn ip(arguments: &str) -> Result<String> {
    command::run(Command::new("ip").args(arguments.split(' ')), LIMIT)
}

/// A name that the kernel takes (15 characters at most) and that no other cluster has.
fn link_name(id: &str) -> String {
    let hash = Sha256::digest(id);
    let digits: String = hash.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("tp-{digits}")
}

/// The addresses of a link's ends: the middle two of its four.
fn ends(index: u32) -> (Ipv4Addr, Ipv4Addr) {
    let base = LINK_RANGE.to_bits() + 4 * index;
    (Ipv4Addr::from_bits(base + 1), Ipv4Addr::from_bits(base + 2))
}

/// A range of addresses that something on the machine uses.
#[derive(Debug, PartialEq)]
struct Range {
    network: u32,
    mask: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').unwrap_or((text, "32"));
        let address: Ipv4Addr = address.parse().ok()?;
        let mask = u32::MAX
            .checked_shl(32 - length.parse::<u32>().ok()?)
            .unwrap_or(0);
        Some(Self {
            network: address.to_bits() & mask,
            mask,
        })
    }

    /// Whether it shares an address with the link that this address belongs to.
    fn overlaps(&self, address: Ipv4Addr) -> bool {
        let mask = self.mask & (u32::MAX << 2);
        self.network & mask == address.to_bits() & mask
    }
}

/// Every range that the machine has a route to, but the default route, which leads everywhere.
fn used_ranges() -> Result<Vec<Range>> {
    let routes: Value =
        serde_json::from_str(&ip("-json -4 route show table all")?).context("read the routes")?;
    let routes = routes.as_array().context("read the routes")?;
    Ok(routes
        .iter()
        .filter_map(|route| Range::parse(route["dst"].as_str()?))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_has_its_own_addresses_and_a_name_that_the_kernel_takes() {
        assert_eq!(ends(0), ([198, 19, 0, 1].into(), [198, 19, 0, 2].into()));
        assert_eq!(ends(LINKS - 1).1, Ipv4Addr::new(198, 19, 255, 254));
        let name = link_name("some-cluster-with-a-name-as-long-as-it-may-be");
        assert!(name.len() <= 15, "{name}");
        assert_ne!(link_name("a"), link_name("b"));
    }

    #[test]
    fn a_link_is_not_put_where_the_machine_has_a_route() {
        let link = Ipv4Addr::new(198, 19, 0, 1);
        let taken = |text: &str| Range::parse(text).is_some_and(|range| range.overlaps(link));
        for range in ["198.18.0.0/15", "198.19.0.0/30", "198.19.0.2", "0.0.0.0/0"] {
            assert!(taken(range), "{range}");
        }
        for range in [
            "198.19.0.4/30",
            "198.19.0.4",
            "10.0.0.0/8",
            "default",
            "fe80::/64",
        ] {
            assert!(!taken(range), "{range}");
        }
    }
}
