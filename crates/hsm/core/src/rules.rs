//! What the admin has chosen for the whole installation.

use std::collections::BTreeSet;

/// The user that processes of ours run as where they need no root.
pub const USER: i64 = 65532;

/// What the admin has chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The namespaces whose HSMDevices are served. PINs are taken from these too.
    pub namespaces: BTreeSet<String>,
    /// Directories of nodes that tokens may use, and what is below them.
    pub host_directories: Vec<String>,
    /// The image of agents.
    pub agent_image: String,
    /// The image of discovery pods.
    pub discovery_image: String,
    /// When nodes pull these images.
    pub pull_policy: String,
    /// Secrets with credentials for their registry.
    pub pull_secrets: Vec<String>,
    /// The account of discovery pods, in every namespace that is served.
    pub discovery_account: String,
    /// Where nodes have sysfs.
    pub sysfs: String,
    /// Where nodes have device files.
    pub dev: String,
    /// Where the kubelet of nodes looks for device plugins.
    pub plugin_dir: String,
    /// The PKCS#11 module where an HSMDevice names none.
    pub library: Option<String>,
    /// The priority of agents and discovery pods.
    pub priority_class: Option<String>,
    /// Whether discovery offers tokens by their type too. A pod that requests the type gets a token beside the agent of that token.
    pub offer_types: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            namespaces: BTreeSet::new(),
            host_directories: Vec::new(),
            agent_image: "trustplane/agent".to_owned(),
            discovery_image: "trustplane/discovery".to_owned(),
            pull_policy: "IfNotPresent".to_owned(),
            pull_secrets: Vec::new(),
            discovery_account: "trustplane-discovery".to_owned(),
            sysfs: "/sys".to_owned(),
            dev: "/dev".to_owned(),
            plugin_dir: "/var/lib/kubelet/device-plugins".to_owned(),
            library: None,
            priority_class: None,
            offer_types: false,
        }
    }
}

impl Rules {
    /// Whether HSMDevices of a namespace are served.
    pub fn serves(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }

    /// Whether a token may use a directory of its node: one that is allowed, or one below it.
    pub fn allows(&self, directory: &str) -> bool {
        let Some(wanted) = parts(directory) else {
            return false;
        };
        self.host_directories
            .iter()
            .filter_map(|allowed| parts(allowed))
            .any(|allowed| wanted.starts_with(&allowed))
    }
}

/// The parts of a path from the root. None if it is something else, or has steps back.
pub(crate) fn parts(path: &str) -> Option<Vec<&str>> {
    let below = path.strip_prefix('/')?.trim_end_matches('/');
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    let plain = |part: &&str| *part != "." && *part != ".." && !part.chars().any(char::is_control);
    parts.iter().all(plain).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_allowed_by_its_parts_and_not_by_its_letters() {
        let rules = Rules {
            host_directories: vec!["/var/lib/tokens".to_owned(), "/opt/hsm/".to_owned()],
            ..Rules::default()
        };
        for (path, allowed) in [
            ("/var/lib/tokens", true),
            ("/var/lib/tokens/", true),
            ("/var/lib/tokens/a/b", true),
            ("/var/lib/tokens//a", true),
            ("/opt/hsm/x", true),
            ("/var/lib/tokens-of-others", false),
            ("/var/lib", false),
            ("/", false),
            ("", false),
            ("var/lib/tokens", false),
            ("/var/lib/tokens/../../../etc", false),
            ("/var/lib/tokens/./a", false),
            ("/var/lib/tokens/a\0b", false),
        ] {
            assert_eq!(rules.allows(path), allowed, "{path:?}");
        }
        assert!(!Rules::default().allows("/var/lib/tokens"));
    }
}
