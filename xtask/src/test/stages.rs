//! The stages of a test run, in order.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};
use trustplane_cluster::{
    cache::Cache,
    control_plane::{self, ControlPlane, Options},
    subprocess,
    tools::{Tool, Toolchain, console::WorkingCopy, debian},
};

use super::report::Outcome;
use crate::{generate, lint, run};

/// One stage.
pub struct Stage {
    /// Its name, as in the table of budgets.
    pub name: &'static str,
    /// Whether tests run in it or need it, so that it is part of a run with a filter.
    pub tests: bool,
    /// Runs it.
    pub run: fn(&Run) -> Result<Outcome>,
}

const fn check(name: &'static str, run: fn(&Run) -> Result<Outcome>) -> Stage {
    Stage {
        name,
        tests: false,
        run,
    }
}

const fn tests(name: &'static str, run: fn(&Run) -> Result<Outcome>) -> Stage {
    Stage {
        name,
        tests: true,
        run,
    }
}

/// All stages, cheap ones first.
pub const ALL: &[Stage] = &[
    tests("tools", tools),
    check("fmt", |_| done(run::cargo().args(["fmt", "--all", "--check"]))),
    check("lint", |_| lint::run(lint::Args {}).map(|()| Outcome::Checked)),
    check("deny", deny),
    check("console", console),
    // Compiles everything that the stages after it run: the compiler lints as it goes.
    check("clippy", |_| {
        done(run::cargo().args(["build", "--workspace", "--all-targets", "--locked"]))
    }),
    check("gen", |_| {
        generate::run(generate::Args::checking()).map(|()| Outcome::Checked)
    }),
    tests("unit", |run| {
        run.tests(&format!("not ({COMPONENT} | {CLUSTER} | {FAULTS} | {E2E})"))
    }),
    check("doc", doc),
    tests("component", |run| run.tests_on_a_control_plane(COMPONENT)),
    tests("faults", |run| {
        let outcome = run.tests_on_a_control_plane(FAULTS);
        // The clusters of the stages to come are their own; this one would take half a core from them.
        run.clean_up();
        outcome
    }),
    tests("cluster", |run| run.tests(CLUSTER)),
    tests("e2e", |run| run.tests(E2E)),
];

const COMPONENT: &str = "(package(/-(kit|controller|manager|providers|stream)$/) & kind(test)) | package(trustplane-testkit) | \
     (package(trustplane-hsm-agent) & binary(record)) | (package(trustplane-agent) & binary(secrets)) | \
     (package(trustplane-hsm-discovery) & binary(component)) | (package(trustplane-discovery) & kind(test)) | (package(trustplane-cli) & test(/^(cluster|inventory::enroll)::tests::/))";
const CLUSTER: &str = "(package(trustplane-cluster) & kind(test))";
const FAULTS: &str = "package(trustplane-faults)";
const E2E: &str = "package(trustplane-e2e)";

fn done(command: &mut Command) -> Result<Outcome> {
    run::run(command).map(|()| Outcome::Checked)
}

/// What the stages share: the tools, and the control plane that component and fault tests use together.
pub struct Run {
    toolchain: Toolchain,
    cold: bool,
    cluster: String,
    /// Only tests whose name contains this.
    pub filter: Option<String>,
    /// Of a cluster for the end-to-end tests that is there already.
    kubeconfig: Option<PathBuf>,
}

impl Run {
    /// Prepares a run; nothing is started yet.
    pub fn new(cache: Cache, filter: Option<String>, kubeconfig: Option<PathBuf>) -> Result<Self> {
        let cold = !cache.tools().exists();
        let toolchain = Toolchain::new(&cache);
        Ok(Self {
            toolchain,
            cold,
            cluster: format!("test-{}", std::process::id()),
            filter,
            kubeconfig: kubeconfig.map(std::path::absolute).transpose()?,
        })
    }

    /// Whether the cache was empty when we began.
    pub fn is_cold(&self) -> bool {
        self.cold
    }

    /// Ends the clusters that tests of this run have left.
    pub fn clean_up(&self) {
        if let Err(error) = control_plane::down_all(&self.cluster) {
            println!("test: failed to end the clusters of this run: {error:#}");
        }
    }

