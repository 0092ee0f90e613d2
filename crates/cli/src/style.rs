//! Colour, where a person can see it.

use std::io::IsTerminal;

/// Whether and how text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    coloured: bool,
}

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// All is well.
    Good,
    /// Worth a look.
    Warning,
    /// Broken.
    Bad,
    /// Less important than its neighbours.
    Faint,
}

impl Style {
    /// Colour on a terminal, unless the user asked for none (<https://no-color.org>).
    pub fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            coloured: !refused && !dumb && std::io::stdout().is_terminal(),
        }
    }

    /// No colour at all.
    #[cfg(test)]
    pub const fn plain() -> Self {
        Self { coloured: false }
    }

    /// The text in the tone's colour.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => 32,
            Tone::Warning => 33,
            Tone::Bad => 31,
            Tone::Faint => 2,
        };
        if self.coloured {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_added_only_where_it_is_wanted() {
        assert_eq!(Style::plain().paint(Tone::Bad, "no"), "no");
        assert_eq!(
            Style { coloured: true }.paint(Tone::Bad, "no"),
            "\u{1b}[31mno\u{1b}[0m"
        );
    }
}
