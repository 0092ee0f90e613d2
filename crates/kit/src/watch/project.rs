//! How much of each object enters memory.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use trustplane_plan::{Fingerprinter, Keep, Meta, ObjectRef};

/// What the API server is asked to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Metadata only; the rest never leaves the server.
    Metadata,
    /// Whole objects.
    Full,
    /// Rows of a table as `kubectl get` prints them, each with the metadata of its object; the rest never leaves the server.
    /// Only a [`super::Sink`] can take them.
    Table,
}

/// What a store keeps of each object, besides its metadata.
///
/// ```
/// use trustplane_kit::watch::{Payload, Project, ProjectError};
/// use trustplane_plan::{Keep, Meta};
///
/// /// How many keys a ConfigMap has.
/// struct Keys;
///
/// impl Project for Keys {
///     type Out = usize;
///     fn payload(&self) -> Payload {
///         Payload::Full
///     }
///     fn project(&self, _meta: &Meta, json: &str) -> Result<usize, ProjectError> {
///         #[derive(serde::Deserialize)]
///         struct ConfigMap {
///             data: Option<std::collections::BTreeMap<String, serde::de::IgnoredAny>>,
///         }
///         Ok(serde_json::from_str::<ConfigMap>(json)?.data.map_or(0, |data| data.len()))
///     }
/// }
/// ```
pub trait Project: Send + Sync + 'static {
    /// What is kept.
    type Out: Send + Sync + 'static;

    /// What to ask the server for.
    fn payload(&self) -> Payload;

    /// What to keep of the metadata. Everything large is dropped unless it is asked for here.
    fn keep(&self) -> Keep {
        Keep::default()
    }

    /// Makes what is kept from the text of an object. It must not keep a part of the text that it does not need.
    fn project(&self, meta: &Meta, json: &str) -> Result<Self::Out, ProjectError>;

    /// The names under which [`super::Store::under`] finds the object: such as the Secrets that a pod refers to.
    fn names(_meta: &Meta, _out: &Self::Out) -> Vec<ObjectRef>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// Tells two projections of the same type apart: those with equal identity share a watch.
    fn identity(&self) -> String {
        format!("{:?}", self.keep())
    }
}

/// An object that a projection cannot read.
///
/// The text says where, never what: an object may hold a secret, and parsers like to quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to read an object: {0}")]
pub struct ProjectError(String);

impl ProjectError {
    /// An error with a fixed text.
    pub fn new(what: &'static str) -> Self {
        Self(what.to_owned())
    }
}

impl From<serde_json::Error> for ProjectError {
    fn from(error: serde_json::Error) -> Self {
        let what = match error.classify() {
            serde_json::error::Category::Data => "a field is missing or of another type",
            _ => "it is not JSON",
        };
        Self(format!("{what}, at column {}", error.column()))
    }
}

/// Keeps metadata and asks for nothing else.
#[derive(Debug, Clone, Default)]
pub struct Metadata(pub Keep);

impl Project for Metadata {
    type Out = ();

    fn payload(&self) -> Payload {
        Payload::Metadata
    }

    fn keep(&self) -> Keep {
        self.0.clone()
    }

    fn project(&self, _meta: &Meta, _json: &str) -> Result<(), ProjectError> {
        Ok(())
    }
}

/// Keeps a type of ours that names the few fields we need; the parser skips the rest.
///
/// Any type that can be read from the object's JSON will do, also a whole one of `k8s-openapi`.
pub struct Slim<T> {
    keep: Keep,
    kept: PhantomData<fn() -> T>,
}

impl<T> Slim<T> {
    /// Keeps a `T`, and of the metadata what `keep` says.
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            kept: PhantomData,
        }
    }
}

impl<T> Default for Slim<T> {
    fn default() -> Self {
        Self::new(Keep::default())
    }
}

impl<T> Clone for Slim<T> {
    fn clone(&self) -> Self {
        Self::new(self.keep.clone())
    }
}

