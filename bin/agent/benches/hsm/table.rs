//! What was measured, and whether it is what we want.

use serde_json::{Value, json};

/// One line of the table.
pub struct Row {
    /// What was measured.
    pub what: &'static str,
    /// Our figure.
    pub ours: f64,
    /// The figure of the peer or the floor, if there is one.
    pub theirs: Option<f64>,
    /// The unit of both.
    pub unit: &'static str,
    /// Who the peer is.
    pub peer: &'static str,
    /// What we want, if anything.
    pub goal: Option<Goal>,
}

/// What we want.
#[derive(Clone, Copy)]
pub enum Goal {
    /// Of the ratio.
    AtLeast(f64),
    /// Of the ratio.
    AtMost(f64),
    /// Of the ratio: 1, give or take a tenth.
    Equal,
    /// Of our own figure.
    Below(f64),
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.theirs.map(|theirs| self.ours / theirs)
    }

    /// The goal in words, and whether it was met.
    fn verdict(&self) -> Option<(String, bool)> {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        Some(match self.goal? {
            Goal::AtLeast(wanted) => (format!("ratio ≥ {wanted:.2}"), ratio >= wanted),
            Goal::AtMost(wanted) => (format!("ratio ≤ {wanted:.2}"), ratio <= wanted),
            Goal::Equal => ("ratio = 1 ± 0.1".to_owned(), (ratio - 1.0).abs() <= 0.1),
            Goal::Below(wanted) => (format!("< {wanted} {}", self.unit), self.ours < wanted),
        })
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let (goal, met) = self.verdict().unzip();
        json!({
            "what": self.what, "ours": self.ours, "peer": self.peer, "theirs": self.theirs, "unit": self.unit,
            "ratio": self.ratio(), "goal": goal, "met": met,
        })
    }
}

/// Prints all lines.
pub fn print(rows: &[Row]) {
    println!(
        "{:<42} {:>10} {:>10} {:<9} {:>7}  {:<47} goal",
        "", "ours", "theirs", "", "ratio", "theirs is"
    );
    for row in rows {
        let figure = |figure: Option<f64>| figure.map_or_else(String::new, |figure| format!("{figure:.2}"));
        let goal = row.verdict().map(|(goal, met)| match met {
            true => format!("{goal}: met"),
            false => format!("{goal}: NOT MET"),
        });
        println!(
            "{:<42} {:>10.2} {:>10} {:<9} {:>7}  {:<47} {}",
            row.what,
            row.ours,
            figure(row.theirs),
            row.unit,
            figure(row.ratio()),
            row.peer,
            goal.unwrap_or_default()
        );
    }
}
