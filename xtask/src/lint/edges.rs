//! Which crate may depend on which. The rules are those of the design: dependencies point down, decisions stay pure,
//! capabilities do not know each other.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata};

use crate::run;

/// What must not be reached by a crate whose folder ends in `core`, nor by `plan` and `api`: clients, runtimes, clocks, chance.
const IMPURE: [&str; 8] = [
    "tokio",
    "kube",
    "kube-client",
    "kube-core",
    "hyper",
    "reqwest",
    "rand",
    "async-std",
];
/// What runs where no Kubernetes is: it must not reach a client of it.
const WITHOUT_KUBERNETES: [&str; 4] = [
    "crates/process",
    "crates/inventory/hub",
    "crates/inventory/console",
    "bin/hub",
];
const CAPABILITIES: [&str; 4] = ["sync", "hsm", "identity", "inventory"];

/// A crate of the workspace: where it lives, what it names, what it reaches.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// The folder below the root, such as `crates/sync/core`.
    folder: String,
    /// Dependencies by name and whether they are for tests only.
    names: BTreeSet<(String, bool)>,
    /// Everything it is built from by itself, tests apart; only where a rule asks for it.
    reaches: BTreeSet<String>,
}

/// The workspace as the rules see it: crates by name.
pub struct Graph(BTreeMap<String, Member>);

impl Graph {
    /// Reads cargo's resolved graph.
    pub fn of(metadata: &Metadata) -> Result<Self> {
        let folder = |manifest: &cargo_metadata::camino::Utf8Path| {
            let folder = manifest
                .parent()
                .and_then(|f| f.strip_prefix(&metadata.workspace_root).ok());
            folder.map(ToString::to_string).unwrap_or_default()
        };
        let members = metadata.workspace_packages().into_iter().map(|package| {
            let folder = folder(&package.manifest_path);
            let names = package.dependencies.iter();
            let names = names
                .map(|d| (d.name.clone(), d.kind == DependencyKind::Development))
                .collect();
            let reaches = match is_pure(&folder) || WITHOUT_KUBERNETES.contains(&folder.as_str()) {
                true => reached(&package.name)?,
                false => BTreeSet::new(),
            };
            let member = Member {
                folder,
                names,
                reaches,
            };
            Ok((package.name.to_string(), member))
        });
        members.collect::<Result<_>>().map(Self)
    }
}

/// What a crate is built from by itself: another crate of the workspace may switch on more of what both use.
fn reached(package: &str) -> Result<BTreeSet<String>> {
    let mut tree = run::cargo();
    tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}", "--package", package]);
    let output = tree.output().context("run cargo tree")?;
    anyhow::ensure!(output.status.success(), "cargo tree of {package} failed");
    let text = String::from_utf8(output.stdout).context("read what cargo tree says")?;
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| *name != package).map(str::to_owned).collect())
}

/// Every forbidden edge, as a line for people.
pub fn check(graph: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, member) in &graph.0 {
        pure(name, member, &mut faults);
        kubernetes(name, member, &mut faults);
        downwards(name, member, graph, &mut faults);
    }
    faults
}

fn pure(name: &str, member: &Member, faults: &mut Vec<String>) {
    if !is_pure(&member.folder) {
        return;
    }
    for impure in IMPURE {
        if member.reaches.contains(impure) {
            faults.push(format!(
                "{name} reaches {impure}: a pure crate has no async, no client, no clock, no chance"
            ));
        }
    }
}

fn is_pure(folder: &str) -> bool {
    ["crates/plan", "crates/api"].contains(&folder) || folder.ends_with("/core")
}

fn kubernetes(name: &str, member: &Member, faults: &mut Vec<String>) {
    let is = |wanted: &str| member.names.iter().any(|(dependency, _)| dependency == wanted);
    if is("kube-runtime") && member.folder != "crates/kit" {
        faults.push(format!("{name} names kube-runtime: only crates/kit may"));
    }
    if WITHOUT_KUBERNETES.contains(&member.folder.as_str()) {
        for kube in member
            .reaches
            .iter()
            .filter(|n| n.starts_with("kube") || *n == "k8s-openapi")
        {
            faults.push(format!(
                "{name} reaches {kube}: a process without Kubernetes must not"
            ));
        }
    }
}

