//! A platform of the inventory that knows what the first agents knew, and nothing else: four paths, one form of token, one change
//! per request.
//!
//! It keeps what it is sent as a platform would, and a journal of how it came. Anything that is not in the contract, such as another
//! path, a compressed body or an assertion with a `kid`, is a **violation**, and a test with a violation fails when its platform is
//! dropped. What goes wrong is a list of [`Rule`]s, as with the fault [`proxy`](crate::proxy).
//!
//! ```no_run
//! # async fn example(public_key: &str) -> anyhow::Result<()> {
//! use trustplane_testkit::platform::{Endpoint, Fault, Match, Platform, Rule, Settings};
//!
//! let platform = Platform::start(Settings::default()).await?;
//! platform.register("client-1", public_key)?;
//! platform.add(Rule::new(Match::on(Endpoint::Events).kind("Pod"), Fault::busy(429, 2)).times(3));
//! // … start an agent with `platform.url()` …
//! platform.wait("a snapshot", |state| state.accepted(Endpoint::Snapshot) > 0).await?;
//! platform.close().await;
//! platform.open().await?;
//! assert_eq!(platform.state().projections().len(), 3);
//! # Ok(())
//! # }
//! ```

mod grant;
mod payload;
mod script;
mod serve;
mod state;
mod tls;
mod upstream;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use crate::proxy::Gate;
pub use script::{Fault, Match, Rule, Script};
pub use state::{Endpoint, Entry, State};

use crate::DEADLINE;
use grant::Grants;
use upstream::Upstream;

/// What a platform does with a snapshot. A missing array leaves its kind alone either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Snapshots {
    /// An array replaces all objects of its kind.
    #[default]
    Replace,
    /// An array adds to the objects of its kind, and nothing is ever removed by a snapshot.
    Merge,
}

/// How a platform is started.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What becomes of a snapshot.
    pub snapshots: Snapshots,
    /// Whether it speaks TLS, with a certificate of [`Platform::ca_bundle`].
    pub tls: bool,
    /// Whether the journal keeps the bodies of requests; a benchmark would rather not.
    pub keep_bodies: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            snapshots: Snapshots::Replace,
            tls: false,
            keep_bodies: true,
        }
    }
}

/// A running platform on loopback. It ends when it is dropped, and fails the test then if the contract was violated.
pub struct Platform {
    shared: Arc<Shared>,
    address: SocketAddr,
    ca_bundle: Option<String>,
    running: Mutex<Option<Running>>,
    /// Bound and never listening: keeps the port ours while the platform is closed.
    _port: TcpSocket,
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

struct Shared {
    settings: Settings,
    tls: Option<TlsAcceptor>,
    inner: Mutex<Inner>,
    /// Grows with each change of what a test can see.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    state: State,
    grants: Grants,
    scripts: Vec<Script>,
    upstream: Option<Arc<Upstream>>,
}

impl Platform {
    /// Starts a platform at a free port of loopback.
    pub async fn start(settings: Settings) -> Result<Self> {
        let port = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = port.local_addr().context("reserve a port for a platform")?;
        let (tls, ca_bundle) = match settings.tls {
            true => {
                let (acceptor, pem) = tls::acceptor()?;
                (Some(acceptor), Some(pem))
            }
            false => (None, None),
        };
        let platform = Self {
            shared: Arc::new(Shared {
                settings,
                tls,
                inner: Mutex::default(),
                changes: watch::Sender::new(0),
            }),
            address,
            ca_bundle,
            running: Mutex::default(),
            _port: port,
        };
        platform.shared.inner().grants.audience = platform.url();
        platform.open().await?;
        Ok(platform)
    }

