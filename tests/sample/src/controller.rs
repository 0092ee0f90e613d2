//! The controller: it reads, calls [`decide`], and lets the kit do the rest.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use trustplane_kit::apply::WriteError;
use trustplane_kit::controller::{Controller, Fault, Look};
use trustplane_kit::read::read_object;
use trustplane_kit::watch::{Store, Watched};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Class, Classified, Fingerprinter, Kind, Meta, Never, Note, ObjectRef, Plan};

use crate::api::{MIRROR, MirrorSpec};
use crate::decide::{Input, decide};

/// The field manager of the sample.
pub const MANAGER: &str = "trustplane-sample";

/// What is kept of a mirror.
#[derive(Debug, Deserialize)]
pub struct Seen {
    spec: MirrorSpec,
    #[serde(default)]
    status: Value,
}

impl Seen {
    /// Whether a Secret of this name concerns the mirror.
    pub(crate) fn names(&self, secret: &str) -> bool {
        self.spec.source == secret || self.spec.targets.iter().any(|target| target == secret)
    }
}

/// What is read of a source: the fields that are needed, and no others.
#[derive(Deserialize)]
struct Source {
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

/// Keeps mirrors in step.
pub struct Mirrors {
    pub(crate) client: Client,
    pub(crate) fingerprinter: Fingerprinter,
    pub(crate) mirrors: Store<Seen>,
    /// Hashes alone: the values of a source are read when they are needed, and not kept.
    pub(crate) sources: Store<Box<str>>,
    /// Metadata alone.
    pub(crate) secrets: Store<()>,
}

/// What can go wrong when a mirror is read.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The API server did not give the source.
    #[error(transparent)]
    ReadSource(#[from] WriteError),
}

impl Classified for MirrorError {
    fn class(&self) -> Class {
        let Self::ReadSource(source) = self;
        source.class()
    }

    fn reason(&self) -> &'static str {
        "SourceUnreadable"
    }

    fn retry_after(&self) -> Option<std::time::Duration> {
        let Self::ReadSource(source) = self;
        source.retry_after()
    }
}

impl Controller for Mirrors {
    type Key = ObjectRef;
    type Input = Input;
    type Action = Never;
    type Error = MirrorError;
    type Held = ();

    fn name(&self) -> &'static str {
        "mirror"
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<Input>, MirrorError> {
        let Some(mirror) = self.mirrors.get(key) else {
            return Ok(None);
        };
        Ok(Some(Input {
            source: self.source(&mirror).await?,
            live: self.live(&mirror),
            complete: self.secrets.is_complete(),
            mirror: mirror.meta.clone(),
            spec: mirror.value.spec.clone(),
            status: mirror.value.status.clone(),
        }))
    }

    fn decide(&self, input: &Input, now: Timestamp) -> Plan {
        decide(input, &self.fingerprinter, now)
    }

    async fn perform(&self, action: Never) -> Result<(), Fault<MirrorError>> {
        match action {}
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<MirrorError>) -> Vec<Note> {
        let Some(mirror) = self.mirrors.get(key) else {
            return Vec::new();
        };
        vec![Note::of_error(&MIRROR, &mirror.meta, fault, "Mirror")]
    }
}

impl Mirrors {
    /// The content of the source, read live; nothing if it does not exist or does not offer itself.
    async fn source(&self, mirror: &Watched<Seen>) -> Result<Option<Value>, MirrorError> {
        let namespace = mirror.meta.object.namespace();
        let source = ObjectRef::new(namespace, &mirror.value.spec.source);
        if mirror.meta.is_terminating() || self.sources.get(&source).is_none() {
            return Ok(None);
        }
        let live: Option<Source> = read_object(&self.client, &SECRET, &source).await?;
        Ok(live.map(|live| content(live.data)))
    }

    /// The Secrets that are copies of the mirror, or have the name of one.
    fn live(&self, mirror: &Watched<Seen>) -> Vec<(Kind, Meta)> {
        let mut live = Vec::new();
        self.secrets.for_each(|secret| {
            let meta = &secret.meta;
            let owned = meta.owners.iter().any(|owner| *owner.uid == *mirror.meta.uid);
            let named = mirror
                .value
                .spec
                .targets
                .iter()
                .any(|target| target == meta.object.name());
            if meta.object.namespace() == mirror.meta.object.namespace() && (owned || named) {
                live.push((SECRET, meta.clone()));
            }
        });
        live
    }
}

fn content(data: BTreeMap<String, ByteString>) -> Value {
    data.into_iter()
        // Bytes always have a JSON form: base64.
        .map(|(key, value)| (key, serde_json::to_value(value).unwrap_or_default()))
        .collect()
}
