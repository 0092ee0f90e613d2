//! Why a field has no effective value, in words for people.

use std::fmt;

use trustplane_api::identity::OperandKind;

use super::{Field, Holder, Initialise, OperandView};

/// What is said when a field of ZTWIM gets the value of an operand.
pub const INITIALIZING: &str = "Initializing ZTWIM from operand config";
/// What is said while only an operand has a value that belongs into ZTWIM.
pub const CONSIDER_MOVING: &str = "Consider moving to ZTWIM";

/// A value of an operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The operand.
    pub kind: OperandKind,
    /// Its value.
    pub value: String,
}

impl Held {
    pub(super) fn by(operand: &OperandView, field: Field) -> Option<Self> {
        Some(Self {
            kind: operand.kind,
            value: operand.value(field)?.to_owned(),
        })
    }

    /// The command that takes the value from the operand.
    fn clearing_command(&self, field: Field) -> String {
        Holder::Operand(self.kind).patch_command(&field.clearing_patch())
    }
}

/// Why a field has no effective value. The values are configuration and may be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// No object has a value.
    #[error("{}", required(*.0))]
    Missing(Field),
    /// Operands have other values of their own.
    #[error("{}", conflict(*.field, .value, .own))]
    Conflict {
        /// The field.
        field: Field,
        /// The value in the object that it belongs to.
        value: String,
        /// The operands with another value.
        own: Vec<Held>,
    },
    /// The object that the field belongs to has no value, and the operands have different ones.
    #[error("{}", disagreement(*.field, .holders))]
    Disagreement {
        /// The field.
        field: Field,
        /// All operands that have a value.
        holders: Vec<Held>,
    },
    /// The value cannot be used.
    #[error("{value:?} of {holder} is not valid: want {want}")]
    Invalid {
        /// The field.
        field: Field,
        /// The object that has the value.
        holder: Holder,
        /// The value.
        value: String,
        /// What a value must be.
        want: &'static str,
    },
    /// ZTWIM names a namespace in which this process may not run operands.
    #[error("the namespace {wanted:?} is not served: this process runs operands in {}", served.join(", "))]
    NotServed {
        /// The namespace.
        wanted: String,
        /// The namespaces in which this process runs operands.
        served: Vec<String>,
    },
}

impl Unresolved {
    /// The path of the field, in the object that it belongs to.
    pub fn path(&self) -> String {
        match self {
            Self::Missing(field) | Self::Conflict { field, .. } | Self::Disagreement { field, .. } => {
                field.home_path()
            }
            Self::Invalid { field, holder, .. } if *holder == field.home() => field.home_path(),
            Self::Invalid { field, .. } => field.operand_path(),
            Self::NotServed { .. } => "spec.namespace".to_owned(),
        }
    }
}

fn required(field: Field) -> String {
    let name = field.name();
    let title = format!("{}{}", name[..1].to_ascii_uppercase(), &name[1..]);
    match field.home() {
        Holder::Ztwim => format!("{title} required in ZTWIM"),
        Holder::Operand(kind) => format!("{title} required in {kind}"),
    }
}

fn conflict(field: Field, value: &str, own: &[Held]) -> String {
    let holders: Vec<_> = own
        .iter()
        .map(|held| {
            format!(
                "{:?}, which {} has of its own",
                held.value,
                Holder::Operand(held.kind)
            )
        })
        .collect();
    let commands: Vec<_> = own.iter().map(|held| held.clearing_command(field)).collect();
    format!(
        "{value:?} of {} differs from {}; let the operand follow first: {}",
        field.home(),
        holders.join(", and from "),
        commands.join(" && ")
    )
}

fn disagreement(field: Field, holders: &[Held]) -> String {
    let values: Vec<_> = holders
        .iter()
        .map(|held| format!("{} has {:?}", Holder::Operand(held.kind), held.value))
        .collect();
    let commands: Vec<_> = holders.iter().map(|held| held.clearing_command(field)).collect();
    format!(
        "{} has no {}, and the operands disagree: {}; take the wrong value away: {}",
        field.home(),
        field.name(),
        values.join(", "),
        commands.join(" or ")
    )
}

impl Initialise {
    /// The advice for as long as the operand alone has the value.
    pub fn advice(&self) -> String {
        let Self { field, value, from } = self;
        let from = Holder::Operand(*from);
        format!("{CONSIDER_MOVING}: {} {value:?} of {from}", field.operand_path())
    }
}

impl fmt::Display for Initialise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, from } = self;
        let from = Holder::Operand(*from);
        write!(f, "{INITIALIZING}: {} {value:?} of {from}", field.operand_path())
    }
}
