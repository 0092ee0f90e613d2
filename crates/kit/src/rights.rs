//! What a controller may do on the API server and where, declared beside the code that does it.
//!
//! The chart's roles are generated from these declarations, tests run under them, and an audit of the tests compares what
//! was declared with what was used. There is no second place where rights are kept.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::{Deserialize, Serialize};

/// The verbs of a controller that watches a kind.
pub const WATCH: &[&str] = &["get", "list", "watch"];

/// Where a right holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// On kinds without a namespace.
    Cluster,
    /// In every namespace, also when the capability is kept to some.
    Everywhere,
    /// In the namespaces that the capability serves: every namespace, or those that the admin keeps it to.
    Served,
    /// In the namespaces whose users are served: every namespace, or those that the admin lists.
    Tenants,
    /// In the namespace of the installation.
    Home,
    /// In the namespace `default`: events about objects without a namespace live there.
    Default,
}

/// The rights of a process, of a capability or of a part of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rights(BTreeMap<Place, Vec<PolicyRule>>);

impl Rights {
    /// No right at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds verbs on resources of a group, at this place.
    #[must_use]
    pub fn on(self, place: Place, group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        self.on_objects(place, group, resources, verbs, &[])
    }

    /// Adds verbs on exactly these objects, at this place.
    #[must_use]
    pub fn on_objects(
        mut self,
        place: Place,
        group: &str,
        resources: &[&str],
        verbs: &[&str],
        names: &[&str],
    ) -> Self {
        let rules = self.0.entry(place).or_default();
        rules.push(rule(group, resources, verbs, names));
        self
    }

    /// Adds the rights of another.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (place, rules) in other.0 {
            self.0.entry(place).or_default().extend(rules);
        }
        self
    }

    /// The rules that hold at this place.
    pub fn of(&self, place: Place) -> Vec<PolicyRule> {
        self.0.get(&place).cloned().unwrap_or_default()
    }

    /// The rules that hold beyond the namespace of the installation, for a capability that serves every namespace.
    pub fn wide(&self) -> Vec<PolicyRule> {
        let wide = self.rules().filter(|(place, _)| *place != Place::Home);
        wide.map(|(_, rule)| rule.clone()).collect()
    }

    /// Every rule, and where it holds.
    pub fn rules(&self) -> impl Iterator<Item = (Place, &PolicyRule)> {
        let places = self.0.iter();
        places.flat_map(|(place, rules)| rules.iter().map(|rule| (*place, rule)))
    }

    /// The first wildcard, if there is one: a right that nobody can review.
    pub fn wildcard(&self) -> Option<&PolicyRule> {
        let star = |list: &Option<Vec<String>>| list.iter().flatten().any(|entry| entry.contains('*'));
        let mut rules = self.rules().map(|(_, rule)| rule);
        rules.find(|rule| star(&rule.api_groups) || star(&rule.resources) || star(&Some(rule.verbs.clone())))
    }
}

/// A ClusterRole for others than the manager: for people, or for a program that a capability runs. The chart makes it, so that the manager
/// needs no right to make roles: it may `bind` those of its programs, by their names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShippedRole {
    /// Its name in the cluster.
    pub name: String,
    /// What it permits.
    pub rules: Vec<PolicyRule>,
}

/// What a rule says that these rights do not grant: `verb group/resource` for each, in order.
pub(crate) fn lacking(wanted: &PolicyRule, granted: &[PolicyRule]) -> BTreeSet<String> {
    let names = wanted.resource_names.as_deref().unwrap_or_default();
    let is_lacking = |(group, resource, verb): &(&str, &str, &str)| {
        let mut covered = granted.iter().filter(|rule| grants(rule, group, resource, verb));
        !covered.any(|rule| covers_names(rule, names))
    };
    let lacking = singles(wanted).filter(is_lacking);
    lacking
        .map(|(group, resource, verb)| {
            let group = if group.is_empty() { "core" } else { group };
            format!("{verb} {group}/{resource}")
        })
        .collect()
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

/// A name that the chart puts in when it renders, such as `$(PROCESS)`, is not known here: a grant on any name will do.
fn covers_names(rule: &PolicyRule, names: &[String]) -> bool {
    let granted = rule.resource_names.as_deref().unwrap_or_default();
    let is_granted = |name: &String| name.starts_with("$(") || granted.contains(name);
    granted.is_empty() || (!names.is_empty() && names.iter().all(is_granted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lacking_names_each_verb_that_is_not_granted() {
        let granted = [
            rule("", &["pods"], &["get", "list"], &[]),
            rule("", &["secrets"], &["get"], &["ca"]),
        ];
        let of = |wanted: &PolicyRule| lacking(wanted, &granted).into_iter().collect::<Vec<_>>();
        assert_eq!(of(&rule("", &["pods"], WATCH, &[])), ["watch core/pods"]);
        let named = rule("", &["secrets"], &["get", "update"], &["ca"]);
        assert_eq!(of(&named), ["update core/secrets"]);
    }

    #[test]
    fn a_grant_on_one_object_is_no_grant_on_all() {
        let wanted = rule("", &["secrets"], &["get"], &[]);
        let one = [rule("", &["secrets"], &["get"], &["one"])];
        assert_eq!(lacking(&wanted, &one).len(), 1);
        let all = [PolicyRule {
            api_groups: Some(vec!["*".into()]),
            resources: Some(vec!["*".into()]),
            verbs: vec!["*".into()],
            ..Default::default()
        }];
        assert!(lacking(&wanted, &all).is_empty());
    }

    #[test]
    fn a_name_that_the_chart_puts_in_is_covered_by_a_grant_on_any_name() {
        let wanted = rule("", &["secrets"], &["get"], &["$(CREDENTIALS)"]);
        let named = [rule("", &["secrets"], &["get"], &["anything"])];
        assert!(lacking(&wanted, &named).is_empty());
        assert_eq!(lacking(&wanted, &[]).len(), 1);
    }

    #[test]
    fn a_wildcard_is_found() {
        let rights = |resources| Rights::none().on(Place::Served, "", resources, WATCH);
        assert!(rights(&["*"]).wildcard().is_some());
        assert!(rights(&["pods"]).wildcard().is_none());
    }

    #[test]
    fn rights_are_told_by_the_place_where_they_hold() {
        let rights = Rights::none()
            .on(Place::Served, "", &["pods"], &["get"])
            .and(Rights::none().on(Place::Home, "", &["secrets"], &["get"]));
        let told = serde_json::to_value(&rights).unwrap();
        assert_eq!(told["served"][0]["resources"][0], "pods");
        assert_eq!(told["home"][0]["resources"][0], "secrets");
        assert_eq!(rights.wide(), rights.of(Place::Served));
    }

    #[test]
    fn rights_of_tenants_are_wide() {
        let rights = Rights::none()
            .on(Place::Tenants, "", &["secrets"], &["patch"])
            .on(Place::Home, "", &["configmaps"], &["get"]);
        let told = serde_json::to_value(&rights).unwrap();
        assert_eq!(told["tenants"][0]["resources"][0], "secrets");
        assert_eq!(rights.wide(), rights.of(Place::Tenants));
    }
}
