//! Whether SPIRE knows the database of a SpireServer.

use trustplane_api::identity::{DatabaseType, Datastore};

use super::{Defect, SERVER_CONFIG};
use crate::render::{self, paths};

const TYPE: &str = "spec.datastore.databaseType";
const CONNECTION: &str = "spec.datastore.connectionString";

pub(super) fn defects(store: &Datastore) -> Vec<Defect> {
    let fault = |field: &str, rule: &str| vec![Defect::new(field, rule, SERVER_CONFIG)];
    match store.database_type {
        DatabaseType::Sql => fault(
            TYPE,
            "SPIRE has no database type sql: use sqlite3, postgres or mysql",
        ),
        DatabaseType::AwsPostgresql => fault(
            TYPE,
            "SPIRE has no database type aws_postgresql: use postgres with user and password in connectionString, which reaches RDS too",
        ),
        DatabaseType::AwsMysql => fault(
            TYPE,
            "aws_mysql needs the region and credentials of AWS, for which there is no field: use mysql with user and password in \
             connectionString, which reaches RDS too",
        ),
        DatabaseType::Sqlite3 => sqlite(store).into_iter().collect(),
        DatabaseType::Postgres if is_default(store) => fault(
            CONNECTION,
            "is the path of a file: postgres needs one such as 'host=db.example.org dbname=spire user=spire sslmode=verify-full'",
        ),
        DatabaseType::Mysql if is_default(store) => fault(
            CONNECTION,
            "is the path of a file: mysql needs one such as 'spire:PASSWORD@tcp(db.example.org:3306)/spire?parseTime=true'",
        ),
        DatabaseType::Mysql if !parses_time(&store.connection_string) => fault(
            CONNECTION,
            "must say parseTime=true for mysql: SPIRE does not start without",
        ),
        DatabaseType::Postgres | DatabaseType::Mysql => Vec::new(),
    }
}

fn is_default(store: &Datastore) -> bool {
    store.connection_string.trim().is_empty()
        || store.connection_string == Datastore::default().connection_string
}

fn parses_time(connection: &str) -> bool {
    let parameters = connection.split_once('?').map(|(_, parameters)| parameters);
    parameters
        .into_iter()
        .flat_map(|parameters| parameters.split('&'))
        .filter_map(|parameter| parameter.strip_prefix("parseTime="))
        .any(|value| matches!(value, "1" | "true" | "TRUE" | "True"))
}

/// SPIRE takes a path, or a URL with the scheme `file`.
fn sqlite(store: &Datastore) -> Option<Defect> {
    let scheme = store.connection_string.split_once(':').map(|(scheme, _)| scheme);
    let other = scheme.filter(|scheme| *scheme != "file" && !scheme.contains('/'))?;
    let rule = format!("must be a path or begin with file: for sqlite3, and not with {other}:");
    // The scheme alone: what follows it may hold a password.
    Some(Defect::new(CONNECTION, rule, SERVER_CONFIG))
}

/// Lines for the user. They never quote the connection string, which may hold a password.
pub(super) fn advice(store: &Datastore) -> Vec<String> {
    let mut advice = Vec::new();
    let text = &store.connection_string;
    if store.database_type == DatabaseType::Sqlite3 && !path(text).starts_with(paths::SERVER_DATA) {
        advice.push(format!(
            "{CONNECTION}: only {} is on the volume of the server: entries elsewhere are lost with its pod, if it can write them at all",
            paths::SERVER_DATA
        ));
    }
    if text.replace("$$", "").contains('$') {
        advice.push(format!(
            "{CONNECTION}: SPIRE takes a $ as the beginning of a variable of its environment: write $$ for a dollar sign"
        ));
    }
    if !store.options.is_empty() {
        advice.push("spec.datastore.options: is ignored: say it in connectionString".to_owned());
    }
    if store.database_type != DatabaseType::Mysql && names_files(store) {
        advice.push(
            "spec.datastore: rootCAPath, clientCertPath and clientKeyPath are for mysql: say it in connectionString".to_owned(),
        );
    } else if store.client_cert_path.is_some() != store.client_key_path.is_some() {
        advice.push(
            "spec.datastore: SPIRE uses clientCertPath and clientKeyPath only if both are given".to_owned(),
        );
    }
    if store.database_type == DatabaseType::Mysql && render::tls_secret(store).is_some() {
        advice.push(format!(
            "spec.datastore.tlsSecretName: ca.crt of the Secret verifies the server; for a client certificate, too, set clientCertPath and \
             clientKeyPath to {0}/tls.crt and {0}/tls.key",
            paths::DATABASE_CERTS
        ));
    }
    advice
}

fn path(connection: &str) -> &str {
    let path = connection.strip_prefix("file:").unwrap_or(connection);
    path.strip_prefix("//").unwrap_or(path)
}

fn names_files(store: &Datastore) -> bool {
    let paths = [
        &store.root_ca_path,
        &store.client_cert_path,
        &store.client_key_path,
    ];
    paths.into_iter().flatten().any(|path| !path.is_empty())
}
