//! The texts of the list and watch protocol.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use trustplane_plan::ObjectRef;

use super::failure::{Failure, Reason};

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
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Failure> {
        let malformed = |_| Failure::new(Reason::Malformed, "a line of the watch is not an event");
        let line: Line<'a> = serde_json::from_slice(line).map_err(malformed)?;
        let object = line.object.get();
        Ok(match line.kind {
            "ADDED" => Self::Object(EventKind::Added, object),
            "MODIFIED" => Self::Object(EventKind::Modified, object),
            "DELETED" => Self::Object(EventKind::Deleted, object),
            "ERROR" => Self::Error(Failure::from_event(object)),
            "BOOKMARK" => {
                let Bookmark { metadata } = serde_json::from_str(object).map_err(malformed)?;
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

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
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
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Failure> {
        let malformed = |_| Failure::new(Reason::Malformed, "the answer is not a list");
        let list: List<'a> = serde_json::from_slice(body).map_err(malformed)?;
        Ok(Self {
            version: list.metadata.resource_version.into(),
            next: list
                .metadata
                .token
                .filter(|token| !token.is_empty())
                .map(Arc::from),
            items: list.items.unwrap_or_default(),
        })
    }
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
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
    pub(super) fn parse(json: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            metadata: Raw<'a>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw<'a> {
            name: &'a str,
            namespace: Option<&'a str>,
            #[serde(default)]
            uid: &'a str,
            #[serde(default)]
            resource_version: &'a str,
        }
        let Envelope { metadata } = serde_json::from_str(json).ok()?;
        Some(Self {
            object: ObjectRef::new(metadata.namespace, metadata.name),
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
        let Event::Bookmark { version, initial_end } = Event::parse(line).unwrap() else {
            panic!("not a bookmark")
        };
        assert_eq!((&*version, initial_end), ("9", true));
    }

    #[test]
    fn an_error_event_is_a_failure_and_nonsense_is_malformed() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
        assert!(matches!(Event::parse(line).unwrap(), Event::Error(f) if f.reason == Reason::Expired));
        for line in [
            "{",
            r#"{"type":"WHAT","object":{}}"#,
            r#"{"type":"BOOKMARK","object":{}}"#,
        ] {
            assert_eq!(
                Event::parse(line.as_bytes()).unwrap_err().reason,
                Reason::Malformed,
                "{line}"
            );
        }
    }

    #[test]
    fn the_last_page_has_no_token() {
        let page =
            Page::parse(br#"{"metadata":{"resourceVersion":"5","continue":""},"items":[{"a":1},{"b":2}]}"#)
                .unwrap();
        assert_eq!((page.next, page.items.len()), (None, 2));
        let page =
            Page::parse(br#"{"metadata":{"resourceVersion":"5","continue":"t"},"items":null}"#).unwrap();
        assert_eq!((page.next.as_deref(), page.items.len()), (Some("t"), 0));
    }
}
