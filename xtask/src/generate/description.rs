//! What a manager says of itself (`manager describe`), and what the chart keeps of it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::crds::{self, Definition};
use crate::run;

/// The whole description.
#[derive(Debug, Deserialize)]
pub struct Description {
    pub version: String,
    pub process: Process,
    pub capabilities: Vec<Capability>,
}

/// What every process of the manager has, whatever its capabilities.
#[derive(Debug, Deserialize, Serialize)]
pub struct Process {
    pub rights: Rights,
}

/// One capability.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    pub name: String,
    pub about: String,
    pub rights: Rights,
    /// What can be switched on or off by itself.
    #[serde(default)]
    pub parts: Vec<Part>,
    pub crds: Vec<Value>,
    pub webhooks: Vec<Value>,
    /// Policies for its kinds, with their bindings.
    #[serde(default)]
    pub policies: Vec<Value>,
    /// Whether it is kept to our own namespace unless the admin lists others.
    #[serde(default)]
    pub at_home: bool,
    /// Whether it runs only where the values ask for it.
    #[serde(default)]
    pub opt_in: bool,
    /// How its Secrets are known, if it writes any.
    #[serde(default)]
    pub secrets: Option<Value>,
    /// The ClusterRoles for people and for the programs that it runs.
    #[serde(default)]
    pub roles: Vec<Role>,
}

/// A ClusterRole that the chart makes.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    pub name: String,
    pub rules: Vec<Rule>,
}

/// A part of a capability.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Part {
    pub name: String,
    pub about: String,
    /// Whether it is on if the values say nothing.
    pub is_on: bool,
    pub rights: Rights,
    pub crds: Vec<Value>,
    pub policies: Vec<Value>,
    /// What the process is told while it is on, and while it is off.
    pub arguments: Vec<String>,
    pub arguments_without: Vec<String>,
}

/// Rules by the place where they hold. A place that this does not know is an error: nobody would be granted its rules.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rights {
    pub cluster: Vec<Rule>,
    pub everywhere: Vec<Rule>,
    pub served: Vec<Rule>,
    pub tenants: Vec<Rule>,
    pub home: Vec<Rule>,
    pub default: Vec<Rule>,
}

/// A rule of a role. Fields that this does not know are an error: they must not be lost on the way into the chart.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    pub verbs: Vec<String>,
}

impl Capability {
    /// Some of its kinds, as they are shipped.
    pub fn finished(&self, crds: &[Value]) -> Result<Vec<Definition>> {
        crds.iter()
            .map(|crd| crds::finish(crd.clone(), &self.name))
            .collect()
    }

    /// Its kinds and those of its parts, as they are shipped.
    pub fn definitions(&self) -> Result<Vec<Definition>> {
        let mut all = self.finished(&self.crds)?;
        for part in &self.parts {
            all.extend(self.finished(&part.crds)?);
        }
        Ok(all)
    }
}

impl Description {
    /// The kinds of all capabilities.
    pub fn definitions(&self) -> Result<Vec<Definition>> {
        let all: Result<Vec<_>> = self.capabilities.iter().map(Capability::definitions).collect();
        Ok(all?.into_iter().flatten().collect())
    }

    /// Asks a manager.
    pub fn of(manager: &Path) -> Result<Self> {
        let told = run::output(Command::new(manager).arg("describe").env_clear())?;
        Self::parse(&told).with_context(|| format!("understand what {} says of itself", manager.display()))
    }

    fn parse(told: &str) -> Result<Self> {
        let description: Self = serde_json::from_str(told)?;
        description.check()?;
        Ok(description)
    }

    /// Refuses what must never reach a cluster: a right that nobody can review.
    fn check(&self) -> Result<()> {
        self.process.rights.check("the process", &[])?;
        for capability in &self.capabilities {
            let name = &capability.name;
            ensure!(
                is_label(name),
                "capability {name:?}: the name must fit into a label and a DNS name"
            );
            for role in &capability.roles {
                check(&role.rules, &format!("role {}", role.name), &[])?;
            }
            let roles: Vec<&str> = capability.roles.iter().map(|role| &*role.name).collect();
            capability.rights.check(&format!("capability {name}"), &roles)?;
            for part in &capability.parts {
                let part_name = &part.name;
                ensure!(
                    is_label(part_name),
                    "part {part_name:?} of capability {name}: the name must fit into a label"
                );
                part.rights
                    .check(&format!("part {part_name} of capability {name}"), &roles)?;
            }
        }
        Ok(())
    }
}

