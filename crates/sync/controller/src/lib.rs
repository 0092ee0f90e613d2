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
mod complaints;
mod ledger;
mod secrets;

use std::future::ready;
use std::sync::Arc;

pub use args::SyncArgs;
pub use assembly::{Setup, run_alone};
use trustplane_kit::manager::{Capability, Context, StartError};
use trustplane_kit::rights::{Rights, WATCH};
use trustplane_sync_providers::Exchange;

/// The capability.
pub fn capability(arguments: SyncArgs) -> Capability {
    Capability {
        name: "sync",
        about: "writes the Secrets that pods ask for in an annotation",
        crds: Vec::new,
        rights,
        webhooks: Vec::new,
        start: Arc::new(move |context: Context| {
            let start = || -> Result<(), StartError> {
                let setup = Setup {
                    settings: arguments.settings(),
                    namespaces: arguments.namespaces(),
                    exchange: Exchange::new(arguments.registry(&context.metrics)?, &context.metrics),
                };
                assembly::start(&context, setup);
                Ok(())
            };
            Box::pin(ready(start()))
        }),
    }
}

/// What the controllers do on the API server, and nothing else.
pub fn rights() -> Rights {
    Rights::none()
        .everywhere("", &["pods"], &["list", "watch"])
        .everywhere(
            "",
            &["secrets"],
            &[WATCH, &["create", "patch", "delete"]].concat(),
        )
}
