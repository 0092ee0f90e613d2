//! Where secrets come from.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::selector::LabelSelector;

/// A provider with a configuration of its own, by a name that pods can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "trustplane.io",
        version = "v1alpha1",
        kind = "SecretSyncStore",
        plural = "secretsyncstores",
        shortname = "sss",
        category = "trustplane",
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase")]
pub struct StoreSpec {
    /// The namespaces that may use it; all of them if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Where its secrets are.
    pub from: Origin,
    /// How often it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// Where the secrets of a store are: one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "[has(self.awsSecretsManager), has(self.kubernetes), has(self.file), has(self.mock)].filter(x, x).size() == 1",
    "message": "must name exactly one of awsSecretsManager, kubernetes, file and mock",
}]))]
pub struct Origin {
    /// AWS Secrets Manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_secrets_manager: Option<AwsStore>,
    /// Secrets of other namespaces, or of another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesStore>,
    /// Files beneath the directory that the process was started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileStore>,
    /// A ConfigMap with made-up secrets, for demonstrations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mock: Option<MockStore>,
}

/// AWS Secrets Manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AwsStore {
    /// The region; that of the process if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z]{2}(-[a-z0-9]+)+$"), length(max = 32))]
    pub region: Option<String>,
    /// The account, twelve digits. If account and region are given, policies judge an ARN of that place as the name that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]{12}$"))]
    pub account: Option<String>,
    /// The address, if it is not the region's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https?://[^\s/?#@]+(/[^\s?#]*)?$"), length(max = 512))]
    pub endpoint: Option<String>,
    /// Certificates, as PEM, that are trusted besides the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub ca_bundle: Option<String>,
    /// Who we are to AWS; as the environment of the process says if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StaticKeys>,
}

/// An access key that lies in a Secret of our own namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticKeys {
    /// The Secret, with the keys `accessKeyId`, `secretAccessKey` and perhaps `sessionToken`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub secret_name: String,
}

/// Secrets of this cluster, or of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesStore {
    /// The namespaces whose Secrets it offers. Each of those Secrets must also agree, by the annotation
    /// trustplane.io/sync-to-namespaces.
    #[schemars(
        length(min = 1, max = 64),
        inner(
            length(min = 1, max = 63),
            regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
        )
    )]
    pub namespaces: Vec<String>,
    /// A kubeconfig in a Secret of our own namespace; this cluster if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<SecretKey>,
}

/// A value in a Secret of our own namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub secret_name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// Files beneath the directory that the process was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileStore {
    /// A directory beneath that one: its paths begin here.
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[^/\x00-\x1f\x7f]+(/[^/\x00-\x1f\x7f]+)*$"), extend(
        "x-kubernetes-validations" = [{
            "rule": "!self.matches('(^|/)[.][.]?(/|$)')",
            "message": "must not hold '.' or '..' as a part",
        }]
    ))]
    pub directory: String,
}

/// A ConfigMap of our own namespace with made-up secrets: each entry is one, its key the path with `_` for each `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MockStore {
    /// The ConfigMap.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub config_map: String,
}

/// How often a store is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// How many calls come in with every second.
    #[schemars(range(min = 1, max = 10000))]
    pub per_second: NonZeroU32,
    /// How many can be made at once.
    #[schemars(range(min = 1, max = 10000))]
    pub burst: NonZeroU32,
}
