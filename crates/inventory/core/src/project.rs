//! What is sent of each object.
//!
//! A kind has one function: it reads the few fields that are sent into slim structs, which borrow from the text of the object and
//! skip the rest, and writes them as an [`output::Object`]. To add a kind: a variant and a row in `kind.rs`, a function in a file
//! here, and a line in [`project`].

mod cluster;
mod config;
mod events;
mod head;
mod input;
mod jobs;
mod network;
mod output;
mod pods;
mod rbac;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

use crate::kind::InventoryKind;
pub(crate) use head::Metadata;
pub(crate) use input::Text;

/// An object as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// Its uid.
    pub uid: Box<str>,
    /// Its namespace, for kinds that have one.
    pub namespace: Option<Box<str>>,
    /// Its name.
    pub name: Box<str>,
    /// Its canonical JSON: sorted keys, no spaces.
    pub object: String,
}

/// An object that cannot be projected.
///
/// The text says where, never what: an object may hold a secret, and parsers like to quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectionError {
    /// The text is not JSON.
    #[error("failed to read an object: it is not JSON, at column {0}")]
    NotJson(usize),
    /// A field that must be there is missing, or a field is of another type.
    #[error("failed to read an object: a field is missing or of another type, at column {0}")]
    Field(usize),
    /// The object cannot be named.
    #[error("failed to read an object: {0} is empty")]
    Unnamed(&'static str),
    /// The API server prints other columns than this program knows.
    #[error("failed to read a table row: its cells are not those of a {0}")]
    Cells(&'static str),
}

impl From<serde_json::Error> for ProjectionError {
    fn from(error: serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Data => Self::Field(error.column()),
            _ => Self::NotJson(error.column()),
        }
    }
}

/// Makes what is sent of an object from its text: the object itself, or its table row if [`InventoryKind::is_table`].
///
/// **Guarantees.** The same text gives the same projection. No value of a Secret, ConfigMap or environment variable is in it.
pub fn project(kind: InventoryKind, json: &str) -> Result<Projection, ProjectionError> {
    match kind {
        InventoryKind::Namespace => cluster::namespace(json),
        InventoryKind::Pod => pods::pod(json),
        InventoryKind::Service => network::service(json),
        InventoryKind::Node => cluster::node(json),
        InventoryKind::Deployment => workloads::deployment(json),
        InventoryKind::StatefulSet => workloads::stateful_set(json),
        InventoryKind::DaemonSet => workloads::daemon_set(json),
        InventoryKind::Job => jobs::job(json),
        InventoryKind::CronJob => jobs::cron_job(json),
        InventoryKind::Ingress => network::ingress(json),
        InventoryKind::NetworkPolicy => network::network_policy(json),
        InventoryKind::ConfigMap => config::config_map(json),
        InventoryKind::Secret => config::secret(json),
        InventoryKind::PersistentVolumeClaim => storage::claim(json),
        InventoryKind::ServiceAccount => rbac::service_account(json),
        InventoryKind::Role | InventoryKind::ClusterRole => rbac::role(kind, json),
        InventoryKind::RoleBinding | InventoryKind::ClusterRoleBinding => rbac::binding(kind, json),
        InventoryKind::Event => events::event(json),
    }
}
