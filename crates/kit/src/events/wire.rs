//! An event as the API server wants it.

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use trustplane_plan::kinds::{CORE_EVENT, EVENT};
use trustplane_plan::{Kind, Note, ObjectRef, Severity, Target};

use super::series::Due;

/// By which names the API server knows an event: rights are granted for each by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Those of today.
    Events,
    /// Those of old, which is all that the roles of many older systems grant.
    Core,
}

impl Dialect {
    pub fn kind(self) -> Kind {
        match self {
            Self::Events => EVENT,
            Self::Core => CORE_EVENT,
        }
    }

    fn field(self, today: &'static str, of_old: &'static str) -> &'static str {
        match self {
            Self::Events => today,
            Self::Core => of_old,
        }
    }
}

/// The longest part of an object's name that goes into the name of its events.
const MAX_STEM: usize = 200;

/// Who reports.
#[derive(Debug, Clone)]
pub(super) struct Reporter {
    pub controller: String,
    pub instance: String,
}

/// The name of the event of a note. The same note has the same name in every process, so that a restart goes on with a
/// series instead of starting a second one.
pub(super) fn name(note: &Note) -> String {
    let severity = severity(note);
    let parts = [note.uid.as_str(), severity, note.reason, note.action, note.text()];
    // Lengths keep the parts apart.
    let text: String = parts
        .iter()
        .map(|part| format!("{}:{part}", part.len()))
        .collect();
    let hash: String = digest(&SHA256, text.as_bytes())
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let stem: String = note
        .about
        .object
        .name()
        .chars()
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' {
                c
            } else {
                '-'
            }
        })
        .take(MAX_STEM)
        .collect();
    match stem.trim_matches('-') {
        "" => hash,
        stem => format!("{stem}.{hash}"),
    }
}

/// The event object of a note. Events on objects without a namespace live in `default`.
pub(super) fn target(due: &Due, dialect: Dialect) -> Target {
    let namespace = due.note.about.object.namespace().unwrap_or("default");
    Target {
        kind: dialect.kind(),
        object: ObjectRef::new(Some(namespace), &due.name),
    }
}

/// The first event of a series.
pub(super) fn event(due: &Due, dialect: Dialect, reporter: &Reporter) -> Value {
    let (note, target) = (&due.note, target(due, dialect));
    let mut regarding = json!({
        "apiVersion": note.about.kind.api_version(), "kind": note.about.kind.kind,
        "name": note.about.object.name(), "uid": note.uid,
    });
    if let Some(namespace) = note.about.object.namespace() {
        regarding["namespace"] = namespace.into();
    }
    let mut event = json!({
        "apiVersion": target.kind.api_version(), "kind": target.kind.kind,
        "metadata": { "name": due.name, "namespace": target.object.namespace() },
        "eventTime": micros(due.first),
        "reportingInstance": reporter.instance,
        "type": severity(note), "reason": note.reason, "action": note.action,
    });
    event[dialect.field("reportingController", "reportingComponent")] =
        note.by.unwrap_or(&reporter.controller).into();
    event[dialect.field("note", "message")] = note.text().into();
    event[dialect.field("regarding", "involvedObject")] = regarding;
    // A series of one is no series.
    if due.pending > 1 {
        event["series"] = series(due.pending, due.last);
    }
    event
}

/// The change of an event when its series goes on.
pub(super) fn continuation(due: &Due, stored: &Stored) -> Value {
    json!({
        "metadata": { "resourceVersion": stored.resource_version },
        "series": series(continued(due, stored), due.last),
    })
}

/// How many notes the event counts when its series has gone on.
pub(super) fn continued(due: &Due, stored: &Stored) -> u32 {
    stored.count.max(1).saturating_add(due.pending)
}

/// What matters of an event on the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    resource_version: String,
    /// How many notes it counts.
    count: u32,
}

impl Stored {
    #[cfg(test)]
    pub fn new(resource_version: &str, count: u32) -> Self {
        let resource_version = resource_version.to_owned();
        Self {
            resource_version,
            count,
        }
    }

    /// Reads an event that was asked for.
    pub fn read(event: &str) -> Option<Self> {
        let found: Found = serde_json::from_str(event).ok()?;
        Some(Self {
            resource_version: found.metadata.resource_version,
            count: found.series.map_or(1, |series| series.count),
        })
    }

    /// Reads the answer to a write of an event that counts so many notes: the answer holds metadata only.
    pub fn written(answer: &str, count: u32) -> Option<Self> {
        Some(Self {
            count,
            ..Self::read(answer)?
        })
    }
}

#[derive(Deserialize)]
struct Found {
    metadata: FoundMetadata,
    series: Option<FoundSeries>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundMetadata {
    resource_version: String,
}

#[derive(Deserialize)]
struct FoundSeries {
    count: u32,
}

fn series(count: u32, last: Timestamp) -> Value {
    json!({ "count": count, "lastObservedTime": micros(last) })
}

fn severity(note: &Note) -> &'static str {
    match note.severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    }
}

fn micros(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use trustplane_plan::kinds::NODE;

    use super::*;

    fn note(name: &str, uid: &str, text: &str) -> Note {
        let about = Target {
            kind: NODE,
            object: ObjectRef::new(None, name),
        };
        Note::new(about, uid, Severity::Warning, "TokenLost", "Sync", text)
    }

    #[test]
    fn the_name_depends_on_all_that_makes_a_series() {
        assert_eq!(name(&note("n", "u", "t")), name(&note("n", "u", "t")));
        assert_eq!(
            name(&note("n", "u", "t")),
            "n.6f6d2d083c66379c",
            "it must not change between releases"
        );
        assert_ne!(name(&note("n", "u", "t")), name(&note("n", "u", "t2")));
        assert_ne!(name(&note("n", "u", "t")), name(&note("n", "u2", "t")));
    }

    #[test]
    fn any_object_name_makes_an_event_name() {
        for object in ["system:node:A_b", ":::", "x", &"y".repeat(253)] {
            let name = name(&note(object, "u", "t"));
            assert!(
                name.len() <= 253 && name.starts_with(|c: char| c.is_ascii_alphanumeric()),
                "{name}"
            );
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
            );
            assert!(!name.contains("-."), "{name}");
        }
    }

    #[test]
    fn times_have_exactly_six_digits() {
        assert_eq!(
            micros("2026-01-01T00:00:00Z".parse().unwrap()),
            "2026-01-01T00:00:00.000000Z"
        );
    }
}
