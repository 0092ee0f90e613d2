//! The report of a change: its outcome on each token.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use trustplane_hsm_core::path::SecretPath;

use super::super::tokens::Token;
use crate::output::{self, ReportFormat};

/// The outcome of a change on one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The token has the change, in this version and with this checksum.
    Written(u64, Option<String>),
    /// The token had the wanted content already, in this version and with this checksum.
    Unchanged(u64, Option<String>),
    /// The secret was deleted. Its tombstone has this version.
    Deleted(u64),
    /// There was nothing left to delete.
    Gone,
    /// The token was left out, because it is not reached.
    Skipped(String),
    /// The token does not have the change, for this reason.
    Failed(String),
    /// It is not known whether the token has the change.
    Unknown(String),
    /// The token was not asked, because another token has refused.
    NotTried,
}

/// The outcome of a change on all tokens.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    path: String,
    tokens: Vec<Row>,
    #[serde(skip)]
    outcomes: Vec<Outcome>,
}

/// The row of one token in a document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    token: String,
    device: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Report {
    /// A report without tokens.
    pub fn new(path: &SecretPath) -> Self {
        Self {
            path: path.to_string(),
            tokens: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Adds the outcome on a token.
    pub fn add(&mut self, token: &Token, outcome: Outcome) {
        let (result, version, checksum, message) = match outcome.clone() {
            Outcome::Written(version, checksum) => ("Written", Some(version), checksum, None),
            Outcome::Unchanged(version, checksum) => ("Unchanged", Some(version), checksum, None),
            Outcome::Deleted(version) => ("Deleted", Some(version), None, None),
            Outcome::Gone => ("Unchanged", None, None, None),
            Outcome::Skipped(why) => ("Skipped", None, None, Some(why)),
            Outcome::Failed(why) => ("Failed", None, None, Some(why)),
            Outcome::Unknown(why) => ("Unknown", None, None, Some(why)),
            Outcome::NotTried => ("NotTried", None, None, None),
        };
        self.tokens.push(Row {
            token: token.serial().to_owned(),
            device: token.device().to_owned(),
            result,
            version,
            checksum,
            message,
        });
        self.outcomes.push(outcome);
    }

    /// Whether a token has refused, and no token can have been changed.
    pub fn is_hopeless(&self) -> bool {
        let mut all = self.outcomes.iter();
        let is_harmless = |outcome: &Outcome| {
            matches!(
                outcome,
                Outcome::Failed(_) | Outcome::Skipped(_) | Outcome::NotTried | Outcome::Gone
            )
        };
        all.any(|outcome| matches!(outcome, Outcome::Failed(_))) && self.outcomes.iter().all(is_harmless)
    }

    /// Prints the report. The exit code is 1 unless every token that was not skipped has the change.
    pub fn print(&self, format: ReportFormat, out: &mut impl Write) -> Result<ExitCode> {
        match format {
            ReportFormat::Table => output::table(out, &HEAD, self.rows())?,
            ReportFormat::Json => output::json(out, self)?,
            ReportFormat::Yaml => output::yaml(out, self)?,
        }
        for note in self.notes() {
            output::note(&note);
        }
        let is_done = |outcome: &Outcome| {
            !matches!(
                outcome,
                Outcome::Failed(_) | Outcome::Unknown(_) | Outcome::NotTried
            )
        };
        Ok(match self.outcomes.iter().all(is_done) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |row: &Row| {
            vec![
                row.token.clone(),
                row.device.clone(),
                row.result.to_owned(),
                row.version.map(|version| version.to_string()).unwrap_or_default(),
                row.checksum.clone().unwrap_or_default(),
            ]
        };
        self.tokens.iter().map(row).collect()
    }

    /// What a person has to know besides the rows.
    fn notes(&self) -> Vec<String> {
        let told = self.tokens.iter().filter_map(|row| {
            let message = row.message.as_ref()?;
            Some(format!("token {} of {}: {message}", row.token, row.device))
        });
        let mut notes: Vec<String> = told.collect();
        let has = |wanted: &dyn Fn(&Outcome) -> bool| self.outcomes.iter().any(wanted);
        if self.is_hopeless() {
            notes.push("nothing was changed".to_owned());
        } else if has(&|outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Unknown(_))) {
            notes.push(
                "not every token has the change: run the same command again when the cause is gone"
                    .to_owned(),
            );
        }
        notes
    }
}

/// The columns of the table.
const HEAD: [&str; 5] = ["TOKEN", "DEVICE", "RESULT", "VERSION", "CHECKSUM"];

#[cfg(test)]
impl Report {
    /// The results in the order of the tokens.
    pub fn results(&self) -> Vec<(&str, &str)> {
        let rows = self.tokens.iter();
        rows.map(|row| (row.token.as_str(), row.result)).collect()
    }

    /// The notes besides the rows.
    pub fn told(&self) -> Vec<String> {
        self.notes()
    }
}
