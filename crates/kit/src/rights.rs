//! What a controller may do on the API server, declared beside the code that does it.
//!
//! The chart's roles are generated from these declarations, tests run under them, and an audit of the tests compares what
//! was declared with what was used. There is no second place where rights are kept.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::{Deserialize, Serialize};

/// The verbs of a controller that watches a kind.
pub const WATCH: &[&str] = &["get", "list", "watch"];

/// The rights of a process or of one capability.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rights {
    /// In every namespace and on kinds without one: a ClusterRole.
    pub cluster: Vec<PolicyRule>,
    /// In the namespace of the installation only: a Role.
    pub namespaced: Vec<PolicyRule>,
}

impl Rights {
    /// No right at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds verbs on resources of a group, everywhere.
    #[must_use]
    pub fn everywhere(mut self, group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        self.cluster.push(rule(group, resources, verbs, &[]));
        self
    }

    /// Adds verbs on exactly these objects without a namespace.
    #[must_use]
    pub fn on_objects(mut self, group: &str, resources: &[&str], verbs: &[&str], names: &[&str]) -> Self {
        self.cluster.push(rule(group, resources, verbs, names));
        self
    }

    /// Adds verbs in the namespace of the installation.
    #[must_use]
    pub fn at_home(mut self, group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        self.namespaced.push(rule(group, resources, verbs, &[]));
        self
    }

    /// Adds verbs on exactly these objects of the namespace of the installation.
    #[must_use]
    pub fn on_objects_at_home(
        mut self,
        group: &str,
        resources: &[&str],
        verbs: &[&str],
        names: &[&str],
    ) -> Self {
        self.namespaced.push(rule(group, resources, verbs, names));
        self
    }

    /// Adds the rights of another.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.cluster.extend(other.cluster);
        self.namespaced.extend(other.namespaced);
        self
    }

    /// The first wildcard, if there is one: a right that nobody can review.
    pub fn wildcard(&self) -> Option<&PolicyRule> {
        let star = |list: &Option<Vec<String>>| list.iter().flatten().any(|entry| entry.contains('*'));
        let mut rules = self.cluster.iter().chain(&self.namespaced);
        rules.find(|rule| star(&rule.api_groups) || star(&rule.resources) || star(&Some(rule.verbs.clone())))
    }

    /// What is lacking if these are the rights granted: `verb group/resource` for each, in order.
    ///
    /// `granted` is the answer of a SelfSubjectRulesReview for the home namespace, so it holds both kinds.
    pub fn lacking(&self, granted: &[PolicyRule]) -> BTreeSet<String> {
        let mut lacking = BTreeSet::new();
        for wanted in self.cluster.iter().chain(&self.namespaced) {
            for (group, resource, verb) in singles(wanted) {
                let names = wanted.resource_names.as_deref().unwrap_or_default();
                let mut covered = granted.iter().filter(|rule| grants(rule, group, resource, verb));
                if !covered.any(|rule| covers_names(rule, names)) {
                    let group = if group.is_empty() { "core" } else { group };
                    lacking.insert(format!("{verb} {group}/{resource}"));
                }
            }
        }
        lacking
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str], names: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        resource_names: (!names.is_empty()).then(|| owned(names)),
        non_resource_urls: None,
        verbs: owned(verbs),
    }
}

fn singles(rule: &PolicyRule) -> impl Iterator<Item = (&str, &str, &str)> {
    let groups = rule.api_groups.iter().flatten();
    groups.flat_map(move |group| {
        let resources = rule.resources.iter().flatten();
        resources.flat_map(move |resource| {
            rule.verbs
                .iter()
                .map(move |verb| (group.as_str(), resource.as_str(), verb.as_str()))
        })
    })
}

fn grants(rule: &PolicyRule, group: &str, resource: &str, verb: &str) -> bool {
    let has = |list: &[String], wanted: &str| list.iter().any(|entry| entry == "*" || entry == wanted);
    has(rule.api_groups.as_deref().unwrap_or_default(), group)
        && has(rule.resources.as_deref().unwrap_or_default(), resource)
        && has(&rule.verbs, verb)
}

fn covers_names(rule: &PolicyRule, names: &[String]) -> bool {
    let granted = rule.resource_names.as_deref().unwrap_or_default();
    granted.is_empty() || (!names.is_empty() && names.iter().all(|name| granted.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_lacking() {
        let wanted = Rights::none()
            .everywhere("", &["pods"], WATCH)
            .on_objects_at_home("", &["secrets"], &["get", "update"], &["ca"]);
        let granted = [
            rule("", &["pods"], &["get", "list"], &[]),
            rule("", &["secrets"], &["get"], &["ca"]),
        ];
        let lacking: Vec<_> = wanted.lacking(&granted).into_iter().collect();
        assert_eq!(lacking, ["update core/secrets", "watch core/pods"]);
    }

    #[test]
    fn a_grant_on_one_object_is_no_grant_on_all() {
        let wanted = Rights::none().everywhere("", &["secrets"], &["get"]);
        assert_eq!(
            wanted
                .lacking(&[rule("", &["secrets"], &["get"], &["one"])])
                .len(),
            1
        );
        let all = [PolicyRule {
            api_groups: Some(vec!["*".into()]),
            resources: Some(vec!["*".into()]),
            verbs: vec!["*".into()],
            ..Default::default()
        }];
        assert!(wanted.lacking(&all).is_empty());
    }

    #[test]
    fn a_wildcard_is_found() {
        assert!(
            Rights::none()
                .everywhere("", &["*"], &["get"])
                .wildcard()
                .is_some()
        );
        assert!(Rights::none().at_home("", &["pods"], WATCH).wildcard().is_none());
    }
}