fn downwards(name: &str, member: &Member, graph: &Graph, faults: &mut Vec<String>) {
    for (dependency, for_tests) in &member.names {
        let Some(other) = graph.0.get(dependency) else {
            continue;
        };
        let (from, to) = (capability(&member.folder), capability(&other.folder));
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            faults.push(format!(
                "{name} names {dependency}: capability {from} must not know capability {to}"
            ));
        }
        if !for_tests && layer(&member.folder) < layer(&other.folder) {
            faults.push(format!("{name} names {dependency}: dependencies point down"));
        }
    }
}

fn capability(folder: &str) -> Option<&str> {
    let part = folder.strip_prefix("crates/")?.split('/').next()?;
    CAPABILITIES.into_iter().find(|c| *c == part)
}

/// The higher the layer, the more it may name.
fn layer(folder: &str) -> u8 {
    match folder {
        "crates/api" | "crates/plan" => 0,
        "crates/process" => 1,
        "crates/kit" => 2,
        _ if folder.ends_with("/core") => 1,
        _ if folder.starts_with("crates/") => 3,
        _ if folder.starts_with("bin/") => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(folder: &str, names: &[&str], reaches: &[&str]) -> Member {
        Member {
            folder: folder.into(),
            names: names.iter().map(|n| ((*n).to_owned(), false)).collect(),
            reaches: reaches.iter().map(|n| (*n).to_owned()).collect(),
        }
    }

    fn faults(members: &[(&str, Member)]) -> Vec<String> {
        check(&Graph(
            members
                .iter()
                .map(|(name, member)| ((*name).to_owned(), member.clone()))
                .collect(),
        ))
    }

    #[test]
    fn each_forbidden_edge_is_found() {
        let sync = ("sync-core", member("crates/sync/core", &[], &[]));
        let cases = [
            (
                "reaches tokio",
                ("c", member("crates/sync/core", &["tokio"], &["tokio"])),
            ),
            (
                "only crates/kit may",
                ("c", member("crates/cli", &["kube-runtime"], &["kube-runtime"])),
            ),
            (
                "without Kubernetes",
                ("p", member("crates/process", &["kube"], &["kube"])),
            ),
            (
                "without Kubernetes",
                ("h", member("crates/inventory/hub", &[], &["kube-core"])),
            ),
            (
                "without Kubernetes",
                ("c", member("crates/inventory/console", &[], &["k8s-openapi"])),
            ),
            (
                "without Kubernetes",
                ("b", member("bin/hub", &["kube-client"], &["kube-client"])),
            ),
            (
                "must not know",
                (
                    "h",
                    member("crates/hsm/controller", &["sync-core"], &["sync-core"]),
                ),
            ),
            (
                "point down",
                ("trustplane-kit", member("crates/process", &["kit"], &[])),
            ),
        ];
        for (expected, case) in cases {
            let kit = ("kit", member("crates/kit", &["kube-runtime"], &["kube-runtime"]));
            let found = faults(&[sync.clone(), kit, case]);
            assert_eq!(found.len(), 1, "{expected}: {found:?}");
            assert!(found[0].contains(expected), "{expected}: {found:?}");
        }
    }

    #[test]
    fn a_tidy_workspace_has_no_fault() {
        let tidy = [
            ("plan", member("crates/plan", &["serde"], &["serde"])),
            ("core", member("crates/sync/core", &["plan"], &["plan"])),
            (
                "controller",
                member("crates/sync/controller", &["core", "kit"], &["tokio"]),
            ),
            ("kit", member("crates/kit", &["plan", "kube-runtime"], &["tokio"])),
            ("bin", member("bin/manager", &["controller", "kit"], &["tokio"])),
            ("hub", member("bin/hub", &["plan"], &["tokio"])),
        ];
        assert_eq!(faults(&tidy), Vec::<String>::new());
    }
}
