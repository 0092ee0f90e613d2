//! `ObsykAgent`: which platform gets the inventory of this cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trustplane_plan::Conditions;

use crate::duration::{LONGEST, parse_go_duration};

/// How often an agent that names no interval sends a heartbeat.
pub const DEFAULT_SYNC_INTERVAL: Duration = Duration::from_secs(300);

/// The inventory of this cluster goes to this platform, under this name, by these credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "obsyk.io",
        version = "v1",
        kind = "ObsykAgent",
        plural = "obsykagents",
        singular = "obsykagent",
        shortname = "oa",
        namespaced,
        status = "ObsykAgentStatus",
        printcolumn = r#"{"name":"Cluster","type":"string","jsonPath":".spec.clusterName"}"#,
        printcolumn = r#"{"name":"Platform","type":"string","jsonPath":".spec.platformURL"}"#,
        printcolumn = r#"{"name":"Last Sync","type":"date","jsonPath":".status.lastSyncTime"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ObsykAgentSpec {
    /// Where the platform is. Plain http is permitted and warned of.
    #[serde(rename = "platformURL")]
    #[schemars(length(max = 2048), regex(pattern = r"^https?://"))]
    pub platform_url: String,
    /// The name of this cluster at the platform.
    #[schemars(length(min = 1, max = 253))]
    pub cluster_name: String,
    /// The Secret with `client_id` and `private_key`, in the namespace of this object.
    pub credentials_secret_ref: CredentialsSecretRef,
    /// How often a heartbeat is sent, as a duration of Go; at least 5s.
    #[serde(default = "default_sync_interval")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-validations" = [{
            "rule": "self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('5s')",
            "message": "must be a duration such as 30s or 5m, and at least 5s",
        }])
    )]
    pub sync_interval: String,
    /// How fast changes are sent. A snapshot is one request and does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// Certificates to trust besides the usual ones, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub ca_bundle: Option<String>,
    /// A proxy for all requests to the platform.
    #[serde(rename = "proxyURL", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = r"^https?://"))]
    pub proxy_url: Option<String>,
    /// How often a whole snapshot is sent although nothing is known to be missing, as a duration of Go; at least 1m. Without it never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-validations" = [{
            "rule": "self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('1m')",
            "message": "must be a duration such as 24h, and at least 1m",
        }])
    )]
    pub full_sync_interval: Option<String>,
    /// Namespaces whose objects are not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub exclude_namespaces: Vec<String>,
}

impl ObsykAgentSpec {
    /// How often a heartbeat is sent; `None` if the text is no usable duration. The API server refuses such a text today, but an
    /// object may be older than the rule.
    pub fn heartbeat(&self) -> Option<Duration> {
        parse_go_duration(&self.sync_interval)
            .filter(|interval| (Duration::from_secs(5)..=LONGEST).contains(interval))
    }

    /// How often a whole snapshot is sent, if at all.
    pub fn full_sync(&self) -> Option<Duration> {
        let text = self.full_sync_interval.as_deref()?;
        parse_go_duration(text).filter(|interval| (Duration::from_secs(60)..=LONGEST).contains(interval))
    }
}

fn default_sync_interval() -> String {
    "5m".to_owned()
}

/// A Secret in the namespace of the object that names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialsSecretRef {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
}

/// How fast changes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// In the long run.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 1000))]
    pub events_per_second: i32,
    /// At once, after a quiet time.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 1000))]
    pub burst_size: i32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            events_per_second: ten(),
            burst_size: twenty(),
        }
    }
}

fn ten() -> i32 {
    10
}

fn twenty() -> i32 {
    20
}

/// What the agent does and has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObsykAgentStatus {
    /// The uid of the namespace `kube-system`: by this the platform knows the cluster.
    #[serde(rename = "clusterUID", skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    /// Available, Syncing and Degraded.
    #[serde(skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// When the platform last took a snapshot or a heartbeat. It moves only when something else of the status does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_sync_time: Option<Timestamp>,
    /// When the platform last took a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_snapshot_time: Option<Timestamp>,
    /// The generation of the spec that the status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many objects of each kind there are: `pods`, `statefulSets`, …
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_counts: BTreeMap<String, i32>,
}
