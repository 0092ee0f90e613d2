//! What an operand should have of us: inherited values, their record, and its owner.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trustplane_api::identity::OperandKind;
use trustplane_api::identity::ZTWIM;
use trustplane_api::identity::names::{INHERITED, SINGLETON};
use trustplane_plan::{Manifest, Owner};

use super::{Effective, Field, OperandView, Source, Stance, Unresolved, Values};

/// What an operand should have of us, as a whole: also what it has already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follow {
    /// The operand.
    pub kind: OperandKind,
    /// The inherited values, which are also the record.
    pub values: Values,
    /// Whether the record is to be written although it is empty, because there is one.
    pub has_record: bool,
    /// The uid of ZTWIM.
    pub owner: String,
}

impl Follow {
    /// The record, as it stands in the annotation; `None` where there is none and none is needed.
    pub fn record(&self) -> Option<String> {
        let values: BTreeMap<_, _> = self
            .values
            .iter()
            .map(|(field, value)| (field.name(), value))
            .collect();
        (self.has_record || !values.is_empty()).then(|| json!(values).to_string())
    }

    /// The fields, as the wish of one server-side apply.
    ///
    /// **Guarantees.** It has every inherited value, not only those that change: a field that is left out of an apply is given up.
    pub fn manifest(&self) -> Manifest {
        self.values_alone().owner(owner_reference(&self.owner))
    }

    /// The same without the owner reference.
    pub fn values_alone(&self) -> Manifest {
        let mut manifest = Manifest::new(self.kind.kind().clone(), None, SINGLETON);
        if let Some(record) = self.record() {
            manifest = manifest.annotation(INHERITED, &record);
        }
        if self.values.is_empty() {
            return manifest;
        }
        let spec = self
            .values
            .iter()
            .map(|(field, value)| (field.name().to_owned(), json!(value)));
        manifest.with("spec", Value::Object(spec.collect()))
    }
}

/// The reference to ZTWIM that every operand has.
pub fn owner_reference(uid: &str) -> Owner {
    Owner {
        api_version: ZTWIM.api_version(),
        kind: ZTWIM.kind.to_string(),
        name: SINGLETON.to_owned(),
        uid: uid.to_owned(),
        controller: true,
        block_owner_deletion: true,
    }
}

pub(super) fn follow(
    operand: &OperandView,
    fields: &BTreeMap<Field, Result<Effective, Unresolved>>,
    owner: &str,
) -> Follow {
    let value = |field| {
        let inherited = operand.is_inherited(field);
        let home = match fields.get(&field) {
            Some(Ok(effective)) if !matches!(effective.source, Source::Operand(_)) => Some(&effective.value),
            _ => None,
        };
        match home.map(|home| (home, operand.stance(field, home))) {
            Some((home, Stance::Empty | Stance::Follows)) => Some(home.clone()),
            // What is inherited stays until another value holds.
            Some((_, Stance::Same)) | None if inherited => operand.value(field).map(str::to_owned),
            _ => None,
        }
    };
    let values = Field::followed_by(operand.kind).filter_map(|field| Some((field, value(field)?)));
    Follow {
        kind: operand.kind,
        values: values.collect(),
        has_record: operand.inherited.is_some(),
        owner: owner.to_owned(),
    }
}
