//! A capability: a set of controllers that a user switches on together.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use trustplane_plan::Mark;

use super::{Context, process_rights, webhooks};
use crate::{admission::Webhook, rights::Rights};

/// What a capability may fail with when it starts.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// A capability, as data and one function. The chart is generated from the data; the manager calls the function.
#[derive(Clone)]
pub struct Capability {
    /// Its name on the command line and in the chart.
    pub name: &'static str,
    /// What the user gets, in one line.
    pub about: &'static str,
    /// The kinds that it serves.
    pub crds: fn() -> Vec<CustomResourceDefinition>,
    /// ValidatingAdmissionPolicies with their bindings: rules for its kinds that a schema cannot say.
    pub policies: fn() -> Vec<Value>,
    /// Whether it is kept to our own namespace unless the admin lists others; else it serves all of them.
    pub at_home: bool,
    /// What it may do, and nothing more.
    pub rights: fn() -> Rights,
    /// The least that it can do with: with these rights it runs, also without its kinds. If there is none, it needs all.
    pub least: Option<fn() -> Rights>,
    /// The Lease of the system whose place it takes, if that has one.
    pub lease_before: Option<&'static str>,
    /// How its Secrets are known, if it writes any. The chart has the API server keep its identity from all others.
    pub secrets: Option<fn() -> Mark>,
    /// Its webhooks.
    pub webhooks: fn() -> Vec<Webhook>,
    /// Sets up its controllers and hands them to the supervisor; it returns once that is done.
    pub start: Start,
}

/// How a capability starts, with the arguments that it was given.
pub type Start = Arc<dyn Fn(Context) -> BoxFuture<'static, Result<(), StartError>> + Send + Sync>;

impl std::fmt::Debug for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capability")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Stands for the name of the process in a description: the chart puts the real one in its place.
pub const PROCESS: &str = "$(PROCESS)";

impl Capability {
    /// What it may do in all, in a process of this name: its own rights, and those of its webhooks.
    pub fn rights_in(&self, process: &str) -> Rights {
        (self.rights)().and(webhooks::rights(process, &(self.webhooks)()))
    }
}

fn mark_of_secrets(mark: &Mark) -> Value {
    let values: Vec<_> = std::iter::once(&mark.value).chain(&mark.also).collect();
    json!({ "label": mark.key, "values": values })
}

/// What the manager is made of, as JSON: the source from which the chart is generated.
pub fn describe(version: &str, known: &[Capability]) -> Value {
    let capabilities = known.iter().map(|capability| {
        json!({
            "name": capability.name,
            "about": capability.about,
            "rights": capability.rights_in(PROCESS),
            "crds": (capability.crds)(),
            "policies": (capability.policies)(),
            "atHome": capability.at_home,
            "webhooks": (capability.webhooks)(),
            "secrets": capability.secrets.map(|mark| mark_of_secrets(&mark())),
        })
    });
    json!({
        "version": version,
        "process": { "rights": process_rights(PROCESS) },
        "capabilities": capabilities.collect::<Vec<_>>(),
    })
}
