//! What the watches keep of HSMSecrets, of the Secrets that are made from them, and of the claims of locations.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use trustplane_api::hsm::delivery::CONFLICT;
use trustplane_api::hsm::{HsmSecretSpec, HsmSecretStatus};
use trustplane_hsm_core::checksum::DataDigest;
use trustplane_hsm_core::delivery::locations::Locations;
use trustplane_hsm_core::delivery::{MANAGER, Operator, Placement, SecretContent, Tenancy};
use trustplane_hsm_core::path::KeyName;
use trustplane_hsm_core::secret::{Data, Value};
use trustplane_kit::watch::{Payload, Project, ProjectError};
use trustplane_plan::{Keep, Meta, ObjectRef};

/// What the watch keeps of an HSMSecret.
#[derive(Debug)]
pub(crate) struct SeenHsmSecret {
    /// Its spec; `None` if this version cannot read the spec.
    pub spec: Option<HsmSecretSpec>,
    pub status: HsmSecretStatus,
    /// Whether this installation serves it.
    pub served: bool,
    /// Its location and its Secret, or which field of the spec is invalid.
    pub placement: Result<Placement, String>,
}

impl SeenHsmSecret {
    /// The reason of its conflict, if its status has one.
    pub fn conflict(&self) -> Option<&str> {
        let conflict = self.status.conditions.get(CONFLICT)?;
        (conflict.status == "True").then_some(conflict.reason.as_str())
    }
}

/// Keeps a [`SeenHsmSecret`] of each HSMSecret, which is found under its Secret and under its location on the tokens
/// ([`at_location`]).
#[derive(Debug, Clone)]
pub(crate) struct HsmSecrets {
    pub operator: Arc<Operator>,
    pub tenancy: Tenancy,
}

/// The name under which the HSMSecrets of a location are found. It has no namespace, so it is never the name of a Secret.
pub(crate) fn at_location(path: &str) -> ObjectRef {
    ObjectRef::new(None, path)
}

#[derive(Deserialize)]
struct Whole {
    #[serde(default, deserialize_with = "readable")]
    spec: Option<HsmSecretSpec>,
    #[serde(default, deserialize_with = "readable")]
    status: Option<HsmSecretStatus>,
}

fn readable<'de, D: Deserializer<'de>, T: for<'a> Deserialize<'a>>(part: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Json::deserialize(part)?).ok())
}

impl Project for HsmSecrets {
    type Out = SeenHsmSecret;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn project(&self, meta: &Meta, json: &str) -> Result<SeenHsmSecret, ProjectError> {
        let Whole { spec, status } = serde_json::from_str(json)?;
        let placement = match &spec {
            Some(spec) => Placement::of(&meta.object, spec, self.tenancy),
            None => Err("spec: cannot be read by this version".to_owned()),
        };
        let parent = spec.as_ref().and_then(|spec| spec.parent_ref.as_ref());
        Ok(SeenHsmSecret {
            served: spec.is_some() && self.operator.serves(parent),
            spec,
            status: status.unwrap_or_default(),
            placement,
        })
    }

    fn names(_: &Meta, out: &SeenHsmSecret) -> Vec<ObjectRef> {
        match &out.placement {
            Ok(placement) if out.served => {
                vec![placement.secret.clone(), at_location(placement.path.as_str())]
            }
            _ => Vec::new(),
        }
    }
}

/// Keeps the [`SecretContent`] of each Secret that was made from a token, and no value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered;

/// The fields of a Secret from which its [`SecretContent`] is made.
#[derive(Deserialize)]
pub(crate) struct RawContent {
    #[serde(rename = "type", default)]
    secret_type: String,
    #[serde(default)]
    immutable: bool,
    #[serde(default)]
    data: Option<BTreeMap<String, ByteString>>,
}

impl From<RawContent> for SecretContent {
    fn from(raw: RawContent) -> Self {
        let values = raw.data.unwrap_or_default().into_iter();
        // From here on values are wiped when they are dropped.
        let values: Vec<(String, Value)> = values
            .map(|(key, ByteString(bytes))| (key, Value::new(bytes)))
            .collect();
        let keys = values.iter().map(|(key, _)| key.clone()).collect();
        let named = values
            .into_iter()
            .map(|(key, value)| Some((KeyName::parse(&key).ok()?, value)));
        let data: Option<Data> = named.collect();
        Self {
            secret_type: raw.secret_type,
            immutable: raw.immutable,
            keys,
            checksum: data
                .as_ref()
                .map(trustplane_hsm_core::checksum::checksum)
                .unwrap_or_default(),
            digest: data.map(|data| DataDigest::of(&data).to_hex()),
        }
    }
}

impl Project for Delivered {
    type Out = SecretContent;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn keep(&self) -> Keep {
        Keep::owned_by(MANAGER)
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<SecretContent, ProjectError> {
        let raw: RawContent = serde_json::from_str(json)?;
        Ok(raw.into())
    }
}

/// Keeps the claims of locations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claims;

/// The data of the ConfigMap with the claims.
#[derive(Deserialize)]
pub(crate) struct RawClaims {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

impl From<RawClaims> for Locations {
    fn from(raw: RawClaims) -> Self {
        Self::read(&raw.data.unwrap_or_default())
    }
}

impl Project for Claims {
    type Out = Locations;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<Locations, ProjectError> {
        let raw: RawClaims = serde_json::from_str(json)?;
        Ok(raw.into())
    }
}
