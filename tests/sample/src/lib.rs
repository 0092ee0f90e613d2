//! The sample controller: it lives in the tests, not in the product, and exercises everything that the kit offers.
//!
//! A `Mirror` names a Secret that offers itself as a source, and copies of it to keep in step. The sample watches in all
//! three ways (a slim type, metadata, hashes), keeps an owned set with pruning, adopts on request, writes conditions and
//! events, holds its objects back by a finalizer, has webhooks, and declares its rights in code. It is written the way
//! every controller of the product is: [`decide`](decide::decide) is pure, and the controller round it only reads.
//!
//! ```
//! let rights = (trustplane_sample::capability().rights)();
//! assert!(rights.wildcard().is_none());
//! ```

pub mod admit;
pub mod api;
mod assembly;
pub mod controller;
pub mod decide;

pub use assembly::run_alone;

use std::sync::Arc;

use kube::CustomResourceExt;
use trustplane_kit::manager::{Capability, SecretIdentity};
use trustplane_kit::rights::{Place, Rights};

/// The capability `mirror`.
pub fn capability() -> Capability {
    Capability {
        name: "mirror",
        about: "keeps copies of Secrets in step with their source",
        crds: || vec![api::Mirror::crd()],
        namespaces: Vec::new(),
        tenants: Vec::new(),
        rights,
        parts: Vec::new(),
        webhooks: || vec![admit::placement(), admit::chains(), admit::order()],
        policies: Vec::new,
        at_home: false,
        opt_in: false,
        roles: Vec::new,
        lease_before: None,
        secrets: Some(SecretIdentity::new(decide::mark)),
        start: Arc::new(|context| Box::pin(assembly::start(context))),
    }
}

/// What the controller does on the API server, and nothing else.
fn rights() -> Rights {
    Rights::none()
        .on(
            Place::Home,
            "test.trustplane.io",
            &["mirrors"],
            &["get", "list", "watch", "patch"],
        )
        .on(Place::Home, "test.trustplane.io", &["mirrors/status"], &["patch"])
        .on(
            Place::Home,
            "",
            &["secrets"],
            &["get", "list", "watch", "create", "patch", "delete"],
        )
}
