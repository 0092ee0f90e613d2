//! Decides about HSMSecrets: how a secret on the tokens becomes a Secret.
//!
//! A controller gathers a [`Situation`]: the HSMSecret, its Secret as far as a watch shows it, what the agents have listed at its
//! location, and the other HSMSecrets that want the same Secret or location. [`assess`] says what there is to do, and whether a
//! value has to be read for that. [`decide_delivery`] makes the plan. The rules are those of ADR 38:
//!
//! - **A Secret is ours** if the HSMSecret is its controller, by uid ([`LiveSecret`]).
//! - **What counts on the tokens** is decided in [`copies`], and is the same after a restart.
//! - **Which namespace may have a secret** is decided in [`locations`], before the status shows anything of the secret.
//! - **No error and no absence touches the Secret.** The Secret is written only from data that was read whole, that fits its type
//!   and whose location belongs to the namespace.
//!
//! Changes of tokens are planned in [`crate::change`].

mod assess;
pub mod copies;
mod decide;
pub mod locations;
mod parent;
mod placement;
mod shell;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value as Json;
use trustplane_api::hsm::{HsmSecretSpec, HsmSecretStatus};
use trustplane_plan::{Meta, ObjectRef};

use crate::secret::Secret;

pub use assess::{Assessment, Delivery, TakeOver, assess};
pub use decide::{DeliveryAction, decide_delivery};
pub use parent::Operator;
pub use placement::{Placement, Tenancy};

use copies::TokenView;

/// The field manager of the Secrets that are made from tokens.
pub const MANAGER: &str = "trustplane-hsm-secrets";

/// What is known about an HSMSecret before any value is read.
#[derive(Debug, Clone)]
pub struct Situation {
    /// The metadata of the HSMSecret.
    pub object: Meta,
    /// Its spec; `None` if this version cannot read the spec.
    pub spec: Option<HsmSecretSpec>,
    /// Its status.
    pub status: HsmSecretStatus,
    /// Whether this installation serves it.
    pub served: bool,
    /// Its location and its Secret, or which field of the spec is invalid.
    pub placement: Result<Placement, String>,
    /// Other HSMSecrets that this installation serves and that want the same Secret.
    pub rivals: Vec<Meta>,
    /// Other HSMSecrets that this installation serves and that want the same location, of any namespace.
    pub sharers: Vec<Meta>,
    /// The Secret of the name that the HSMSecret wants.
    pub live: LiveSecret,
    /// The known tokens, in the order of their names.
    pub tokens: Vec<TokenView>,
    /// The namespace that has claimed the location.
    pub tenant: Option<String>,
    /// The namespaces that HSMDevices list for the location ([`locations::listed`]); `None` if none lists it.
    pub listed: Option<BTreeSet<String>>,
    /// Whether the namespace is part of the path.
    pub tenancy: Tenancy,
    /// Why the last attempt to write failed, if it did.
    pub trouble: Option<String>,
    /// How many looks have failed since the last one that succeeded.
    pub failures: u32,
}

impl Situation {
    /// The namespace of the HSMSecret.
    pub fn namespace(&self) -> &str {
        self.object.object.namespace().unwrap_or_default()
    }

    /// Whether this HSMSecret is the controller of a Secret.
    fn owns(&self, secret: &Meta) -> bool {
        let mut owners = secret.owners.iter();
        owners.any(|owner| owner.controller && owner.uid == *self.object.uid)
    }
}

/// The live Secret of the name that an HSMSecret wants.
#[derive(Debug, Clone)]
pub enum LiveSecret {
    /// No Secret has the name, as far as the watch knows.
    Absent,
    /// A Secret has the name.
    Found {
        /// Its metadata, with the fields that [`MANAGER`] owns.
        meta: Box<Meta>,
        /// What it holds, without values; `None` if it was read from the API server and has another owner.
        content: Option<SecretContent>,
    },
}

/// What a Secret holds, without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretContent {
    /// Its type.
    pub secret_type: String,
    /// Whether the Secret is immutable.
    pub immutable: bool,
    /// The names of its keys.
    pub keys: BTreeSet<String>,
    /// Our digest of its data, as agents make it; `None` if it has a key that no token can hold.
    pub digest: Option<String>,
    /// The checksum, as the original computes it.
    pub checksum: String,
}

/// The oldest of the objects that are not being deleted; of equally old objects the first by name.
pub(crate) fn oldest<'a>(objects: impl IntoIterator<Item = &'a Meta>) -> Option<&'a Meta> {
    objects
        .into_iter()
        .filter(|object| !object.is_terminating())
        .min_by_key(|object| (object.created, object.object.clone()))
}

/// The input of [`decide_delivery`].
#[derive(Debug)]
pub struct DeliveryInput {
    /// What was known before any value was read.
    pub situation: Situation,
    /// What [`assess`] says of the situation.
    pub assessment: Assessment,
    /// The secret, or why it could not be read; `None` if no read was needed.
    pub reading: Option<Result<Secret, String>>,
    /// The `managedFields` to write, if fields of other field managers have to become ours first.
    pub managed_fields: Option<Vec<Json>>,
}

/// The HSMSecret that is the controller of a Secret.
pub fn controller_of(secret: &Meta) -> Option<ObjectRef> {
    let owner = secret
        .owners
        .iter()
        .find(|owner| owner.controller && owner.kind == "HSMSecret")?;
    Some(ObjectRef::new(secret.object.namespace(), &owner.name))
}
