use proptest::prelude::*;
use serde_json::{Value, json};
use trustplane_api::identity::{
    CaSubject, DatabaseType, Datastore, KeyManager, NodeAttestor, SpireAgentSpec,
    SpireOidcDiscoveryProviderSpec, SpireServerSpec, StringBool, Verification, VerificationType,
    WorkloadAttestors,
};

use super::*;
use crate::examples::{ISSUER, matrix, shared};

mod agent;

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn server(spec: &SpireServerSpec) -> Value {
    json_of(&server_conf(spec, &shared()))
}

fn oidc(issuer: &str) -> Value {
    json_of(&oidc_conf(
        &SpireOidcDiscoveryProviderSpec::default(),
        &shared(),
        issuer,
    ))
}

#[test]
fn server_conf_runs_when_the_spec_is_empty() {
    let expected = json!({
        "health_checks": {
            "bind_address": "0.0.0.0", "bind_port": "8080", "listener_enabled": true,
            "live_path": "/live", "ready_path": "/ready",
        },
        "plugins": {
            "DataStore": [{ "sql": { "plugin_data": {
                "connection_string": "/run/spire/data/datastore.sqlite3",
                "database_type": "sqlite3",
                "disable_migration": false,
                "max_idle_conns": 2,
                "max_open_conns": 100,
            } } }],
            "KeyManager": [{ "disk": { "plugin_data": { "keys_path": "/run/spire/data/keys.json" } } }],
            "NodeAttestor": [{ "k8s_psat": { "plugin_data": { "clusters": [{ "prod-us-west": {
                "allowed_node_label_keys": [],
                "allowed_pod_label_keys": [],
                "audience": ["spire-server"],
                "service_account_allow_list": ["zero-trust-workload-identity-manager:spire-agent"],
            } }] } } }],
            "Notifier": [{ "k8sbundle": { "plugin_data": {
                "config_map": "spire-bundle", "namespace": "zero-trust-workload-identity-manager",
            } } }],
        },
        "server": {
            "audit_log_enabled": false,
            "bind_address": "0.0.0.0",
            "bind_port": "8081",
            "ca_key_type": "rsa-2048",
            "ca_ttl": "24h0m0s",
            "data_dir": "/run/spire/data",
            "default_jwt_svid_ttl": "5m0s",
            "default_x509_svid_ttl": "1h0m0s",
            "log_format": "text",
            "log_level": "info",
            "trust_domain": "example.org",
        },
        "telemetry": { "Prometheus": { "host": "0.0.0.0", "port": "9402" } },
    });
    assert_eq!(server(&SpireServerSpec::default()), expected);
}

#[test]
fn server_conf_says_what_the_spec_says() {
    let spec = SpireServerSpec {
        jwt_issuer: Some(ISSUER.into()),
        ca_subject: Some(CaSubject {
            country: "NO".into(),
            organization: String::new(),
            common_name: "Root".into(),
        }),
        ..SpireServerSpec::default()
    };
    let server = &server(&spec)["server"];
    assert_eq!(server["jwt_issuer"], ISSUER);
    let subject = json!([{ "common_name": "Root", "country": ["NO"], "organization": [""] }]);
    assert_eq!(server["ca_subject"], subject);
    assert_eq!(server.get("federation"), None);
}

#[test]
fn server_conf_obeys_the_key_manager() {
    let disk = json!([{ "disk": { "plugin_data": { "keys_path": "/run/spire/data/keys.json" } } }]);
    let memory = json!([{ "memory": { "plugin_data": {} } }]);
    for (disk_enabled, memory_enabled, expected) in [
        (true, false, &disk),
        (true, true, &disk),
        (false, false, &disk),
        (false, true, &memory),
    ] {
        let spec = SpireServerSpec {
            key_manager: Some(KeyManager {
                disk_enabled: StringBool::from(disk_enabled),
                memory_enabled: StringBool::from(memory_enabled),
            }),
            ..SpireServerSpec::default()
        };
        let keys = &server(&spec)["plugins"]["KeyManager"];
        assert_eq!(keys, expected, "disk {disk_enabled}, memory {memory_enabled}");
    }
}

