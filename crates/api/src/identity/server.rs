//! SpireServer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CommonConfig, Datastore, Federation, KeyType, LogFormat, LogLevel, Persistence, Resources, StringBool,
};

/// The SPIRE server, which signs SVIDs, and the controller-manager, which registers workloads with the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "operator.openshift.io",
        version = "v1alpha1",
        kind = "SpireServer",
        plural = "spireservers",
        shortname = "spiresrv",
        category = "trustplane",
        category = "spire",
        schema = "manual",
        status = "super::OperandCrStatus",
        printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
        printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
        printcolumn = r#"{"name":"Trust Domain","type":"string","jsonPath":".spec.trustDomain"}"#,
        printcolumn = r#"{"name":"Issuer","type":"string","priority":1,"jsonPath":".spec.jwtIssuer"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct SpireServerSpec {
    /// How much the server logs.
    pub log_level: LogLevel,
    /// The format of the server's log.
    pub log_format: LogFormat,
    /// The issuer in JWT SVIDs: the URL of the OIDC discovery provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = super::patterns::URL))]
    pub jwt_issuer: Option<String>,
    /// How long the certificate of the CA is valid, as a Go duration. It must not be shorter than the validity of SVIDs.
    #[schemars(length(max = 32), regex(pattern = super::patterns::DURATION))]
    pub ca_validity: String,
    /// How long X.509 SVIDs are valid, as a Go duration.
    #[schemars(length(max = 32), regex(pattern = super::patterns::DURATION))]
    pub default_x509_validity: String,
    /// How long JWT SVIDs are valid, as a Go duration.
    #[serde(rename = "defaultJWTValidity")]
    #[schemars(length(max = 32), regex(pattern = super::patterns::DURATION))]
    pub default_jwt_validity: String,
    /// The type of the key of the CA.
    pub ca_key_type: KeyType,
    /// The type of the key that signs JWT SVIDs; caKeyType if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_key_type: Option<KeyType>,
    /// Where the server keeps its private keys; on its volume if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_manager: Option<KeyManager>,
    /// The subject of the certificate of the CA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_subject: Option<CaSubject>,
    /// The volume of the server. size, accessMode and storageClass cannot change after the SpireServer was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// The database of the server; a SQLite file on its volume if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore: Option<Datastore>,
    /// Federation with other trust domains. Federation cannot be removed after it was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub federation: Option<Federation>,
    /// Requests and limits of the container of the controller-manager; resources if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_manager_resources: Option<Resources>,
    /// Whether a pod that no other ClusterSPIFFEID selects gets an identity from its namespace and service account; "true" if
    /// this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_identity: Option<StringBool>,
    /// Settings of pods.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// Deprecated: use trustDomain of the ZeroTrustWorkloadIdentityManager, which fills this in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = super::patterns::TRUST_DOMAIN))]
    pub trust_domain: Option<String>,
    /// Deprecated: use clusterName of the ZeroTrustWorkloadIdentityManager, which fills this in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = super::patterns::CLUSTER_NAME))]
    pub cluster_name: Option<String>,
    /// Deprecated: use bundleConfig of the ZeroTrustWorkloadIdentityManager, which fills this in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = super::patterns::CONFIG_MAP))]
    pub bundle_config_map: Option<String>,
}

impl Default for SpireServerSpec {
    fn default() -> Self {
        Self {
            log_level: LogLevel::default(),
            log_format: LogFormat::default(),
            jwt_issuer: None,
            ca_validity: "24h".to_owned(),
            default_x509_validity: "1h".to_owned(),
            default_jwt_validity: "5m".to_owned(),
            ca_key_type: KeyType::default(),
            jwt_key_type: None,
            key_manager: None,
            ca_subject: None,
            persistence: None,
            datastore: None,
            federation: None,
            controller_manager_resources: None,
            default_identity: None,
            common: CommonConfig::default(),
            trust_domain: None,
            cluster_name: None,
            bundle_config_map: None,
        }
    }
}

/// Where the server keeps its private keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyManager {
    /// Whether the keys are on the volume of the server.
    pub disk_enabled: StringBool,
    /// Whether the keys are in memory only. They are lost when the pod ends.
    pub memory_enabled: StringBool,
}

impl Default for KeyManager {
    fn default() -> Self {
        Self {
            disk_enabled: StringBool::True,
            memory_enabled: StringBool::False,
        }
    }
}

/// The subject of the certificate of the CA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CaSubject {
    /// The country, by its two letters.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2))]
    pub country: String,
    /// The organization.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub organization: String,
    /// The common name.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub common_name: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::identity::{DatabaseType, LogFormat};

    #[test]
    fn spec_has_the_json_names_of_the_original() {
        let mut spec = json!({
            "logLevel": "debug", "logFormat": "text", "jwtIssuer": "https://a.example", "caValidity": "24h",
            "defaultX509Validity": "1h", "defaultJWTValidity": "1m", "caKeyType": "ec-p256",
            "datastore": {
                "databaseType": "aws_mysql", "connectionString": "c", "maxOpenConns": 1, "maxIdleConns": 0,
                "disableMigration": "true", "rootCAPath": "/ca", "tlsSecretName": "s",
            },
            "labels": {"a": "b"}, "nodeSelector": {"c": "d"},
        });
        let read: SpireServerSpec = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(read.common.labels["a"], "b");
        assert_eq!(
            read.datastore.as_ref().unwrap().database_type,
            DatabaseType::AwsMysql
        );
        assert_eq!(serde_json::to_value(&read).unwrap(), spec);
        spec["logFormat"] = json!("json");
        assert_eq!(
            serde_json::from_value::<SpireServerSpec>(spec)
                .unwrap()
                .log_format,
            LogFormat::Json
        );
    }

    #[test]
    fn empty_spec_is_the_default() {
        assert_eq!(
            serde_json::from_value::<SpireServerSpec>(json!({})).unwrap(),
            SpireServerSpec::default()
        );
    }
}
