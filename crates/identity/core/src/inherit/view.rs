//! The objects, as far as their values are concerned.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use trustplane_api::identity::OperandKind;
use trustplane_api::identity::names::INHERITED;

use super::{Field, Held, Holder, Unresolved, Values};

/// A text in an object; an empty one counts as none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

fn is_deleting(object: &Value) -> bool {
    text(object, "/metadata/deletionTimestamp").is_some()
}

/// ZTWIM, as far as its values are concerned.
#[derive(Debug, Clone, PartialEq)]
pub struct ZtwimView {
    /// Its uid, which stands in the owner references of operands.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its spec.
    pub spec: Value,
}

impl ZtwimView {
    /// A view of a spec.
    pub fn new(uid: &str, spec: &impl Serialize) -> Self {
        Self {
            uid: uid.to_owned(),
            deleting: false,
            spec: serde_json::to_value(spec).unwrap_or_default(),
        }
    }

    /// A view of a whole object. It takes what no schema would: parts that it cannot read count as empty.
    pub fn read(object: &Value) -> Self {
        Self {
            uid: text(object, "/metadata/uid").unwrap_or_default().to_owned(),
            deleting: is_deleting(object),
            spec: object.get("spec").cloned().unwrap_or_default(),
        }
    }

    /// The namespace that it names.
    pub fn namespace(&self) -> Option<&str> {
        text(&self.spec, "/namespace")
    }
}

/// How a value of an operand relates to the value that it should follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stance {
    /// There is none.
    Empty,
    /// They are the same.
    Same,
    /// It is another, but the record says that it was inherited.
    Follows,
    /// It is another, of the operand's own.
    Own,
}

/// An operand, as far as its values are concerned.
#[derive(Debug, Clone, PartialEq)]
pub struct OperandView {
    /// Its kind.
    pub kind: OperandKind,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its spec.
    pub spec: Value,
    /// The record of what it inherited; `None` without the annotation.
    pub inherited: Option<Values>,
}

impl OperandView {
    /// A view of a spec and the annotations beside it.
    pub fn new(kind: OperandKind, spec: &impl Serialize, annotations: &BTreeMap<String, String>) -> Self {
        Self {
            kind,
            deleting: false,
            spec: serde_json::to_value(spec).unwrap_or_default(),
            inherited: annotations.get(INHERITED).map(|record| read_record(record)),
        }
    }

    /// A view of a whole object. It takes what no schema would: parts that it cannot read count as empty.
    pub fn read(kind: OperandKind, object: &Value) -> Self {
        let annotations = object.pointer("/metadata/annotations");
        let record = annotations.and_then(|annotations| annotations.get(INHERITED)?.as_str());
        Self {
            kind,
            deleting: is_deleting(object),
            spec: object.get("spec").cloned().unwrap_or_default(),
            inherited: record.map(read_record),
        }
    }

    /// Its value of a field.
    pub fn value(&self, field: Field) -> Option<&str> {
        field.of_operand(&self.spec)
    }

    /// Whether its value of a field is the one that it inherited.
    pub fn is_inherited(&self, field: Field) -> bool {
        let recorded = self.inherited.as_ref().and_then(|record| record.get(&field));
        recorded.is_some_and(|recorded| self.value(field) == Some(recorded))
    }

    /// How its value of a field relates to the value that it should follow.
    pub fn stance(&self, field: Field, home: &str) -> Stance {
        match self.value(field) {
            None => Stance::Empty,
            Some(value) if value == home => Stance::Same,
            Some(_) if self.is_inherited(field) => Stance::Follows,
            Some(_) => Stance::Own,
        }
    }
}

/// The record in an annotation. What is malformed, or of no field that we know, was not written by us: it counts as not recorded.
fn read_record(record: &str) -> Values {
    let values: BTreeMap<String, Value> = serde_json::from_str(record).unwrap_or_default();
    let known = |field: Field| Some((field, values.get(field.name())?.as_str()?.to_owned()));
    Field::ALL.into_iter().filter_map(known).collect()
}

/// ZTWIM and the operands as they were read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct World {
    /// ZTWIM, if it exists.
    pub ztwim: Option<ZtwimView>,
    /// The operands that exist, in any order.
    pub operands: Vec<OperandView>,
}

impl World {
    /// The same with this ZTWIM.
    #[must_use]
    pub fn with_ztwim(mut self, ztwim: ZtwimView) -> Self {
        self.ztwim = Some(ztwim);
        self
    }

    /// The same with this operand in the place of the one of its kind.
    #[must_use]
    pub fn with_operand(mut self, operand: OperandView) -> Self {
        self.operands.retain(|other| other.kind != operand.kind);
        self.operands.push(operand);
        self
    }

    /// An operand that exists and stays.
    pub fn operand(&self, kind: OperandKind) -> Option<&OperandView> {
        self.operands
            .iter()
            .find(|operand| operand.kind == kind && !operand.deleting)
    }

    /// The operands that stay, in the order of the status.
    pub fn living(&self) -> impl Iterator<Item = &OperandView> {
        OperandKind::ALL.into_iter().filter_map(|kind| self.operand(kind))
    }

    /// The value of a field in the object that it belongs to.
    pub fn home(&self, field: Field) -> Option<&str> {
        match field.home() {
            Holder::Ztwim => field.of_home(&self.ztwim.as_ref()?.spec),
            Holder::Operand(kind) => field.of_home(&self.operand(kind)?.spec),
        }
    }

    /// The operands that have a value of their own, or, if none has, those that have an inherited one.
    pub(super) fn holders(&self, field: Field) -> Vec<Held> {
        let (inherited, own): (Vec<_>, Vec<_>) = self
            .followers(field)
            .filter(|operand| operand.value(field).is_some())
            .partition(|operand| operand.is_inherited(field));
        let holders = if own.is_empty() { inherited } else { own };
        holders
            .into_iter()
            .filter_map(|operand| Held::by(operand, field))
            .collect()
    }

    /// Whether a field may have this value in the object that it belongs to: not while an operand has another of its own.
    pub(crate) fn check_conflicts(&self, field: Field, value: &str) -> Result<(), Unresolved> {
        let own = self
            .followers(field)
            .filter(|operand| operand.stance(field, value) == Stance::Own);
        let own: Vec<Held> = own.filter_map(|operand| Held::by(operand, field)).collect();
        if own.is_empty() {
            return Ok(());
        }
        Err(Unresolved::Conflict {
            field,
            value: value.to_owned(),
            own,
        })
    }

    fn followers(&self, field: Field) -> impl Iterator<Item = &OperandView> {
        self.living()
            .filter(move |operand| Field::followed_by(operand.kind).any(|followed| followed == field))
    }
}
