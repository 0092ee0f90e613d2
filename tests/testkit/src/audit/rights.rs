//! Rights that were used, and rights that were granted: a process has exactly what it needs.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::Event;
use crate::Rules;

/// One thing that an account may do or did.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// Whether it holds in the whole cluster.
    pub cluster: bool,
    /// The API group.
    pub group: String,
    /// The plural, with its subresource where there is one.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The one object it is about, where the rule names objects.
    pub name: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() {
            "core"
        } else {
            &self.group
        };
        write!(f, "{} {} ({group})", self.verb, self.resource)?;
        if let Some(name) = &self.name {
            write!(f, " named {name:?}")?;
        }
        f.write_str(if self.cluster {
            " in the cluster"
        } else {
            " in the namespace"
        })
    }
}

/// Every right of the rules, one by one.
pub fn granted(rules: &Rules) -> BTreeSet<Right> {
    let scoped = |cluster: bool, rules: &[PolicyRule]| -> Vec<Right> {
        rules.iter().flat_map(|rule| expand(cluster, rule)).collect()
    };
    let mut rights: BTreeSet<Right> = scoped(true, &rules.cluster).into_iter().collect();
    rights.extend(scoped(false, &rules.namespaced));
    rights
}

fn expand(cluster: bool, rule: &PolicyRule) -> Vec<Right> {
    let names: Vec<Option<String>> = match rule.resource_names.as_deref() {
        None | Some([]) => vec![None],
        Some(names) => names.iter().cloned().map(Some).collect(),
    };
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                rights.extend(names.iter().map(|name| Right {
                    cluster,
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    name: name.clone(),
                }));
            }
        }
    }
    rights
}

/// Which of the granted rights a request used, if it used one. An apply that makes an object needs two.
pub(super) fn used<'a>(granted: &'a BTreeSet<Right>, event: &Event) -> Vec<&'a Right> {
    let verbs: &[&str] = match event.verb.as_str() {
        "patch" if event.code() == 201 => &["patch", "create"],
        verb => &[verb],
    };
    let mut rights = Vec::new();
    for verb in verbs {
        match narrowest(granted, event, verb) {
            Some(right) => rights.push(right),
            None => return Vec::new(),
        }
    }
    rights
}

/// Where two rights allow a request, the narrower one counts, so that a needless wide one shows up as unused.
fn narrowest<'a>(granted: &'a BTreeSet<Right>, event: &Event, verb: &str) -> Option<&'a Right> {
    let place = &event.object_ref;
    let resource = match place.subresource.as_str() {
        "" => place.resource.clone(),
        subresource => format!("{}/{subresource}", place.resource),
    };
    let fits = |right: &&Right| {
        right.group == place.api_group
            && right.resource == resource
            && right.verb == verb
            // The authorizer knows a name from the path alone: that of an apply that makes an object, not that of a create.
            && right.name.as_deref().is_none_or(|name| name == place.name && event.verb != "create")
            && (right.cluster || !place.namespace.is_empty())
    };
    granted
        .iter()
        .filter(fits)
        .min_by_key(|right| (right.cluster, right.name.is_none()))
}

/// Whether the request was allowed by what Kubernetes lets everybody do: discovery, and questions about oneself.
pub(super) fn is_everybodys(event: &Event) -> bool {
    event.reason().contains("\"system:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: &str) -> Event {
        serde_json::from_str(json).unwrap()
    }

    fn patch(name: &str, subresource: &str, code: u16) -> Event {
        event(&format!(
            r#"{{"verb":"patch","stage":"ResponseComplete","requestURI":"/x","user":{{"username":"u"}},
            "requestReceivedTimestamp":"2026-01-01T00:00:00Z","objectRef":{{"resource":"configmaps","namespace":"a",
            "name":"{name}","subresource":"{subresource}"}},"responseStatus":{{"code":{code}}}}}"#
        ))
    }

    #[test]
    fn rules_are_taken_apart() {
        let mut rules = Rules::default().allow("", "configmaps", &["get", "patch"]);
        rules.namespaced[0].resource_names = Some(vec!["one".into(), "two".into()]);
        let rules = rules.allow_everywhere("g", "mirrors/status", &["patch"]);
        let rights: Vec<String> = granted(&rules).iter().map(ToString::to_string).collect();
        assert_eq!(
            rights,
            [
                r#"get configmaps (core) named "one" in the namespace"#,
                r#"get configmaps (core) named "two" in the namespace"#,
                r#"patch configmaps (core) named "one" in the namespace"#,
                r#"patch configmaps (core) named "two" in the namespace"#,
                "patch mirrors/status (g) in the cluster",
            ]
        );
    }

    #[test]
    fn named_create_is_used_by_an_apply_but_not_by_a_create() {
        let mut rules = Rules::default().allow("", "configmaps", &["create", "patch"]);
        rules.namespaced[0].resource_names = Some(vec!["one".into()]);
        let granted = granted(&rules);
        assert_eq!(used(&granted, &patch("one", "", 201)).len(), 2);
        let mut create = patch("one", "", 201);
        create.verb = "create".into();
        assert!(used(&granted, &create).is_empty());
    }

    #[test]
    fn the_narrowest_right_counts_as_used() {
        let mut rules = Rules::default().allow("", "configmaps", &["patch"]);
        rules.namespaced[0].resource_names = Some(vec!["one".into()]);
        let granted = granted(&rules.allow_everywhere("", "configmaps", &["patch"]));
        assert_eq!(
            used(&granted, &patch("one", "", 200))[0].name.as_deref(),
            Some("one")
        );
        assert!(used(&granted, &patch("two", "", 200))[0].cluster);
        assert!(used(&granted, &patch("one", "status", 200)).is_empty());
        assert!(
            used(&granted, &patch("two", "", 201)).is_empty(),
            "to make an object takes a right of its own"
        );
    }
}
