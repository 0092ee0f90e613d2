//! The capability `inventory`: what a cluster runs, streamed to platforms without losing a change.
//!
//! ```text
//!  watches of 20 kinds ─► KindSink ─► project ─► World ◄─► Peer ─► Platform (token, POST)
//!                                                  ▲
//!  ObsykAgent, Secret ─► Agents (gather, decide) ──┘ run, stop
//! ```
//!
//! An `ObsykAgent` names a platform. All agents share one set of watches, which run while there is an agent and only in the process
//! that leads. What is sent and when is decided in `trustplane-inventory-core`; here are the requests.
//!
//! ```
//! use clap::Parser;
//! use trustplane_inventory_stream::{InventoryArgs, capability};
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     inventory: InventoryArgs,
//! }
//!
//! let capability = capability(Arguments::parse_from(["manager"]).inventory);
//! assert!(capability.opt_in);
//! ```

mod agents;
mod args;
mod assembly;
mod credentials;
mod metrics;
mod peer;
mod peers;
mod platform;
mod reading;
mod secrets;
mod shared;
mod token;

use std::future::ready;
use std::sync::Arc;

use kube::CustomResourceExt;
use trustplane_api::inventory::ObsykAgent;
use trustplane_inventory_core::InventoryKind;
use trustplane_kit::manager::{Capability, Context, Part};
use trustplane_kit::rights::{Place, Rights, WATCH};
use trustplane_plan::Scope;

pub use args::InventoryArgs;
pub use assembly::run_alone;

/// Stands for the name of the Secret with credentials in the declared rights: the chart puts the real one in its place.
pub const CREDENTIALS: &str = "$(CREDENTIALS)";

/// The capability.
pub fn capability(arguments: InventoryArgs) -> Capability {
    Capability {
        name: "inventory",
        about: "streams what the cluster runs to a platform, without values",
        crds: || vec![ObsykAgent::crd()],
        policies: Vec::new,
        opt_in: true,
        at_home: false,
        namespaces: Vec::new(),
        tenants: Vec::new(),
        rights: own_rights,
        parts: parts(),
        roles: Vec::new,
        lease_before: Some("obsyk-operator.obsyk.io"),
        secrets: None,
        webhooks: Vec::new,
        start: Arc::new(move |context: Context| {
            assembly::start(&context, arguments.kinds());
            Box::pin(ready(Ok(())))
        }),
    }
}

/// What no inventory can do without.
fn own_rights() -> Rights {
    let kinds = InventoryKind::ALL.into_iter().filter(|kind| kind.is_essential());
    let agents = Rights::none()
        .on(Place::Everywhere, "obsyk.io", &["obsykagents"], WATCH)
        .on(Place::Everywhere, "obsyk.io", &["obsykagents/status"], &["patch"]);
    kinds.map(reads).fold(agents, Rights::and)
}

/// Reads one kind everywhere.
fn reads(kind: InventoryKind) -> Rights {
    let kind = kind.kind();
    let place = match kind.scope {
        Scope::Cluster => Place::Cluster,
        Scope::Namespaced => Place::Everywhere,
    };
    Rights::none().on(place, &kind.group, &[&kind.plural], &["list", "watch"])
}

fn credentials() -> Rights {
    Rights::none().on_objects(
        Place::Home,
        "",
        &["secrets"],
        &["get", "list", "watch"],
        &[CREDENTIALS],
    )
}

/// One part for each kind that an admin may do without.
macro_rules! kinds {
    ($($kind:ident $name:literal,)*) => {
        vec![$(Part {
            arguments_without: &[concat!("--inventory-without=", $name)],
            ..Part::new($name, concat!("the inventory shows ", $name), || reads(InventoryKind::$kind))
        }),*]
    };
}

/// What the admin can do without.
fn parts() -> Vec<Part> {
    let mut parts = kinds! {
        Node "nodes",
        Deployment "deployments",
        StatefulSet "stateful-sets",
        DaemonSet "daemon-sets",
        Job "jobs",
        CronJob "cron-jobs",
        Ingress "ingresses",
        NetworkPolicy "network-policies",
        ConfigMap "config-maps",
        Secret "secrets",
        PersistentVolumeClaim "persistent-volume-claims",
        ServiceAccount "service-accounts",
        Role "roles",
        ClusterRole "cluster-roles",
        RoleBinding "role-bindings",
        ClusterRoleBinding "cluster-role-bindings",
        Event "events",
    };
    parts.push(Part::new(
        "credentials",
        "the manager reads the credentials of ObsykAgents in its own namespace",
        credentials,
    ));
    parts
}

/// What the capability may do with all its parts.
pub fn rights() -> Rights {
    let parts = parts().into_iter().map(|part| (part.rights)());
    parts.fold(own_rights(), Rights::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_but_the_three_is_a_part_with_its_right() {
        let parts = parts();
        for kind in InventoryKind::ALL {
            let part = parts.iter().find(|part| part.name == kind.part());
            assert_eq!(part.is_some(), !kind.is_essential(), "{kind:?}");
            if let Some(part) = part {
                assert_eq!((part.rights)(), reads(kind));
                assert_eq!(
                    part.arguments_without,
                    [format!("--inventory-without={}", kind.part())]
                );
            }
        }
        assert_eq!(parts.len(), 18);
    }
}
