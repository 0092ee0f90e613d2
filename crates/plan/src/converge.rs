//! Compares a wish with what is there, and says which write, if any, brings them together.

use serde_json::Value;

use crate::{Apply, Conflicts, Expect, FINGERPRINT, Fingerprinter, Manifest, Meta};

/// The label by which objects of ours are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The label's key.
    pub key: String,
    /// The value that we write.
    pub value: String,
    /// Further values that we accept as ours: those of the systems whose objects we carry on.
    pub also: Vec<String>,
}

impl Mark {
    /// A mark with one value.
    pub fn new(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
            also: Vec::new(),
        }
    }

    /// Accepts one more value as ours.
    #[must_use]
    pub fn also(mut self, value: &str) -> Self {
        self.also.push(value.to_owned());
        self
    }

    /// Whether a live object carries the mark.
    pub fn is_on(&self, live: &Meta) -> bool {
        live.labels
            .get(&self.key)
            .is_some_and(|v| *v == self.value || self.also.contains(v))
    }
}

/// Under which rules a wish may become a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// How our objects are known. The wish gets this label.
    pub mark: Mark,
    /// Take over an object that lacks the mark. Only when a person asked for it.
    pub adopt: bool,
    /// What to do when another manager owns a field of the wish.
    pub conflicts: Conflicts,
}

/// What a wish needs.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "made and used up one at a time, never kept"
)]
pub enum Convergence {
    /// Nothing: what is there is what we want.
    Settled,
    /// This write.
    Write(Apply),
    /// Nothing can be done: an object of that name belongs to somebody else.
    Foreign {
        /// Who says that it manages the object, where a label tells.
        holder: Option<String>,
    },
    /// Wait: the object is being deleted, and a write would be lost or would hold up the deletion.
    Terminating,
}

/// Compares a wish with the live object of its name.
///
/// The comparison needs no value of the live object. The fingerprint annotation tells whether the last apply was of the
/// same wish; the field set of our manager tells whether somebody has changed a field since.
pub fn converge(
    wish: Manifest,
    live: Option<&Meta>,
    ownership: &Ownership,
    fingerprinter: &Fingerprinter,
) -> Convergence {
    let wish = wish.label(&ownership.mark.key, &ownership.mark.value);
    let fingerprint = fingerprinter.of(&wish);
    let wish = wish.annotation(FINGERPRINT, &fingerprint);
    let Some(live) = live else {
        return Convergence::Write(Apply::create(wish));
    };
    if live.is_terminating() {
        return Convergence::Terminating;
    }
    let ours = ownership.mark.is_on(live);
    if !ours && !ownership.adopt {
        return Convergence::Foreign { holder: holder(live) };
    }
    let same = live.annotations.get(FINGERPRINT) == Some(&fingerprint);
    if ours && same && live.fields.covers(&wish.wish()) {
        return Convergence::Settled;
    }
    Convergence::Write(Apply {
        manifest: wish,
        expect: Expect::Seen {
            uid: live.uid.clone(),
            resource_version: live.resource_version.clone(),
        },
        conflicts: ownership.conflicts,
    })
}

/// Compares fields that we keep on an object of somebody else with the live object.
///
/// `current` is the live object, as far as the wish has fields. An item of a list counts as present if one item of the live list has all
/// its fields.
///
/// **Guarantees.** Nothing but the fields of the wish is written, and only to the object and the version that was seen. No mark and no
/// fingerprint is put on the object: it stays that of its author.
///
/// **Caveats.** A field that an earlier wish had and this one has not is given up with the next write; it stays until then.
pub fn converge_fields(wish: Manifest, live: &Meta, current: &Value) -> Convergence {
    if live.is_terminating() {
        return Convergence::Terminating;
    }
    if has_all(current, &wish.wish()) {
        return Convergence::Settled;
    }
    Convergence::Write(Apply {
        manifest: wish,
        expect: Expect::Seen {
            uid: live.uid.clone(),
            resource_version: live.resource_version.clone(),
        },
        conflicts: Conflicts::Force,
    })
}

fn has_all(current: &Value, wish: &Value) -> bool {
    match wish {
        Value::Object(fields) => fields
            .iter()
            .all(|(name, wish)| current.get(name).is_some_and(|current| has_all(current, wish))),
        Value::Array(items) => items.iter().all(|wish| {
            let current = current.as_array().into_iter().flatten();
            current.into_iter().any(|current| has_all(current, wish))
        }),
        wish => current == wish,
    }
}

