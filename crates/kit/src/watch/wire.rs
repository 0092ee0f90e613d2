//! The texts of the list and watch protocol.

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;
use trustplane_plan::ObjectRef;

use super::{
    Payload,
    failure::{Failure, Reason},
};

/// What happened, in the server's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }
}

/// A line of a watch, its object still text.
#[derive(Debug)]
pub(super) enum Event<'a> {
    Object(EventKind, &'a str),
    Bookmark { version: Arc<str>, initial_end: bool },
    Error(Failure),
}

impl<'a> Event<'a> {
    pub(super) fn parse(line: &'a [u8], payload: Payload) -> Result<Self, Failure> {
        let malformed = |_| Failure::new(Reason::Malformed, "a line of the watch is not an event");
        let line: Line<'a> = serde_json::from_slice(line).map_err(malformed)?;
        let mut object = line.object.get();
        if payload == Payload::Table && line.kind != "ERROR" {
            object = only_row(object);
        }
        Ok(match line.kind {
            "ADDED" => Self::Object(EventKind::Added, object),
            "MODIFIED" => Self::Object(EventKind::Modified, object),
            "DELETED" => Self::Object(EventKind::Deleted, object),
            "ERROR" => Self::Error(Failure::from_event(object)),
            "BOOKMARK" => {
                let told: serde_json::Result<BookmarkMeta> = metadata(object, payload);
                // A table without a row still tells the version.
                let metadata = told
                    .or_else(|_| metadata(object, Payload::Full))
                    .map_err(malformed)?;
                Self::Bookmark {
                    version: metadata.resource_version.into(),
                    initial_end: metadata
                        .annotations
                        .is_some_and(|a| a.initial_end.as_deref() == Some("true")),
                }
            }
            _ => return Err(Failure::new(Reason::Malformed, "an event of an unknown type")),
        })
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// An object, or what a row shows of it.
#[derive(Deserialize)]
struct Envelope<M> {
    metadata: M,
}

/// A row of a table.
#[derive(Deserialize)]
struct Row<M> {
    object: Envelope<M>,
}

/// Reads the metadata of an object, or of the object of a row.
fn metadata<'a, M: Deserialize<'a>>(json: &'a str, payload: Payload) -> serde_json::Result<M> {
    let envelope = match payload {
        Payload::Table => serde_json::from_str::<Row<M>>(json)?.object,
        Payload::Full | Payload::Metadata => serde_json::from_str(json)?,
    };
    Ok(envelope.metadata)
}

/// The row of a table that shows one object. A table of another shape is left as it is: it has no name, and is counted as nameless.
fn only_row(table: &str) -> &str {
    #[derive(Deserialize)]
    struct Table<'a> {
        #[serde(borrow)]
        rows: [&'a RawValue; 1],
    }
    serde_json::from_str::<Table<'_>>(table).map_or(table, |table| table.rows[0].get())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: Option<BookmarkAnnotations>,
}

/// One annotation marks the bookmark that ends a streaming list.
#[derive(Deserialize)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_end: Option<String>,
}

/// A page of a list, its objects still text.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) version: Arc<str>,
    pub(super) next: Option<Arc<str>>,
    pub(super) items: Vec<&'a RawValue>,
}

impl<'a> Page<'a> {
    pub(super) fn parse(body: &'a [u8], payload: Payload) -> Result<Self, Failure> {
        let malformed = |_| Failure::new(Reason::Malformed, "the answer is not a list");
        let list: List<'a> = serde_json::from_slice(body).map_err(malformed)?;
        Ok(Self {
            version: list.metadata.resource_version.into(),
            next: list
                .metadata
                .token
                .filter(|token| !token.is_empty())
                .map(Arc::from),
            items: match payload {
                Payload::Table => list.rows.unwrap_or_default(),
                Payload::Full | Payload::Metadata => list.items.unwrap_or_default(),
            },
        })
    }
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
    /// The items of a table.
    #[serde(borrow)]
    rows: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// Who an object is, where nothing else of it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) object: ObjectRef,
    pub(super) uid: Arc<str>,
    pub(super) version: Arc<str>,
}