impl Rights {
    /// Refuses rules that nobody can review. `roles` are those that the capability brings, and may bind by their names.
    fn check(&self, whose: &str, roles: &[&str]) -> Result<()> {
        let places = [
            &self.cluster,
            &self.everywhere,
            &self.served,
            &self.tenants,
            &self.home,
            &self.default,
        ];
        places
            .into_iter()
            .try_for_each(|rules| check(rules, whose, roles))
    }
}

fn check(rules: &[Rule], whose: &str, roles: &[&str]) -> Result<()> {
    for rule in rules {
        let lists = [
            &rule.api_groups,
            &rule.resources,
            &rule.verbs,
            &rule.resource_names,
        ];
        if let Some(wild) = lists.into_iter().flatten().find(|entry| entry.contains('*')) {
            bail!("the rights of {whose} hold the wildcard {wild:?}: name what is needed");
        }
        if let Some(verb) = rule.verbs.iter().find(|verb| !rule.is_narrow(verb, roles)) {
            bail!("the rights of {whose} hold {verb:?}, which leads to every other right");
        }
    }
    Ok(())
}

impl Rule {
    /// Whether a verb leads to no more than the rule says: to bind a role gives its rights, which may be those of reviewed roles alone.
    fn is_narrow(&self, verb: &str, roles: &[&str]) -> bool {
        match verb {
            "escalate" | "impersonate" => false,
            "bind" => {
                let named = &self.resource_names;
                self.resources == ["clusterroles"]
                    && !named.is_empty()
                    && named.iter().all(|name| roles.contains(&name.as_str()))
            }
            _ => true,
        }
    }
}

fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=32).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(verbs: &[&str], resources: &[&str]) -> String {
        json!({
            "version": "1.2.3",
            "process": {"rights": {}},
            "capabilities": [{
                "name": "sample", "about": "", "crds": [], "webhooks": [],
                "rights": {},
                "parts": [{
                    "name": "extra", "about": "", "isOn": false, "crds": [], "policies": [],
                    "arguments": [], "argumentsWithout": [],
                    "rights": {"served": [{"apiGroups": [""], "resources": resources, "verbs": verbs}]},
                }],
            }],
        })
        .to_string()
    }

    #[test]
    fn narrow_rights_pass_and_wide_ones_do_not() {
        assert!(Description::parse(&told(&["get"], &["pods"])).is_ok());
        let refused = |verbs: &[&str], resources: &[&str]| {
            Description::parse(&told(verbs, resources))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(&["*"], &["pods"]),
            "the rights of part extra of capability sample hold the wildcard \"*\": name what is needed"
        );
        assert!(refused(&["get"], &["pods/*"]).contains("wildcard"));
        assert!(refused(&["escalate"], &["roles"]).contains("every other right"));
        assert!(refused(&["bind"], &["clusterroles"]).contains("every other right"));
    }

    #[test]
    fn only_roles_that_the_capability_brings_may_be_bound() {
        let told = |resource: &str, names: &[&str]| {
            json!({
                "version": "1.2.3",
                "process": {"rights": {}},
                "capabilities": [{
                    "name": "sample", "about": "", "crds": [], "webhooks": [],
                    "rights": {"cluster": [{
                        "apiGroups": ["rbac.authorization.k8s.io"], "resources": [resource], "resourceNames": names, "verbs": ["bind"],
                    }]},
                    "roles": [{"name": "sample-program", "rules": [
                        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                    ]}],
                }],
            })
            .to_string()
        };
        assert!(Description::parse(&told("clusterroles", &["sample-program"])).is_ok());
        for (resource, names) in [
            ("clusterroles", &[][..]),
            ("clusterroles", &["sample-program", "cluster-admin"]),
            ("roles", &["sample-program"]),
        ] {
            let refused = Description::parse(&told(resource, names))
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains("\"bind\", which leads to every other right"),
                "{refused}"
            );
        }
        let wide = told("clusterroles", &["sample-program"]).replace("\"pods\"", "\"*\"");
        assert!(
            Description::parse(&wide)
                .unwrap_err()
                .to_string()
                .contains("role sample-program")
        );
    }

    #[test]
    fn a_rule_with_an_unknown_field_is_refused() {
        let with_url =
            told(&["get"], &["pods"]).replace("\"verbs\"", "\"nonResourceURLs\":[\"/metrics\"],\"verbs\"");
        assert!(Description::parse(&with_url).is_err());
    }

    #[test]
    fn a_place_that_the_chart_does_not_know_is_refused() {
        let elsewhere = told(&["get"], &["pods"]).replace("\"served\"", "\"elsewhere\"");
        assert!(Description::parse(&elsewhere).is_err());
    }
}
