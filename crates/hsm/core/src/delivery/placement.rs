//! The location that an HSMSecret reads, and the Secret that it writes.

use trustplane_api::hsm::HsmSecretSpec;
use trustplane_plan::ObjectRef;

use crate::path::SecretPath;

/// Whether the namespace of an HSMSecret is part of its path on the tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tenancy {
    /// It is not: a location belongs to the namespaces that HSMDevices list, or else to the namespace that claimed it first.
    #[default]
    Flat,
    /// The namespace is the first part of the path.
    Namespaced,
}

/// A location on the tokens and the Secret that is made from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The path on the tokens.
    pub path: SecretPath,
    /// The Secret.
    pub secret: ObjectRef,
}

impl Placement {
    /// The location and the Secret of an HSMSecret.
    ///
    /// **Errors.** The field that is invalid, and the rule that it breaks.
    pub fn of(object: &ObjectRef, spec: &HsmSecretSpec, tenancy: Tenancy) -> Result<Self, String> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (field, path) = match given(&spec.hsm_path) {
            Some(path) => ("spec.hsmPath", path),
            None => ("metadata.name", object.name().to_owned()),
        };
        let path = match tenancy {
            Tenancy::Flat => path,
            Tenancy::Namespaced => format!("{}/{path}", object.namespace().unwrap_or_default()),
        };
        let secret = given(&spec.secret_name).unwrap_or_else(|| object.name().to_owned());
        Ok(Self {
            path: SecretPath::parse(&path).map_err(|error| format!("{field} as a {error}"))?,
            secret: ObjectRef::new(object.namespace(), &secret),
        })
    }
}
