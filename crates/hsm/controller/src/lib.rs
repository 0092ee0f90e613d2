//! The capability `hsm`: tokens are found on the nodes, and each gets an agent of its own.
//!
//! Three controllers look at the same world. That of HSMDevices makes their pools, and the DaemonSets that look for tokens. That
//! of pools turns what the nodes report into a status. That of agents turns the status into agents, and keeps their certificates.
//! All decisions are in `trustplane-hsm-core`; what is here reads, writes, and issues certificates.
//!
//! Only the namespaces that the admin lists are watched and served: an HSMDevice elsewhere is not seen. The SO-PIN of a token that
//! an agent has set up stays in its Secret when agent and HSMDevice go, because it is the only way back into the token.
//!
//! ```
//! use clap::Parser;
//! use trustplane_hsm_controller::{HsmArgs, capability};
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     hsm: HsmArgs,
//! }
//!
//! let capability = capability(Arguments::parse_from(["manager"]).hsm);
//! assert_eq!(capability.name, "hsm");
//! ```
#![deny(missing_docs)]

mod agents;
mod args;
mod assembly;
mod client;
mod credentials;
mod devices;
mod error;
mod feeds;
mod pki;
mod pools;
mod seen;
mod world;

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use trustplane_api::hsm::{HsmDevice, HsmPool, HsmSecret};
use trustplane_hsm_core::objects::mark;
use trustplane_kit::manager::{Capability, Context};
use trustplane_kit::rights::{Place, Rights, WATCH};

pub use args::{HsmArgs, PullPolicy};
pub use assembly::{Setup, run_alone};
pub use client::{Agents, ClientError};
pub use pki::Lives;
pub use trustplane_hsm_core::rules::Rules;

/// The capability.
pub fn capability(arguments: HsmArgs) -> Capability {
    Capability {
        name: "hsm",
        about: "finds HSM tokens on the nodes, and runs an agent for each",
        crds: kinds,
        policies: trustplane_api::hsm::admission::policies,
        at_home: true,
        opt_in: false,
        namespaces: arguments.namespaces(),
        rights,
        parts: Vec::new(),
        lease_before: Some("64b68d60.j5t.io"),
        secrets: Some(mark),
        webhooks: Vec::new,
        start: Arc::new(move |context: Context| {
            let arguments = arguments.clone();
            Box::pin(async move {
                let setup = arguments.setup(&context.namespace)?;
                assembly::start(&context, setup).await
            })
        }),
    }
}

/// The kinds that the capability serves.
pub fn kinds() -> Vec<CustomResourceDefinition> {
    vec![HsmDevice::crd(), HsmPool::crd(), HsmSecret::crd()]
}

/// What the controllers do in the namespaces that are served, and with the CA in our own. What agents may do has to be among it:
/// nobody can grant what they have not.
pub fn rights() -> Rights {
    // `get` tells whose object it is that has a name of ours.
    let made = &[WATCH, &["create", "patch", "delete"]].concat();
    Rights::none()
        .on(Place::Served, "hsm.j5t.io", &["hsmdevices"], &["list", "watch"])
        .on(
            Place::Served,
            "hsm.j5t.io",
            &["hsmpools"],
            &[WATCH, &["create", "patch"]].concat(),
        )
        .on(Place::Served, "hsm.j5t.io", &["hsmpools/status"], &["patch"])
        .on(Place::Served, "", &["pods"], &["list", "watch", "delete"])
        .on(
            Place::Served,
            "",
            &["configmaps", "secrets", "serviceaccounts"],
            made,
        )
        .on(Place::Served, "apps", &["daemonsets", "deployments"], made)
        .on(
            Place::Served,
            "rbac.authorization.k8s.io",
            &["roles", "rolebindings"],
            made,
        )
        .and(pki::Pki::rights())
}
