//! The generated part of the chart, and a chart put together for any manager.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::description::{Capability, Description};
use super::tree::{Tree, yaml};
use crate::run;

/// The chart's directory in the workspace.
pub const CHART: &str = "charts/trustplane";
/// The release and the namespace that the plain manifests are for.
const RELEASE: &str = "trustplane";
const NAMESPACE: &str = "trustplane";

/// What the chart reads of the code: rights, CRDs and webhooks by capability; and the version.
pub fn files(description: &Description) -> Result<Tree> {
    let mut tree = Tree::default();
    let directory = Path::new(CHART).join("files");
    tree.own(directory.join("crds"));
    tree.own(directory.join("policies"));
    let mut capabilities = Vec::new();
    for capability in &description.capabilities {
        let name = &capability.name;
        let mut parts = Vec::new();
        for part in &capability.parts {
            parts.push(json!({
                "name": part.name,
                "about": part.about,
                "isOn": part.is_on,
                "rights": part.rights,
                "crds": add_crds(&mut tree, &directory, capability, &part.crds)?,
                "policies": add_policies(&mut tree, &directory, &format!("{name}-{}", part.name), &part.policies)?,
                "arguments": part.arguments,
                "argumentsWithout": part.arguments_without,
            }));
        }
        capabilities.push(json!({
            "name": name,
            "about": capability.about,
            "rights": capability.rights,
            "parts": parts,
            "crds": add_crds(&mut tree, &directory, capability, &capability.crds)?,
            "policies": add_policies(&mut tree, &directory, name, &capability.policies)?,
            "webhooks": capability.webhooks,
            "secrets": capability.secrets,
            "roles": capability.roles,
            "atHome": capability.at_home,
            "optIn": capability.opt_in,
        }));
    }
    let known = json!({ "process": description.process, "capabilities": capabilities });
    tree.add(directory.join("capabilities.yaml"), yaml(&known)?);
    let metadata = Path::new(CHART).join("Chart.yaml");
    let text = fs::read_to_string(run::root().join(&metadata)).context("read Chart.yaml")?;
    tree.add(metadata, versioned(&text, &description.version));
    Ok(tree)
}

/// Adds a file for each kind; gives the names of the files.
fn add_crds(
    tree: &mut Tree,
    directory: &Path,
    capability: &Capability,
    crds: &[Value],
) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for definition in capability.finished(crds)? {
        let file = directory.join(format!("crds/{}.yaml", definition.name));
        tree.add(file, yaml(&definition.crd)?);
        names.push(definition.name);
    }
    Ok(names)
}

/// Adds a file with these policies, if there are any; gives the names of the files.
fn add_policies(tree: &mut Tree, directory: &Path, name: &str, policies: &[Value]) -> Result<Vec<String>> {
    if policies.is_empty() {
        return Ok(Vec::new());
    }
    let texts: Result<Vec<_>> = policies.iter().map(yaml).collect();
    tree.add(
        directory.join(format!("policies/{name}.yaml")),
        texts?.join("---\n"),
    );
    Ok(vec![name.to_owned()])
}

/// `Chart.yaml` with this version, comments and order kept.
fn versioned(text: &str, version: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((key @ ("version" | "appVersion"), _)) => format!("{key}: {version}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Puts the whole chart below `root`: the files that people write from the workspace, the others from the tree.
pub fn assemble(tree: &Tree, root: &Path) -> Result<()> {
    let target = root.join(CHART);
    copy(&run::root().join(CHART), &target).context("copy the chart")?;
    tree.write(root)?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The chart with its default values as plain manifests, for people without Helm.
pub fn manifests(helm: &Path, chart: &Path) -> Result<String> {
    let rendered = run::output(
        Command::new(helm)
            .args(["template", RELEASE])
            .arg(chart)
            .args(["--namespace", NAMESPACE]),
    )?;
    let namespace: Value = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
        },
    });
    Ok(format!("{}{}", yaml(&namespace)?, plain(&rendered)))
}

/// What Helm says of itself means nothing to those who do not use it.
fn plain(rendered: &str) -> String {
    let of_helm = |line: &str| {
        let line = line.trim_start();
        ["app.kubernetes.io/managed-by:", "helm.sh/", "# Source:"]
            .iter()
            .any(|mark| line.starts_with(mark))
    };
    let kept: Vec<&str> = rendered.lines().filter(|line| !of_helm(line)).collect();
    let text = kept
        .join("\n")
        .replace("\n  annotations:\n  labels:", "\n  labels:");
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_versions_of_the_chart_move() {
        let text = "apiVersion: v2\n# version: stays\nversion: 0.0.1\nappVersion: 0.0.1\nkubeVersion: \">=1.33.0-0\"\n";
        let expected = "apiVersion: v2\n# version: stays\nversion: 1.2.3\nappVersion: 1.2.3\nkubeVersion: \">=1.33.0-0\"\n";
        assert_eq!(versioned(text, "1.2.3"), expected);
    }

    #[test]
    fn plain_manifests_say_nothing_of_helm() {
        let rendered = "---\n# Source: x\nmetadata:\n  annotations:\n    helm.sh/resource-policy: keep\n  labels:\n    app.kubernetes.io/managed-by: Helm\n    a: b\n\n";
        assert_eq!(plain(rendered), "---\nmetadata:\n  labels:\n    a: b\n");
    }
}
