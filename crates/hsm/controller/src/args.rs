//! The arguments of the capability.

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use trustplane_hsm_core::delivery::{Operator, Tenancy};
use trustplane_hsm_core::rules::Rules;

use crate::assembly::{DeliveryRules, Setup};
use crate::pki::Lives;

/// How the capability works.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "HSM tokens")]
pub struct HsmArgs {
    /// Serve the HSMDevices of these namespaces, separated by commas; without it those of our own. They make us run pods with
    /// paths of the node
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    hsm_namespaces: Option<Vec<String>>,
    /// Image of agents
    #[arg(long, alias = "agent-image", default_value = concat!("trustplane/agent:", env!("CARGO_PKG_VERSION")), value_name = "IMAGE")]
    hsm_agent_image: String,
    /// Image of discovery pods
    #[arg(long, alias = "discovery-image", default_value = concat!("trustplane/discovery:", env!("CARGO_PKG_VERSION")), value_name = "IMAGE")]
    hsm_discovery_image: String,
    /// When nodes pull these images
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    hsm_image_pull_policy: PullPolicy,
    /// Secrets with credentials for the registry of these images, separated by commas; they have to be in every namespace that is
    /// served
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    hsm_image_pull_secrets: Vec<String>,
    /// Directories of nodes that tokens of discovery.static may use, and what is below them, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PATHS", value_parser = absolute)]
    hsm_host_directories: Vec<String>,
    /// Service account of discovery pods; it has to be in every namespace that is served
    #[arg(long, default_value = "trustplane-discovery", value_name = "NAME")]
    hsm_discovery_service_account: String,
    /// Where nodes have sysfs
    #[arg(long, default_value = "/sys", value_name = "PATH", value_parser = absolute)]
    hsm_sysfs_path: String,
    /// Where nodes have device files
    #[arg(long, default_value = "/dev", value_name = "PATH", value_parser = absolute)]
    hsm_dev_path: String,
    /// Where the kubelet of nodes looks for device plugins
    #[arg(long, default_value = "/var/lib/kubelet/device-plugins", value_name = "PATH", value_parser = absolute)]
    hsm_plugin_dir: String,
    /// PKCS#11 module of HSMDevices that name none, as a path in the image of agents
    #[arg(long, value_name = "PATH", value_parser = absolute)]
    hsm_library: Option<String>,
    /// Priority class of agents and discovery pods
    #[arg(long, value_name = "NAME")]
    hsm_priority_class: Option<String>,
    /// Let discovery offer tokens by their type too, such as hsm.j5t.io/picohsm, for pods of yours that request the type. Such a pod
    /// gets a token also while an agent serves it
    #[arg(long)]
    hsm_offer_types: bool,
    /// Serve the HSMSecrets of these namespaces, separated by commas; without it those of all namespaces
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    hsm_secret_namespaces: Vec<String>,
    /// To whom a path on the tokens belongs: flat, to the namespace that claimed it first; namespaced, to the namespace that is its
    /// first part
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    hsm_tenancy: TenancyMode,
    /// Names by which parentRef of an HSMSecret may mean this installation, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "trustplane-manager,hsm-secrets-operator-controller-manager,controller-manager",
        value_name = "NAMES"
    )]
    hsm_operator_names: Vec<String>,
    /// The name of the HSM Secrets Operator that this installation takes the place of: it means this installation in parentRef, and
    /// HSMSecrets without parentRef are left alone
    #[arg(long, env = "OPERATOR_NAME", value_name = "NAME")]
    hsm_operator_name: Option<String>,
    /// Whether HSMSecrets without parentRef are left alone; without it they are if --hsm-operator-name is given
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    hsm_require_parent_ref: Option<bool>,
    /// How long the certificate of an agent lives
    #[arg(long, alias = "agent-tls-leaf-validity", default_value = "2160h", value_name = "DURATION", value_parser = duration)]
    hsm_leaf_validity: SignedDuration,
    /// How long before its end the certificate of an agent is replaced
    #[arg(long, alias = "agent-tls-renew-before", default_value = "720h", value_name = "DURATION", value_parser = duration)]
    hsm_renew_before: SignedDuration,
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

/// To whom a path on the tokens belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TenancyMode {
    /// To the namespace that claimed it first
    #[default]
    Flat,
    /// To the namespace that is its first part
    Namespaced,
}

/// Arguments that cannot be carried out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ArgsError {
    /// Nobody would be served.
    #[error("--hsm-namespaces: must name at least one namespace")]
    NoNamespace,
    /// Certificates would be replaced all the time.
    #[error("--hsm-renew-before: must be less than --hsm-leaf-validity")]
    RenewBefore,
}

