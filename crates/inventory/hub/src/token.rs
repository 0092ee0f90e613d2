//! Tokens for agents: an assertion that a client signed is exchanged for a token (RFC 7523).
//!
//! - [`key`]: the public keys of clients.
//! - [`assertion`]: what an assertion must say, and who must have signed it. Pure.
//! - [`endpoint`]: the form, the errors of RFC 6749, replay and throttling.

pub mod assertion;
pub mod endpoint;
pub mod key;
