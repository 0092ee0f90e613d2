//! Who this process is: for the lease, the audit log and the events that it writes.

use std::fmt;

/// The longest pod name that goes into an identity: the API server takes 128 characters for the instance of an event.
const MAX_POD: usize = 100;

/// A name that no other process has, also not the next container of the same pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    component: &'static str,
    version: &'static str,
    instance: String,
}

impl Identity {
    /// An identity for this process. Without a pod name the name of the host stands in.
    pub fn new(component: &'static str, version: &'static str, pod: Option<&str>) -> Self {
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let name = pod.map(str::to_owned).or_else(host).unwrap_or_default();
        let name: String = name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
            .take(MAX_POD)
            .collect();
        let name = if name.is_empty() { component } else { &name };
        Self {
            component,
            version,
            instance: format!("{name}-{:08x}", rand::random::<u32>()),
        }
    }

    /// Pod name and random suffix: the holder of the lease and the reporter of events.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// `trustplane-<component>/<version> (<instance>)`: every instance is its own in the audit log.
    pub fn user_agent(&self) -> String {
        format!(
            "trustplane-{}/{} ({})",
            self.component, self.version, self.instance
        )
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_of_one_pod_differ() {
        let new = || Identity::new("manager", "1.2.3", Some("manager-0"));
        assert_ne!(new(), new());
        let agent = new().user_agent();
        assert!(
            agent.starts_with("trustplane-manager/1.2.3 (manager-0-"),
            "{agent}"
        );
    }

    #[test]
    fn a_hostile_name_still_makes_a_header_and_an_instance() {
        let identity = Identity::new("manager", "1", Some(&format!("a\r\nb ü{}", "x".repeat(300))));
        assert!(identity.instance().len() <= 128 && identity.instance().starts_with("abx"));
        assert!(http::HeaderValue::from_str(&identity.user_agent()).is_ok());
        assert!(
            Identity::new("manager", "1", Some("\n"))
                .instance()
                .starts_with("manager-")
        );
    }
}