fn database(store: Datastore) -> Value {
    let spec = SpireServerSpec {
        datastore: Some(store),
        ..SpireServerSpec::default()
    };
    server(&spec)["plugins"]["DataStore"][0]["sql"]["plugin_data"].clone()
}

#[test]
fn datastore_has_every_setting_when_idle_connections_are_0() {
    let expected = json!({
        "conn_max_lifetime": "3600s",
        "connection_string": "host=db",
        "database_type": "postgres",
        "disable_migration": true,
        "max_idle_conns": 0,
        "max_open_conns": 7,
    });
    let store = Datastore {
        database_type: DatabaseType::Postgres,
        connection_string: "host=db".into(),
        // The driver of PostgreSQL takes the files from the connection string.
        tls_secret_name: Some("db-tls".into()),
        max_open_conns: 7,
        max_idle_conns: 0,
        conn_max_lifetime: Some(3600),
        disable_migration: StringBool::True,
        ..Datastore::default()
    };
    assert_eq!(database(store), expected);
    let forever = Datastore {
        conn_max_lifetime: Some(0),
        ..Datastore::default()
    };
    assert_eq!(database(forever).get("conn_max_lifetime"), None);
}

#[test]
fn mysql_verifies_the_server_when_there_is_a_tls_secret() {
    let mysql = |secret: Option<&str>, ca: Option<&str>, client: Option<&str>| {
        let conf = database(Datastore {
            database_type: DatabaseType::Mysql,
            tls_secret_name: secret.map(str::to_owned),
            root_ca_path: ca.map(str::to_owned),
            client_cert_path: client.map(|path| format!("{path}.crt")),
            client_key_path: client.map(|path| format!("{path}.key")),
            ..Datastore::default()
        });
        ["root_ca_path", "client_cert_path", "client_key_path"].map(|key| {
            conf.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        })
    };
    assert_eq!(mysql(None, None, None), ["", "", ""]);
    assert_eq!(mysql(Some(""), None, None), ["", "", ""]);
    assert_eq!(
        mysql(Some("db-tls"), None, None),
        ["/run/spire/db/certs/ca.crt", "", ""]
    );
    assert_eq!(
        mysql(Some("db-tls"), Some("/ca"), Some("/me")),
        ["/ca", "/me.crt", "/me.key"]
    );
}

fn federation(name: &str) -> Value {
    let example = matrix().into_iter().find(|example| example.name == name).unwrap();
    server(&example.server)["server"]["federation"].clone()
}

#[test]
fn federation_is_rendered_for_each_profile() {
    assert_eq!(
        federation("federation-with-others"),
        json!({
            "bundle_endpoint": {
                "address": "0.0.0.0", "port": 8443, "refresh_hint": "60s", "profile": { "https_spiffe": {} },
            },
            "federates_with": {
                "spiffe.example.net": {
                    "bundle_endpoint_profile": { "https_spiffe": {
                        "endpoint_spiffe_id": "spiffe://spiffe.example.net/spire/server",
                    } },
                    "bundle_endpoint_url": "https://federation.spiffe.example.net:8443",
                },
                "web.example.com": {
                    "bundle_endpoint_profile": { "https_web": {} },
                    "bundle_endpoint_url": "https://federation.web.example.com:8443",
                },
            },
        })
    );
    let web = |name| federation(name)["bundle_endpoint"]["profile"]["https_web"].clone();
    let acme = json!({ "acme": {
        "directory_url": "https://acme.example.org/directory",
        "domain_name": "federation.example.org",
        "email": "pki@example.org",
        "tos_accepted": true,
    } });
    assert_eq!(web("federation-by-acme"), acme);
    let file = json!({ "serving_cert_file": {
        "cert_file_path": "/run/spire/server-tls/tls.crt",
        "file_sync_interval": "86400s",
        "key_file_path": "/run/spire/server-tls/tls.key",
    } });
    assert_eq!(web("federation-by-certificate"), file);
}

