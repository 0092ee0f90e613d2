//! Log lines for people: `time LEVEL span{field=value}: target: message field=value`.

use std::fmt::{self, Write};

use jiff::{Timestamp, Unit};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::escape::EscapeWriter;

/// Fields as `name=value`, the message bare, everything escaped.
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = FieldVisitor {
            out: EscapeWriter(writer),
            first: true,
            result: Ok(()),
        };
        fields.record(&mut visitor);
        visitor.finish()
    }
}

struct FieldVisitor<'w> {
    out: EscapeWriter<Writer<'w>>,
    first: bool,
    result: fmt::Result,
}

impl FieldVisitor<'_> {
    fn put(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if self.result.is_err() {
            return;
        }
        let space = if std::mem::take(&mut self.first) { "" } else { " " };
        self.result = match field.name() {
            "message" => write!(self.out, "{space}{value}"),
            name => write!(self.out, "{space}{}={value}", name.trim_start_matches("r#")),
        };
    }
}

impl Visit for FieldVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format_args!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut chain = value.to_string();
        let mut source = value.source();
        while let Some(error) = source {
            let _ = write!(chain, ": {error}");
            source = error.source();
        }
        self.put(field, format_args!("{chain:?}"));
    }
}

impl VisitOutput<fmt::Result> for FieldVisitor<'_> {
    fn finish(self) -> fmt::Result {
        self.result
    }
}

/// One event as one line.
pub(super) struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = Timestamp::now();
        let now = now.round(Unit::Millisecond).unwrap_or(now);
        let meta = event.metadata();
        let paint = Paint(writer.has_ansi_escapes());
        write!(writer, "{} {} ", paint.dim(&now), paint.level(*meta.level()))?;
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            write!(writer, "{}", span.name())?;
            let extensions = span.extensions();
            if let Some(fields) = extensions
                .get::<FormattedFields<N>>()
                .filter(|fields| !fields.is_empty())
            {
                write!(writer, "{{{fields}}}")?;
            }
            write!(writer, ": ")?;
        }
        write!(writer, "{} ", paint.dim(&format_args!("{}:", meta.target())))?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Colours, where the reader is a terminal.
struct Paint(bool);

impl Paint {
    fn level(&self, level: Level) -> String {
        let colour = match level {
            Level::ERROR => "31",
            Level::WARN => "33",
            Level::INFO => "32",
            Level::DEBUG => "34",
            Level::TRACE => "35",
        };
        if self.0 {
            format!("\u{1b}[{colour}m{level:>5}\u{1b}[0m")
        } else {
            format!("{level:>5}")
        }
    }

    fn dim(&self, text: &dyn fmt::Display) -> String {
        if self.0 {
            format!("\u{1b}[2m{text}\u{1b}[0m")
        } else {
            text.to_string()
        }
    }
}
