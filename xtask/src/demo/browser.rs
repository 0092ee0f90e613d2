//! A browser without a window that looks at the console while the demo changes the cluster.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::console::{self, WorkingCopy};
use trustplane_cluster::tools::{Toolchain, node};

use super::background::Background;
use super::scene::{Page, paragraph};
use super::stage::Stage;

/// The script that drives the browser, and where it finds the console's own scripts beside it.
const SCRIPT: &str = include_str!("watch.mjs");
const PLACE: &str = "tests/demo-watch.mjs";
/// How long the browser may take for everything.
const PATIENCE: Duration = Duration::from_secs(240);

/// Whether this machine has what the browser needs.
pub fn check() -> Result<()> {
    node::check()?;
    console::browser().map(drop)
}

/// Opens the link, and prints what is seen while a pod comes and goes.
pub fn watch(page: &Page, link: &str, stage: &Stage) -> Result<()> {
    println!("\n   Headless Chromium opens the link, as a person would.");
    let copy = WorkingCopy::new(&Toolchain::new(&Cache::locate()?))?;
    std::fs::write(copy.path().join(PLACE), SCRIPT).context("write the browser's script")?;
    let mut script = copy.node(PLACE);
    script
        .args([link, page.cluster, page.namespace, page.pod])
        .env("CHROMIUM", console::browser()?);
    let mut browser = Background::spawn(&mut script)?;
    browser.hear(PATIENCE, |line| {
        match Said::read(line)? {
            Said::Saw(text) => println!("{}", paragraph(text, "   → ")),
            Said::Ready => change(page.create, stage)?,
            Said::Appeared => change(page.delete, stage)?,
            Said::Vanished => return Ok(Some(())),
        }
        Ok(None)
    })
}

/// A line of the script.
#[derive(Debug, PartialEq, Eq)]
enum Said<'a> {
    /// Something is on the page.
    Saw(&'a str),
    /// The page shows where the pod will be.
    Ready,
    /// The pod is on the page.
    Appeared,
    /// The pod is gone again.
    Vanished,
}

impl<'a> Said<'a> {
    fn read(line: &'a str) -> Result<Self> {
        match line.split_once(": ") {
            Some(("saw", text)) => Ok(Self::Saw(text)),
            Some(("now", "ready")) => Ok(Self::Ready),
            Some(("now", "appeared")) => Ok(Self::Appeared),
            Some(("now", "vanished")) => Ok(Self::Vanished),
            _ => bail!("the browser's script says {line:?}"),
        }
    }
}

/// Changes the cluster while the browser looks on.
fn change(line: &str, stage: &Stage) -> Result<()> {
    println!("\n   $ {line}");
    for said in stage.run(line)?.lines() {
        println!("   {said}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_script_are_things_seen_or_steps() {
        assert_eq!(Said::read("saw: a: b").unwrap(), Said::Saw("a: b"));
        assert_eq!(Said::read("now: vanished").unwrap(), Said::Vanished);
        assert!(Said::read("now: what").is_err() && Said::read("Error").is_err());
        // The script prints no other.
        for step in ["ready", "appeared", "vanished"] {
            assert!(SCRIPT.contains(&format!("now(\"{step}\")")), "{step}");
        }
    }
}
