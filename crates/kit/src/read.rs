//! Reads of one live object that can hold a value, such as a Secret.
//!
//! kube's typed calls log an answer that they cannot parse, with everything in it, and take a list for an object whose fields
//! all have a default. [`read_object`] is the only way to read a Secret or a ConfigMap in Trustplane; `cargo xtask lint` refuses
//! the typed one.
//!
//! **Guarantees**
//! - A name that no object can have is refused before any call; what is sent is escaped by [`trustplane_plan::path_part`].
//! - The answer is bounded, and counts only if it is an object of this kind with this name. Anything else is
//!   [`WriteError::WrongAnswer`], also if it would fit the type.
//! - Nothing of an answer gets into a log or an error.
//!
//! It is not for objects that are looked at all the time: those are watched ([`crate::watch`]).

use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use trustplane_plan::{Kind, ObjectRef, Target};

use crate::apply::{Attempt, Call, JSON, WriteError, is_absent, judge, path};

/// Reads some fields of a live object, not from a cache; `None` if there is no such object.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> Result<(), trustplane_kit::apply::WriteError> {
/// use std::collections::BTreeMap;
///
/// use k8s_openapi::ByteString;
/// use trustplane_kit::read::read_object;
/// use trustplane_plan::{ObjectRef, kinds::SECRET};
///
/// /// The fields that are needed, and no others.
/// #[derive(serde::Deserialize)]
/// struct Content {
///     #[serde(default)]
///     data: BTreeMap<String, ByteString>,
/// }
///
/// let found: Option<Content> = read_object(&client, &SECRET, &ObjectRef::new(Some("shop"), "db")).await?;
/// println!("{} keys", found.map_or(0, |found| found.data.len()));
/// # Ok(())
/// # }
/// ```
pub async fn read_object<T: DeserializeOwned>(
    client: &Client,
    kind: &Kind,
    object: &ObjectRef,
) -> Result<Option<T>, WriteError> {
    let target = Target {
        kind: kind.clone(),
        object: object.clone(),
    };
    let attempt = Attempt::new("read", &target);
    let answer = Call::get(path(&attempt)?, JSON).send(client).await;
    if answer.as_ref().is_ok_and(|answer| is_absent(&attempt, answer)) {
        return Ok(None);
    }
    let text = judge(&attempt, answer)?;
    decode(&text, &target)
        .map(Some)
        .ok_or(WriteError::WrongAnswer(attempt))
}

/// What an object says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: String,
    kind: String,
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
    namespace: Option<String>,
}

/// The fields of the object, if the text is that object. The words of the parser are dropped: they quote what they dislike.
fn decode<T: DeserializeOwned>(text: &str, target: &Target) -> Option<T> {
    let head: Head = serde_json::from_str(text).ok()?;
    let object = ObjectRef::new(head.metadata.namespace.as_deref(), &head.metadata.name);
    let is_it = head.kind == target.kind.kind
        && head.api_version == target.kind.api_version()
        && object == target.object;
    if !is_it {
        return None;
    }
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trustplane_plan::kinds::SECRET;

    use super::*;

    /// Takes anything: every field has a default.
    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Lenient {
        #[serde(default)]
        data: std::collections::BTreeMap<String, String>,
    }

    fn read(text: &str) -> Option<usize> {
        let target = Target {
            kind: SECRET,
            object: ObjectRef::new(Some("shop"), "db"),
        };
        decode::<Lenient>(text, &target).map(|found| found.data.len())
    }

    fn secret(change: impl FnOnce(&mut Value)) -> String {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop"}, "data": {"k": "v"},
        });
        change(&mut secret);
        secret.to_string()
    }

    #[test]
    fn an_answer_counts_only_as_the_object_that_was_asked_for() {
        assert_eq!(read(&secret(|_| {})), Some(1));
        let list = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {}, "items": []}).to_string();
        for other in [
            list,
            secret(|secret| secret["kind"] = "ConfigMap".into()),
            secret(|secret| secret["apiVersion"] = "v2".into()),
            secret(|secret| secret["metadata"]["name"] = "db2".into()),
            secret(|secret| secret["metadata"]["namespace"] = "other".into()),
            secret(|secret| secret["metadata"] = json!({})),
            secret(|secret| secret["data"] = 1.into()),
            secret(|_| {})[..60].to_owned(),
            "{}".to_owned(),
            String::new(),
        ] {
            assert_eq!(read(&other), None, "{other}");
        }
    }
}