    /// Where agents reach it, without a slash at the end.
    pub fn url(&self) -> String {
        let scheme = if self.ca_bundle.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The certificate that agents have to trust, as PEM; none without TLS.
    pub fn ca_bundle(&self) -> Option<&str> {
        self.ca_bundle.as_deref()
    }

    /// Lets a client in by its public key, which takes the place of an earlier key of the client.
    pub fn register(&self, client: &str, public_key_pem: &str) -> Result<()> {
        self.shared.inner().grants.register(client, public_key_pem)
    }

    /// The `platformURL` as the agent was given it, where that is not [`Platform::url`]: with a slash at the end, or with a path.
    /// It is what assertions have to name, and what every path begins with.
    pub fn set_platform_url(&self, url: &str) {
        self.shared.inner().grants.audience = url.to_owned();
    }

    /// Stands before another platform, such as a hub, from now on: requests without a fault go on to it, and its answers come back.
    /// This platform then keeps no objects and issues no tokens; violations, rules and the journal stay.
    pub fn stand_before(&self, address: SocketAddr, ca_bundle: &str) -> Result<()> {
        let upstream = Upstream::new(address, ca_bundle)?;
        self.shared.inner().upstream = Some(Arc::new(upstream));
        Ok(())
    }

    /// How long tokens are good from now on, in seconds; `None` leaves the field out, and the token never ends.
    pub fn set_expires_in(&self, seconds: Option<u64>) {
        self.shared.inner().grants.expires_in = seconds;
    }

    /// Refuses every token that was issued so far.
    pub fn revoke_tokens(&self) {
        self.shared.inner().grants.revoke();
    }

    /// Every token that was issued so far, to search for where no token may show.
    pub fn tokens(&self) -> Vec<String> {
        self.shared.inner().grants.issued.clone()
    }

    /// Puts a rule in force. Of several rules that choose one request the oldest that still strikes decides.
    pub fn add(&self, rule: Rule) -> Script {
        let script = Script::new(rule);
        self.shared.inner().scripts.push(script.clone());
        script
    }

    /// Begins an outage: every connection breaks, and new ones are refused. What the platform knows stays.
    pub async fn close(&self) {
        let running = self.running().take();
        if let Some(Running { stop, task }) = running {
            stop.cancel();
            // It ends by itself; a panic of it is a test's own.
            let _ = task.await;
        }
    }

    /// Ends an outage, at the same port.
    pub async fn open(&self) -> Result<()> {
        let listener = listen(self.address)?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve::accept(listener, self.shared.clone(), stop.clone()));
        match self.running().replace(Running { stop, task }) {
            Some(_) => Err(anyhow!("open a platform that is open")),
            None => Ok(()),
        }
    }

    /// What the platform knows now.
    pub fn state(&self) -> State {
        self.read(State::clone)
    }

    /// Looks at what the platform knows, without a copy.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.shared.inner().state)
    }

    /// Waits until a condition holds, looking again after every change; gives up after [`DEADLINE`].
    pub async fn wait(&self, what: &str, mut condition: impl FnMut(&State) -> bool) -> Result<()> {
        let mut changes = self.shared.changes.subscribe();
        let holds = changes.wait_for(|_| self.read(&mut condition));
        let waited = timeout(DEADLINE, holds).await.is_ok();
        match waited {
            true => Ok(()),
            false => Err(anyhow!(
                "waited {DEADLINE:?} in vain for {what}; the platform has {}",
                self.read(State::summary)
            )),
        }
    }

    /// Fails the test if an agent did anything that the contract does not know.
    pub fn assert_only_seed_paths(&self) {
        let violations = self.read(|state| state.violations().to_vec());
        assert!(
            violations.is_empty(),
            "the contract of the platform was violated:\n{}",
            violations.join("\n")
        );
    }

    /// Takes the violations so far: for a test that is about them.
    pub fn take_violations(&self) -> Vec<String> {
        self.shared.inner().state.take_violations()
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        if let Some(running) = self.running().take() {
            running.task.abort();
        }
        if !std::thread::panicking() {
            self.assert_only_seed_paths();
        }
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what a test can see, and tells those who wait.
    fn change<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let done = act(&mut self.inner());
        self.changes.send_modify(|count| *count += 1);
        done
    }
}

/// A socket of its own at this address. Sockets that may be reused share an address as long as one at most listens.
fn bind(address: SocketAddr) -> Result<TcpSocket> {
    let socket = TcpSocket::new_v4().context("make a socket for a platform")?;
    socket
        .set_reuseaddr(true)
        .context("make a socket for a platform")?;
    socket
        .bind(address)
        .with_context(|| format!("bind a platform to {address}"))?;
    Ok(socket)
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = bind(address)?.listen(1024);
    listener.with_context(|| format!("listen for a platform at {address}"))
}
