//! Every object of a cluster that an installation could leave behind.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::{Arena, say};

/// What comes and goes by itself, or is a mere view of something else.
const PASSING: &[&str] = &[
    "events",
    "componentstatuses",
    "leases.coordination.k8s.io",
    "pods.metrics.k8s.io",
];

impl Arena {
    /// The names of all objects without a namespace, and of all in this one.
    pub fn census(&self, namespace: &str) -> Result<BTreeSet<String>> {
        let mut found = self.listed("false", &[])?;
        found.extend(self.listed("true", &["--namespace", namespace])?);
        found.extend(self.names("leases.coordination.k8s.io", &["--namespace", namespace])?);
        Ok(found)
    }

    fn listed(&self, namespaced: &str, scope: &[&str]) -> Result<BTreeSet<String>> {
        let flag = format!("--namespaced={namespaced}");
        let kinds = say(&mut self.kubectl(&["api-resources", "--verbs=list", "--output=name", &flag]))?;
        let kinds: Vec<&str> = kinds
            .lines()
            .filter(|kind| !PASSING.iter().any(|passing| kind.starts_with(passing)))
            .collect();
        self.names(&kinds.join(","), scope)
    }

    fn names(&self, kinds: &str, scope: &[&str]) -> Result<BTreeSet<String>> {
        let listed = say(self.kubectl(&["get", kinds, "--output=name"]).args(scope))?;
        Ok(listed.lines().map(str::to_owned).collect())
    }
}
