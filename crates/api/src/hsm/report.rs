//! What a node says of its tokens, in an annotation of its discovery pod.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What one discovery pod has found for one HSMDevice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceReport {
    /// The HSMDevice.
    pub hsm_device_name: String,
    /// The node; that of the pod if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reporting_node: Option<String>,
    /// The tokens.
    pub discovered_devices: Vec<ReportedDevice>,
    /// When it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_report_time: Option<Timestamp>,
    /// How the search went.
    pub discovery_status: DiscoveryStatus,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How a search went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiscoveryStatus {
    /// It has not ended yet.
    #[default]
    Discovering,
    /// All was looked at.
    Completed,
    /// It failed.
    Error,
}

/// A token as a node reports it. Early reports lack fields, so most may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedDevice {
    /// Its device file on the node.
    pub device_path: String,
    /// Its serial number on the bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// The node; that of the pod if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Since when it is as it is; or, if it is gone, when it was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// Whether it is there; it is if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<bool>,
    /// What else is known of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub device_info: BTreeMap<String, String>,
    /// The resource that a pod requests to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
}
