//! Takes over the fields of a system whose objects we carry on.
//!
//! A system that wrote with plain updates holds its fields under another manager, and what it holds stays when we leave it
//! out of an apply. So before our first apply its fields become ours, in the bookkeeping alone: no content changes.

use http::Method;
use serde_json::{Map, Value, json};
use trustplane_plan::{Kind, Meta};

use super::call::{Call, MERGE_PATCH};
use super::error::{Attempt, WriteError};
use super::written::note_update;
use super::{Writer, path};

impl Writer {
    /// Replaces the bookkeeping of who holds which field, if the object is still this version of itself.
    pub async fn set_managed_fields(
        &self,
        kind: &Kind,
        live: &Meta,
        entries: &[Value],
    ) -> Result<(), WriteError> {
        let target = live.target(kind);
        let attempt = Attempt::new("take over the fields of", &target);
        let body = json!({ "metadata": {
            "uid": live.uid.as_ref(), "resourceVersion": live.resource_version.as_ref(), "managedFields": entries,
        } });
        let path = format!("{}?fieldManager={}", path(&attempt)?, self.manager);
        let call = Call::write(Method::PATCH, path, MERGE_PATCH, &body);
        let text = self.write(&attempt, call).await?;
        note_update(&target, &text);
        Ok(())
    }

    /// The `managedFields` in which our field manager alone owns everything below the top-level field `field`; `None` if no other
    /// field manager owns any of it. The next apply then removes what it leaves out below `field`, also what other field managers
    /// added.
    pub fn absorbed_fields(&self, entries: &[Value], field: &str) -> Option<Vec<Value>> {
        absorbed(entries, self.manager, field)
    }

    /// The bookkeeping in which the fields of whoever updated the field at `marker` are ours; `None` if nobody did.
    pub fn inherited_fields(&self, entries: &[Value], marker: &[&str]) -> Option<Vec<Value>> {
        inherited(entries, self.manager, marker)
    }
}

fn inherited(entries: &[Value], manager: &str, marker: &[&str]) -> Option<Vec<Value>> {
    let is_theirs = |entry: &&Value| {
        let whole = entry["subresource"].as_str().unwrap_or_default().is_empty();
        let pointer: String = marker
            .iter()
            .map(|step| format!("/f:{}", step.replace('~', "~0").replace('/', "~1")))
            .collect();
        entry["operation"] == "Update" && whole && entry["fieldsV1"].pointer(&pointer).is_some()
    };
    let is_ours = |entry: &&Value| entry["operation"] == "Apply" && entry["manager"] == manager;
    let first = entries.iter().find(is_theirs)?;
    let mut ours = first.clone();
    ours["manager"] = manager.into();
    ours["operation"] = "Apply".into();
    let mut fields = Map::new();
    for entry in entries.iter().filter(|entry| is_theirs(entry) || is_ours(entry)) {
        if let Some(more) = entry["fieldsV1"].as_object() {
            unite(&mut fields, more);
        }
    }
    ours["fieldsV1"] = Value::Object(fields);
    let others = entries
        .iter()
        .filter(|entry| !is_theirs(entry) && !is_ours(entry));
    Some(others.cloned().chain([ours]).collect())
}

fn absorbed(entries: &[Value], manager: &str, field: &str) -> Option<Vec<Value>> {
    let field = format!("f:{field}");
    let is_ours = |entry: &Value| entry["operation"] == "Apply" && entry["manager"] == manager;
    let whole = |entry: &Value| entry["subresource"].as_str().unwrap_or_default().is_empty();
    let (mut taken, mut first, mut kept) = (Map::new(), None, Vec::new());
    let mut ours = None;
    for entry in entries {
        let mut entry = entry.clone();
        if is_ours(&entry) && whole(&entry) {
            ours = Some(entry);
            continue;
        }
        let fields = entry["fieldsV1"].as_object_mut();
        if let Some(Value::Object(more)) = fields.and_then(|fields| fields.remove(&field)) {
            unite(&mut taken, &more);
            first.get_or_insert_with(|| entry.clone());
        }
        if entry["fieldsV1"]
            .as_object()
            .is_some_and(|fields| !fields.is_empty())
        {
            kept.push(entry);
        }
    }
    let mut ours = ours.or_else(|| {
        let mut made = first.clone()?;
        made["manager"] = manager.into();
        made["operation"] = "Apply".into();
        made["fieldsV1"] = json!({});
        Some(made)
    });
    first?;
    if let Some(fields) = ours.as_mut().and_then(|ours| ours["fieldsV1"].as_object_mut()) {
        let mut all = Map::new();
        all.insert(field, Value::Object(taken));
        unite(fields, &all);
    }
    Some(kept.into_iter().chain(ours).collect())
}

fn unite(all: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        let known = all.entry(key.clone()).or_insert_with(|| json!({}));
        if let (Some(known), Some(value)) = (known.as_object_mut(), value.as_object()) {
            unite(known, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields })
    }

    #[test]
    fn the_fields_of_the_other_become_ours_and_no_others() {
        let marker = ["metadata", "annotations", "a.io/b"];
        let theirs =
            json!({ "f:metadata": { "f:annotations": { "f:a.io/b": {} } }, "f:data": { "f:x": {} } });
        let entries = [
            entry("old", "Update", theirs),
            entry("us", "Apply", json!({ "f:data": { "f:y": {} } })),
            entry("kubectl-edit", "Update", json!({ "f:data": { "f:z": {} } })),
        ];
        let all = inherited(&entries, "us", &marker).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], entries[2]);
        let fields = json!({ "f:metadata": { "f:annotations": { "f:a.io/b": {} } }, "f:data": { "f:x": {}, "f:y": {} } });
        assert_eq!(all[1], entry("us", "Apply", fields));
        assert_eq!(inherited(&entries[1..], "us", &marker), None);
    }

    #[test]
    fn absorbed_field_is_ours_alone_and_the_rest_stays() {
        let theirs = json!({ "f:metadata": { "f:labels": { "f:team": {} } }, "f:data": { "f:extra": {} } });
        let entries = [
            entry("kubectl-edit", "Update", theirs),
            entry(
                "us",
                "Apply",
                json!({ "f:data": { "f:password": {} }, "f:type": {} }),
            ),
            entry("kubectl-patch", "Update", json!({ "f:data": { "f:more": {} } })),
        ];
        let all = absorbed(&entries, "us", "data").unwrap();
        let labels = json!({ "f:metadata": { "f:labels": { "f:team": {} } } });
        let data = json!({ "f:data": { "f:extra": {}, "f:more": {}, "f:password": {} }, "f:type": {} });
        assert_eq!(
            all,
            [
                entry("kubectl-edit", "Update", labels),
                entry("us", "Apply", data)
            ]
        );
        assert_eq!(absorbed(&all, "us", "data"), None, "nobody else has any");
        let without_us = [entry(
            "kubectl-create",
            "Update",
            json!({ "f:data": { "f:x": {} } }),
        )];
        let made = absorbed(&without_us, "us", "data").unwrap();
        assert_eq!(made, [entry("us", "Apply", json!({ "f:data": { "f:x": {} } }))]);
    }
}
