//! What an account may do, as the roles that are made for it.
//!
//! They are not the kit's `Rights`: the kit is tested with this crate, and what tests it does not rest on it.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// The rules of one account: for the whole cluster, and for the namespace it works in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// Rules of a ClusterRole.
    pub cluster: Vec<PolicyRule>,
    /// Rules of a Role in the namespace of the test.
    pub namespaced: Vec<PolicyRule>,
}

impl Rules {
    /// Adds a rule in the namespace of the test.
    ///
    /// ```
    /// use trustplane_testkit::Rules;
    /// let rules = Rules::default().allow("", "configmaps", &["get", "list", "watch"]);
    /// assert_eq!(rules.namespaced.len(), 1);
    /// ```
    #[must_use]
    pub fn allow(mut self, group: &str, resource: &str, verbs: &[&str]) -> Self {
        self.namespaced.push(rule(group, resource, verbs));
        self
    }

    /// Adds a rule in the whole cluster.
    #[must_use]
    pub fn allow_everywhere(mut self, group: &str, resource: &str, verbs: &[&str]) -> Self {
        self.cluster.push(rule(group, resource, verbs));
        self
    }
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}
