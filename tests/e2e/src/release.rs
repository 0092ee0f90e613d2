//! One release of the chart in a namespace of its own.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::chart::Chart;
use crate::{Arena, say};

/// A release that is cleared away at the end of its test, also of one that fails.
pub struct Release<'a> {
    arena: &'a Arena,
    name: String,
}

impl<'a> Release<'a> {
    /// A name that is a release and a namespace; nothing is installed yet.
    pub fn named(arena: &'a Arena, name: &str) -> Result<Self> {
        let release = Self {
            arena,
            name: name.to_owned(),
        };
        release
            .remove("--timeout=120s")
            .context("clear away what an interrupted test left")?;
        // The chart promises to need no more than the strictest profile allows.
        say(&mut arena.kubectl(&["create", "namespace", name]))?;
        say(&mut arena.kubectl(&[
            "label",
            "namespace",
            name,
            "pod-security.kubernetes.io/enforce=restricted",
        ]))?;
        Ok(release)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `kubectl` in its namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = self.arena.kubectl(&["--namespace", &self.name]);
        command.args(arguments);
        command
    }

    /// Makes an object in its namespace, or changes it.
    pub fn apply(&self, object: &Value) -> Result<()> {
        self.arena.apply(&self.name, object)
    }

    /// What `kubectl` answers in its namespace, as JSON.
    pub fn read(&self, arguments: &[&str]) -> Result<Value> {
        self.arena
            .read(&[&["--namespace", &self.name], arguments].concat())
    }

    /// `helm` on this release.
    pub fn helm(&self, arguments: &[&str]) -> Result<Command> {
        self.arena
            .helm(&[&["--namespace", &self.name], arguments].concat())
    }

    /// `kubectl trustplane` on this release.
    pub fn plugin(&self, arguments: &[&str]) -> Command {
        self.arena
            .plugin(&[arguments, &["--namespace", &self.name]].concat())
    }

    /// Installs the chart, or upgrades to it, and waits until every pod is ready.
    pub fn install(&self, chart: &Chart, values: &[&str]) -> Result<()> {
        let mut helm = self.helm(&["upgrade", "--install", &self.name])?;
        helm.arg(chart.path()).args(["--wait", "--timeout", "2m"]);
        helm.args(["--set", &format!("image.repository={}", chart.repository())]);
        for value in values {
            helm.args(["--set", value]);
        }
        say(&mut helm).inspect_err(|_| self.explain()).map(drop)
    }

    /// Removes the release and waits until its objects are gone.
    pub fn uninstall(&self) -> Result<()> {
        say(&mut self.helm(&["uninstall", &self.name, "--wait", "--timeout", "2m"])?).map(drop)
    }

    /// Removes it with its namespace; `patience` is the flag that says how long to wait for the end of the namespace.
    fn remove(&self, patience: &str) -> Result<()> {
        say(&mut self.helm(&[
            "uninstall",
            &self.name,
            "--ignore-not-found",
            "--wait",
            "--timeout",
            "2m",
        ])?)?;
        self.arena.remove_definitions()?;
        self.remove_definitions()?;
        say(&mut self
            .arena
            .kubectl(&["delete", "namespace", &self.name, "--ignore-not-found", patience]))
        .map(drop)
    }

    /// Removes the CRDs that this release brought, which no uninstall does. The next one could not take them up under
    /// another name.
    fn remove_definitions(&self) -> Result<()> {
        let definitions = self.arena.read(&["get", "crd"])?;
        for definition in definitions["items"].as_array().into_iter().flatten() {
            let metadata = &definition["metadata"];
            if metadata["annotations"]["meta.helm.sh/release-namespace"] == self.name.as_str() {
                let name = metadata["name"].as_str().context("a name")?;
                say(&mut self.arena.kubectl(&["delete", "crd", name, "--timeout=60s"]))?;
            }
        }
        Ok(())
    }

    /// What the cluster says of a failure, for whoever reads the log of the test.
    pub fn explain(&self) {
        let questions: [&[&str]; 3] = [
            &["get", "pods", "--output", "wide"],
            &["get", "events", "--sort-by=.lastTimestamp"],
            &[
                "logs",
                "--selector",
                "app.kubernetes.io/part-of=trustplane",
                "--tail=40",
                "--prefix",
            ],
        ];
        for question in questions {
            let answer = say(&mut self.kubectl(question)).unwrap_or_else(|error| format!("{error:#}"));
            #[expect(clippy::print_stderr, reason = "the log of a failing test")]
            {
                eprintln!("$ kubectl {}\n{answer}", question.join(" "));
            }
        }
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        // The next test has a namespace of its own.
        if let Err(error) = self.remove("--wait=false") {
            #[expect(
                clippy::print_stderr,
                reason = "a destructor has nobody to return an error to"
            )]
            {
                eprintln!("could not remove release {}: {error:#}", self.name);
            }
        }
    }
}
