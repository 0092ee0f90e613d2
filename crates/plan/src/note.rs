//! Notes to the user: what becomes an event on an object.

use crate::{Classified, Kind, Meta, Target};

/// The longest text of a note, in bytes: what the API server takes for an event.
pub const MAX_NOTE: usize = 1024;

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Something went well.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Something to tell the user: one line of at most 1 KiB on one object. It must never hold a secret value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub about: Target,
    /// The uid of that object.
    pub uid: String,
    /// How much it matters.
    pub severity: Severity,
    /// A CamelCase word from a fixed set.
    pub reason: &'static str,
    /// What we were doing: a CamelCase verb such as `Sync`.
    pub action: &'static str,
    /// Who reports, where a system that we carry on has a name of its own; the process if nobody is named.
    pub by: Option<&'static str>,
    text: String,
}

impl Note {
    /// A note. The text is made one line and cut to [`MAX_NOTE`] bytes at a character boundary.
    pub fn new(
        about: Target,
        uid: &str,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        text: &str,
    ) -> Self {
        Self {
            about,
            uid: uid.to_owned(),
            severity,
            reason,
            action,
            by: None,
            text: one_line(text),
        }
    }

    /// A note on a live object: name and uid come from its metadata.
    ///
    /// ```
    /// use trustplane_plan::{Keep, Meta, Note, Severity, kinds::SECRET};
    ///
    /// let json = r#"{"metadata": {"name": "db", "namespace": "shop", "uid": "7"}}"#;
    /// let live = Meta::decode(json, &Keep::default()).unwrap();
    /// let note = Note::about(&SECRET, &live, Severity::Normal, "Synced", "Sync", "wrote 2 keys");
    /// assert_eq!((note.about.to_string().as_str(), note.uid.as_str()), ("Secret shop/db", "7"));
    /// ```
    pub fn about(
        kind: &Kind,
        live: &Meta,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        text: &str,
    ) -> Self {
        Self::new(live.target(kind), &live.uid, severity, reason, action, text)
    }

    /// A warning on a live object: an action failed with this error, whose reason is that of the note.
    pub fn of_error(kind: &Kind, live: &Meta, error: &impl Classified, action: &'static str) -> Self {
        let text = error.to_string();
        Self::about(kind, live, Severity::Warning, error.reason(), action, &text)
    }

    /// Reports under this name.
    #[must_use]
    pub fn by(mut self, component: &'static str) -> Self {
        self.by = Some(component);
        self
    }

    /// The text: one line.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn one_line(text: &str) -> String {
    let mut line: String = text
        .trim()
        .chars()
        .map(|c| {
            if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
                ' '
            } else {
                c
            }
        })
        .collect();
    if line.len() > MAX_NOTE {
        let mut end = MAX_NOTE - '…'.len_utf8();
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_text_becomes_one_short_line() {
        let line = one_line(&format!("a\nb\r\u{1b}[31m\u{2028}{}", "ü".repeat(2000)));
        assert!(line.len() <= MAX_NOTE && line.ends_with('…'));
        assert!(!line.chars().any(char::is_control) && !line.contains('\u{2028}'));
        assert!(line.starts_with("a b"));
    }

    #[test]
    fn a_text_of_exactly_the_limit_stays_whole() {
        let text = "x".repeat(MAX_NOTE);
        assert_eq!(one_line(&text), text);
    }
}
