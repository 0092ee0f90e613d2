//! The capability `identity`: SPIRE, configured in one place.
//!
//! ```text
//!  ZTWIM ─┬─► Config: values, owner reference ─► operands ─┐
//!         └────────────────────────────────────────────────┴─► Operands: children, status ─► kubelet ─► pods
//!  request of a person ─► webhooks: fill, judge ─► ZTWIM, operands
//! ```
//!
//! Two controllers and two webhooks share one set of rules, which is in `trustplane-identity-core`; what is here reads and writes. The webhooks
//! read the API server itself, as a store may not know yet of what was written a moment ago.
//!
//! SPIRE runs in the namespaces that the admin lists, and nowhere else.
//!
//! ```
//! use clap::Parser;
//! use trustplane_identity_controller::{IdentityArgs, capability};
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     identity: IdentityArgs,
//! }
//!
//! let capability = capability(Arguments::parse_from(["manager"]).identity);
//! assert!(capability.opt_in);
//! ```
#![deny(missing_docs)]

mod admit;
mod args;
mod assembly;
mod config;
mod error;
mod metrics;
mod operands;
mod pki;
mod rights;
mod seen;
mod world;

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use trustplane_api::identity::{
    ClusterFederatedTrustDomain, ClusterSpiffeId, ClusterStaticEntry, SpiffeCsiDriver, SpireAgent,
    SpireOidcDiscoveryProvider, SpireServer, ZeroTrustWorkloadIdentityManager,
};
use trustplane_identity_core::decide::mark;
use trustplane_kit::manager::{Capability, Context, SecretIdentity};

pub use args::{IdentityArgs, PullPolicy};
pub use assembly::{DEBOUNCE, Pace, run_alone};
pub use rights::{rights, roles};
pub use trustplane_identity_core::{Images, Settings};

/// The capability.
pub fn capability(arguments: IdentityArgs) -> Capability {
    Capability {
        name: "identity",
        about: "runs SPIRE, configured in one place, and checks every change of it",
        crds: kinds,
        policies: Vec::new,
        at_home: true,
        opt_in: true,
        namespaces: arguments.namespaces(),
        tenants: Vec::new(),
        rights,
        parts: Vec::new(),
        roles,
        lease_before: Some("24a59323.operator.openshift.io"),
        secrets: Some(SecretIdentity::new(mark)),
        webhooks: admit::webhooks,
        start: Arc::new(move |context: Context| {
            let settings = arguments.settings(&context.namespace);
            Box::pin(async move { assembly::start(&context, settings).await })
        }),
    }
}

fn kinds() -> Vec<CustomResourceDefinition> {
    vec![
        ZeroTrustWorkloadIdentityManager::crd(),
        SpireServer::crd(),
        SpireAgent::crd(),
        SpiffeCsiDriver::crd(),
        SpireOidcDiscoveryProvider::crd(),
        ClusterSpiffeId::crd(),
        ClusterFederatedTrustDomain::crd(),
        ClusterStaticEntry::crd(),
    ]
}
