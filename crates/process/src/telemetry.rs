//! Logs: one line per event on stderr, for people or as JSON, whatever a message contains.
//!
//! Newlines and control characters are escaped, so that a hostile name or error text can neither forge a line nor
//! drive a terminal. Panics are logged the same way. What quotes the body of an answer is not logged at all, whatever the filter
//! says.

mod escape;
mod pretty;

use std::io::IsTerminal;
use std::sync::Once;

use tracing::{Dispatch, Metadata};
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::fmt::{self as subscriber, MakeWriter, format::JsonFields};
use tracing_subscriber::layer::SubscriberExt;

use crate::args::{CommonArgs, LogFormat};

/// The module of the Kubernetes client that logs whole answers: at `warn` those that it cannot parse, at `debug` errors. An
/// answer may be a Secret.
const QUOTES_ANSWERS: &str = "kube_client::client";

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error("`{filter}` is not a log filter")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
}

/// Starts logging to stderr, for the whole process.
///
/// A process has one log: a second call checks its filter, and otherwise changes nothing.
pub fn init(args: &CommonArgs) -> Result<(), TelemetryError> {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let dispatch = dispatch(args, colours, std::io::stderr)?;
    if tracing::dispatcher::set_global_default(dispatch).is_ok() {
        log_panics();
    }
    Ok(())
}

/// The subscriber over any writer, so that a test can read what it writes.
fn dispatch<W>(args: &CommonArgs, colours: bool, writer: W) -> Result<Dispatch, TelemetryError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .parse(args.log_filter())
        .map_err(|source| TelemetryError::Filter {
            filter: args.log_filter().to_owned(),
            source,
        })?;
    let log = subscriber()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(colours);
    Ok(match args.log_format() {
        LogFormat::Pretty => log
            .fmt_fields(pretty::Fields)
            .event_format(pretty::Line)
            .finish()
            .with(filter_fn(is_harmless))
            .into(),
        LogFormat::Json => {
            let json = subscriber::format()
                .json()
                .flatten_event(true)
                .with_current_span(false);
            log.fmt_fields(JsonFields::new())
                .event_format(escape::Escaped(json))
                .finish()
                .with(filter_fn(is_harmless))
                .into()
        }
    })
}

/// Whether a message cannot quote an answer of the API server.
fn is_harmless(message: &Metadata<'_>) -> bool {
    message.is_span() || message.target() != QUOTES_ANSWERS
}

/// Sends panics to the log; the standard message spans several lines.
fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let thread = std::thread::current();
            // The message may quote a value, so it stays out of the log; the place finds the code.
            tracing::error!(place, thread = thread.name().unwrap_or_default(), "panic");
        }));
    });
}

fn subscriber() -> tracing_subscriber::fmt::SubscriberBuilder {
    tracing_subscriber::fmt()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use clap::Parser;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        common: CommonArgs,
    }

    fn args(argv: &[&str]) -> CommonArgs {
        Args::parse_from(std::iter::once("test").chain(argv.iter().copied())).common
    }

    fn logged(argv: &[&str], colours: bool, log: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let dispatch = dispatch(&args(argv), colours, move || writer.clone()).unwrap();
        tracing::dispatcher::with_default(&dispatch, log);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    const HOSTILE: &str = "a\nERROR forged\r\u{1b}[2J\u{9b}31m\u{2028}b\u{202e}c\u{7f}";

    fn log_hostile() {
        let span = tracing::info_span!("reconcile", key = HOSTILE);
        span.in_scope(|| tracing::warn!(plain = HOSTILE, shown = %HOSTILE, "failed: {HOSTILE}"));
    }

    fn assert_harmless(line: &str) {
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        assert!(line.ends_with('\n'), "{line:?}");
        let bad = |c: &char| c.is_control() || ['\u{2028}', '\u{202e}'].contains(c);
        assert_eq!(line.trim_end().chars().find(bad), None, "{line:?}");
    }

    #[test]
    fn a_hostile_message_stays_on_one_line_for_people() {
        let line = logged(&[], false, log_hostile);
        assert_harmless(&line);
        assert!(
            line.contains(" WARN ") && line.contains(r"failed: a\nERROR forged\r\u{1b}[2J"),
            "{line}"
        );
        assert!(line.contains("reconcile{key="), "{line}");
        let colourful = logged(&[], true, log_hostile);
        assert_eq!(colourful.matches('\n').count(), 1, "{colourful:?}");
        assert!(colourful.contains(r"\u{1b}[2J"), "{colourful:?}");
    }

    #[test]
    fn a_hostile_message_stays_on_one_line_as_json() {
        let line = logged(&["--log-format=json"], true, log_hostile);
        assert_harmless(&line);
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["message"], format!("failed: {HOSTILE}"));
        assert_eq!(json["plain"], HOSTILE);
        assert_eq!(json["level"], "WARN");
        assert_eq!(json["spans"][0]["key"], HOSTILE);
    }

    #[test]
    fn what_quotes_an_answer_is_not_logged_whatever_the_filter_says() {
        let log = || {
            tracing::warn!(target: "kube_client::client", "hunter2, EOF while parsing");
            tracing::debug!(target: "kube_client::client", "Unsuccessful data error parse: hunter2");
            tracing::warn!(target: "kube_client::client::tls", "failed to reload CA bundle");
        };
        for format in ["pretty", "json"] {
            let format = format!("--log-format={format}");
            let text = logged(&["--log=trace,kube_client::client=trace", &format], false, log);
            assert!(
                !text.contains("hunter2") && text.contains("CA bundle"),
                "{format}: {text}"
            );
        }
    }

    #[test]
    fn the_filter_decides_and_a_bad_one_is_named() {
        let log = || {
            tracing::debug!("quiet");
            tracing::info!("loud");
        };
        let text = logged(&["--log=info"], false, log);
        assert!(text.contains("loud") && !text.contains("quiet"), "{text}");
        let text = logged(&["--log=warn,trustplane_process=debug"], false, log);
        assert!(text.contains("quiet"), "{text}");
        let error = dispatch(&args(&["--log=info,x=loudest"]), false, io::sink).unwrap_err();
        assert_eq!(error.to_string(), "`info,x=loudest` is not a log filter");
    }
}
