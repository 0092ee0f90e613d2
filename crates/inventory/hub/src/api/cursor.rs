//! Cursors: where a page of a list begins, as a text that clients only hand back.
//!
//! A cursor names the last row of a page, not its number: rows that come and go in the meantime make no row appear twice or not at all. It
//! belongs to one query; with another one it is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::secret::Hash;
use crate::store::objects::{Filter, Position, Sort, SortKey};

/// The longest cursor, in bytes.
const MAX: usize = 2 * 1024;

#[derive(Serialize, Deserialize)]
struct Cursor {
    #[serde(rename = "q")]
    query: String,
    #[serde(rename = "p")]
    position: Position,
}

/// Which query a cursor belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query(String);

impl Query {
    /// A query by all that decides about its rows and their order.
    pub fn new(filter: &Filter, sort: Sort, descending: bool) -> Self {
        let text = format!("{filter:?} {sort:?} {descending}");
        let hash = Hash::of(text.as_bytes()).as_bytes();
        Self(URL_SAFE_NO_PAD.encode(hash.get(..9).unwrap_or_default()))
    }

    /// The cursor of the page after this row.
    pub fn cursor(&self, position: Position) -> String {
        let cursor = Cursor {
            query: self.0.clone(),
            position,
        };
        // Texts and numbers always serialise.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
    }

    /// Where the page of a cursor begins.
    pub fn read(&self, cursor: &str, sort: Sort) -> Result<Position, ApiError> {
        let invalid =
            || ApiError::bad_parameter("cursor", "must be the `next` of an answer to the same query");
        let bytes = Some(cursor).filter(|cursor| cursor.len() <= MAX);
        let bytes = bytes.and_then(|cursor| URL_SAFE_NO_PAD.decode(cursor).ok());
        let cursor: Option<Cursor> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let cursor = cursor
            .filter(|cursor| cursor.query == self.0)
            .ok_or_else(invalid)?;
        let fits = matches!(
            (sort, &cursor.position.key),
            (Sort::Name, SortKey::Text(_))
                | (Sort::Changed | Sort::Created | Sort::Occurred, SortKey::Time(_))
        );
        if fits { Ok(cursor.position) } else { Err(invalid()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(kind: &str) -> Query {
        let filter = Filter {
            kind: Some(kind.to_owned()),
            ..Filter::default()
        };
        Query::new(&filter, Sort::Name, false)
    }

    fn position(name: &str) -> Position {
        Position {
            key: SortKey::Text(name.to_owned()),
            cluster: 3,
            uid: "u".to_owned(),
        }
    }

    #[test]
    fn a_cursor_belongs_to_its_query() {
        let cursor = query("Pod").cursor(position("a"));
        assert_eq!(query("Pod").read(&cursor, Sort::Name).unwrap(), position("a"));
        assert!(query("Node").read(&cursor, Sort::Name).is_err());
        assert!(query("Pod").read(&cursor, Sort::Changed).is_err());
        assert!(query("Pod").read("", Sort::Name).is_err());
    }

    proptest! {
        #[test]
        fn any_name_survives_a_cursor(name in ".{0,80}") {
            let cursor = query("Pod").cursor(position(&name));
            prop_assert_eq!(query("Pod").read(&cursor, Sort::Name).unwrap(), position(&name));
        }

        #[test]
        fn no_text_makes_a_cursor_panic(text in ".{0,200}") {
            prop_assert!(query("Pod").read(&text, Sort::Name).is_err());
        }
    }
}
