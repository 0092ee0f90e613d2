//! What is known of the tokens of a device, from all nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trustplane_plan::Conditions;

use super::MirroringSpec;

/// The tokens of a device, from all nodes. One is made for each HSMDevice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "hsm.j5t.io",
        version = "v1alpha1",
        kind = "HSMPool",
        root = "HsmPool",
        plural = "hsmpools",
        shortname = "hsmpool",
        category = "trustplane",
        namespaced,
        status = "HsmPoolStatus",
        printcolumn = r#"{"name":"HSMDevice","type":"string","jsonPath":".metadata.ownerReferences[*].name"}"#,
        printcolumn = r#"{"name":"Total","type":"integer","jsonPath":".status.totalDevices"}"#,
        printcolumn = r#"{"name":"Available","type":"integer","jsonPath":".status.availableDevices"}"#,
        printcolumn = r#"{"name":"Served","type":"integer","jsonPath":".status.servedDevices"}"#,
        printcolumn = r#"{"name":"Reporting","type":"string","jsonPath":".status.reportingPods[*].podName"}"#,
        printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
        printcolumn = r#"{"name":"Last Aggregation","type":"date","jsonPath":".status.lastAggregationTime"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct HsmPoolSpec {
    /// Its HSMDevices; if none is named, hsmDeviceRef; without that its owner.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub hsm_device_refs: Vec<String>,
    /// Its HSMDevice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub hsm_device_ref: Option<String>,
    /// How old a report may be, and how long a token that is gone keeps its agent; at least 5 s.
    #[schemars(
        length(max = 32),
        regex(pattern = r"^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$"),
        extend("x-kubernetes-validations" = [{
            "rule": "duration(self) >= duration('5s')",
            "message": "must be at least 5s",
        }])
    )]
    pub grace_period: String,
    /// How secrets are mirrored between tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirroring: Option<MirroringSpec>,
}

impl Default for HsmPoolSpec {
    fn default() -> Self {
        Self {
            hsm_device_refs: Vec::new(),
            hsm_device_ref: None,
            grace_period: "5m".to_owned(),
            mirroring: None,
        }
    }
}

/// What is known of the tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HsmPoolStatus {
    /// How many tokens are known.
    pub total_devices: i32,
    /// How many of them are there.
    pub available_devices: i32,
    /// How many of them are served by their agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_devices: Option<i32>,
    /// How many pods should report.
    pub expected_pods: i32,
    /// Pending, Aggregating, Ready, Partial or Error. Ready if all nodes report, and every token that is there is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When this was last different.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_aggregation_time: Option<Timestamp>,
    /// The tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregated_devices: Vec<AggregatedDevice>,
    /// The pods that should report, and what is to be said of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reporting_pods: Vec<ReportingPod>,
    /// DeviceAggregation, and what is wrong.
    #[serde(skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// How mirroring is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirroring: Option<MirroringStatus>,
}

/// A token as a pool knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedDevice {
    /// Its device file on the node.
    pub device_path: String,
    /// Its serial number on the bus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// The node.
    pub node_name: String,
    /// When it was first seen there as it is now; or, if it is gone, when it was lost.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_seen: Timestamp,
    /// Whether it is there.
    pub available: bool,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_info: BTreeMap<String, String>,
    /// The resource that a pod requests to get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// Primary, ReadOnly or Standby.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The token that it was mirrored from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrored_from: Option<String>,
    /// When it was last mirrored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_sync_time: Option<Timestamp>,
    /// How its agent is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
}

/// A pod that reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportingPod {
    /// The pod.
    pub pod_name: String,
    /// Its node.
    pub node_name: String,
    /// How many tokens it has found.
    pub devices_found: i32,
    /// When what it reports was last different.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_report_time: Timestamp,
    /// discovering, completed or error; without a report what the pod is doing.
    pub discovery_status: String,
    /// What went wrong there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether its last report is young enough.
    pub fresh: bool,
}

/// How mirroring is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MirroringStatus {
    /// Whether it is done at all.
    pub enabled: bool,
    /// The node that takes writes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_node: Option<String>,
    /// The nodes with a copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mirrored_nodes: Vec<String>,
    /// When it was last done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_sync_time: Option<Timestamp>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sync_errors: Vec<String>,
    /// How often another token took the place of the primary one.
    pub failover_count: i32,
}
