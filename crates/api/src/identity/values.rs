//! Words that fields of the kinds may hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// How much a program logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What operators usually want to know.
    #[default]
    Info,
    /// What may need attention, and errors.
    Warn,
    /// Errors alone.
    Error,
}

/// How a program writes its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object on each line.
    Json,
}

/// The type of a private key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
pub enum KeyType {
    /// RSA with 2048 bits.
    #[default]
    #[serde(rename = "rsa-2048")]
    #[strum(serialize = "rsa-2048")]
    Rsa2048,
    /// RSA with 4096 bits.
    #[serde(rename = "rsa-4096")]
    #[strum(serialize = "rsa-4096")]
    Rsa4096,
    /// The elliptic curve P-256.
    #[serde(rename = "ec-p256")]
    #[strum(serialize = "ec-p256")]
    EcP256,
    /// The elliptic curve P-384.
    #[serde(rename = "ec-p384")]
    #[strum(serialize = "ec-p384")]
    EcP384,
}

/// Yes or no, written as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum StringBool {
    /// Yes.
    True,
    /// No.
    False,
}

impl StringBool {
    /// Whether this is `"true"`.
    pub fn is_true(self) -> bool {
        self == Self::True
    }
}

impl From<bool> for StringBool {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// Who may mount a volume at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
pub enum AccessMode {
    /// The pods of one node.
    #[default]
    ReadWriteOnce,
    /// One pod.
    ReadWriteOncePod,
    /// The pods of all nodes.
    ReadWriteMany,
}

/// Where an old manifest says that the server keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum PersistenceType {
    /// In a PersistentVolumeClaim.
    Pvc,
    /// In a directory of the node.
    HostPath,
    /// In a directory that lasts as long as the pod.
    EmptyDir,
}

/// The database that holds registration entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DatabaseType {
    /// A word that SPIRE does not know.
    Sql,
    /// A file on the volume of the server.
    #[default]
    Sqlite3,
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    Mysql,
    /// A word that SPIRE does not know.
    AwsPostgresql,
    /// MySQL of AWS RDS with IAM authentication.
    AwsMysql,
}

/// How a bundle endpoint proves who it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BundleProfile {
    /// By an X.509 SVID.
    #[default]
    HttpsSpiffe,
    /// By a certificate of the Web PKI.
    HttpsWeb,
}

/// How an agent verifies the certificate of kubelet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum VerificationType {
    /// With the file that is given, or else with the CA of the cluster.
    #[default]
    Auto,
    /// With the file that is given.
    HostCert,
    /// Not at all.
    Skip,
}

/// Whether trust domain, cluster name and bundle may change once they are set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
pub enum ChangePolicy {
    /// They may: operands follow.
    #[default]
    Allow,
    /// They may not.
    Immutable,
}

macro_rules! as_str {
    ($($name:ident),+) => {$(
        impl $name {
            /// The word in manifests.
            pub fn as_str(self) -> &'static str {
                self.into()
            }
        }
    )+};
}

as_str!(
    LogLevel,
    LogFormat,
    KeyType,
    StringBool,
    AccessMode,
    PersistenceType,
    DatabaseType,
    BundleProfile,
    VerificationType,
    ChangePolicy
);

#[cfg(test)]
mod tests {
    use super::*;

    fn word(value: impl Serialize) -> String {
        serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn as_str_gives_the_word_of_the_manifest() {
        for value in [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error] {
            assert_eq!(word(value), value.as_str());
        }
        for value in [LogFormat::Text, LogFormat::Json] {
            assert_eq!(word(value), value.as_str());
        }
        for value in [
            KeyType::Rsa2048,
            KeyType::Rsa4096,
            KeyType::EcP256,
            KeyType::EcP384,
        ] {
            assert_eq!(word(value), value.as_str());
        }
        for (value, text) in [(StringBool::True, "true"), (StringBool::False, "false")] {
            assert_eq!((word(value).as_str(), value.as_str()), (text, text));
        }
        for (value, text) in [
            (DatabaseType::Sql, "sql"),
            (DatabaseType::Sqlite3, "sqlite3"),
            (DatabaseType::Postgres, "postgres"),
            (DatabaseType::Mysql, "mysql"),
            (DatabaseType::AwsPostgresql, "aws_postgresql"),
            (DatabaseType::AwsMysql, "aws_mysql"),
        ] {
            assert_eq!((word(value).as_str(), value.as_str()), (text, text));
        }
        for (value, text) in [
            (BundleProfile::HttpsSpiffe, "https_spiffe"),
            (BundleProfile::HttpsWeb, "https_web"),
        ] {
            assert_eq!((word(value).as_str(), value.as_str()), (text, text));
        }
        for (value, text) in [
            (VerificationType::Auto, "auto"),
            (VerificationType::HostCert, "hostCert"),
            (VerificationType::Skip, "skip"),
        ] {
            assert_eq!((word(value).as_str(), value.as_str()), (text, text));
        }
        for (value, text) in [
            (PersistenceType::Pvc, "pvc"),
            (PersistenceType::HostPath, "hostPath"),
            (PersistenceType::EmptyDir, "emptyDir"),
        ] {
            assert_eq!((word(value).as_str(), value.as_str()), (text, text));
        }
    }
}
