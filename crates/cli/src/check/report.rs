//! What a check found, for people and for programs.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use crate::cluster::Obstacle;
use crate::style::{Style, Tone};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Works, but somebody may stumble over it.
    Warning,
    /// Broken, or not to be seen.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub subject: String,
    pub verdict: Verdict,
    pub told: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// All is well with it.
    pub fn good(subject: impl Into<String>, told: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            verdict: Verdict::Good,
            told: told.into(),
            advice: None,
        }
    }

    /// Somebody may stumble over it.
    pub fn warning(subject: impl Into<String>, told: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            verdict: Verdict::Warning,
            told: told.into(),
            advice: Some(advice.into()),
        }
    }

    /// It is broken.
    pub fn bad(subject: impl Into<String>, told: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            verdict: Verdict::Bad,
            told: told.into(),
            advice: Some(advice.into()),
        }
    }

    /// It could not be looked at.
    pub fn unseen(subject: impl Into<String>, obstacle: &Obstacle, advice: impl Into<String>) -> Self {
        Self::bad(subject, format!("could not be seen: {obstacle}"), advice)
    }
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether nothing is bad.
    pub well: bool,
    pub findings: Vec<Finding>,
}

impl Report {
    /// A report of these findings.
    pub fn new(findings: Vec<Finding>) -> Self {
        Self {
            well: findings.iter().all(|finding| finding.verdict != Verdict::Bad),
            findings,
        }
    }

    /// One line for each finding, what to do below it, and a sum.
    pub fn people(&self, style: Style, out: &mut impl Write) -> Result<()> {
        let width = self
            .findings
            .iter()
            .map(|finding| finding.subject.chars().count())
            .max()
            .unwrap_or_default();
        for Finding {
            subject,
            verdict,
            told,
            advice,
        } in &self.findings
        {
            let (tone, sign) = match verdict {
                Verdict::Good => (Tone::Good, "✓"),
                Verdict::Warning => (Tone::Warning, "!"),
                Verdict::Bad => (Tone::Bad, "✗"),
            };
            writeln!(out, "{} {subject:<width$}  {told}", style.paint(tone, sign))?;
            if let Some(advice) = advice {
                writeln!(out, "{}", style.paint(Tone::Faint, &format!("    → {advice}")))?;
            }
        }
        let count = |verdict| {
            self.findings
                .iter()
                .filter(|finding| finding.verdict == verdict)
                .count()
        };
        let sum = match (count(Verdict::Bad), count(Verdict::Warning)) {
            (0, 0) => style.paint(Tone::Good, "all is well"),
            (0, warnings) => style.paint(Tone::Warning, &format!("works; worth a look: {warnings}")),
            (bad, _) => style.paint(Tone::Bad, &format!("not well; to be mended: {bad}")),
        };
        Ok(writeln!(out, "\n{sum}")?)
    }
}
