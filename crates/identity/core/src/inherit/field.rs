//! The fields that are said once, as one table.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use trustplane_api::identity::OperandKind::{self, SpireAgent, SpireOidcDiscoveryProvider, SpireServer};
use trustplane_api::identity::ZTWIM;
use trustplane_api::identity::names::{BUNDLE, SINGLETON};
use trustplane_plan::Kind;

use super::Unresolved;
use super::view::text;

/// Values by field: those that an object has, or those that it inherited. An empty text counts as no value.
pub type Values = BTreeMap<Field, String>;

/// A field that is said once, and followed by operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The trust domain.
    TrustDomain,
    /// The name of the cluster.
    ClusterName,
    /// The ConfigMap with the bundle.
    BundleConfigMap,
    /// The issuer of JWT-SVIDs.
    JwtIssuer,
}

/// What there is to know of a field.
struct Row {
    /// Its name in the spec of operands and in the record.
    name: &'static str,
    /// Where it is said.
    home: Holder,
    /// Where in the spec of its home, the first path before the second.
    paths: &'static [&'static str],
    /// The operands that follow.
    followers: &'static [OperandKind],
    /// What holds if no object has a value.
    default: Option<&'static str>,
    /// What a value must be, if that is not judged elsewhere.
    form: Option<Form>,
}

/// What a value must be, as a test and in words.
struct Form {
    is_valid: fn(&str) -> bool,
    want: &'static str,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 4] = [
        Self::TrustDomain,
        Self::ClusterName,
        Self::BundleConfigMap,
        Self::JwtIssuer,
    ];

    const fn row(self) -> Row {
        match self {
            Self::TrustDomain => Row {
                name: "trustDomain",
                home: Holder::Ztwim,
                paths: &["/trustDomain"],
                followers: &[SpireServer, SpireAgent, SpireOidcDiscoveryProvider],
                default: None,
                form: Some(Form {
                    is_valid: |value| is_dotted(value, 255, 63),
                    want: "a trust domain: labels of at most 63 lower-case letters, digits and inner dashes, joined by dots, 255 characters in all",
                }),
            },
            Self::ClusterName => Row {
                name: "clusterName",
                home: Holder::Ztwim,
                paths: &["/clusterName"],
                followers: &[SpireServer, SpireAgent],
                default: None,
                form: Some(Form {
                    is_valid: |value| is_dotted(value, 63, 63),
                    want: "a name of at most 63 lower-case letters, digits and inner dashes",
                }),
            },
            Self::BundleConfigMap => Row {
                name: "bundleConfigMap",
                home: Holder::Ztwim,
                paths: &["/bundleConfig/name", "/bundleConfigMap"],
                followers: &[SpireServer, SpireAgent],
                default: Some(BUNDLE),
                form: Some(Form {
                    is_valid: |value| is_dotted(value, 253, 253),
                    want: "a name that a ConfigMap can have",
                }),
            },
            Self::JwtIssuer => Row {
                name: "jwtIssuer",
                home: Holder::Operand(SpireServer),
                paths: &["/jwtIssuer"],
                followers: &[SpireOidcDiscoveryProvider],
                default: None,
                form: None,
            },
        }
    }

    /// The fields that an operand follows.
    pub fn followed_by(kind: OperandKind) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |field| field.row().followers.contains(&kind))
    }

    /// The fields that are said in an object.
    pub fn said_in(home: Holder) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |field| field.home() == home)
    }

    /// Its name in the spec of operands and in the record.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The object in which it is said.
    pub fn home(self) -> Holder {
        self.row().home
    }

    /// What holds if no object has a value.
    pub fn default(self) -> Option<&'static str> {
        self.row().default
    }

    /// Its path in the object in which it is said, such as `spec.bundleConfig.name`.
    pub fn home_path(self) -> String {
        let path = self.row().paths.first().copied().unwrap_or_default();
        format!("spec{}", path.replace('/', "."))
    }

    /// Its path in an operand, such as `spec.bundleConfigMap`.
    pub fn operand_path(self) -> String {
        format!("spec.{}", self.name())
    }

    /// Its value in the spec of an operand.
    pub fn of_operand(self, spec: &Value) -> Option<&str> {
        spec.get(self.name())?.as_str().filter(|value| !value.is_empty())
    }

    /// Its value in the spec of the object in which it is said.
    pub fn of_home(self, spec: &Value) -> Option<&str> {
        self.row().paths.iter().find_map(|path| text(spec, path))
    }

    /// The merge patch that says it.
    pub(crate) fn home_patch(self, value: &str) -> Value {
        let path = self.row().paths.first().copied().unwrap_or_default();
        path.rsplit('/')
            .filter(|part| !part.is_empty())
            .chain(["spec"])
            .fold(json!(value), |inner, part| json!({ part: inner }))
    }

    /// The merge patch that takes it from an operand, which follows from then on.
    pub(crate) fn clearing_patch(self) -> Value {
        json!({"spec": {self.name(): null}})
    }

    /// Whether a value has the form that SPIRE and Kubernetes ask for.
    pub fn check(self, holder: Holder, value: &str) -> Result<(), Unresolved> {
        match self.row().form {
            Some(Form { is_valid, want }) if !is_valid(value) => Err(Unresolved::Invalid {
                field: self,
                holder,
                value: value.to_owned(),
                want,
            }),
            _ => Ok(()),
        }
    }
}

/// Labels joined by dots: letters, digits and inner dashes.
fn is_dotted(value: &str, most: usize, most_in_label: usize) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        (1..=most_in_label).contains(&label.len())
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    value.len() <= most && value.split('.').all(is_label)
}

/// ZTWIM or an operand: an object that may hold a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// The ZeroTrustWorkloadIdentityManager.
    Ztwim,
    /// An operand.
    Operand(OperandKind),
}

impl Holder {
    /// Its kind.
    pub fn kind(self) -> &'static Kind {
        const MANAGER: &Kind = &ZTWIM;
        match self {
            Self::Ztwim => MANAGER,
            Self::Operand(kind) => kind.kind(),
        }
    }

    /// The command that applies a merge patch to it.
    pub(crate) fn patch_command(self, patch: &Value) -> String {
        let patch = patch.to_string().replace('\'', r"'\''");
        let plural = &self.kind().plural;
        format!("kubectl patch {plural} {SINGLETON} --type=merge -p '{patch}'")
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{SINGLETON}", self.kind().kind)
    }
}
