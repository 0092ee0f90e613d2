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
//! let exchange = Exchange::new(Registry::default().with(mock), None, &Metrics::new());
//! let source = Source { provider: Some("mock".into()), store: None, path: "shop/db".into(), version: None };
//! let as_whom = async { Ok("default".into()) };
//! let answer = exchange.ask(&Question::of(&source, "shop", None), as_whom).await.unwrap();
//! assert_eq!(answer.provider, "mock");
//! # });
//! ```

pub mod aws;
pub mod env;
mod exchange;
pub mod file;
pub mod kubernetes;
pub mod mock;
mod outage;
mod registry;

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use trustplane_sync_core::fetch::{FetchError, Fetched};

pub use exchange::{Answer, Exchange, News, Question};
pub use registry::Registry;

/// One secret that is wanted of a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locator {
    /// The path.
    pub path: String,
    /// The version, stage or number; the current one if none is named.
    pub version: Option<String>,
    /// On whose behalf it is wanted.
    pub on_behalf_of: Principal,
}

/// Whose rights decide about an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identity {
    /// Those of this process: everybody gets the same answer.
    #[default]
    Process,
    /// Those of the namespace that asks.
    Namespace,
    /// Those of the service account that the asking pod runs as.
    ServiceAccount,
}

/// Those whose rights decide about an answer. Questions of different principals never share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// This process.
    Process,
    /// A namespace.
    Namespace(String),
    /// A service account.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: Arc<str>,
    },
}

impl Principal {
    /// The namespace, unless it is the process itself.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Process => None,
            Self::Namespace(namespace) | Self::ServiceAccount { namespace, .. } => Some(namespace),
        }
    }
}

/// A place where secrets come from.
pub trait Provider: Send + Sync + 'static {
    /// Its name in annotations.
    fn name(&self) -> &'static str;

    /// Whose rights decide. One that makes secrets for whoever asks goes by the namespace at least: those that ask as one
    /// share what they get.
    fn identity(&self) -> Identity {
        Identity::Process
    }

    /// Fetches secrets: one answer for each, in their order. Deadlines and the one retry layer are the provider's own, by
    /// `trustplane_process::outside`.
    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>>;

    /// Paths of secrets that have changed, as they do. A provider that is not told of changes has none.
    fn changes(&self) -> Option<BoxStream<'static, String>> {
        None
    }
}

/// Opens stores: providers with a configuration by the admin.
pub trait Opener: Send + Sync + 'static {
    /// Opens a store as it is in the revision that a request was judged with. `before` is the content that it rested on when it
    /// was opened in this revision.
    fn open<'a>(
        &'a self,
        store: &'a str,
        revision: &'a str,
        before: Option<u64>,
    ) -> BoxFuture<'a, Result<Opening, FetchError>>;
}

/// What comes of an attempt to open a store.
pub enum Opening {
    /// It is open.
    Opened(Opened),
    /// It rests on the same content as before.
    Unchanged,
    /// It has another revision by now. The request was judged by what it was, so it must be judged again.
    OtherRevision,
}

/// A store that was opened.
pub struct Opened {
    /// What answers.
    pub provider: Arc<dyn Provider>,
    /// A hash of everything that it rests on besides the store itself, such as credentials.
    pub content: u64,
}
