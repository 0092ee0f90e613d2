//! The admin port: is the process alive, is it ready, what does it count, what does it hold.
//!
//! | path | answers |
//! |---|---|
//! | `/livez`, `/healthz` | 200 while every heartbeat is young enough, else 503 with the names of the late ones |
//! | `/readyz` | 200 when every check is ready, else 503 with what is not ready and why; `?verbose` lists all |
//! | `/metrics` | OpenMetrics text |
//! | `/debug/state.json` | what parts of the process say of themselves; never a value. To loopback only: `kubectl port-forward` |
//!
//! It speaks plain HTTP, answers only GET, and is meant for the pod's network. Not for users' requests.
//!
//! **Guarantees.** Idle and slow connections never keep a probe out, however many there are: see [`serve`](crate::serve). Probes can
//! have a listener of their own (`--health-probe-bind-address`), which the network keeps from everybody but kubelet.

mod checks;
mod routes;
mod state;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{BindAddress, BindError, CommonArgs};
use crate::metrics::Metrics;
use crate::serve::{Limits, serve};
pub use checks::{Check, Heartbeat, Liveness, Readiness, Report, Text, Verdict};
use routes::{Routes, router};
pub use state::{StateEntry, StateSource};

/// What a listener for probes and metrics grants its clients.
///
/// Kubelet opens a connection for each probe, and scrapes are mostly 15 seconds or more apart: a connection that idles longer
/// than [`Limits::idle`] is closed.
pub const LIMITS: Limits = Limits {
    connections: 64,
    head: Duration::from_secs(5),
    idle: Duration::from_secs(10),
    head_bytes: 8 * 1024,
    drain: Duration::from_secs(5),
};

/// Where the admin endpoints are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminAddresses(Vec<(BindAddress, Routes)>);

impl AdminAddresses {
    /// Everything at one address.
    pub fn all(address: BindAddress) -> Self {
        Self(vec![(address, Routes::ALL)])
    }

    /// Adds an address that serves a part.
    ///
    /// One port can have only one listener: when the port is taken already, that listener serves both, at the address
    /// that was named for the part. So manifests that say `--metrics-bind-address=:8080` go on working beside a
    /// default admin port of 8080.
    fn add(&mut self, address: &BindAddress, routes: Routes) {
        let port = address.port().filter(|port| *port != 0);
        let taken = self
            .0
            .iter_mut()
            .find(|(other, _)| port.is_some() && other.port() == port);
        match taken {
            Some((other, served)) => {
                *other = address.clone();
                *served = served.union(routes);
            }
            None => self.0.push((address.clone(), routes)),
        }
    }
}

impl From<&CommonArgs> for AdminAddresses {
    fn from(args: &CommonArgs) -> Self {
        let mut addresses = Self::all(args.admin_bind_address.clone());
        if let Some(address) = &args.metrics_bind_address {
            addresses.add(address, Routes::METRICS);
        }
        if let Some(address) = &args.health_probe_bind_address {
            addresses.add(address, Routes::HEALTH);
        }
        addresses
    }
}

/// What the admin endpoints tell.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// For `/metrics`.
    pub metrics: Metrics,
    /// For `/readyz`.
    pub readiness: Readiness,
    /// For `/livez` and `/healthz`.
    pub liveness: Liveness,
    /// For `/debug/state.json`.
    pub state: StateSource,
}

/// The listeners of the admin endpoints, open but not yet served.
#[derive(Debug)]
pub struct Admin {
    listeners: Vec<(TcpListener, Routes)>,
    sources: Sources,
}

impl Admin {
    /// Opens the listeners, so that an address in use ends the start and not a later task.
    pub async fn bind(addresses: &AdminAddresses, sources: Sources) -> Result<Self, BindError> {
        let mut listeners = Vec::new();
        for (address, routes) in &addresses.0 {
            if let Some(listener) = address.listen().await? {
                listeners.push((listener, *routes));
            }
        }
        Ok(Self { listeners, sources })
    }

    /// Where the listeners are, in the order admin, metrics, health.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|(listener, _)| listener.local_addr().ok())
            .collect()
    }

    /// Serves until `stop`.
    pub async fn serve(self, stop: CancellationToken) {
        let mut servers = JoinSet::new();
        for (listener, routes) in self.listeners {
            servers.spawn(serve(
                listener,
                router(routes, &self.sources),
                LIMITS,
                stop.clone(),
            ));
        }
        servers.join_all().await;
        // With every address off there is nothing to serve, which is no reason to end.
        stop.cancelled().await;
    }
}

#[cfg(test)]
mod tests;
