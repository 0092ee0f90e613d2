//! The arguments of the capability.

use clap::{ArgAction, Args, ValueEnum};
use trustplane_identity_core::{Images, Settings};

/// How the capability works.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Workload identity")]
pub struct IdentityArgs {
    /// Namespaces in which SPIRE may run, separated by commas; the first one is used if spec.namespace of the
    /// ZeroTrustWorkloadIdentityManager names none. Without it our own namespace
    #[arg(long, env = "OPERATOR_NAMESPACE", value_delimiter = ',', value_name = "NAMES")]
    identity_namespaces: Option<Vec<String>>,
    /// Image of spire-server
    #[arg(
        long,
        env = "RELATED_IMAGE_SPIRE_SERVER",
        default_value = "ghcr.io/spiffe/spire-server:1.15.3",
        value_name = "IMAGE"
    )]
    identity_server_image: String,
    /// Image of spire-agent
    #[arg(
        long,
        env = "RELATED_IMAGE_SPIRE_AGENT",
        default_value = "ghcr.io/spiffe/spire-agent:1.15.3",
        value_name = "IMAGE"
    )]
    identity_agent_image: String,
    /// Image of SPIRE's OIDC discovery provider
    #[arg(
        long,
        env = "RELATED_IMAGE_SPIRE_OIDC_DISCOVERY_PROVIDER",
        default_value = "ghcr.io/spiffe/oidc-discovery-provider:1.15.3",
        value_name = "IMAGE"
    )]
    identity_oidc_image: String,
    /// Image of spire-controller-manager
    #[arg(
        long,
        env = "RELATED_IMAGE_SPIRE_CONTROLLER_MANAGER",
        default_value = "ghcr.io/spiffe/spire-controller-manager:0.6.4",
        value_name = "IMAGE"
    )]
    identity_controller_manager_image: String,
    /// Image of the SPIFFE CSI driver
    #[arg(
        long,
        env = "RELATED_IMAGE_SPIFFE_CSI_DRIVER",
        default_value = "ghcr.io/spiffe/spiffe-csi-driver:0.2.8",
        value_name = "IMAGE"
    )]
    identity_csi_driver_image: String,
    /// Image of the sidecar that registers the CSI driver with the kubelet
    #[arg(
        long,
        env = "RELATED_IMAGE_NODE_DRIVER_REGISTRAR",
        default_value = "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.9.4",
        value_name = "IMAGE"
    )]
    identity_registrar_image: String,
    /// Image that relabels the directory of the Workload API where --identity-selinux is given
    #[arg(
        long,
        env = "RELATED_IMAGE_SPIFFE_CSI_INIT_CONTAINER",
        default_value = "registry.access.redhat.com/ubi9:latest",
        value_name = "IMAGE"
    )]
    identity_csi_init_image: String,
    /// When nodes pull these images
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    identity_image_pull_policy: PullPolicy,
    /// Root directory of the kubelet on the nodes
    #[arg(long, default_value = "/var/lib/kubelet", value_name = "PATH", value_parser = absolute)]
    identity_kubelet_root: String,
    /// Nodes run SELinux: relabel the directory of the Workload API so that pods may use it
    #[arg(long)]
    identity_selinux: bool,
    /// Leave existing objects of the operands as they are; objects that are missing are still made. A word other than true or false
    /// counts as false
    #[arg(
        long,
        env = "CREATE_ONLY_MODE",
        value_name = "BOOL",
        num_args = 0..=1,
        default_value = "false",
        default_missing_value = "true",
        action = ArgAction::Set,
        value_parser = lenient_bool
    )]
    identity_create_only: bool,
}

/// When nodes pull an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PullPolicy {
    /// Each time a pod starts
    Always,
    /// When they do not have it
    #[default]
    IfNotPresent,
    /// Never: somebody else puts it there
    Never,
}

impl IdentityArgs {
    /// The namespaces that were named; none if none was.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let named = self.identity_namespaces.iter().flatten();
        named.filter(|name| !name.is_empty()).cloned().collect()
    }

    /// What the admin chose, for an installation in this namespace.
    pub(crate) fn settings(&self, home: &str) -> Settings {
        let named = self.namespaces();
        Settings {
            namespaces: match named.is_empty() {
                true => vec![home.to_owned()],
                false => named,
            },
            images: Images {
                spire_server: self.identity_server_image.clone(),
                spire_agent: self.identity_agent_image.clone(),
                spire_controller_manager: self.identity_controller_manager_image.clone(),
                oidc_discovery_provider: self.identity_oidc_image.clone(),
                spiffe_csi_driver: self.identity_csi_driver_image.clone(),
                node_driver_registrar: self.identity_registrar_image.clone(),
                csi_init: self.identity_csi_init_image.clone(),
            },
            pull_policy: format!("{:?}", self.identity_image_pull_policy),
            kubelet_root: self.identity_kubelet_root.clone(),
            selinux: self.identity_selinux,
            create_only: self.identity_create_only,
        }
    }
}

fn absolute(path: &str) -> Result<String, &'static str> {
    match path.starts_with('/') {
        true => Ok(path.trim_end_matches('/').to_owned()),
        false => Err("must be an absolute path"),
    }
}

fn lenient_bool(word: &str) -> Result<bool, std::convert::Infallible> {
    Ok(word.eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        identity: IdentityArgs,
    }

    fn settings(arguments: &[&str]) -> Settings {
        let arguments = ["manager"].iter().chain(arguments);
        Arguments::parse_from(arguments).identity.settings("home")
    }

    #[test]
    fn namespace_of_the_installation_is_used_when_none_is_named() {
        assert_eq!(settings(&[]).namespaces, ["home"]);
        assert_eq!(settings(&["--identity-namespaces=a,b"]).namespaces, ["a", "b"]);
    }

    #[test]
    fn create_only_takes_the_words_of_the_original() {
        for (word, on) in [("true", true), ("TRUE", true), ("false", false), ("maybe", false)] {
            assert_eq!(
                settings(&[&format!("--identity-create-only={word}")]).create_only,
                on,
                "{word}"
            );
        }
        assert!(settings(&["--identity-create-only"]).create_only);
    }

    #[test]
    fn kubelet_root_must_be_absolute() {
        assert_eq!(settings(&["--identity-kubelet-root=/k/"]).kubelet_root, "/k");
        assert!(Arguments::try_parse_from(["manager", "--identity-kubelet-root=k"]).is_err());
    }
}