impl Identity {
    pub(super) fn parse(json: &str, payload: Payload) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw<'a> {
            // Names of roles and bindings may hold characters that the API server escapes, such as `&`.
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow)]
            namespace: Option<Cow<'a, str>>,
            #[serde(default, borrow)]
            uid: Cow<'a, str>,
            #[serde(default, borrow)]
            resource_version: Cow<'a, str>,
        }
        let metadata: Raw<'_> = metadata(json, payload).ok()?;
        Some(Self {
            object: ObjectRef::new(metadata.namespace.as_deref(), &metadata.name),
            uid: metadata.uid.into(),
            version: metadata.resource_version.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_needs_no_name_and_may_end_the_list() {
        let line = br#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9","creationTimestamp":null,
            "annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let Event::Bookmark { version, initial_end } = Event::parse(line, Payload::Full).unwrap() else {
            panic!("not a bookmark")
        };
        assert_eq!((&*version, initial_end), ("9", true));
    }

    #[test]
    fn an_error_event_is_a_failure_and_nonsense_is_malformed() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
        assert!(
            matches!(Event::parse(line, Payload::Full).unwrap(), Event::Error(f) if f.reason == Reason::Expired)
        );
        for line in [
            "{",
            r#"{"type":"WHAT","object":{}}"#,
            r#"{"type":"BOOKMARK","object":{}}"#,
        ] {
            assert_eq!(
                Event::parse(line.as_bytes(), Payload::Full).unwrap_err().reason,
                Reason::Malformed,
                "{line}"
            );
        }
    }

    #[test]
    fn identity_reads_a_name_that_the_server_escapes() {
        let json = r#"{"metadata":{"name":"dev \u0026 \"ops\"","uid":"u","resourceVersion":"7"}}"#;
        let identity = Identity::parse(json, Payload::Full).unwrap();
        assert_eq!(identity.object.name(), "dev & \"ops\"");
        assert_eq!((&*identity.uid, &*identity.version), ("u", "7"));
        let row = format!(r#"{{"cells":[],"object":{json}}}"#);
        assert_eq!(Identity::parse(&row, Payload::Table), Some(identity));
    }

    #[test]
    fn the_last_page_has_no_token() {
        let page = Page::parse(
            br#"{"metadata":{"resourceVersion":"5","continue":""},"items":[{"a":1},{"b":2}]}"#,
            Payload::Full,
        )
        .unwrap();
        assert_eq!((page.next, page.items.len()), (None, 2));
        let page = Page::parse(
            br#"{"metadata":{"resourceVersion":"5","continue":"t"},"items":null}"#,
            Payload::Full,
        )
        .unwrap();
        assert_eq!((page.next.as_deref(), page.items.len()), (Some("t"), 0));
    }

    const ROW: &str = r#"{"cells":["s1","Opaque",1,"3s"],"object":{"kind":"PartialObjectMetadata","metadata":
        {"name":"s1","namespace":"shop","uid":"u","resourceVersion":"7"}}}"#;

    /// An event as a server sends it that was asked for tables.
    fn table(kind: &str, rows: &str) -> String {
        format!(
            r#"{{"type":"{kind}","object":{{"kind":"Table","metadata":{{"resourceVersion":"7"}},"columnDefinitions":null,"rows":{rows}}}}}"#
        )
    }

    #[test]
    fn an_event_with_a_table_is_its_row() {
        let line = table("MODIFIED", &format!("[{ROW}]"));
        let Event::Object(EventKind::Modified, row) = Event::parse(line.as_bytes(), Payload::Table).unwrap()
        else {
            panic!("not an event of an object")
        };
        assert_eq!(row, ROW);
        let identity = Identity::parse(row, Payload::Table).unwrap();
        assert_eq!(identity.object, ObjectRef::new(Some("shop"), "s1"));
        assert_eq!((&*identity.uid, &*identity.version), ("u", "7"));
    }

    #[test]
    fn a_table_without_one_row_names_no_object() {
        for rows in ["[]", "null", &format!("[{ROW},{ROW}]")] {
            let line = table("ADDED", rows);
            let Event::Object(_, row) = Event::parse(line.as_bytes(), Payload::Table).unwrap() else {
                panic!("not an event of an object")
            };
            assert_eq!(Identity::parse(row, Payload::Table), None, "{rows}");
        }
    }

    #[test]
    fn a_whole_object_is_not_taken_for_a_row() {
        let line = br#"{"type":"ADDED","object":{"metadata":{"name":"s1"},"data":{"p":"aHVudGVyMg=="}}}"#;
        let Event::Object(_, row) = Event::parse(line, Payload::Table).unwrap() else {
            panic!("not an event of an object")
        };
        assert_eq!(Identity::parse(row, Payload::Table), None);
    }

    #[test]
    fn a_bookmark_with_a_table_tells_the_version_and_the_end_of_the_list() {
        let told = |rows: &str| {
            let line = table("BOOKMARK", rows);
            match Event::parse(line.as_bytes(), Payload::Table).unwrap() {
                Event::Bookmark { version, initial_end } => (version.to_string(), initial_end),
                _ => panic!("not a bookmark"),
            }
        };
        let row = |metadata: &str| format!(r#"[{{"cells":["",0],"object":{{"metadata":{metadata}}}}}]"#);
        let end = r#"{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}"#;
        assert_eq!(told(&row(end)), ("9".to_owned(), true));
        assert_eq!(told(&row(r#"{"resourceVersion":"9"}"#)), ("9".to_owned(), false));
        assert_eq!(told("[]"), ("7".to_owned(), false));
    }

    #[test]
    fn an_error_event_is_read_whatever_was_asked_for() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
        let event = Event::parse(line, Payload::Table).unwrap();
        assert!(matches!(event, Event::Error(failure) if failure.reason == Reason::Expired));
    }

    #[test]
    fn a_page_with_a_table_has_its_rows() {
        let body = format!(
            r#"{{"kind":"Table","metadata":{{"resourceVersion":"5","continue":"t"}},"columnDefinitions":[],"rows":[{ROW}]}}"#
        );
        let page = Page::parse(body.as_bytes(), Payload::Table).unwrap();
        assert_eq!((&*page.version, page.next.as_deref()), ("5", Some("t")));
        assert_eq!(page.items.iter().map(|row| row.get()).collect::<Vec<_>>(), [ROW]);
    }
}
