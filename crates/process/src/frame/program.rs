//! How a binary begins and ends: the same for all of ours.
//!
//! | step | a fault is told | exit code |
//! |---|---|---|
//! | arguments, environment, file, log filter | in plain text on stderr | 2 |
//! | protection of the memory, runtime, start | by a log line in the chosen format; a tool for people: `error: …` on stderr | 1 |
//! | a task that should run for ever ends | by a log line | 1 |
//! | the end after a signal | | 0 |

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::args::{CommonArgs, parse_as};
use crate::supervise::BoxError;
use crate::{crypto, protection, telemetry};

/// What a binary is called: `--version`, logs, the Lease and `/debug/state.json` tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The name of the binary.
    pub name: &'static str,
    /// Its part in the system, such as `manager`.
    pub component: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl Program {
    fn command<A: clap::Parser>(self) -> clap::Command {
        A::command().name(self.name).version(self.version)
    }
}

/// The main of a process that serves: arguments, logs, protected memory, crypto and a runtime, in this order, then `run`.
///
/// **Errors.** An error of `run` is one of the start, and is logged. What ends a running process, [`Frame::run`] logs itself, and
/// gives the exit code.
///
/// [`Frame::run`]: super::Frame::run
pub fn main<A>(program: Program, run: impl AsyncFnOnce(A) -> Result<ExitCode, BoxError>) -> ExitCode
where
    A: clap::Parser + AsRef<CommonArgs>,
{
    main_from(program, std::env::args_os(), run)
}

/// [`main`] over a given command line, program name first.
pub fn main_from<A>(
    program: Program,
    argv: impl IntoIterator<Item = OsString>,
    run: impl AsyncFnOnce(A) -> Result<ExitCode, BoxError>,
) -> ExitCode
where
    A: clap::Parser + AsRef<CommonArgs>,
{
    let parsed = parse_as(program.command::<A>(), argv, |name| std::env::var(name).ok());
    let args: A = parsed.unwrap_or_else(|error| error.exit());
    if let Err(error) = telemetry::init(args.as_ref()) {
        let text = format!("--log: {}\n", told(&error));
        clap::Error::raw(ErrorKind::ValueValidation, text).exit();
    }
    let outcome = prepare()
        .and_then(|()| Ok(super::runtime()?))
        .and_then(|runtime| runtime.block_on(run(args)));
    outcome.unwrap_or_else(|error| {
        let Program {
            component, version, ..
        } = program;
        tracing::error!(component, version, error = told(&*error), "cannot start");
        ExitCode::FAILURE
    })
}

/// The main of a tool for people: its result goes to stdout, and an error as one line to stderr.
pub fn tool<A>(program: Program, run: impl FnOnce(A) -> Result<ExitCode, BoxError>) -> ExitCode
where
    A: clap::Parser,
{
    let mut command = program.command::<A>();
    let parsed = command
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|mut matches| A::from_arg_matches_mut(&mut matches));
    let args = parsed.unwrap_or_else(|error| error.format(&mut command).exit());
    prepare().and_then(|()| run(args)).unwrap_or_else(|error| {
        // If stderr is closed as well, there is no other place to write the error to.
        let _ = writeln!(std::io::stderr(), "error: {}", told(&*error));
        ExitCode::FAILURE
    })
}

fn prepare() -> Result<(), BoxError> {
    protection::protect().map_err(|error| format!("protect the memory of the process: {error}"))?;
    crypto::install();
    Ok(())
}

/// An error with its causes. Many errors tell their cause themselves.
fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&error| error.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layered {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn an_error_is_told_with_each_cause_once() {
        let layered = |text| Layered {
            text,
            source: io::Error::other("no route"),
        };
        assert_eq!(told(&layered("ask the server")), "ask the server: no route");
        assert_eq!(
            told(&layered("ask the server: no route")),
            "ask the server: no route"
        );
    }
}
