//! The one place that decides how results look, and the only one that writes to the terminal.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;
use trustplane_process::secret::Secret;

/// The `-o` of commands that list things.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// Columns for people.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// One `kind/name` per line.
    Name,
}

/// The `-o` of commands that report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Lines for people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// Writes a value as JSON.
pub fn json(out: &mut impl Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).context("write JSON")?;
    Ok(writeln!(out)?)
}

/// Writes a value as YAML.
pub fn yaml(out: &mut impl Write, value: &impl Serialize) -> Result<()> {
    // The document may hold values of a secret.
    let text = Secret::new(serde_saphyr::to_string(value).context("write YAML")?);
    Ok(out.write_all(text.expose().as_bytes())?)
}

/// Writes columns as kubectl does: no lines, three spaces apart.
pub fn table(out: &mut impl Write, head: &[&str], rows: Vec<Vec<String>>) -> Result<()> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(head.to_vec())
        .add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Whether the reader of our output went away, as `head` does: no fault of anybody.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Passes on what another program says on standard error.
pub fn pass_on(said: &[u8]) -> Result<()> {
    io::stderr().write_all(said).context("write to standard error")
}

/// Tells a person something that is no result, on standard error. A terminal that is gone is no fault of the command.
pub fn note(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}
