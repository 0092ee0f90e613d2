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
mod ledger;
mod metrics;
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
use trustplane_kit::manager::{Capability, Context, StartError};
use trustplane_kit::rights::{Rights, WATCH};
use trustplane_sync_core::state::mark;

/// The capability.
pub fn capability(arguments: SyncArgs) -> Capability {
    Capability {
        name: "sync",
        about: "writes the Secrets that pods ask for in an annotation",
        crds: kinds,
        policies: Vec::new,
        at_home: false,
        rights,
        least: Some(least),
        lease_before: Some("jasm.codnod.io"),
        secrets: Some(|| mark("jasm")),
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

/// The kinds that the capability serves.
pub fn kinds() -> Vec<CustomResourceDefinition> {
    vec![SecretSyncPolicy::crd(), SecretSyncStore::crd()]
}

/// What JASM had: with that alone pods are served, without policies, stores and `onMissing: delete`.
fn least() -> Rights {
    Rights::none()
        .everywhere("", &["pods"], &["list", "watch"])
        .everywhere("", &["secrets"], &[WATCH, &["create", "patch"]].concat())
}

/// What the controllers do on the API server, and nothing else.
pub fn rights() -> Rights {
    Rights::none()
        .everywhere("", &["pods"], WATCH)
        .everywhere("", &["namespaces"], &["list", "watch"])
        .everywhere(
            "trustplane.io",
            &["secretsyncpolicies", "secretsyncstores"],
            &["list", "watch"],
        )
        .at_home("", &["configmaps"], &["get"])
        .everywhere(
            "",
            &["secrets"],
            &[WATCH, &["create", "patch", "delete"]].concat(),
        )
}
