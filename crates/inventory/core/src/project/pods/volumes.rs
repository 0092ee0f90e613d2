//! Volumes of a Pod: what each of them is, and which object is behind it.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::project::input::{Named, Text};
use crate::project::output::Object;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    empty_dir: Option<IgnoredAny>,
    config_map: Option<Named<'a>>,
    secret: Option<SecretSource<'a>>,
    persistent_volume_claim: Option<ClaimSource<'a>>,
    host_path: Option<HostPathSource<'a>>,
    projected: Option<IgnoredAny>,
    #[serde(rename = "downwardAPI")]
    downward_api: Option<IgnoredAny>,
    csi: Option<CsiSource<'a>>,
    nfs: Option<NfsSource<'a>>,
    ephemeral: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecretSource<'a> {
    #[serde(borrow)]
    secret_name: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSource<'a> {
    #[serde(borrow)]
    claim_name: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct HostPathSource<'a> {
    #[serde(borrow)]
    path: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct CsiSource<'a> {
    #[serde(borrow)]
    driver: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct NfsSource<'a> {
    #[serde(borrow)]
    server: Option<Text<'a>>,
    path: Option<Text<'a>>,
}

/// What is sent of a volume.
pub(super) fn project(mut volume: Volume<'_>) -> Object<'_> {
    let name = volume.name.take().unwrap_or_default();
    let (type_, source) = type_and_source(volume);
    Object::default()
        .always("name", name)
        .always("type", type_)
        .optional("source", source)
}

/// The first type that is set, in the order of the contract.
fn type_and_source(volume: Volume<'_>) -> (&'static str, Option<Text<'_>>) {
    if volume.empty_dir.is_some() {
        ("emptyDir", None)
    } else if let Some(source) = volume.config_map {
        ("configMap", source.name)
    } else if let Some(source) = volume.secret {
        ("secret", source.secret_name)
    } else if let Some(source) = volume.persistent_volume_claim {
        ("pvc", source.claim_name)
    } else if let Some(source) = volume.host_path {
        ("hostPath", source.path)
    } else if volume.projected.is_some() {
        ("projected", None)
    } else if volume.downward_api.is_some() {
        ("downwardAPI", None)
    } else if let Some(source) = volume.csi {
        ("csi", source.driver)
    } else if let Some(source) = volume.nfs {
        let (server, path) = (source.server.unwrap_or_default(), source.path.unwrap_or_default());
        (
            "nfs",
            Some(format!("{}:{}", server.as_str(), path.as_str()).into()),
        )
    } else if volume.ephemeral.is_some() {
        ("ephemeral", None)
    } else {
        ("unknown", None)
    }
}
