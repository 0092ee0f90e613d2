//! Which value holds, and which fields of an operand follow ZTWIM.
//!
//! | ZTWIM says | the operand says | effective value | the field of the operand |
//! |---|---|---|---|
//! | `a` | nothing | `a` | filled with `a`, recorded |
//! | `a` | `a` | `a` | left alone |
//! | `a` | `b`, recorded as `b` | `a` | follows: becomes `a`, recorded |
//! | `a` | `b` of its own | none: [`Unresolved::Conflict`] | left alone |
//! | nothing | `b`, and no operand disagrees | `b` | left alone; ZTWIM is initialised with `b` |
//! | nothing | `b`, and another has `c` | none: [`Unresolved::Disagreement`] | left alone |
//! | nothing | nothing, nor does another | none: [`Unresolved::Missing`] | left alone |
//!
//! The record is the annotation `ztwim.io/inherited` of the operand: a JSON object of the fields that follow, each with the value that was
//! filled in. What is in the record is what we own of the spec of an operand, no more.
//!
//! The same holds for the issuer of the OIDC discovery provider, with SpireServer in the place of ZTWIM; it is not copied back.

mod field;
mod follow;
mod pair;
mod pods;
mod reason;
mod view;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use trustplane_api::identity::OperandKind;
use trustplane_api::identity::names::DEFAULT_NAMESPACE;

pub use field::{Field, Holder, Values};
pub use follow::{Follow, owner_reference};
pub use pair::{Mismatch, Pair, mismatches};
pub use pods::common;
pub use reason::{CONSIDER_MOVING, Held, INITIALIZING, Unresolved};
pub(crate) use view::text;
pub use view::{OperandView, Stance, World, ZtwimView};

use crate::{Settings, Shared};

/// Where an effective value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The object that the field belongs to: ZTWIM, or SpireServer for the issuer.
    Home,
    /// The first operand that has a value, since the object that the field belongs to has none.
    Operand(OperandKind),
    /// Our default, since no object has another value. It is not copied into ZTWIM.
    Default,
}

/// A value that holds, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The value.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

/// A field of ZTWIM that gets the value on which the operands agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initialise {
    /// The field.
    pub field: Field,
    /// The value.
    pub value: String,
    /// The first operand that has it.
    pub from: OperandKind,
}

/// What holds, and what is to be written so that the objects say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The namespace in which the operands run.
    pub namespace: Result<String, Unresolved>,
    /// The effective value of each field, or why there is none.
    pub fields: BTreeMap<Field, Result<Effective, Unresolved>>,
    /// What each operand should have of us. Empty without a ZTWIM that stays.
    pub follows: Vec<Follow>,
    /// The fields of ZTWIM to fill. Empty without a ZTWIM that stays.
    pub initialise: Vec<Initialise>,
}

impl Resolution {
    /// The effective value of a field, or why there is none.
    pub fn value(&self, field: Field) -> Result<&str, Unresolved> {
        match self.fields.get(&field) {
            Some(Ok(effective)) => Ok(&effective.value),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err(Unresolved::Missing(field)),
        }
    }

    /// The values that all operands share, or everything that stands in the way.
    pub fn shared(&self) -> Result<Shared, Vec<Unresolved>> {
        let mut reasons = Vec::new();
        let mut take = |value: Result<&str, Unresolved>| {
            value.map(str::to_owned).unwrap_or_else(|reason| {
                reasons.push(reason);
                String::new()
            })
        };
        let shared = Shared {
            namespace: take(self.namespace.as_deref().map_err(Clone::clone)),
            trust_domain: take(self.value(Field::TrustDomain)),
            cluster_name: take(self.value(Field::ClusterName)),
            bundle: take(self.value(Field::BundleConfigMap)),
        };
        if reasons.is_empty() {
            Ok(shared)
        } else {
            Err(reasons)
        }
    }

    /// What an operand should have of us.
    pub fn follow(&self, kind: OperandKind) -> Option<&Follow> {
        self.follows.iter().find(|follow| follow.kind == kind)
    }
}

/// Resolves what the operands share.
///
/// **Guarantees.** A field without an effective value is not written anywhere. The result does not depend on the order of the operands.
/// With its writes carried out, the next resolution wants none.
///
/// **Caveats.** An operand that is being deleted neither has a say nor gets a value.
pub fn resolve(world: &World, settings: &Settings) -> Resolution {
    let fields = Field::ALL.map(|field| (field, effective(field, world))).into();
    let ztwim = world.ztwim.as_ref().filter(|ztwim| !ztwim.deleting);
    Resolution {
        namespace: namespace(world, settings),
        follows: ztwim.map_or_else(Vec::new, |ztwim| {
            let operands = world.living();
            operands
                .map(|operand| follow::follow(operand, &fields, &ztwim.uid))
                .collect()
        }),
        initialise: ztwim.map_or_else(Vec::new, |_| initialise(&fields)),
        fields,
    }
}

fn effective(field: Field, world: &World) -> Result<Effective, Unresolved> {
    let Some(value) = world.home(field) else {
        return agreed(field, world);
    };
    field.check(field.home(), value)?;
    world.check_conflicts(field, value)?;
    Ok(Effective {
        value: value.to_owned(),
        source: Source::Home,
    })
}

/// The value on which the operands agree. What an operand has of its own goes before what it once inherited.
fn agreed(field: Field, world: &World) -> Result<Effective, Unresolved> {
    let holders = world.holders(field);
    let Some(first) = holders.first() else {
        let value = field.default().ok_or(Unresolved::Missing(field))?.to_owned();
        let source = Source::Default;
        return Ok(Effective { value, source });
    };
    if holders.iter().any(|holder| holder.value != first.value) {
        return Err(Unresolved::Disagreement { field, holders });
    }
    field.check(Holder::Operand(first.kind), &first.value)?;
    let is_default = field.default() == Some(&first.value);
    Ok(Effective {
        value: first.value.clone(),
        source: if is_default {
            Source::Default
        } else {
            Source::Operand(first.kind)
        },
    })
}

fn initialise(fields: &BTreeMap<Field, Result<Effective, Unresolved>>) -> Vec<Initialise> {
    let copied = |(field, effective): (&Field, &Result<Effective, Unresolved>)| {
        let Ok(Effective {
            value,
            source: Source::Operand(from),
        }) = effective
        else {
            return None;
        };
        (field.home() == Holder::Ztwim).then(|| Initialise {
            field: *field,
            value: value.clone(),
            from: *from,
        })
    };
    fields.iter().filter_map(copied).collect()
}

fn namespace(world: &World, settings: &Settings) -> Result<String, Unresolved> {
    let wanted = world.ztwim.as_ref().and_then(ZtwimView::namespace);
    let Some(wanted) = wanted else {
        return Ok(default_namespace(settings).to_owned());
    };
    if settings.namespaces.iter().any(|served| served == wanted) {
        return Ok(wanted.to_owned());
    }
    Err(Unresolved::NotServed {
        wanted: wanted.to_owned(),
        served: settings.namespaces.clone(),
    })
}

/// The namespace in which operands run if ZTWIM names none.
pub(crate) fn default_namespace(settings: &Settings) -> &str {
    settings
        .namespaces
        .first()
        .map_or(DEFAULT_NAMESPACE, String::as_str)
}
