//! Why a request is refused.

use strum::IntoStaticStr;

use crate::inherit::Unresolved;

/// The rule that a request breaks. Its snake_case word is the label in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Rule {
    /// Rule 1.
    ZtwimCreate,
    /// Rule 2.
    ZtwimUpdate,
    /// Rule 3.
    OperandCreate,
    /// Rule 4.
    OperandUpdate,
}

impl Rule {
    /// The label in metrics.
    pub fn label(self) -> &'static str {
        self.into()
    }

    fn title(self) -> &'static str {
        match self {
            Self::ZtwimCreate => "rule 1, creation of ZTWIM",
            Self::ZtwimUpdate => "rule 2, update of ZTWIM",
            Self::OperandCreate => "rule 3, creation of an operand",
            Self::OperandUpdate => "rule 4, update of an operand",
        }
    }
}

/// A request is refused because a field breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {text}")]
pub struct Denial {
    /// Which rule.
    pub rule: Rule,
    /// The field, such as `spec.trustDomain`.
    pub field: String,
    /// What is wrong, with the rule, the values and their holders, and the command that helps.
    pub text: String,
}

impl Denial {
    pub(super) fn new(rule: Rule, field: &str, text: &str) -> Self {
        Self {
            rule,
            field: field.to_owned(),
            text: format!("{text} ({})", rule.title()),
        }
    }

    pub(super) fn unresolved(rule: Rule, field: &str) -> impl Fn(Unresolved) -> Self {
        move |reason| Self::new(rule, field, &reason.to_string())
    }
}