#[test]
fn controller_manager_conf_rests_between_its_passes() {
    let expected = json!({
        "apiVersion": "spire.spiffe.io/v1alpha1",
        "kind": "ControllerManagerConfig",
        "metadata": {
            "name": "spire-controller-manager",
            "namespace": "zero-trust-workload-identity-manager",
            "labels": {
                "app.kubernetes.io/name": "spire-controller-manager",
                "app.kubernetes.io/instance": "cluster-zero-trust-workload-identity-manager",
                "app.kubernetes.io/component": "control-plane",
                "app.kubernetes.io/part-of": "zero-trust-workload-identity-manager",
                "app.kubernetes.io/managed-by": "zero-trust-workload-identity-manager",
            },
        },
        "className": "zero-trust-workload-identity-manager-spire",
        "clusterDomain": "",
        "clusterName": "prod-us-west",
        "entryIDPrefix": "prod-us-west",
        "gcInterval": 10_000_000_000_u64,
        "health": { "healthProbeBindAddress": "0.0.0.0:8083" },
        "ignoreNamespaces": ["^kube-system$", "^kube-public$", "^local-path-storage$", "^openshift-.*$"],
        "metrics": { "bindAddress": "0.0.0.0:8082" },
        "parentIDTemplate": "spiffe://{{ .TrustDomain }}/spire/agent/k8s_psat/{{ .ClusterName }}/{{ .NodeMeta.UID }}",
        "reconcile": {
            "clusterFederatedTrustDomains": true, "clusterSPIFFEIDs": true, "clusterStaticEntries": true,
        },
        "spireServerSocketPath": "/tmp/spire-server/private/api.sock",
        "trustDomain": "example.org",
        "validatingWebhookConfigurationName": "spire-controller-manager-webhook",
        "webhook": {},
    });
    assert_eq!(json_of(&controller_manager_conf(&shared())), expected);
}

#[test]
fn oidc_conf_lets_the_provider_name_the_issuer_when_it_is_plain() {
    let service = "spire-spiffe-oidc-discovery-provider";
    let namespace = "zero-trust-workload-identity-manager";
    let expected = json!({
        "domains": [
            service,
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc.cluster.local"),
            "oidc.example.org",
        ],
        "health_checks": { "bind_port": "8008", "live_path": "/live", "ready_path": "/ready" },
        "log_format": "text",
        "log_level": "info",
        "serving_cert_file": {
            "addr": ":8443",
            "cert_file_path": "/etc/oidc/tls/tls.crt",
            "key_file_path": "/etc/oidc/tls/tls.key",
        },
        "workload_api": {
            "socket_path": "/spiffe-workload-api/spire-agent.sock",
            "trust_domain": "example.org",
        },
    });
    assert_eq!(oidc(ISSUER), expected);
}

#[test]
fn oidc_conf_names_the_issuer_when_it_has_port_or_path() {
    for (issuer, path, keys) in [
        (
            "https://oidc.example.org:8443",
            None,
            "https://oidc.example.org:8443/keys",
        ),
        (
            "https://oidc.example.org/a/b",
            Some("/a/b"),
            "https://oidc.example.org/a/b/keys",
        ),
        (
            "https://oidc.example.org/a/",
            Some("/a"),
            "https://oidc.example.org/a/keys",
        ),
        ("https://oidc.example.org/", None, "https://oidc.example.org/keys"),
        ("http://oidc.example.org", None, "http://oidc.example.org/keys"),
    ] {
        let conf = oidc(issuer);
        assert_eq!(conf["jwt_issuer"], issuer);
        assert_eq!(conf["jwks_uri"], keys, "{issuer}");
        assert_eq!(
            conf.get("server_path_prefix").and_then(Value::as_str),
            path,
            "{issuer}"
        );
        assert_eq!(conf["domains"][3], "oidc.example.org", "{issuer}");
    }
}

#[test]
fn a_file_has_sorted_keys_and_ends_with_a_newline() {
    let text = agent_conf(&SpireAgentSpec::default(), &shared());
    assert!(
        text.starts_with("{\n  \"agent\": {\n    \"data_dir\": "),
        "{text}"
    );
    assert!(text.ends_with("\n}\n"), "{text}");
    for example in matrix() {
        let text = server_conf(&example.server, &example.shared);
        let keys = |text: &str| {
            let top = text.lines().filter(|line| line.starts_with("  \""));
            top.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(keys(&text).is_sorted(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_connection_string_reaches_spire_as_it_is(text in ".{0,80}") {
        let store = Datastore { connection_string: text.clone(), ..Datastore::default() };
        prop_assert_eq!(&database(store)["connection_string"], &text);
    }
}
