//! What SPIRE's configuration and objects should be, and what may change it: the pure half of the capability `identity`.
//!
//! A person says once, in the ZeroTrustWorkloadIdentityManager (ZTWIM) `cluster`, which trust domain and cluster this is. Four
//! operands (SpireServer, SpireAgent, SpiffeCSIDriver, SpireOIDCDiscoveryProvider) follow.
//!
//! | question | module |
//! |---|---|
//! | what is wrong with a spec that its schema takes | [`check`] |
//! | which value holds, and which fields of an operand follow ZTWIM | [`inherit`] |
//! | may this request change a kind of ours | [`admit`] |
//! | what do SPIRE's configuration files say | [`render`] |
//! | which objects make an operand run | [`children`] |
//! | how is an operand doing | [`health`] |
//! | what is to be done about ZTWIM, or about an operand | [`decide`] |
//!
//! It is not for reading or writing Kubernetes: `trustplane-identity-controller` does that.
#![deny(missing_docs)]

pub mod admit;
pub mod check;
pub mod children;
pub mod decide;
#[cfg(any(test, feature = "examples"))]
pub mod examples;
pub mod health;
pub mod inherit;
pub mod render;
mod settings;
mod shared;

pub use settings::{Images, Settings};
pub use shared::Shared;
