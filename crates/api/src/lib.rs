//! What people and peers write: the kinds that we serve, field by field, and what our processes say to each other.
//!
//! The types say what can be written; the rules that no type can say stand beside them in the language of the API server, so
//! that a wrong object is refused when it is written. What an object means is for the capability's `core`.
//!
//! With the feature `crd` each kind is also a Kubernetes resource with its definition. Without it nothing here knows
//! Kubernetes, so that pure crates can use the types.
//!
//! ```
//! use trustplane_api::sync::{Effect, PolicySpec};
//!
//! let spec: PolicySpec = serde_json::from_value(serde_json::json!({
//!     "namespaceSelector": {"matchLabels": {"team": "shop"}},
//!     "rules": [{"paths": ["prod/{namespace}/**"]}],
//! }))
//! .unwrap();
//! assert_eq!(spec.rules[0].effect, Effect::Allow);
//! ```

#![deny(missing_docs)]

#[cfg(feature = "deviceplugin")]
pub mod deviceplugin;
pub mod duration;
pub mod hsm;
pub mod identity;
pub mod inventory;
pub mod selector;
pub mod sync;
