//! Secrets for tests.

pub use trustplane_hsm_core::examples::{data, path, secret, stamp};
use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_token::{Module, Store};

use crate::stage::log_in;

/// The store on the token with a label, without limits.
pub fn store<'module>(module: &'module Module, label: &str) -> Store<'module> {
    Store::open(log_in(module, label), Limits::default()).unwrap()
}
