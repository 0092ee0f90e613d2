//! The chart put together for a manager, and what it renders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::{Tool, Toolchain};

use crate::{Said, program, say, try_say, xtask};

/// A chart in a directory of its own, which goes with it.
#[derive(Debug)]
pub struct Chart {
    directory: TempDir,
    /// The image that it is for.
    image: &'static str,
}

impl Chart {
    /// The product's chart, as it is shipped with the manager that was built just now.
    pub fn of_the_product() -> Result<Self> {
        Self::of("trustplane-manager", "manager")
    }

    /// The product's chart with the sample manager's rights, CRDs and webhooks.
    pub fn of_the_sample() -> Result<Self> {
        Self::of("sample-manager", "sample-manager")
    }

    fn of(manager: &str, image: &'static str) -> Result<Self> {
        let directory = tempfile::tempdir().context("make a directory for the chart")?;
        let manager = program(manager)?;
        say(xtask()
            .args(["gen", "--out"])
            .arg(directory.path())
            .arg("--manager")
            .arg(manager))?;
        Ok(Self { directory, image })
    }

    /// The product's chart with these generated files in place of its own.
    pub fn with_files(files: &Path) -> Result<Self> {
        let directory = tempfile::tempdir().context("make a directory for the chart")?;
        let chart = Self {
            directory,
            image: "manager",
        };
        let product = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/trustplane");
        fs::create_dir_all(chart.directory.path().join("charts"))
            .context("make a directory for the chart")?;
        say(Command::new("cp")
            .arg("--recursive")
            .arg(product)
            .arg(chart.path()))?;
        fs::remove_dir_all(chart.file("files")).context("remove the chart's own files")?;
        say(Command::new("cp")
            .arg("--recursive")
            .arg(files)
            .arg(chart.file("files")))?;
        Ok(chart)
    }

    /// The image that it is for, as the value `image.repository` names it.
    pub fn repository(&self) -> String {
        format!("trustplane/{}", self.image)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("charts/trustplane")
    }

    /// A file of it.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path().join(path)
    }

    /// Gives the chart another version, as a later release of it has.
    pub fn bump(&self, version: &str) -> Result<()> {
        let path = self.file("Chart.yaml");
        let text = fs::read_to_string(&path).context("read Chart.yaml")?;
        let bumped = text.lines().map(|line| match line.strip_prefix("version: ") {
            Some(_) => format!("version: {version}\n"),
            None => format!("{line}\n"),
        });
        fs::write(&path, bumped.collect::<String>()).context("write Chart.yaml")
    }
}

/// What the chart renders with these values for release `tp` in namespace `home`; or helm's complaint.
pub fn render(chart: &Chart, values: &[&str]) -> Result<Said> {
    let mut command = helm()?;
    command
        .args(["template", "tp"])
        .arg(chart.path())
        .args(["--namespace", "home"]);
    for value in values {
        command.args(["--set", value]);
    }
    try_say(&mut command)
}

/// The pinned helm.
pub fn helm() -> Result<Command> {
    let directory = Toolchain::new(&Cache::locate()?).ensure(Tool::Helm)?;
    let mut command = Command::new(directory.join("helm"));
    command.env_remove("KUBECONFIG");
    Ok(command)
}
