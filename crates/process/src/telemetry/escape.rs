//! Text that stays on its line.

use std::fmt::{self, Write};

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Whether a character could end a line, drive a terminal, or turn the reading direction.
fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes with hostile characters as Rust escapes.
pub(super) struct EscapeWriter<W>(pub(super) W);

impl<W: Write> Write for EscapeWriter<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hostile(*c)) {
            write!(self.0, "{}{}", &rest[..at], c.escape_default())?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// A JSON event format whose output is plain also for characters that JSON itself lets through.
pub(super) struct Escaped<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for Escaped<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        for c in line.trim_end_matches('\n').chars() {
            // Such a character can only stand inside a JSON string, where this escape means the same.
            if is_hostile(c) {
                write!(writer, "\\u{:04x}", u32::from(c))?;
            } else {
                writer.write_char(c)?;
            }
        }
        writeln!(writer)
    }
}
