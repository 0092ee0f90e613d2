//! The capability `sync`: a pod names a secret in an annotation, and finds it as a Kubernetes Secret.
//!
//! Two controllers: one has Secrets as keys and keeps them; the other has pods as keys and tells them what is wrong with
//! their annotation. All decisions are in `trustplane-sync-core`.
//!
//! ```
//! use clap::Parser;
//! use trustplane_sync_controller::{SyncArgs, capability};
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     sync: SyncArgs,
//! }
//!
//! let capability = capability(Arguments::parse_from(["manager"]).sync);
//! assert_eq!(capability.name, "sync");
//! ```

mod args;
mod asks;
mod assembly;
mod authority;
mod complaints;
#[cfg(test)]
mod fake_api;
mod ledger;
mod metrics;
mod named;
mod problems;
mod secrets;
mod stores;
mod world;

use std::future::ready;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use trustplane_api::sync::{SecretSyncPolicy, SecretSyncStore};

pub use args::{PolicyMode, SyncArgs};
pub use assembly::{Setup, run_alone};
use trustplane_kit::manager::{Capability, Context, Part, SecretIdentity, StartError};
use trustplane_kit::rights::{Place, Rights, WATCH};
use trustplane_sync_core::state::mark;

/// The capability.
pub fn capability(arguments: SyncArgs) -> Capability {
    Capability {
        name: "sync",
        about: "writes the Secrets that pods ask for in an annotation",
        crds: Vec::new,
        policies: Vec::new,
        at_home: false,
        opt_in: false,
        namespaces: arguments.served(),
        tenants: Vec::new(),
        rights: own_rights,
        parts: parts(),
        roles: Vec::new,
        lease_before: Some("jasm.codnod.io"),
        secrets: Some(SecretIdentity::new(|| mark("jasm"))),
        webhooks: Vec::new,
        start: Arc::new(move |context: Context| {
            let start = || -> Result<(), StartError> {
                let files = arguments.files()?;
                let registry = arguments.registry(&context, files.clone())?;
                let setup = Setup {
                    settings: arguments.settings(),
                    policy: arguments.policy(),
                    namespaces: arguments.namespaces(),
                    pod_selector: arguments.pod_selector(),
                    registry,
                    files,
                };
                assembly::start(&context, setup);
                Ok(())
            };
            Box::pin(ready(start()))
        }),
    }
}

/// What JASM had. With that alone pods are served, and the parts are what it had not.
fn own_rights() -> Rights {
    Rights::none()
        .on(Place::Served, "", &["pods"], &["list", "watch"])
        .on(
            Place::Served,
            "",
            &["secrets"],
            &[WATCH, &["create", "patch"]].concat(),
        )
}

/// What the admin can do without.
fn parts() -> Vec<Part> {
    let policies = || {
        Rights::none()
            .on(Place::Served, "", &["pods"], &["get"])
            .on(Place::Served, "", &["namespaces"], &["list", "watch"])
            .on(
                Place::Served,
                "trustplane.io",
                &["secretsyncpolicies"],
                &["list", "watch"],
            )
    };
    let stores = || {
        Rights::none()
            .on(
                Place::Served,
                "trustplane.io",
                &["secretsyncstores"],
                &["list", "watch"],
            )
            .on(Place::Home, "", &["configmaps"], &["get"])
    };
    let deletion = || Rights::none().on(Place::Served, "", &["secrets"], &["delete"]);
    vec![
        Part {
            crds: || vec![SecretSyncPolicy::crd()],
            arguments_without: &["--sync-policy=off"],
            ..Part::new(
                "policies",
                "SecretSyncPolicies say who may have which secrets",
                policies,
            )
        },
        Part {
            crds: || vec![SecretSyncStore::crd()],
            ..Part::new(
                "stores",
                "SecretSyncStores are providers with a configuration of their own",
                stores,
            )
        },
        Part::new(
            "deletion",
            "a request may delete its Secret when the source is gone",
            deletion,
        ),
    ]
}

/// The kinds that the capability serves.
pub fn kinds() -> Vec<CustomResourceDefinition> {
    parts().iter().flat_map(|part| (part.crds)()).collect()
}

/// What the controllers do on the API server, and nothing else.
pub fn rights() -> Rights {
    let parts = parts().into_iter().map(|part| (part.rights)());
    parts.fold(own_rights(), Rights::and)
}
