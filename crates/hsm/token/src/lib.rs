//! A hardware token behind PKCS#11.
//!
//! [`Module`] is the vendor's library, of which a process has one. It tells which tokens there are ([`Inventory`]); one is
//! chosen by what it is, before any PIN is tried ([`Selector`]). [`Token`] is a session with it: it reads all data objects or
//! says which it could not read, and it never tries a PIN by itself that could be locked by it. [`Store`] is a token with
//! secrets on it, as `trustplane-hsm-core` lays them out: whatever fails, a secret is the old one or the new one.
//!
//! A module can hang and can crash: this crate is for a process that may, and blocks whoever calls it. It is not for
//! deciding when a PIN may be tried again, nor for telling others about secrets.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use trustplane_hsm_core::limits::Profile;
//! use trustplane_hsm_core::path::SecretPath;
//! use trustplane_hsm_token::{Attempt, Module, Pin, Selector, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let module = Module::load(Path::new("/usr/lib/softhsm/libsofthsm2.so"))?;
//! let wanted = Selector::label("dev-a").ok_or("a label")?;
//! let token = module.open(module.inventory()?.choose(&wanted)?)?;
//! token.log_in(&Pin::new("648219"), Attempt::Automatic)?;
//! let mut store = Store::open(token, Profile::Software.limits())?;
//! let secret = store.read(&SecretPath::parse("shop/db")?)?;
//! assert_eq!(secret.metadata.stamp.version, 1);
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]

mod attributes;
mod error;
mod inventory;
mod module;
mod pin;
mod provision;
mod store;
mod token;

pub use error::{Answer, TokenError};
pub use inventory::{BadSlot, ChoiceError, Inventory, Memory, Selector, TokenInfo};
pub use module::Module;
pub use pin::{Attempt, Pin, PinTries};
pub use store::{Capacity, Listing, Store, StoreError, Survey};
pub use token::{Handle, Objects, Remains, Token, Unreadable};
