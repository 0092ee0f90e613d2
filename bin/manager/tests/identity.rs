//! The shipped binary with the capability identity, as the shipped account with the shipped rights: what its webhooks make of requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "identity/changes.rs"]
mod changes;
#[path = "identity/deletion.rs"]
mod deletion;
#[path = "identity/denials.rs"]
mod denials;
#[path = "identity/denied.rs"]
mod denied;
#[path = "identity/hand.rs"]
mod hand;
#[path = "identity/impostor.rs"]
mod impostor;
#[path = "identity/legacy.rs"]
mod legacy;
#[path = "identity/outage.rs"]
mod outage;
#[path = "identity/quickstart.rs"]
mod quickstart;
#[path = "identity/replicas.rs"]
mod replicas;
#[path = "identity/service.rs"]
mod service;
#[path = "identity/stage.rs"]
mod stage;
#[path = "identity/unjudged.rs"]
mod unjudged;
#[path = "identity/webhooks.rs"]
mod webhooks;