impl HsmArgs {
    /// The namespaces that were named; our own if none was.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let named = self.hsm_namespaces.iter().flatten();
        named.filter(|name| !name.is_empty()).cloned().collect()
    }

    /// The namespaces whose HSMSecrets are served; none means all.
    pub(crate) fn tenants(&self) -> Vec<String> {
        let named = self.hsm_secret_namespaces.iter();
        named.filter(|name| !name.is_empty()).cloned().collect()
    }

    /// What the admin chose, for an installation in this namespace.
    pub(crate) fn setup(&self, home: &str) -> Result<Setup, ArgsError> {
        let namespaces = match &self.hsm_namespaces {
            None => [home.to_owned()].into(),
            Some(_) => self.namespaces().into_iter().collect(),
        };
        let lives = Lives {
            leaf: self.hsm_leaf_validity,
            renew_before: self.hsm_renew_before,
            ..Lives::default()
        };
        let rules = Rules {
            namespaces,
            host_directories: self.hsm_host_directories.clone(),
            agent_image: self.hsm_agent_image.clone(),
            discovery_image: self.hsm_discovery_image.clone(),
            pull_policy: format!("{:?}", self.hsm_image_pull_policy),
            pull_secrets: self.hsm_image_pull_secrets.clone(),
            discovery_account: self.hsm_discovery_service_account.clone(),
            sysfs: self.hsm_sysfs_path.clone(),
            dev: self.hsm_dev_path.clone(),
            plugin_dir: self.hsm_plugin_dir.clone(),
            library: self.hsm_library.clone(),
            priority_class: self.hsm_priority_class.clone(),
            offer_types: self.hsm_offer_types,
        };
        if rules.namespaces.is_empty() {
            return Err(ArgsError::NoNamespace);
        }
        if lives.renew_before >= lives.leaf {
            return Err(ArgsError::RenewBefore);
        }
        let delivery = self.delivery(home);
        Ok(Setup {
            rules,
            lives,
            delivery,
        })
    }

    fn delivery(&self, home: &str) -> DeliveryRules {
        let operator_name = self.hsm_operator_name.clone().filter(|name| !name.is_empty());
        let requires_ref = self.hsm_require_parent_ref.unwrap_or(operator_name.is_some());
        let named = self.hsm_operator_names.iter().filter(|name| !name.is_empty());
        let names = named.cloned().chain(operator_name).collect();
        DeliveryRules {
            namespaces: self.tenants().into_iter().collect(),
            operator: Operator {
                names,
                namespace: home.to_owned(),
                requires_ref,
            },
            tenancy: match self.hsm_tenancy {
                TenancyMode::Flat => Tenancy::Flat,
                TenancyMode::Namespaced => Tenancy::Namespaced,
            },
            ..DeliveryRules::default()
        }
    }
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    parsed
        .ok()
        .filter(|span| *span >= SignedDuration::from_mins(1))
        .ok_or_else(|| "must be a duration of at least a minute, such as 720h".to_owned())
}

/// A path from the root, without steps back: it decides what of a node a pod sees.
fn absolute(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    let mut parts = path.split('/').skip(1);
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if path.starts_with('/') && parts.all(plain) {
        Ok(path.to_owned())
    } else {
        Err("must be a path from the root, such as /var/lib/tokens, without `.` and `..`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use trustplane_api::hsm::ParentRef;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        hsm: HsmArgs,
    }

    fn setup(arguments: &[&str]) -> Result<Setup, ArgsError> {
        let all = std::iter::once("manager").chain(arguments.iter().copied());
        Arguments::try_parse_from(all).unwrap().hsm.setup("home")
    }

    #[test]
    fn without_arguments_our_own_namespace_is_served_and_no_directory_is_allowed() {
        let Setup { rules, lives, .. } = setup(&[]).unwrap();
        assert_eq!(rules.namespaces, ["home".to_owned()].into());
        assert!(rules.host_directories.is_empty() && !rules.allows("/tmp") && !rules.offer_types);
        assert_eq!(
            (rules.pull_policy.as_str(), lives),
            ("IfNotPresent", Lives::default())
        );
    }

    #[test]
    fn the_names_of_the_original_mean_the_same() {
        let said = setup(&[
            "--agent-image=a:1",
            "--discovery-image=d:1",
            "--agent-tls-leaf-validity=48h",
            "--agent-tls-renew-before=24h",
        ]);
        let Setup { rules, lives, .. } = said.unwrap();
        assert_eq!(
            (rules.agent_image.as_str(), rules.discovery_image.as_str()),
            ("a:1", "d:1")
        );
        assert_eq!(lives.leaf, SignedDuration::from_hours(48));
        assert_eq!(lives.renew_before, SignedDuration::from_hours(24));
    }

    #[test]
    fn parent_ref_is_required_where_the_original_has_a_name() {
        let of = |arguments: &[&str]| setup(arguments).unwrap().delivery.operator;
        let parent = |name: &str| ParentRef {
            name: name.to_owned(),
            namespace: Some("home".to_owned()),
            group: String::new(),
            kind: String::new(),
        };
        let plain = of(&[]);
        assert!(plain.serves(None) && plain.serves(Some(&parent("controller-manager"))));
        assert!(!plain.serves(Some(&parent("another"))));
        let named = of(&["--hsm-operator-name=another"]);
        assert!(!named.serves(None) && named.serves(Some(&parent("another"))));
        assert!(of(&["--hsm-operator-name=another", "--hsm-require-parent-ref=false"]).serves(None));
        assert!(!of(&["--hsm-require-parent-ref"]).serves(None));
        let elsewhere = ParentRef {
            namespace: Some("elsewhere".to_owned()),
            ..parent("another")
        };
        assert!(!named.serves(Some(&elsewhere)));
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        assert_eq!(setup(&["--hsm-namespaces="]).unwrap_err(), ArgsError::NoNamespace);
        let always = setup(&["--hsm-leaf-validity=24h", "--hsm-renew-before=24h"]);
        assert_eq!(always.unwrap_err(), ArgsError::RenewBefore);
        for bad in ["tmp", "", "/a/../b", "/a/./b", "/", "/a//b"] {
            let argument = format!("--hsm-host-directories={bad}");
            assert!(
                Arguments::try_parse_from(["manager", &argument]).is_err(),
                "{bad:?}"
            );
        }
        assert_eq!(absolute("/var/lib/tokens/"), Ok("/var/lib/tokens".to_owned()));
    }
}
