//! What a pod asks for, after all checks that need no knowledge of the cluster.

use std::time::Duration;

use serde::Serialize;
use strum::{EnumIter, EnumString, IntoStaticStr, VariantNames};

use crate::key_pattern::KeyPattern;
use crate::name::SecretName;

/// One request of an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where the secret is.
    pub source: Source,
    /// The Secret to write.
    pub secret_name: SecretName,
    /// What of the secret goes into it, and under which keys.
    pub shape: Shape,
    /// The type of the Secret.
    pub secret_type: String,
    /// Take over a Secret of that name, if its owner consents.
    pub adopt: bool,
    /// Put together with other requests for the same Secret.
    pub merge: bool,
    /// Say nothing when the secret does not exist.
    pub optional: bool,
    /// What happens to the Secret when the secret is gone.
    pub on_missing: OnMissing,
    /// Look again this often.
    pub refresh: Option<Duration>,
    /// Asks for a restart of the workload when the Secret has changed.
    pub restart: bool,
}

/// Where a secret is: as it was written, not yet canonical.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Source {
    /// The provider's name; a store says itself which provider it is.
    pub provider: Option<String>,
    /// A configuration by the admin.
    pub store: Option<String>,
    /// The path within the provider.
    pub path: String,
    /// A version, stage or number; the current one if none is named.
    pub version: Option<String>,
}

/// What becomes of the bytes of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// How to read them.
    pub format: Format,
    /// The key for raw bytes.
    pub key: String,
    /// The way to a nested part: keys, or indexes of lists.
    pub select: Vec<String>,
    /// Which keys, and under which names.
    pub keys: Keys,
    /// Only keys that one of these matches as a whole.
    pub include: Vec<KeyPattern>,
    /// No key that one of these matches as a whole.
    pub exclude: Vec<KeyPattern>,
    /// Patterns and what becomes of a key that one of them matches as a whole: the first that matches counts.
    pub rename: Vec<(KeyPattern, String)>,
    /// Refuse what is otherwise mended or left out.
    pub strict: bool,
}

/// The keys of a secret, as its provider has them, that a request can deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceKeys<'a> {
    /// Any key that the secret has: the bytes as they are, or a part of them that only the requester chose.
    Any,
    /// These, whatever they are called in the Secret.
    These(Vec<&'a str>),
}

impl Shape {
    /// The keys that are delivered, if they are known before the secret is fetched.
    pub fn source_keys(&self) -> Option<SourceKeys<'_>> {
        if self.format == Format::Raw || !self.select.is_empty() {
            return Some(SourceKeys::Any);
        }
        let is_filtered = !self.include.is_empty() || !self.exclude.is_empty();
        match &self.keys {
            _ if is_filtered => None,
            Keys::Map(map) => Some(SourceKeys::These(
                map.iter().map(|(_, source)| source.as_str()).collect(),
            )),
            Keys::List(list) => Some(SourceKeys::These(list.iter().map(String::as_str).collect())),
            Keys::All => None,
        }
    }
}

/// How the bytes of a secret are to be read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, EnumString, VariantNames, IntoStaticStr, EnumIter,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Format {
    /// A JSON object: each field becomes a key.
    #[default]
    Json,
    /// As they are, under one key.
    Raw,
    /// Lines of the form `NAME=value`.
    Dotenv,
    /// A YAML map.
    Yaml,
}

/// Which keys of a secret are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// All.
    All,
    /// These, by the name that they get and the name that they have.
    Map(Vec<(String, String)>),
    /// These, under their own names.
    List(Vec<String>),
}

/// What happens to a Secret when its secret is gone from the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, VariantNames, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum OnMissing {
    /// It stays as it was.
    #[default]
    Retain,
    /// It is deleted.
    Delete,
}
