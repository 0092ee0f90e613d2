//! PersistentVolumeClaims.

use serde::Deserialize;

use super::input::Text;
use super::output::Object;
use super::{Metadata, Projection, ProjectionError};
use crate::kind::InventoryKind;

#[derive(Deserialize)]
struct Claim<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<Spec<'a>>,
    status: Option<Status<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    storage_class_name: Option<Text<'a>>,
    access_modes: Option<Vec<Text<'a>>>,
    resources: Option<Resources<'a>>,
    volume_name: Option<Text<'a>>,
    volume_mode: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Resources<'a> {
    #[serde(borrow)]
    requests: Option<Requests<'a>>,
}

#[derive(Deserialize)]
struct Requests<'a> {
    #[serde(borrow)]
    storage: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
}

/// What is sent of a PersistentVolumeClaim.
pub(super) fn claim(json: &str) -> Result<Projection, ProjectionError> {
    let Claim {
        metadata,
        spec,
        status,
    } = serde_json::from_str(json)?;
    let spec = spec.unwrap_or_default();
    let requests = spec.resources.and_then(|resources| resources.requests);
    let fields = Object::default()
        .optional("storage_class_name", spec.storage_class_name)
        .optional("access_modes", spec.access_modes)
        .optional("storage_request", requests.and_then(|requests| requests.storage))
        .optional("volume_name", spec.volume_name)
        .optional("phase", status.unwrap_or_default().phase)
        .optional("volume_mode", spec.volume_mode);
    metadata.finish(InventoryKind::PersistentVolumeClaim, fields)
}
