//! The agent of one token.
//!
//! A PKCS#11 module is foreign code that may hang, crash, or hold on to a token that is gone. It lives in a child process
//! ([`child::run`]), and [`Host`] asks it, one request at a time, each with a deadline. A child that does not answer is
//! killed and replaced; a token that was unplugged is looked for until it is back. [`Health`] tells how it is.
//!
//! A PIN that was refused is never tried again by itself, and no other token is served than the one that was opened first.
//!
//! ```no_run
//! use trustplane_hsm_agent::{Host, Program, Settings, Wanted};
//! use trustplane_hsm_core::path::SecretPath;
//! use trustplane_hsm_token::Attempt;
//! use trustplane_process::secret::Secret;
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let program = Program {
//!     path: std::env::current_exe()?,
//!     arguments: vec!["module".into()],
//!     ..Program::default()
//! };
//! let wanted = Wanted { label: Some("dev-a".into()), ..Wanted::default() };
//! let settings = Settings::new(program, "/usr/lib/softhsm/libsofthsm2.so".into(), wanted);
//! let host = Host::start(settings, Secret::new("648219".into()), Attempt::Automatic)?;
//! host.health().wait_for(|health| health.is_serving()).await?;
//! let secret = host.read(&SecretPath::parse("shop/db")?).await?;
//! assert_eq!(secret.metadata.stamp.version, 1);
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]

pub mod catalogue;
pub mod child;
pub mod cli;
mod error;
mod frame;
mod health;
mod hold;
mod host;
pub mod kubernetes;
pub mod meters;
pub mod pcscd;
pub mod pin_secret;
pub mod probes;
pub mod record;
pub mod secrets;
pub mod serve;
pub mod server;
pub mod service;
pub mod test_token;
mod wire;
mod words;

pub use error::{AgentError, Effect, PinProblem};
pub use frame::FrameError;
pub use health::{Health, Phase, Provisioning};
pub use hold::HoldError;
pub use host::{Changed, Given, Host, Listing, Output, Program, Provision, Settings, Survey};
pub use wire::{Entry, Left, Wanted};
