//! What SPIRE's configuration files say, for SPIRE 1.15 and spire-controller-manager 0.6.
//!
//! | file | program | format |
//! |---|---|---|
//! | `server.conf` | spire-server | JSON, which SPIRE reads as HCL |
//! | `controller-manager-config.yaml` | spire-controller-manager | JSON, which is YAML |
//! | `agent.conf` | spire-agent | as `server.conf` |
//! | `oidc-discovery-provider.conf` | oidc-discovery-provider | as `server.conf` |
//!
//! Keys are sorted and indented by two spaces, so the same spec always gives the same bytes: pods restart with the hash of a file.
//! SPIRE refuses to start with a key that it does not know; [`crate::check`] refuses images of other minor versions for that reason.
//!
//! An operand without a spec gets a configuration that runs.
//!
//! ```
//! use trustplane_api::identity::SpireAgentSpec;
//! use trustplane_identity_core::{Shared, render};
//!
//! let shared = Shared {
//!     namespace: "spire".into(),
//!     trust_domain: "example.org".into(),
//!     cluster_name: "prod".into(),
//!     bundle: "spire-bundle".into(),
//! };
//! let text = render::agent_conf(&SpireAgentSpec::default(), &shared);
//! assert!(text.contains(r#""trust_domain": "example.org""#));
//! ```

mod agent;
mod controller_manager;
mod datastore;
mod federation;
mod go;
mod issuer;
mod oidc;
pub mod paths;
mod server;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use trustplane_api::identity::{SpireAgentSpec, SpireOidcDiscoveryProviderSpec, SpireServerSpec};

pub use agent::kubelet_ca;
pub use datastore::tls_secret;
pub use federation::certificate as federation_certificate;
pub use go::go_duration;
pub use issuer::{Issuer, IssuerError};
pub use oidc::hosts as oidc_hosts;

use crate::Shared;

/// The minor version of SPIRE that the files are for.
pub const SPIRE_MINOR: (u32, u32) = (1, 15);

/// `server.conf`.
pub fn server_conf(spec: &SpireServerSpec, shared: &Shared) -> String {
    text(&server::conf(spec, shared))
}

/// `controller-manager-config.yaml`.
pub fn controller_manager_conf(shared: &Shared) -> String {
    text(&controller_manager::conf(shared))
}

/// `agent.conf`.
pub fn agent_conf(spec: &SpireAgentSpec, shared: &Shared) -> String {
    text(&agent::conf(spec, shared))
}

/// `oidc-discovery-provider.conf`. `issuer` is the effective issuer: that of the spec, or else that of SpireServer.
pub fn oidc_conf(spec: &SpireOidcDiscoveryProviderSpec, shared: &Shared, issuer: &str) -> String {
    text(&oidc::conf(spec, shared, issuer))
}

/// JSON with two spaces of indent and a newline at the end. The keys of a [`Value`] are sorted.
fn text(conf: &Value) -> String {
    format!("{conf:#}\n")
}

/// Where a program answers the probes of kubelet.
fn health_checks(port: &str) -> Value {
    json!({
        "bind_address": "0.0.0.0",
        "bind_port": port,
        "listener_enabled": true,
        "live_path": "/live",
        "ready_path": "/ready",
    })
}

/// Where a program serves its metrics.
fn telemetry() -> Value {
    json!({ "Prometheus": { "host": "0.0.0.0", "port": "9402" } })
}
