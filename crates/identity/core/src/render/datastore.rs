//! The database of the server, as SPIRE's `sql` plugin wants it.

use serde_json::{Value, json};
use trustplane_api::identity::{DatabaseType, Datastore, SpireServerSpec};

use super::paths;

/// The Secret whose files are mounted at [`paths::DATABASE_CERTS`], if there is one.
pub fn tls_secret(store: &Datastore) -> Option<&str> {
    given(store.tls_secret_name.as_ref())
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

pub(super) fn conf(spec: &SpireServerSpec) -> Value {
    let default = Datastore::default();
    let store = spec.datastore.as_ref().unwrap_or(&default);
    let mut conf = json!({
        "connection_string": store.connection_string,
        "database_type": store.database_type.as_str(),
        "disable_migration": store.disable_migration.is_true(),
        "max_open_conns": store.max_open_conns,
        // SPIRE tells 0 from nothing, for which it takes 100.
        "max_idle_conns": store.max_idle_conns,
    });
    if let Some(seconds) = store.conn_max_lifetime.filter(|seconds| *seconds > 0) {
        conf["conn_max_lifetime"] = format!("{seconds}s").into();
    }
    for (key, path) in tls_files(store) {
        conf[key] = path.into();
    }
    conf
}

/// The TLS files that SPIRE itself reads, which it does for MySQL alone: the driver of PostgreSQL takes them from the connection string, as
/// `sslrootcert` and its like.
///
/// A Secret of TLS files is taken to have the CA as `ca.crt`. Whether it has a certificate of the client only its author knows: SPIRE
/// stops if a file that it is told of is missing, so that pair is named in the spec.
fn tls_files(store: &Datastore) -> Vec<(&'static str, String)> {
    let named = [
        ("root_ca_path", &store.root_ca_path),
        ("client_cert_path", &store.client_cert_path),
        ("client_key_path", &store.client_key_path),
    ];
    let mut files: Vec<_> = named
        .into_iter()
        .filter_map(|(key, path)| Some((key, given(path.as_ref())?.to_owned())))
        .collect();
    let has_ca = files.iter().any(|(key, _)| *key == "root_ca_path");
    if store.database_type == DatabaseType::Mysql && tls_secret(store).is_some() && !has_ca {
        files.push(("root_ca_path", format!("{}/ca.crt", paths::DATABASE_CERTS)));
    }
    files
}
