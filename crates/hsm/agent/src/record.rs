//! What an agent writes down where others can read it: the PINs that it tries, before it tries them; the token that it
//! serves; how it is doing.
//!
//! A [`Ledger`] keeps the record, and writes only in place of what was read. [`Book`] is one process's use of it: it asks
//! whether a PIN may be tried, and notes what came of it.

mod book;
mod config_map;
mod ledger;
mod notes;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use book::{Asked, Denial};
pub use book::{Book, Grant};
pub use config_map::ConfigMapLedger;
pub use ledger::{Answer, Change, Ledger, LedgerError, Loaded};
pub(crate) use notes::Exchanging;
pub use state::{report, state_of};