impl<T> fmt::Debug for Slim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slim<{}>", std::any::type_name::<T>())
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> Project for Slim<T> {
    type Out = T;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn keep(&self) -> Keep {
        self.keep.clone()
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<T, ProjectError> {
        Ok(serde_json::from_str(json)?)
    }
}

/// Keeps a keyed hash of some top-level fields: enough to see that a value changed, useless to learn it.
///
/// Two hashes are equal if the server sent the same text for the fields, so they compare within one watch and between
/// watches of one kind, and with nothing else.
#[derive(Debug, Clone)]
pub struct Hash {
    fields: Vec<String>,
    fingerprinter: Fingerprinter,
    keep: Keep,
}

impl Hash {
    /// Hashes these fields, such as `data`; of the metadata it keeps what `keep` says.
    pub fn new(fields: &[&str], fingerprinter: Fingerprinter, keep: Keep) -> Self {
        Self {
            fields: fields.iter().map(ToString::to_string).collect(),
            fingerprinter,
            keep,
        }
    }
}

impl Project for Hash {
    type Out = Box<str>;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn keep(&self) -> Keep {
        self.keep.clone()
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<Box<str>, ProjectError> {
        let top: Top<'_> = serde_json::from_str(json)?;
        // Each value is hashed where it lies in the text: no copy of it is made.
        let mut hashes = String::new();
        for field in &self.fields {
            let text = top.0.get(field.as_str()).map_or("", |raw| raw.get());
            hashes += &self.fingerprinter.of_bytes(text.as_bytes());
        }
        Ok(self.fingerprinter.of_bytes(hashes.as_bytes()).into())
    }

    fn identity(&self) -> String {
        // The hash of nothing stands for the key: it tells keys apart and tells nothing about them.
        let key = self.fingerprinter.of_bytes(b"");
        format!("{:?} {:?} {key}", self.fields, self.keep)
    }
}

#[derive(Deserialize)]
struct Top<'a>(#[serde(borrow)] std::collections::HashMap<std::borrow::Cow<'a, str>, &'a RawValue>);

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = r#"{"kind":"Secret","metadata":{"name":"n","labels":{"a":"b"}},"data":{"p":"aHVudGVyMg=="},"type":"Opaque"}"#;

    fn meta() -> Meta {
        Meta::decode(SECRET, &Keep::default()).unwrap()
    }

    fn hash(key: u8, fields: &[&str], json: &str) -> Box<str> {
        let hash = Hash::new(fields, Fingerprinter::new(&[key; 32]), Keep::default());
        hash.project(&meta(), json).unwrap()
    }

    #[test]
    fn a_hash_moves_with_its_fields_and_its_key_only() {
        let base = hash(1, &["data"], SECRET);
        assert_eq!(
            base,
            hash(1, &["data"], &SECRET.replace(r#""a":"b""#, r#""a":"c""#))
        );
        assert_ne!(
            base,
            hash(1, &["data"], &SECRET.replace("aHVudGVyMg==", "aHVudGVyMw=="))
        );
        assert_ne!(base, hash(2, &["data"], SECRET));
        assert_ne!(base, hash(1, &["data", "type"], SECRET));
        assert_ne!(hash(1, &["data"], r#"{"data":{}}"#), hash(1, &["data"], "{}"));
    }

    #[test]
    fn hashes_under_different_keys_do_not_share_a_watch() {
        let of = |key: u8| Hash::new(&["data"], Fingerprinter::new(&[key; 32]), Keep::default()).identity();
        assert_ne!(of(1), of(2));
        assert_eq!(of(1), of(1));
    }

    #[test]
    fn an_error_never_quotes_the_object() {
        #[derive(Debug, Deserialize)]
        #[allow(dead_code, reason = "only its shape matters")]
        struct Numbers {
            data: std::collections::BTreeMap<String, u32>,
        }
        let error = Slim::<Numbers>::default().project(&meta(), SECRET).unwrap_err();
        assert!(
            serde_json::from_str::<Numbers>(SECRET)
                .unwrap_err()
                .to_string()
                .contains("aHVudGVyMg")
        );
        assert!(!error.to_string().contains("aHVudGVyMg"), "{error}");
    }
}
