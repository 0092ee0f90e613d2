//! Volume and database of the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AccessMode, DatabaseType, PersistenceType, StringBool};

/// The volume of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Persistence {
    /// The size of the volume in Gi, such as 1Gi.
    #[schemars(length(max = 16), regex(pattern = r"^[1-9][0-9]*Gi$"))]
    pub size: String,
    /// How many nodes or pods may mount the volume at once.
    pub access_mode: AccessMode,
    /// The StorageClass of the volume; the default StorageClass of the cluster if this is empty.
    #[schemars(length(max = 253), regex(pattern = super::patterns::OPTIONAL_NAME))]
    pub storage_class: String,
    /// Deprecated and ignored: the server always has a PersistentVolumeClaim.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub r#type: Option<PersistenceType>,
    /// Deprecated and ignored: the server always has a PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub host_path: Option<String>,
}

impl Default for Persistence {
    fn default() -> Self {
        Self {
            size: "1Gi".to_owned(),
            access_mode: AccessMode::default(),
            storage_class: String::new(),
            r#type: None,
            host_path: None,
        }
    }
}

/// The database of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Datastore {
    /// The type of the database. SPIRE does not know sql and aws_postgresql: releases up to 1.0 of the original took the words.
    pub database_type: DatabaseType,
    /// The connection string, as the database expects it; for sqlite3 the path of the file.
    #[schemars(length(min = 1, max = 2048))]
    pub connection_string: String,
    /// The Secret with the TLS files for the connection. The server has the files at /run/spire/db/certs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = super::patterns::OPTIONAL_NAME))]
    pub tls_secret_name: Option<String>,
    /// How many connections may be open at once.
    #[schemars(range(min = 1, max = 10000))]
    pub max_open_conns: i32,
    /// How many idle connections the server keeps.
    #[schemars(range(min = 0, max = 10000))]
    pub max_idle_conns: i32,
    /// For how many seconds the server uses a connection; without limit if this is absent or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub conn_max_lifetime: Option<i32>,
    /// Whether the server leaves the schema of the database unchanged when SPIRE is updated.
    pub disable_migration: StringBool,
    /// Deprecated: write options into connectionString.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 2048)))]
    pub options: Vec<String>,
    /// Deprecated: use tlsSecretName. The file with the CA of a MySQL server.
    #[serde(rename = "rootCAPath", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub root_ca_path: Option<String>,
    /// Deprecated: use tlsSecretName. The file with the client certificate for a MySQL server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub client_cert_path: Option<String>,
    /// Deprecated: use tlsSecretName. The file with the client key for a MySQL server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub client_key_path: Option<String>,
}

impl Default for Datastore {
    fn default() -> Self {
        Self {
            database_type: DatabaseType::default(),
            connection_string: "/run/spire/data/datastore.sqlite3".to_owned(),
            tls_secret_name: None,
            max_open_conns: 100,
            max_idle_conns: 2,
            conn_max_lifetime: None,
            disable_migration: StringBool::False,
            options: Vec::new(),
            root_ca_path: None,
            client_cert_path: None,
            client_key_path: None,
        }
    }
}
