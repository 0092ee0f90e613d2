//! Telling a person what happens, how far it is and how long it takes: a bar on a terminal, plain lines elsewhere.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two plain lines about the same step, so that a log of CI stays short.
const QUIET: Duration = Duration::from_secs(15);

/// One step of work, shown from its beginning to its end.
#[derive(Debug)]
pub struct Progress {
    what: String,
    started: Instant,
    told: Instant,
    done: u64,
    total: Option<u64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins to show a step.
    pub fn begin(what: impl Into<String>) -> Self {
        let what = what.into();
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| spinner(&what));
        let progress = Self {
            what,
            started: now,
            told: now,
            done: 0,
            total: None,
            bar,
        };
        if progress.bar.is_none() {
            progress.line("…");
        }
        progress
    }

    /// How far it is, of how much.
    pub fn set(&mut self, done: u64, total: u64) {
        self.done = done;
        if let Some(bar) = &self.bar {
            if self.total.is_none() {
                bar.set_style(counted());
            }
            bar.set_length(total);
            bar.set_position(done);
        }
        self.total = Some(total);
        self.tell();
    }

    /// One more part of the total is done.
    pub fn advance(&mut self) {
        self.set(self.done + 1, self.total.unwrap_or_default());
    }

    /// What is being done at the moment.
    pub fn note(&mut self, detail: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(detail.to_owned());
        }
        self.tell();
    }

    /// The step is done; says how long it took.
    pub fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.line("done");
    }

    fn tell(&mut self) {
        if self.bar.is_none() && self.told.elapsed() >= QUIET {
            self.told = Instant::now();
            match self.total {
                Some(total) => self.line(format_args!("{}/{total}", self.done)),
                None => self.line("…"),
            }
        }
    }

    fn line(&self, status: impl fmt::Display) {
        let elapsed = self.started.elapsed().as_secs_f64();
        let _ = writeln!(std::io::stderr(), "[{elapsed:>6.1} s] {}: {status}", self.what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_style(style("{spinner} {prefix} {elapsed} {wide_msg:.dim}"));
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn counted() -> ProgressStyle {
    style("{spinner} {prefix} [{bar:30}] {pos}/{len} {elapsed} {wide_msg:.dim}")
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
