//! What is kept of a pod: what it asks for, and nothing at all of one that asks for nothing.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use trustplane_kit::watch::{Payload, Project, ProjectError, Watched};
use trustplane_plan::{Meta, ObjectRef};
use trustplane_sync_core::pod::{Asks, Pod, workload};

/// Keeps what a pod asks for. The annotation is read once, when it arrives; its text is not kept.
pub(crate) struct PodAsks {
    /// The names that an annotation may use.
    pub providers: Vec<&'static str>,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Deserialize, Default)]
struct Annotations {
    #[serde(rename = "jasm.codnod.io/secret-sync")]
    sync: Option<String>,
    #[serde(rename = "jasm.codnod.io/force-sync")]
    force: Option<String>,
}

impl Project for PodAsks {
    type Out = Option<Box<Asks>>;

    fn payload(&self) -> Payload {
        Payload::Metadata
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<Self::Out, ProjectError> {
        let Annotations { sync, force } = serde_json::from_str::<Object>(json)?.metadata.annotations;
        let asks = sync.map(|text| Box::new(Asks::read(&text, force.as_deref(), &self.providers)));
        Ok(asks)
    }

    fn names(meta: &Meta, asks: &Self::Out) -> Vec<ObjectRef> {
        let secrets = asks.iter().flat_map(|asks| asks.secrets());
        secrets
            .map(|name| ObjectRef::new(meta.object.namespace(), name.as_str()))
            .collect()
    }
}

/// The pod, if it asks for something and is not on its way out.
pub(crate) fn pod(watched: &Arc<Watched<Option<Box<Asks>>>>) -> Option<Pod> {
    let Watched { meta, value } = &**watched;
    let asks = value.as_deref().filter(|_| !meta.is_terminating())?;
    Some(Pod {
        object: meta.object.clone(),
        uid: meta.uid.clone(),
        created: meta.created.unwrap_or(Timestamp::UNIX_EPOCH),
        workload: workload(meta),
        service_account: None,
        asks: asks.clone(),
    })
}
