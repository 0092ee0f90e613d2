//! Secrets on a hardware token, the pure part: how they lie there, and how they are changed without loss.
//!
//! A secret is a path with keys and values. On the token each key is a data object of its own, and one more object holds the
//! metadata; the labels are those of the HSM Secrets Operator ([`label`], [`metadata`], [`oid`]). [`layout`] sorts all
//! objects of a token into secrets, and never makes a secret smaller because something could not be read. A change is a
//! list of operations ([`op`]): [`change`](change::change) plans it of what there is, behind a [`journal`], and
//! [`recover`](recover::recover) plans what is to be done after it was interrupted, wherever that was. After that the
//! token holds the old value or the new one.
//!
//! What becomes of a secret in the cluster is decided in [`delivery`]. Which tokens there are is another part: an HSMDevice is read ([`device`]), the nodes say what they have ([`usb`]), a [`pool`]
//! makes one picture of that, and each token gets an agent ([`agents`]). [`decide`] has the decisions about it.
//!
//! There is no PKCS#11 here, no clock and no chance; they are parameters.
//!
//! ```
//! use trustplane_hsm_core::change::{Change, Terms, change};
//! use trustplane_hsm_core::layout::Contents;
//! use trustplane_hsm_core::limits::Limits;
//! use trustplane_hsm_core::metadata::Metadata;
//! use trustplane_hsm_core::path::{KeyName, SecretPath};
//! use trustplane_hsm_core::secret::{Data, Secret, Value};
//! use trustplane_hsm_core::version::Expected;
//!
//! let path = SecretPath::parse("db").unwrap();
//! let data = Data::from([(KeyName::parse("password").unwrap(), Value::new("s3cr3t"))]);
//! let secret = Secret { data, metadata: Metadata::default() };
//!
//! let empty_token = Contents::<u32>::of(&[]);
//! let terms = Terms::next(Expected::Absent);
//! let (ops, written) = change(&empty_token, &path, &Change::Put(&secret), terms, &Limits::default()).unwrap();
//! assert_eq!(written.metadata.stamp.version, 1);
//! let steps: Vec<String> = ops.iter().map(ToString::to_string).collect();
//! assert_eq!(steps[2..], ["create db/_metadata", "create db/password", "destroy what step 0 made"]);
//! ```
#![deny(missing_docs)]

pub mod agents;
pub mod change;
pub mod checksum;
pub mod code;
pub mod consent;
pub mod decide;
pub mod delivery;
pub mod device;
pub mod discovery_set;
pub mod encoded;
#[cfg(any(test, feature = "examples"))]
pub mod examples;
pub mod generation;
pub mod journal;
pub mod label;
pub mod layout;
pub mod limits;
pub mod metadata;
#[cfg(test)]
mod model;
pub mod module;
pub mod object;
pub mod objects;
pub mod oid;
pub mod op;
pub mod path;
pub mod pin_record;
mod pod;
pub mod pool;
pub mod recover;
pub mod replace;
pub mod resource;
pub mod rules;
pub mod secret;
pub mod usb;
pub mod version;
