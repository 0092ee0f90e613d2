//! The capability `hsm`: tokens are found on the nodes, and each gets an agent of its own.
//!
//! Four controllers look at the same world. That of HSMDevices makes their pools, and the DaemonSets that look for tokens. That
//! of pools turns what the nodes report into a status. That of agents turns the status into agents, and keeps their certificates.
//! That of HSMSecrets asks the agents what is on the tokens, and makes Secrets of it. All decisions are in `trustplane-hsm-core`;
//! what is here reads, writes, and issues certificates.
//!
//! Only the namespaces that the admin lists are watched for HSMDevices: one elsewhere is not seen. HSMSecrets may be in any namespace.
//! The SO-PIN of a token that an agent has set up stays in its Secret when agent and HSMDevice go, because it is the only way back into
//! the token.
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
mod delivery;
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
use trustplane_api::hsm::names::{DELIVERED_LABEL, LOCATIONS, OPERATOR};
use trustplane_api::hsm::{HsmDevice, HsmPool, HsmSecret};
use trustplane_hsm_core::objects::mark;
use trustplane_kit::events::Events;
use trustplane_kit::manager::{Capability, Context, Inherited, SecretIdentity};
use trustplane_kit::rights::{Place, Rights, WATCH};

pub use args::{HsmArgs, PullPolicy};
pub use assembly::{DeliveryRules, Setup, run_alone};
pub use client::{Agents, ClientError};
pub use pki::Lives;
pub use trustplane_hsm_core::delivery::{Operator, Tenancy};
pub use trustplane_hsm_core::rules::Rules;

/// The capability.
pub fn capability(arguments: HsmArgs) -> Capability {
    Capability {
        name: "hsm",
        about: "finds HSM tokens on the nodes, runs an agent for each, and delivers what is on them as Secrets",
        crds: kinds,
        policies: trustplane_api::hsm::admission::policies,
        at_home: true,
        opt_in: false,
        namespaces: arguments.namespaces(),
        tenants: arguments.tenants(),
        rights,
        parts: Vec::new(),
        roles: Vec::new,
        lease_before: Some("64b68d60.j5t.io"),
        secrets: Some(SecretIdentity {
            inherits: Some(Inherited {
                label: DELIVERED_LABEL,
                value: OPERATOR,
                controller_kind: "HSMSecret",
                controller_group: "hsm.j5t.io",
            }),
            ..SecretIdentity::new(mark)
        }),
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

/// What the controllers do in the namespaces of HSMDevices and in those of HSMSecrets, and with the CA and the claims of locations in
/// our own. The rights of agents are among these rights: Kubernetes lets an account grant only the rights that it has.
pub fn rights() -> Rights {
    // `get` tells whose object it is that has a name of ours.
    let made = &[WATCH, &["create", "patch", "delete"]].concat();
    Rights::none()
        .on(
            Place::Tenants,
            "hsm.j5t.io",
            &["hsmsecrets"],
            &[WATCH, &["patch"]].concat(),
        )
        .on(Place::Tenants, "hsm.j5t.io", &["hsmsecrets/status"], &["patch"])
        .on(Place::Tenants, "", &["secrets"], made)
        .and(Events::rights_at(Place::Tenants))
        .on_objects(
            Place::Home,
            "",
            &["configmaps"],
            &[WATCH, &["create", "patch"]].concat(),
            &[LOCATIONS],
        )
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