fn holder(live: &Meta) -> Option<String> {
    live.labels
        .get("app.kubernetes.io/managed-by")
        .cloned()
        .or_else(|| {
            live.owners
                .iter()
                .find(|o| o.controller)
                .map(|o| format!("{} {}", o.kind, o.name))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::CONFIG_MAP;
    use crate::{Keep, Owner};

    fn ownership() -> Ownership {
        Ownership {
            mark: Mark::new("managed-by", "us").also("them-of-old"),
            adopt: false,
            conflicts: Conflicts::Report,
        }
    }

    fn wish(value: &str) -> Manifest {
        Manifest::new(CONFIG_MAP, Some("ns"), "n").with("data", json!({"k": value}))
    }

    fn fingerprinter() -> Fingerprinter {
        Fingerprinter::new(&[7; 32])
    }

    /// The live object as the API server would answer after the write.
    fn after(write: Convergence) -> Meta {
        let Convergence::Write(apply) = write else {
            panic!("expected a write, got {write:?}")
        };
        let mut body = apply.manifest.body();
        body["metadata"]["uid"] = "u1".into();
        body["metadata"]["resourceVersion"] = "7".into();
        body["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Apply", "fieldsV1": {
            "f:data": {"f:k": {}},
            "f:metadata": {"f:labels": {"f:managed-by": {}}, "f:annotations": {format!("f:{FINGERPRINT}"): {}}}
        }}]);
        Meta::decode(&body.to_string(), &Keep::owned_by("m")).unwrap()
    }

    #[test]
    fn creates_then_rests() {
        let live = after(converge(wish("a"), None, &ownership(), &fingerprinter()));
        assert_eq!(
            converge(wish("a"), Some(&live), &ownership(), &fingerprinter()),
            Convergence::Settled
        );
    }

    #[test]
    fn a_changed_wish_is_written_with_the_version_seen() {
        let live = after(converge(wish("a"), None, &ownership(), &fingerprinter()));
        let Convergence::Write(apply) = converge(wish("b"), Some(&live), &ownership(), &fingerprinter())
        else {
            panic!("expected a write")
        };
        assert_eq!(
            apply.expect,
            Expect::Seen {
                uid: "u1".into(),
                resource_version: "7".into()
            }
        );
    }

    #[test]
    fn a_field_that_somebody_took_is_written_again() {
        let mut live = after(converge(wish("a"), None, &ownership(), &fingerprinter()));
        live.fields =
            crate::FieldSet::from_fields_v1(&json!({"f:metadata": {"f:labels": {"f:managed-by": {}}}}));
        assert!(matches!(
            converge(wish("a"), Some(&live), &ownership(), &fingerprinter()),
            Convergence::Write(_)
        ));
    }

    #[test]
    fn a_foreign_object_is_left_alone_unless_adopted() {
        let mut live = after(converge(wish("a"), None, &ownership(), &fingerprinter()));
        live.labels = [("app.kubernetes.io/managed-by".to_owned(), "Helm".to_owned())].into();
        assert_eq!(
            converge(wish("a"), Some(&live), &ownership(), &fingerprinter()),
            Convergence::Foreign {
                holder: Some("Helm".into())
            }
        );
        let adopt = Ownership {
            adopt: true,
            ..ownership()
        };
        assert!(matches!(
            converge(wish("a"), Some(&live), &adopt, &fingerprinter()),
            Convergence::Write(_)
        ));
    }

    #[test]
    fn an_older_mark_is_ours_and_moves_to_the_new_value() {
        let mut live = after(converge(wish("a"), None, &ownership(), &fingerprinter()));
        live.labels.insert("managed-by".into(), "them-of-old".into());
        live.annotations.clear();
        let Convergence::Write(apply) = converge(wish("a"), Some(&live), &ownership(), &fingerprinter())
        else {
            panic!("expected a write")
        };
        assert_eq!(apply.manifest.body()["metadata"]["labels"]["managed-by"], "us");
    }

    #[test]
    fn fields_of_an_object_of_others_are_written_only_when_they_differ() {
        let live = after(converge(wish("a"), None, &ownership(), &fingerprinter()));
        let current = json!({"data": {"k": "a", "other": "x"}, "metadata": {"ownerReferences": [
            {"uid": "1", "name": "n", "controller": true}, {"uid": "2"},
        ]}});
        let owner = |controller| Owner {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: "n".into(),
            uid: "1".into(),
            controller,
            block_owner_deletion: false,
        };
        let mut current_owner = current.clone();
        current_owner["metadata"]["ownerReferences"][0] = owner(true).to_json();
        let settled = converge_fields(wish("a").owner(owner(true)), &live, &current_owner);
        assert_eq!(settled, Convergence::Settled);
        for wish in [wish("b"), wish("a").owner(owner(false))] {
            let Convergence::Write(apply) = converge_fields(wish, &live, &current_owner) else {
                panic!("expected a write")
            };
            assert_eq!(apply.conflicts, Conflicts::Force);
            let body = apply.manifest.body();
            assert!(body["metadata"]["labels"].is_null() && body["metadata"]["annotations"].is_null());
        }
    }

    #[test]
    fn a_terminating_object_is_not_written() {
        let mut live = after(converge(wish("a"), None, &ownership(), &fingerprinter()));
        live.deleted = Some("2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(
            converge(wish("b"), Some(&live), &ownership(), &fingerprinter()),
            Convergence::Terminating
        );
    }
}