    fn nextest(&self, arguments: &[&str]) -> Result<()> {
        let mut command = run::cargo();
        command
            .args(["nextest", "run", "--workspace", "--locked", "--no-tests=pass"])
            .args(arguments)
            .env("PATH", self.toolchain.search_path(&[Tool::Nextest, Tool::Deny])?)
            .env("INSTA_UPDATE", "no")
            .env("TRUSTPLANE_TEST_CLUSTER", &self.cluster);
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("TRUSTPLANE_E2E_KUBECONFIG", kubeconfig);
        }
        run::run(&mut command)
    }

    /// Runs tests that share a control plane. It is started only now: it would slow down the stages before.
    fn tests_on_a_control_plane(&self, filter_set: &str) -> Result<Outcome> {
        ControlPlane::up(&self.cluster, &Options::default())?;
        self.tests(filter_set)
    }

    /// Runs the tests of a filter set, and counts them from the report that the runner writes.
    fn tests(&self, filter_set: &str) -> Result<Outcome> {
        let filter_set = match &self.filter {
            Some(name) => format!("({filter_set}) & test({name})"),
            None => filter_set.to_owned(),
        };
        let junit = junit_path();
        if junit.exists() {
            std::fs::remove_file(&junit)?;
        }
        let ended = self.nextest(&["-E", &filter_set]);
        let Ok(report) = std::fs::read_to_string(&junit) else {
            // A filter may match nothing in a stage; then the runner has nothing to report.
            ended.context("the test runner ended without a report")?;
            if self.filter.is_none() {
                bail!("the test runner wrote no report");
            }
            return Ok(Outcome::Tests(Vec::new()));
        };
        let outcome = Outcome::from_junit(&report)?;
        if !outcome.has_failed() {
            ended?;
        }
        Ok(outcome)
    }
}

/// Where the runner puts its report: a folder of the work tree that git ignores, whatever cargo's target directory is.
fn junit_path() -> PathBuf {
    run::root().join("target/nextest/default/junit.xml")
}

fn tools(run: &Run) -> Result<Outcome> {
    let missing = debian::missing(true)?;
    if !missing.is_empty() {
        debian::install(&missing)?;
    }
    run.toolchain.ensure_all(&Tool::ALL)?;
    Ok(Outcome::Checked)
}

/// Types and unit tests of the console. Its pages in a browser are component tests of the inventory, which have a hub to show.
fn console(run: &Run) -> Result<Outcome> {
    let copy = WorkingCopy::new(&run.toolchain)?;
    let report = copy.path().join("junit.xml");
    let mut check = copy.npm("check");
    // What follows goes to the last command of the script, which is the runner of the unit tests.
    check
        .args(["--", "--reporter=default", "--reporter=junit"])
        .arg(format!("--outputFile.junit={}", report.display()));
    let ended = subprocess::quiet(&mut check);
    let Ok(report) = std::fs::read_to_string(&report) else {
        ended?;
        bail!("the console's test runner wrote no report");
    };
    let outcome = Outcome::from_junit(&report)?;
    // The report names the tests that failed; what they said is in the error.
    ended?;
    Ok(outcome)
}

// The advisory check needs a database that is not on every machine; bans, licences and sources work offline.
fn deny(run: &Run) -> Result<Outcome> {
    let mut command = run::cargo();
    command
        .args([
            "deny",
            "--workspace",
            "--locked",
            "check",
            "bans",
            "licenses",
            "sources",
        ])
        .env("PATH", run.toolchain.search_path(&[Tool::Nextest, Tool::Deny])?);
    done(&mut command)
}

fn doc(_: &Run) -> Result<Outcome> {
    let mut command = run::cargo();
    command.args(["test", "--doc", "--workspace", "--locked", "--no-fail-fast"]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let outcome = Outcome::from_libtest("doc", &text);
    if !output.status.success() {
        print!("{text}{}", String::from_utf8_lossy(&output.stderr));
        if !outcome.has_failed() {
            bail!("cargo test --doc ended with {}", output.status);
        }
    }
    Ok(outcome)
}
