//! A fault proxy before the API server, scripted by the test.
//!
//! Clients speak plain HTTP with it, and it speaks TLS with the API server; tokens pass through, so the API server sees
//! the same users as without it. What goes wrong is a list of [`Rule`]s: which requests, which fault, how often. Nothing
//! is left to chance.
//!
//! It is not a stand-in for the API server: whatever the script does not touch comes from the real one.
//!
//! ```no_run
//! # async fn example(sandbox: trustplane_testkit::Sandbox) -> anyhow::Result<()> {
//! use trustplane_testkit::DEADLINE;
//! use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule};
//!
//! let proxy = Proxy::start(sandbox.plane()).await?;
//! let conflict = proxy.add(Rule::new(Match::work().resource("configmaps"), Fault::Answer(Answer::conflict())).once());
//! // … start a controller with `instance.through(&proxy)` …
//! conflict.fired(1, DEADLINE).await?;
//! # Ok(())
//! # }
//! ```

mod events;
mod fault;
mod flight;
mod journal;
mod past;
mod request;
mod serve;
mod upstream;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use http::Uri;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use fault::{Answer, EventFault, EventMatch, Fault, Gate, Moment, Rule, Script, Twist};
pub use journal::Entry;
pub use request::{Match, Request, Verb};

use crate::ControlPlane;
use journal::Journal;

/// A running proxy. It ends when it is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: JoinHandle<()>,
}

struct Shared {
    upstream: upstream::Upstream,
    stage: Mutex<Stage>,
    journal: Journal,
    flights: flight::Flights,
    connections: Mutex<CancellationToken>,
    frozen: watch::Sender<bool>,
}

#[derive(Default)]
struct Stage {
    scripts: Vec<Script>,
    /// Requesters whose process counts as dead.
    halted: Vec<Match>,
}

impl Proxy {
    /// Starts a proxy before a control plane.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listen for the proxy")?;
        let address = listener.local_addr().context("listen for the proxy")?;
        let shared = Arc::new(Shared {
            upstream: upstream::Upstream::new(plane.config())?,
            stage: Mutex::default(),
            journal: Journal::default(),
            flights: flight::Flights::default(),
            connections: Mutex::default(),
            frozen: watch::Sender::new(false),
        });
        Ok(Self {
            listener: tokio::spawn(serve::accept(listener, shared.clone())),
            shared,
            address,
        })
    }

    /// Where clients reach it.
    pub fn url(&self) -> Uri {
        // An address with a port is always a URL.
        format!("http://{}", self.address).parse().unwrap_or_default()
    }

    /// Puts a rule in force. Of several rules that choose one request the oldest that still strikes decides.
    pub fn add(&self, rule: Rule) -> Script {
        let script = Script::new(rule);
        self.shared.stage().scripts.push(script.clone());
        script
    }

    /// Breaks the chosen requests that are under way, watches above all; gives how many.
    pub fn cut(&self, on: &Match) -> usize {
        self.shared.flights.cut(on)
    }

    /// Breaks every connection, also those that wait for their next request.
    pub fn cut_all(&self) {
        let mut token = self
            .shared
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *token).cancel();
    }

    /// How many of the chosen requests are under way: open watches, and what is not answered yet.
    pub fn under_way(&self, on: &Match) -> usize {
        self.shared.flights.under_way(on).len()
    }

    /// Nothing passes any more in either direction, but every connection stays.
    pub fn freeze(&self) {
        self.shared.frozen.send_replace(true);
    }

    /// Lets everything pass again.
    pub fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    /// Every chosen request so far, oldest first.
    pub fn requests(&self, on: &Match) -> Vec<Entry> {
        self.shared.journal.entries(on)
    }

    /// A place in the journal, for [`Self::requests_since`].
    pub fn mark(&self) -> usize {
        self.shared.journal.len()
    }

    /// Every chosen request since a mark.
    pub fn requests_since(&self, mark: usize, on: &Match) -> Vec<Entry> {
        self.shared.journal.entries_from(mark, on)
    }

    /// Waits until `n` of the chosen requests have come.
    pub async fn wait_for(&self, on: &Match, n: usize, deadline: Duration) -> Result<Vec<Entry>> {
        self.shared.journal.wait(on, n, deadline).await
    }

    /// Waits until the chosen request of this number, from 0 on, has been answered by the API server.
    pub async fn answered(&self, on: &Match, index: usize, deadline: Duration) -> Result<Entry> {
        self.shared.journal.answer(on, index, deadline).await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
        self.cut_all();
    }
}

impl Shared {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to this request.
    fn fault(&self, request: &Request) -> Option<Fault> {
        let mut stage = self.stage();
        if stage.halted.iter().any(|halted| halted.matches(request)) {
            return Some(Fault::Freeze);
        }
        let script = stage.scripts.iter().find(|script| {
            let applies = match script.fault() {
                Fault::Events(..) => false,
                Fault::Past { .. } => !request.verb.is_write(),
                _ => true,
            };
            applies && script.on().matches(request) && script.strike()
        })?;
        let fault = script.fault().clone();
        if matches!(fault, Fault::Halt(_)) {
            let requester = script.on().anything_of_it();
            stage.halted.push(requester);
        }
        Some(fault)
    }

    /// What happens to this event of a watch.
    fn event_fault(&self, request: &Request, event: &Value) -> Option<EventFault> {
        self.stage()
            .scripts
            .iter()
            .find_map(|script| match script.fault() {
                Fault::Events(on, fault)
                    if script.on().matches(request) && on.matches(event) && script.strike() =>
                {
                    Some(fault.clone())
                }
                _ => None,
            })
    }

    async fn thawed(&self) {
        // The sender lives in self, so the wait ends only when traffic is let through.
        let _ = self.frozen.subscribe().wait_for(|frozen| !*frozen).await;
    }
}
