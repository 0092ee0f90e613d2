//! Where secrets come from.
//!
//! A [`Provider`] fetches many secrets at once and says of each why it could not. Everything that all providers need is in
//! front of it: the [`Exchange`] gathers what is asked for within a few milliseconds, asks for each secret once however many
//! pods want it, and never has the same question on its way twice. A provider is a module of its own and a line in the
//! [`Registry`]; nothing else knows it.
//!
//! It is not for deciding whether somebody has to be asked, and not for what becomes of the answer: that is
//! `trustplane-sync-core`.
//!
//! ```
//! use trustplane_process::metrics::Metrics;
//! use trustplane_sync_core::request::Source;
//! use trustplane_sync_providers::{Exchange, Question, Registry, mock::Mock};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let mock = Mock::default();
//! mock.set("shop/db", r#"{"password": "hunter2"}"#);
//! let exchange = Exchange::new(Registry::default().with(mock), &Metrics::new());
//! let source = Source { provider: Some("mock".into()), store: None, path: "shop/db".into(), version: None };
//! let answer = exchange.ask(&Question::of(&source)).await.unwrap();
//! assert_eq!(answer.provider, "mock");
//! # });
//! ```

pub mod aws;
pub mod env;
mod exchange;
pub mod file;
pub mod mock;
mod registry;

use futures::future::BoxFuture;
use trustplane_sync_core::fetch::{FetchError, Fetched};

pub use exchange::{Answer, Exchange, Question};
pub use registry::Registry;

/// One secret that is wanted of a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locator {
    /// The path.
    pub path: String,
    /// The version, stage or number; the current one if none is named.
    pub version: Option<String>,
}

/// A place where secrets come from.
pub trait Provider: Send + Sync + 'static {
    /// Its name in annotations.
    fn name(&self) -> &'static str;

    /// Fetches secrets: one answer for each, in their order. Deadlines and the one retry layer are the provider's own, by
    /// `trustplane_process::outside`.
    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>>;
}
