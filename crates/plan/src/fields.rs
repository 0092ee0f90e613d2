//! Which fields a manager owns, read from `metadata.managedFields`.

use std::{collections::BTreeSet, ops::Bound};

use serde_json::Value;

/// The leaf fields that one field manager owns on one object.
///
/// With server-side apply the API server records who owns which field, names only. So a change that somebody else made
/// to a field of ours shows without reading any value: the field leaves our set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeSet<Box<str>>);

impl FieldSet {
    /// Reads a `fieldsV1` tree.
    pub fn from_fields_v1(tree: &Value) -> Self {
        let mut leaves = BTreeSet::new();
        collect(tree, &mut String::new(), &mut leaves);
        Self(leaves)
    }

    /// Joins two sets: one manager may have several entries.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether every field of the wish is in the set. A list or an atomic map counts as one field, because only the
    /// server knows its schema.
    pub fn covers(&self, wish: &Value) -> bool {
        self.covers_at(wish, &mut String::new())
    }

    /// Whether there is nothing in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the field `name` of the map at `parent` is in the set, as a whole or in part.
    pub fn has_field(&self, parent: &[&str], name: &str) -> bool {
        let mut path = path_of(parent);
        push(&mut path, &format!("f:{name}"));
        self.has(&path)
    }

    /// The names of the fields of the map at `parent` that are in the set, in order.
    pub fn children(&self, parent: &[&str]) -> impl Iterator<Item = &str> {
        let mut prefix = path_of(parent);
        prefix.push_str("\u{0}f:");
        let below = self
            .0
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        let mut names: Vec<&str> = below
            .map_while(|path| path.strip_prefix(&prefix))
            .map(|rest| rest.split('\u{0}').next().unwrap_or(rest))
            .collect();
        names.dedup();
        names.into_iter()
    }

    fn covers_at(&self, wish: &Value, path: &mut String) -> bool {
        if let Value::Object(map) = wish
            && !map.is_empty()
            && !self.0.contains(path.as_str())
        {
            return map.iter().all(|(key, value)| {
                let length = path.len();
                push(path, &format!("f:{key}"));
                let covered = self.covers_at(value, path);
                path.truncate(length);
                covered
            });
        }
        self.has(path)
    }

    fn has(&self, path: &str) -> bool {
        self.0.contains(path) || {
            let below = format!("{path}\u{0}");
            self.0
                .range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded))
                .next()
                .is_some_and(|next| next.starts_with(&below))
        }
    }
}

fn path_of(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        push(&mut path, &format!("f:{segment}"));
    }
    path
}

// A NUL between the segments: it cannot stand in a key, and sorts before every other character.
fn push(path: &mut String, segment: &str) {
    if !path.is_empty() {
        path.push('\u{0}');
    }
    path.push_str(segment);
}

fn collect(tree: &Value, path: &mut String, leaves: &mut BTreeSet<Box<str>>) {
    let Value::Object(map) = tree else { return };
    if map.is_empty() {
        leaves.insert(path.as_str().into());
        return;
    }
    for (key, value) in map {
        let length = path.len();
        // "." says that the item itself is owned, whatever is in it.
        if key != "." {
            push(path, key);
            collect(value, path, leaves);
            path.truncate(length);
        }
    }
    if map.len() == 1 && map.contains_key(".") {
        leaves.insert(path.as_str().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set() -> FieldSet {
        FieldSet::from_fields_v1(&json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}},
            "f:data": {".": {}, "f:a": {}, "f:a.b": {}},
            "f:spec": {"f:selector": {}}
        }))
    }

    #[test]
    fn covers_maps_lists_and_atomic_maps() {
        assert!(set().covers(&json!({"data": {"a": "1"}, "metadata": {"labels": {"app": "x"}}})));
        assert!(set().covers(&json!({"metadata": {"ownerReferences": [{"uid": "1"}]}})));
        assert!(set().covers(&json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}})));
    }

    #[test]
    fn a_field_that_somebody_took_is_not_covered() {
        assert!(!set().covers(&json!({"data": {"a": "1", "c": "2"}})));
        assert!(!set().covers(&json!({"metadata": {"annotations": {"x": "y"}}})));
    }

    #[test]
    fn the_fields_of_a_map_are_told() {
        assert_eq!(set().children(&["data"]).collect::<Vec<_>>(), ["a", "a.b"]);
        assert_eq!(
            set().children(&["metadata"]).collect::<Vec<_>>(),
            ["labels", "ownerReferences"]
        );
        assert_eq!(set().children(&["da"]).count(), 0);
        assert!(set().has_field(&["metadata", "labels"], "app") && set().has_field(&["metadata"], "labels"));
        assert!(!set().has_field(&["metadata", "labels"], "ap") && !set().is_empty());
    }

    #[test]
    fn a_key_that_is_the_prefix_of_another_is_not_confused() {
        let set = FieldSet::from_fields_v1(&json!({"f:data": {"f:ab": {}}}));
        assert!(!set.covers(&json!({"data": {"a": "1"}})));
        assert!(set.covers(&json!({"data": {"ab": "1"}})));
    }
}
