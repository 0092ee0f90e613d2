//! A secret on the tokens that becomes a Secret of Kubernetes.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trustplane_plan::Conditions;

/// A secret on the tokens that becomes a Secret of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "hsm.j5t.io",
        version = "v1alpha1",
        kind = "HSMSecret",
        root = "HsmSecret",
        plural = "hsmsecrets",
        shortname = "hsmsec",
        category = "trustplane",
        namespaced,
        status = "HsmSecretStatus",
        printcolumn = r#"{"name":"Secret Name","type":"string","jsonPath":".spec.secretName"}"#,
        printcolumn = r#"{"name":"Sync Status","type":"string","jsonPath":".status.syncStatus"}"#,
        printcolumn = r#"{"name":"Last Sync","type":"date","jsonPath":".status.lastSyncTime"}"#,
        printcolumn = r#"{"name":"HSM Path","type":"string","priority":1,"jsonPath":".spec.hsmPath"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct HsmSecretSpec {
    /// The installation that is to serve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_ref: Option<ParentRef>,
    /// Where it is on the tokens; the name of this object if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = r"^[A-Za-z0-9/_.-]+$"),
        extend("x-kubernetes-validations" = [{
            "rule": "!self.startsWith('/') && !self.endsWith('/') && !self.contains('//')",
            "message": "must not begin or end with '/' or hold '//'",
        }, {
            "rule": "!self.contains('..') && !self.matches('(^|/)[.]')",
            "message": "must not hold '..' or have a part that begins with '.'",
        }, {
            "rule": "!self.endsWith('_metadata') && !self.matches('(^|/)_metadata(/|$)')",
            "message": "must not end with '_metadata' or have it as a part",
        }])
    )]
    pub hsm_path: Option<String>,
    /// The Secret to write; the name of this object if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$"))]
    pub secret_name: Option<String>,
    /// Whether the tokens are looked at again and again.
    pub auto_sync: bool,
    /// The type of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub secret_type: String,
    /// How often the tokens are looked at, in seconds; at least 5.
    #[schemars(range(min = 5, max = 31536000))]
    pub sync_interval: i32,
}

impl Default for HsmSecretSpec {
    fn default() -> Self {
        Self {
            parent_ref: None,
            hsm_path: None,
            secret_name: None,
            auto_sync: true,
            secret_type: "Opaque".to_owned(),
            sync_interval: 30,
        }
    }
}

/// An installation, by its workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace; that of the installation if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// The API group of the workload.
    #[serde(default = "apps")]
    #[schemars(length(max = 253))]
    pub group: String,
    /// The kind of the workload.
    #[serde(default = "deployment")]
    #[schemars(length(max = 63))]
    pub kind: String,
}

fn apps() -> String {
    "apps".to_owned()
}

fn deployment() -> String {
    "Deployment".to_owned()
}

/// How it was last delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HsmSecretStatus {
    /// When the Secret was last brought in line.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_sync_time: Option<Timestamp>,
    /// The checksum of what is on the tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hsm_checksum: Option<String>,
    /// The checksum of what is in the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_checksum: Option<String>,
    /// InSync, OutOfSync, Error or Pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_status: Option<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Ready, and what is wrong.
    #[serde(skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// The Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// What each token has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_sync_status: Vec<DeviceSyncStatus>,
    /// The token whose copy was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_device: Option<String>,
    /// Whether copies on the tokens contradict each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_conflict: Option<bool>,
}

/// An object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretRef {
    /// The version of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// A part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
}

/// What one token has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceSyncStatus {
    /// The token, by the serial number of its bus.
    pub device_name: String,
    /// When its copy was last brought in line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_sync_time: Option<Timestamp>,
    /// The checksum of its copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How its copy is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Whether it can be reached.
    #[serde(default)]
    pub online: bool,
    /// The version of its copy.
    #[serde(default)]
    pub version: i64,
}
