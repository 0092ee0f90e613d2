//! Crates that only the compiler runs are not optimised: macros, what build scripts use, and everything below both.
//!
//! Cargo would leave them alone by itself, but `[profile.dev.package."*"]` wins over `build-override`. So the manifest names them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, PackageId};

const SECTION: &str = "[profile.dev.package]";
const SETTING: &str = ".opt-level = 0";

/// Every crate that only the compiler runs and that the manifest has optimised.
pub fn check(root: &Path, metadata: &Metadata) -> Result<Vec<String>> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let listed = listed(&manifest);
    let missing = Crates::of(metadata)?.build_time();
    let missing = missing.into_iter().filter(|name| !listed.contains(name.as_str()));
    let fault = |name| {
        format!(
            "{name} is optimised, and only the compiler runs it: add `{name}{SETTING}` to {SECTION} of Cargo.toml"
        )
    };
    Ok(missing.map(fault).collect())
}

/// The crates that the manifest does not have optimised.
fn listed(manifest: &str) -> BTreeSet<&str> {
    let lines = manifest.lines().skip_while(|line| *line != SECTION).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.strip_suffix(SETTING))
        .collect()
}

/// Cargo's resolved graph, as far as this rule asks.
#[derive(Default)]
struct Crates {
    names: BTreeMap<PackageId, String>,
    macros: BTreeSet<PackageId>,
    members: BTreeSet<PackageId>,
    /// What a crate depends on, and whether it is for the build script alone.
    edges: BTreeMap<PackageId, Vec<(PackageId, bool)>>,
}

impl Crates {
    fn of(metadata: &Metadata) -> Result<Self> {
        let mut crates = Self {
            members: metadata.workspace_members.iter().cloned().collect(),
            ..Self::default()
        };
        for package in &metadata.packages {
            crates.names.insert(package.id.clone(), package.name.to_string());
            if package.targets.iter().any(cargo_metadata::Target::is_proc_macro) {
                crates.macros.insert(package.id.clone());
            }
        }
        let resolve = metadata.resolve.as_ref();
        for node in &resolve.context("cargo resolved no dependencies")?.nodes {
            let is_member = crates.members.contains(&node.id);
            let edges = node.deps.iter().flat_map(|dependency| {
                let kinds = dependency.dep_kinds.iter().map(|info| info.kind);
                kinds
                    .filter(|kind| is_member || *kind != DependencyKind::Development)
                    .map(|kind| (dependency.pkg.clone(), kind == DependencyKind::Build))
            });
            crates.edges.insert(node.id.clone(), edges.collect());
        }
        Ok(crates)
    }

    /// The names of the crates that no program of ours, and no test, is linked with.
    fn build_time(&self) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut left: Vec<_> = self.members.iter().map(|id| (id.clone(), false)).collect();
        while let Some((id, in_build)) = left.pop() {
            let in_build = in_build || self.macros.contains(&id);
            if reached.insert((id.clone(), in_build)) {
                let edges = self.edges.get(&id).into_iter().flatten();
                left.extend(edges.map(|(to, for_script)| (to.clone(), in_build || *for_script)));
            }
        }
        let only = |(id, in_build): &&(PackageId, bool)| {
            *in_build && !self.members.contains(id) && !reached.contains(&(id.clone(), false))
        };
        let names = reached.iter().filter(only);
        names.filter_map(|(id, _)| self.names.get(id).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> PackageId {
        PackageId {
            repr: name.to_owned(),
        }
    }

    /// Edges as `from to`, with a `!` behind what only the build script of `from` uses.
    fn crates(macros: &[&str], edges: &[(&str, &str)]) -> Crates {
        let mut crates = Crates {
            macros: macros.iter().map(|name| id(name)).collect(),
            members: [id("ours")].into(),
            ..Crates::default()
        };
        for (from, to) in edges {
            let name = to.trim_end_matches('!');
            crates.names.insert(id(name), name.to_owned());
            let edge = (id(name), to.ends_with('!'));
            crates.edges.entry(id(from)).or_default().push(edge);
        }
        crates
    }

    #[test]
    fn crates_of_macros_and_build_scripts_are_build_time() {
        let edges = [
            ("ours", "serde"),
            ("serde", "serde_derive"),
            ("serde_derive", "syn"),
            ("serde_derive", "memchr"),
            ("serde", "memchr"),
            ("memchr", "cc!"),
            ("cc", "shlex"),
        ];
        let found = crates(&["serde_derive"], &edges).build_time();
        assert_eq!(
            found.iter().map(String::as_str).collect::<Vec<_>>(),
            ["cc", "serde_derive", "shlex", "syn"]
        );
    }

    #[test]
    fn crates_are_read_from_their_section_of_the_manifest() {
        let manifest = "a.opt-level = 0\n[profile.dev.package]\nb.opt-level = 0\nc.opt-level = 1\n[other]\nd.opt-level = 0\n";
        assert_eq!(listed(manifest), ["b"].into());
    }
}
