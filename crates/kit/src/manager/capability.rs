//! A capability: a set of controllers that a user switches on together.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{Context, SecretIdentity, process_rights, webhooks};
use crate::{
    admission::Webhook,
    rights::{Rights, ShippedRole},
};

/// What a capability may fail with when it starts.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// A capability, as data and one function. The chart is generated from the data; the manager calls the function.
#[derive(Clone)]
pub struct Capability {
    /// Its name on the command line and in the chart.
    pub name: &'static str,
    /// What the user gets, in one line.
    pub about: &'static str,
    /// The kinds that it cannot do without.
    pub crds: fn() -> Vec<CustomResourceDefinition>,
    /// ValidatingAdmissionPolicies with their bindings: rules for its kinds that a schema cannot say.
    pub policies: fn() -> Vec<Value>,
    /// Whether it is kept to our own namespace unless the admin lists others; else it serves all of them.
    pub at_home: bool,
    /// Whether it runs only where the values of the chart ask for it by name; asking for it switches no other capability off.
    /// A process without `--capabilities` runs it, like any other, where its kinds and rights exist.
    pub opt_in: bool,
    /// The namespaces that it is kept to; none if the admin lists none.
    pub namespaces: Vec<String>,
    /// The namespaces whose users it serves, where [`Place::Tenants`](crate::rights::Place::Tenants) holds; none if the admin lists
    /// none, which means all.
    pub tenants: Vec<String>,
    /// What it may do, and cannot do without.
    pub rights: fn() -> Rights,
    /// What it can do besides: each part by itself can be off, or lack its kinds or rights.
    pub parts: Vec<Part>,
    /// The ClusterRoles for people and for the programs that it runs.
    pub roles: fn() -> Vec<ShippedRole>,
    /// The Lease of the system whose place it takes, if that has one.
    pub lease_before: Option<&'static str>,
    /// How its Secrets are known, if it writes any. The chart has the API server keep its identity from all others.
    pub secrets: Option<SecretIdentity>,
    /// Its webhooks.
    pub webhooks: fn() -> Vec<Webhook>,
    /// Sets up its controllers and hands them to the supervisor; it returns once that is done.
    pub start: Start,
}

/// A part of a capability that the admin switches on or off, as data.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name in the chart.
    pub name: &'static str,
    /// What the user gets, in one line.
    pub about: &'static str,
    /// Whether it is on if the values say nothing. A part that an upgrade brings is off: an upgrade grants nothing new.
    pub is_on: bool,
    /// The kinds that it serves.
    pub crds: fn() -> Vec<CustomResourceDefinition>,
    /// ValidatingAdmissionPolicies with their bindings.
    pub policies: fn() -> Vec<Value>,
    /// What it may do.
    pub rights: fn() -> Rights,
    /// What the process is told while it is on.
    pub arguments: &'static [&'static str],
    /// What the process is told while it is off.
    pub arguments_without: &'static [&'static str],
}

impl Part {
    /// A part that is on, with rights alone.
    pub fn new(name: &'static str, about: &'static str, rights: fn() -> Rights) -> Self {
        Self {
            name,
            about,
            is_on: true,
            crds: Vec::new,
            policies: Vec::new,
            rights,
            arguments: &[],
            arguments_without: &[],
        }
    }

    fn describe(&self) -> Value {
        json!({
            "name": self.name,
            "about": self.about,
            "isOn": self.is_on,
            "crds": (self.crds)(),
            "policies": (self.policies)(),
            "rights": (self.rights)(),
            "arguments": self.arguments,
            "argumentsWithout": self.arguments_without,
        })
    }
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
    /// What it may do with all its parts.
    pub fn all_rights(&self) -> Rights {
        let parts = self.parts.iter().map(|part| (part.rights)());
        parts.fold((self.rights)(), Rights::and)
    }

    /// What it may do in all, in a process of this name: with all its parts, and what its webhooks need.
    pub fn rights_in(&self, process: &str) -> Rights {
        self.all_rights().and(self.webhook_rights(process))
    }

    /// What its webhooks need in a process of this name.
    pub fn webhook_rights(&self, process: &str) -> Rights {
        webhooks::rights(process, &(self.webhooks)())
    }

    /// Its kinds and those of all its parts.
    pub fn all_crds(&self) -> Vec<CustomResourceDefinition> {
        let parts = self.parts.iter().flat_map(|part| (part.crds)());
        (self.crds)().into_iter().chain(parts).collect()
    }
}

/// What the manager is made of, as JSON: the source from which the chart is generated.
pub fn describe(version: &str, known: &[Capability]) -> Value {
    let capabilities = known.iter().map(|capability| {
        json!({
            "name": capability.name,
            "about": capability.about,
            "rights": (capability.rights)().and(capability.webhook_rights(PROCESS)),
            "parts": capability.parts.iter().map(Part::describe).collect::<Vec<_>>(),
            "roles": (capability.roles)(),
            "crds": (capability.crds)(),
            "policies": (capability.policies)(),
            "atHome": capability.at_home,
            "optIn": capability.opt_in,
            "webhooks": (capability.webhooks)(),
            "secrets": capability.secrets.as_ref().map(SecretIdentity::describe),
        })
    });
    json!({
        "version": version,
        "process": { "rights": process_rights(PROCESS) },
        "capabilities": capabilities.collect::<Vec<_>>(),
    })
}
