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

    /// Whether every field of the wish is in the set. An atomic list or map counts as one field, because only the server knows
    /// its schema; where it tells the items of a list apart by keys, each of them is looked at.
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
        if let Value::Array(items) = wish
            && !self.0.contains(path.as_str())
        {
            return self.covers_list(items, path);
        }
        self.has(path)
    }

    /// A list of which the server owns up to single items: by keys, such as `k:{"name":"agent"}`, or by values.
    fn covers_list(&self, items: &[Value], path: &mut String) -> bool {
        let segments: BTreeSet<&str> = self
            .below(path)
            .filter(|segment| segment.starts_with("k:") || segment.starts_with("v:"))
            .collect();
        if segments.is_empty() {
            return self.has(path);
        }
        items.iter().all(|item| {
            segments
                .iter()
                .filter(|segment| names(segment, item))
                .any(|segment| {
                    let length = path.len();
                    push(path, segment);
                    let covered = self.covers_at(item, path);
                    path.truncate(length);
                    covered
                })
        })
    }

    fn has(&self, path: &str) -> bool {
        self.0.contains(path) || self.below(path).next().is_some()
    }

    /// The next segments of all paths below one.
    fn below(&self, path: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{path}\u{0}");
        let start = (Bound::Included(prefix.clone().into_boxed_str()), Bound::Unbounded);
        self.0
            .range::<Box<str>, _>(start)
            .map_while(move |below| below.strip_prefix(prefix.as_str()))
            .map(|rest| rest.split('\u{0}').next().unwrap_or(rest))
    }
}

/// Whether a segment names an item of a list. A key that the wish leaves out has a default, which the server has put in.
fn names(segment: &str, item: &Value) -> bool {
    let (kind, name) = segment.split_at(2);
    match (kind, serde_json::from_str(name), item) {
        ("k:", Ok(Value::Object(keys)), Value::Object(fields)) => keys
            .iter()
            .all(|(key, value)| fields.get(key).is_none_or(|field| field == value)),
        ("v:", Ok(value), item) => value == *item,
        _ => false,
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

    #[test]
    fn an_item_of_a_list_is_looked_at_where_the_server_tells_items_apart() {
        let wish = json!({"spec": {
            "containers": [{"name": "a", "image": "i:1", "ports": [{"containerPort": 80}], "args": ["x"]}],
            "finalizers": ["f"],
        }});
        let container = |image: &str| {
            let mut fields = json!({
                ".": {}, "f:name": {}, "f:args": {},
                "f:ports": {r#"k:{"containerPort":80,"protocol":"TCP"}"#: {".": {}, "f:containerPort": {}}},
            });
            fields[image] = json!({});
            json!({r#"k:{"name":"a"}"#: fields})
        };
        let set = |containers: Value, finalizer: &str| {
            let tree = json!({"f:spec": {"f:containers": containers, "f:finalizers": {finalizer: {}}}});
            FieldSet::from_fields_v1(&tree)
        };
        let whole = r#"v:"f""#;
        assert!(set(container("f:image"), whole).covers(&wish));
        // Somebody else has set the image.
        assert!(!set(container("f:other"), whole).covers(&wish));
        // Somebody else has taken the item of a list of values.
        assert!(!set(container("f:image"), r#"v:"g""#).covers(&wish));
        // An item that is not there at all.
        let mut more = wish.clone();
        more["spec"]["containers"] = json!([{"name": "a"}, {"name": "b"}]);
        assert!(!set(container("f:image"), whole).covers(&more));
    }

    #[test]
    fn an_owner_is_one_field() {
        let tree = json!({"f:metadata": {"f:ownerReferences": {".": {}, r#"k:{"uid":"u"}"#: {}}}});
        let set = FieldSet::from_fields_v1(&tree);
        assert!(set.covers(&json!({"metadata": {"ownerReferences": [{"uid": "u", "name": "n"}]}})));
        assert!(!set.covers(&json!({"metadata": {"ownerReferences": [{"uid": "v", "name": "n"}]}})));
    }
}
