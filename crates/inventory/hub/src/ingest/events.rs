//! Single changes.

use serde_json::Value;
use trustplane_api::inventory::wire::EventType;

use super::{Acknowledged, cluster_uid};
use crate::agent::AgentError;
use crate::app::App;
use crate::record::{self, MAX_DEPTH, ObjectIdentity, Reason, Record, Rejection};
use crate::store::apply::{Applied, apply};
use crate::store::contact::{ClusterReport, Pin, record_contact};
use crate::store::identity::Agent;
use crate::store::merge::{Deletion, Op};
use crate::store::writer::WriteTransaction;

/// The longest word for what happened.
const MAX_TYPE: usize = 32;

/// Takes one change.
pub async fn take(app: &App, agent: &Agent, body: &[u8]) -> Result<Acknowledged, AgentError> {
    let (uid, op) = read(body)?;
    let cluster = agent.cluster;
    let applied = app
        .writer
        .run(move |transaction: &mut WriteTransaction| {
            Box::pin(async move {
                match record_contact(transaction, cluster, &uid, &ClusterReport::default()).await? {
                    Pin::Other => Ok(None),
                    Pin::Same => Ok(Some(apply(transaction, cluster, vec![op]).await?)),
                }
            })
        })
        .await?;
    let Applied { changed, ignored } = applied.ok_or(AgentError::OtherCluster)?;
    app.metrics.ignored(ignored);
    Ok(Acknowledged::new(1, changed))
}

/// Reads the uid of the cluster and the change.
fn read(body: &[u8]) -> Result<(String, Op), Rejection> {
    let mut payload = parse(body)?;
    let cluster = cluster_uid(&payload)?;
    let word = record::required(&payload, "type", MAX_TYPE)?;
    let type_ = EventType::read(&word)
        .ok_or_else(|| Rejection::new("type", "must be added, modified or deleted", Reason::Malformed))?;
    let kind = record::required(&payload, "kind", record::MAX_KIND)?;
    let identity = ObjectIdentity::read(&kind, &payload)?;
    if type_ == EventType::Deleted {
        let ObjectIdentity {
            kind,
            uid,
            namespace,
            name,
        } = identity;
        let gone = Deletion {
            uid,
            kind,
            namespace,
            name,
        };
        return Ok((cluster, Op::Delete(gone)));
    }
    let object = payload.get_mut("object").map(Value::take).unwrap_or_default();
    if object.is_null() {
        return Err(Rejection::new(
            "object",
            "required unless type is deleted",
            Reason::Missing,
        ));
    }
    let inner = record::optional(&object, "uid", record::MAX_UID).map_err(|fault| fault.within("object"))?;
    if inner.is_some_and(|inner| inner != identity.uid) {
        return Err(Rejection::new("object.uid", "must equal uid", Reason::Malformed));
    }
    Ok((cluster, Op::Upsert(Record::read(identity, object)?)))
}

/// Reads JSON that must be an object and not too deep.
pub(super) fn parse(body: &[u8]) -> Result<Value, Rejection> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|_| Rejection::new("body", "is not valid JSON", Reason::Malformed))?;
    if !value.is_object() {
        return Err(Rejection::new("body", "must be a JSON object", Reason::Malformed));
    }
    if depth(&value) > MAX_DEPTH {
        let rule = format!("must be nested at most {MAX_DEPTH} deep");
        return Err(Rejection::new("body", rule, Reason::Limit));
    }
    Ok(value)
}

/// How deep a value is nested. `serde_json` reads nothing that is deeper than 128.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> Value {
        json!({"cluster_uid": "c", "type": "added", "kind": "Pod", "uid": "u", "name": "n", "namespace": "ns",
            "object": {"uid": "u", "name": "n", "phase": "Running"}})
    }

    fn with(key: &str, value: Value) -> Value {
        let mut event = event();
        event[key] = value;
        event
    }

    fn told(event: &Value) -> String {
        read(event.to_string().as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn both_generations_of_the_original_are_read() {
        for word in ["added", "ADDED", "modified", "UPDATED"] {
            let (cluster, op) = read(with("type", json!(word)).to_string().as_bytes()).unwrap();
            assert_eq!(cluster, "c");
            assert!(matches!(op, Op::Upsert(record) if record.name == "n"), "{word}");
        }
        let deleted = json!({"cluster_uid": "c", "type": "DELETED", "kind": "Node", "uid": "u", "name": "n"});
        let (_, op) = read(deleted.to_string().as_bytes()).unwrap();
        assert!(matches!(op, Op::Delete(gone) if gone.namespace.is_empty()));
    }

    #[test]
    fn faults_are_told_with_field_and_rule() {
        assert_eq!(told(&json!([])), "body: must be a JSON object");
        assert_eq!(told(&with("cluster_uid", json!(null))), "cluster_uid: required");
        assert_eq!(
            told(&with("type", json!("renamed"))),
            "type: must be added, modified or deleted"
        );
        assert_eq!(told(&with("kind", json!(""))), "kind: required");
        assert_eq!(told(&with("uid", json!(1))), "uid: must be a text");
        assert_eq!(
            told(&with("object", json!(null))),
            "object: required unless type is deleted"
        );
        assert_eq!(told(&with("object", json!([]))), "object: must be a JSON object");
        assert_eq!(
            told(&with("object", json!({"uid": "other"}))),
            "object.uid: must equal uid"
        );
        let mut deep = json!(1);
        for _ in 0..MAX_DEPTH {
            deep = json!([deep]);
        }
        assert_eq!(
            told(&with("object", json!({"deep": deep}))),
            "body: must be nested at most 64 deep"
        );
        assert_eq!(read(b"{").unwrap_err().to_string(), "body: is not valid JSON");
    }
}
