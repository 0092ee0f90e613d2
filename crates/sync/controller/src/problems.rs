//! The log of what people are told is wrong: one line for each failed parse, check, fetch and write, without a value. What lasts is
//! told, and logged, once and then again after a while; every further try that fails is logged at level debug.

use trustplane_plan::{Note, Plan, Severity, Step};

/// Logs the problems among the steps of a plan.
pub(crate) fn log_problems<A>(plan: &Plan<A>) {
    for step in &plan.steps {
        if let Step::Tell(note) | Step::TellOnce(note, _) = step {
            log_problem(note);
        }
    }
}

/// Logs a note, if it tells of a problem.
pub(crate) fn log_problem(note: &Note) {
    if note.severity == Severity::Warning {
        let (about, reason) = (&note.about, note.reason);
        tracing::warn!(%about, reason, "{}", note.text());
    }
}
