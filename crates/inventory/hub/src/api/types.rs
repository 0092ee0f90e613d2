//! What the API says. Times are RFC 3339 in UTC with seconds.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::facts::facts;
use crate::state::ClusterState;
use crate::status::Status;
use crate::store::clusters::ClusterRow;
use crate::store::objects::ObjectRow;
use crate::time::{self, Millis, SECOND};

/// A cluster.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Cluster {
    /// Its id in the API: the client that it is bound to.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// The uid of its namespace `kube-system`, once the agent was heard of.
    #[schema(required)]
    pub uid: Option<String>,
    /// Whether its data is current.
    pub state: ClusterState,
    /// Since when it is in this state.
    pub state_since: String,
    /// The last request of its agent that was accepted.
    #[schema(required)]
    pub last_contact: Option<String>,
    /// When a snapshot was last complete.
    #[schema(required)]
    pub last_snapshot: Option<String>,
    /// The interval of its heartbeats, once it is learned.
    #[schema(required)]
    pub heartbeat_seconds: Option<i64>,
    /// The version of its API server.
    #[schema(required)]
    pub kubernetes_version: Option<String>,
    /// The version of its agent.
    #[schema(required)]
    pub agent_version: Option<String>,
    /// How many live objects it has.
    pub objects: i64,
    /// How many of each kind.
    pub counts: BTreeMap<String, i64>,
    /// How many of each kind are in a bad state. A kind without any is left out.
    pub problems: BTreeMap<String, i64>,
    /// What people should know of, newest first.
    pub alerts: Vec<Alert>,
    /// Changes in each of the last 30 minutes, oldest first.
    pub activity: Vec<i64>,
}

/// Something that people should know of.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Alert {
    /// When it last happened.
    pub at: String,
    /// What happened.
    pub text: String,
}

/// All clusters.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ClusterList {
    /// By name.
    pub items: Vec<Cluster>,
}

/// How many objects of a kind there are.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct KindCount {
    /// The kind.
    pub kind: String,
    /// How many.
    pub count: i64,
    /// How many of them are in a bad state.
    pub problems: i64,
}

/// How many objects of each kind there are.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct KindCountList {
    /// By kind.
    pub items: Vec<KindCount>,
}

/// A namespace.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its phase, if the hub knows the Namespace itself.
    #[schema(required)]
    pub phase: Option<String>,
    /// Its uid, if the hub knows the Namespace itself.
    #[schema(required)]
    pub uid: Option<String>,
    /// How many live objects are in it.
    pub objects: i64,
    /// How many of them are in a bad state.
    pub problems: i64,
    /// How many of each kind.
    pub counts: BTreeMap<String, i64>,
}

/// The namespaces of a cluster.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NamespaceList {
    /// By name.
    pub items: Vec<Namespace>,
}

/// An agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AgentInfo {
    /// Its client.
    pub id: String,
    /// Its version.
    #[schema(required)]
    pub agent_version: Option<String>,
    /// Its last request that was accepted.
    #[schema(required)]
    pub last_contact: Option<String>,
    /// Whether it is in contact.
    pub state: ClusterState,
}

/// The agents of a cluster.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AgentList {
    /// One at most.
    pub items: Vec<AgentInfo>,
}

/// An object in a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ObjectSummary {
    /// The id of its cluster.
    pub cluster: String,
    /// The name of its cluster.
    pub cluster_name: String,
    /// Whether its cluster is silent, so that this may be out of date.
    pub stale: bool,
    /// Its uid.
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; null for kinds without one.
    #[schema(required)]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: Status,
    /// What people want to see of its kind, such as `node`, `ready` or `image`.
    pub facts: BTreeMap<&'static str, String>,
    /// When it was made.
    #[schema(required)]
    pub created: Option<String>,
    /// When it last changed at the hub.
    pub changed: String,
}

/// A page of objects.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ObjectList {
    /// In the order that was asked for.
    pub items: Vec<ObjectSummary>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    pub next: Option<String>,
    /// How many objects there are on all pages.
    pub total: i64,
}

/// One object.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ObjectDetail {
    /// What lists show of it.
    #[serde(flatten)]
    pub summary: ObjectSummary,
    /// What the agent sent of it, redacted.
    #[schema(value_type = Object)]
    pub object: Value,
    /// When the hub first heard of it.
    pub first_seen: String,
    /// Since when it is gone.
    #[schema(required)]
    pub deleted: Option<String>,
}

/// Objects that have to do with another one.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RelatedGroup {
    /// How, such as `Runs on`.
    pub relation: String,
    /// Which.
    pub items: Vec<ObjectSummary>,
}

/// All objects that have to do with another one.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RelatedList {
    /// By relation. Relations without objects are left out.
    pub groups: Vec<RelatedGroup>,
}

/// An Event of Kubernetes.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct KubernetesEvent {
    /// The id of its cluster.
    pub cluster: String,
    /// Its uid.
    pub uid: String,
    /// Its namespace.
    #[schema(required)]
    pub namespace: Option<String>,
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub type_: String,
    /// Why, in one word.
    pub reason: String,
    /// What happened.
    pub message: String,
    /// How often.
    pub count: i64,
    /// When first.
    #[schema(required)]
    pub first: Option<String>,
    /// When last.
    #[schema(required)]
    pub last: Option<String>,
    /// What it is about.
    pub involved: Involved,
    /// Who reports it.
    #[schema(required)]
    pub source: Option<String>,
}

/// What an Event is about.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Involved {
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace.
    #[schema(required)]
    pub namespace: Option<String>,
    /// The uid.
    #[schema(required)]
    pub uid: Option<String>,
}

/// A page of Events.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EventList {
    /// The latest first.
    pub items: Vec<KubernetesEvent>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    pub next: Option<String>,
}

/// The hub answers.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    #[schema(value_type = String)]
    pub status: &'static str,
}

/// `None` for an empty text.
pub fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The times of the database as the API says them.
pub fn ts(at: Option<Millis>) -> Option<String> {
    at.map(time::text)
}

impl ObjectSummary {
    /// An object of a cluster, and what the agent sent of it.
    pub fn new(row: &ObjectRow, cluster: &ClusterRow, now: Millis) -> (Self, Value) {
        let object: Value = serde_json::from_str(&row.object).unwrap_or_default();
        let summary = Self {
            cluster: cluster.id.clone(),
            cluster_name: cluster.name.clone(),
            stale: cluster.state(now).0.is_stale(),
            uid: row.uid.clone(),
            kind: row.kind.clone(),
            namespace: some(&row.namespace),
            name: row.name.clone(),
            status: row.status.clone(),
            facts: facts(&row.kind, &object),
            created: ts(row.created),
            changed: time::text(row.changed),
        };
        (summary, object)
    }
}

impl Cluster {
    /// A cluster without its counts.
    pub fn new(row: &ClusterRow, now: Millis) -> Self {
        let (state, since) = row.state(now);
        Self {
            id: row.id.clone(),
            name: row.name.clone(),
            uid: row.uid.clone(),
            state,
            state_since: time::text(since),
            last_contact: ts(row.contact.last),
            last_snapshot: ts(row.last_snapshot),
            heartbeat_seconds: row
                .contact
                .heartbeat
                .map(|interval| (interval + SECOND / 2) / SECOND),
            kubernetes_version: row.kubernetes_version.clone(),
            agent_version: row.agent_version.clone(),
            objects: 0,
            counts: BTreeMap::new(),
            problems: BTreeMap::new(),
            alerts: Vec::new(),
            activity: Vec::new(),
        }
    }
}
