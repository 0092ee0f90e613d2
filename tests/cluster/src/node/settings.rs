//! The configuration files of a node's programs, with the reasons for what is not the default.

use std::net::Ipv4Addr;
use std::path::Path;

use serde_json::{Value, json};

use super::images::PROBE;
use super::network::{BRIDGE, BRIDGE_ADDRESS, DNS_ADDRESS, POD_RANGE};

/// Where the Debian package puts the plugins of the pod network.
const CNI_PLUGINS: &str = "/usr/lib/cni";
/// In the mount namespace of the node, which has a `/run` of its own.
pub(super) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// containerd's, in TOML. Directories and socket are its defaults, as the node has `/var/lib` and `/run` to itself.
pub(super) fn containerd(cni: &Path) -> String {
    format!(
        r#"version = 2
# They need file systems and devices that nobody has here, and fill the log with it.
disabled_plugins = [
  "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PROBE}"
  # Without CAP_SYS_RESOURCE nobody may lower a score, and a sandbox that asks for it does not start.
  restrict_oom_score_adj = true
  # Two containerds share one network namespace.
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"#,
        cni.display()
    )
}

/// The pod network: one bridge for all nodes, and each node hands out its own part of the range.
pub(super) fn pod_network(node: u8) -> Value {
    let range = json!({
        "subnet": POD_RANGE,
        "rangeStart": Ipv4Addr::new(10, 244, node, 1),
        "rangeEnd": Ipv4Addr::new(10, 244, node, 254),
        "gateway": BRIDGE_ADDRESS,
    });
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isGateway": true,
                // A pod may reach itself through its Service.
                "hairpinMode": true,
                "ipam": { "type": "host-local", "ranges": [[range]], "routes": [{ "dst": "0.0.0.0/0" }] },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

/// What kubelet is told of its node.
pub(super) struct Kubelet<'a> {
    pub(super) address: Ipv4Addr,
    /// Whether no other node shares the network namespace.
    pub(super) alone: bool,
    pub(super) control_group: &'a str,
    pub(super) authority: &'a Path,
    pub(super) certificate: &'a Path,
    pub(super) key: &'a Path,
    pub(super) resolv_conf: &'a Path,
}

impl Kubelet<'_> {
    /// kubelet's configuration.
    pub(super) fn configuration(&self) -> Value {
        // The nodes share one network namespace, and each has an address: so all have the usual ports. One that is alone also
        // answers at 127.0.0.1, where programs in the host network look for it (SPIRE's agent does).
        let address = if self.alone {
            Ipv4Addr::UNSPECIFIED
        } else {
            self.address
        };
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            "healthzBindAddress": self.address,
            "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
            "authentication": {
                "anonymous": { "enabled": false },
                "webhook": { "enabled": true },
                "x509": { "clientCAFile": self.authority },
            },
            "authorization": { "mode": "Webhook" },
            "tlsCertFile": self.certificate,
            "tlsPrivateKeyFile": self.key,
            "clusterDNS": [DNS_ADDRESS],
            "clusterDomain": "cluster.local",
            // The machine's own names are none of the cluster's business.
            "resolvConf": self.resolv_conf,
            // Any layout of control groups will do.
            "failCgroupV1": false,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.control_group,
            "enforceNodeAllocatable": [],
            "failSwapOn": false,
            "oomScoreAdj": 0,
            // A full disk is the user's; it must not empty the cluster.
            "evictionHard": { "imagefs.available": "1%", "nodefs.available": "1%" },
            // A pod sees within seconds that a Secret it mounts has changed; by default it may take a minute and a half.
            "syncFrequency": "5s",
            // Images come from archives, so one that is removed to save space does not come back.
            "imageGCHighThresholdPercent": 100,
        })
    }
}

/// kube-proxy's. One serves all nodes, as they share one network namespace; it speaks for the first of them.
pub(super) fn kube_proxy(node: &str, kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "hostnameOverride": node,
        "clientConnection": { "kubeconfig": kubeconfig },
        "mode": "iptables",
        "clusterCIDR": POD_RANGE,
        // The table of connections belongs to the machine and may not be resized from a namespace.
        "conntrack": { "maxPerCore": 0 },
        "healthzBindAddress": format!("{BRIDGE_ADDRESS}:10256"),
        "metricsBindAddress": "127.0.0.1:10249",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_is_alone_listens_on_every_address() {
        let address = Ipv4Addr::new(10, 244, 0, 11);
        let listens = |alone| {
            let place = Path::new("/");
            let kubelet = Kubelet {
                address,
                alone,
                control_group: "/group",
                authority: place,
                certificate: place,
                key: place,
                resolv_conf: place,
            };
            kubelet.configuration()["address"].clone()
        };
        assert_eq!(listens(false), json!(address));
        assert_eq!(listens(true), "0.0.0.0");
    }
}
