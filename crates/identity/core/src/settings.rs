//! What the admin chose for the process.

/// What the admin chose for the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The namespaces in which operands may run; the first is where they run if ZTWIM names none.
    pub namespaces: Vec<String>,
    /// The images.
    pub images: Images,
    /// When kubelet pulls them: `Always`, `IfNotPresent` or `Never`.
    pub pull_policy: String,
    /// The root directory of kubelet on the nodes, such as `/var/lib/kubelet`.
    pub kubelet_root: String,
    /// Whether nodes run SELinux, so that the directory of the agent's socket has to be relabelled.
    pub selinux: bool,
    /// Whether existing children are left as they are; missing children are made all the same.
    pub create_only: bool,
}

/// The images of SPIRE's parts, each with a tag or a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// spire-server.
    pub spire_server: String,
    /// spire-agent.
    pub spire_agent: String,
    /// spire-controller-manager.
    pub spire_controller_manager: String,
    /// SPIRE's OIDC discovery provider.
    pub oidc_discovery_provider: String,
    /// The SPIFFE CSI driver.
    pub spiffe_csi_driver: String,
    /// The sidecar that registers the CSI driver with kubelet.
    pub node_driver_registrar: String,
    /// What relabels the directory of the agent's socket where nodes run SELinux.
    pub csi_init: String,
}
