//! Specs of every form, for tests of this crate and of those above it.

use trustplane_api::identity::{
    Acme, BundleEndpoint, BundleProfile, CaSubject, DatabaseType, Datastore, FederatesWith, Federation,
    HttpsWeb, KeyManager, KeyType, LogFormat, LogLevel, NodeAttestor, ServingCert, SpireAgentSpec,
    SpireOidcDiscoveryProviderSpec, SpireServerSpec, StringBool, Verification, VerificationType,
    WorkloadAttestors,
};

use crate::{Images, Settings, Shared};

/// An issuer without port and path.
pub const ISSUER: &str = "https://oidc.example.org";

/// Specs that belong together, without a defect.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What is special about it, in a form that is fit for a file name.
    pub name: &'static str,
    /// What the operands share.
    pub shared: Shared,
    /// The server.
    pub server: SpireServerSpec,
    /// The agents.
    pub agent: SpireAgentSpec,
    /// The OIDC discovery provider.
    pub oidc: SpireOidcDiscoveryProviderSpec,
    /// The effective issuer.
    pub issuer: &'static str,
}

impl Example {
    /// Specs with nothing in them.
    fn new(name: &'static str) -> Self {
        Self {
            name,
            shared: shared(),
            server: SpireServerSpec::default(),
            agent: SpireAgentSpec::default(),
            oidc: SpireOidcDiscoveryProviderSpec::default(),
            issuer: ISSUER,
        }
    }

    fn server(mut self, change: impl FnOnce(&mut SpireServerSpec)) -> Self {
        change(&mut self.server);
        self
    }

    fn agent(mut self, change: impl FnOnce(&mut SpireAgentSpec)) -> Self {
        change(&mut self.agent);
        self
    }

    fn datastore(self, datastore: Datastore) -> Self {
        self.server(|server| server.datastore = Some(datastore))
    }

    fn federation(self, endpoint: BundleEndpoint, others: Vec<FederatesWith>) -> Self {
        self.server(|server| {
            server.federation = Some(Federation {
                bundle_endpoint: endpoint,
                federates_with: others,
                managed_route: StringBool::False,
            });
        })
    }

    fn verification(self, verification: Verification) -> Self {
        self.agent(|agent| {
            agent.workload_attestors = Some(WorkloadAttestors {
                workload_attestors_verification: Some(verification),
                ..WorkloadAttestors::default()
            });
        })
    }

    fn issuer(mut self, issuer: &'static str) -> Self {
        self.issuer = issuer;
        self.oidc.jwt_issuer = Some(issuer.to_owned());
        self.server(|server| server.jwt_issuer = Some(issuer.to_owned()))
    }
}

/// What operands share.
pub fn shared() -> Shared {
    Shared {
        namespace: "zero-trust-workload-identity-manager".into(),
        trust_domain: "example.org".into(),
        cluster_name: "prod-us-west".into(),
        bundle: "spire-bundle".into(),
    }
}

/// Settings of an installation on Kubernetes without SELinux.
pub fn settings() -> Settings {
    let image = |name: &str, tag: &str| format!("ghcr.io/spiffe/{name}:{tag}");
    Settings {
        namespaces: vec![shared().namespace],
        images: Images {
            spire_server: image("spire-server", "1.15.3"),
            spire_agent: image("spire-agent", "1.15.3"),
            spire_controller_manager: image("spire-controller-manager", "0.6.4"),
            oidc_discovery_provider: image("oidc-discovery-provider", "1.15.3"),
            spiffe_csi_driver: image("spiffe-csi-driver", "0.2.8"),
            node_driver_registrar: "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.9.4".into(),
            csi_init: "registry.access.redhat.com/ubi9:latest".into(),
        },
        pull_policy: "IfNotPresent".into(),
        kubelet_root: "/var/lib/kubelet".into(),
        selinux: false,
        create_only: false,
    }
}

/// Specs of every form. None has a defect, and SPIRE takes the files of each.
pub fn matrix() -> Vec<Example> {
    [keys_and_logs(), databases(), federations(), agents(), issuers()].concat()
}

fn keys_and_logs() -> Vec<Example> {
    let keys = |ca, jwt| {
        move |server: &mut SpireServerSpec| {
            server.ca_key_type = ca;
            server.jwt_key_type = jwt;
        }
    };
    let mut dotted = Example::new("cluster-name-with-dots");
    dotted.shared.cluster_name = "eu.prod-1".into();
    dotted.shared.bundle = "trust.bundle".into();
    vec![
        Example::new("empty"),
        dotted,
        Example::new("keys-rsa").server(keys(KeyType::Rsa4096, None)),
        Example::new("keys-ec").server(keys(KeyType::EcP256, Some(KeyType::EcP384))),
        Example::new("keys-mixed").server(keys(KeyType::EcP384, Some(KeyType::Rsa2048))),
        Example::new("keys-in-memory").server(|server| {
            server.key_manager = Some(KeyManager {
                disk_enabled: StringBool::False,
                memory_enabled: StringBool::True,
            });
        }),
        Example::new("logs-and-validities").agent(logs).server(|server| {
            server.log_level = LogLevel::Debug;
            server.log_format = LogFormat::Json;
            server.ca_validity = "8760h".into();
            server.default_x509_validity = "36h".into();
            server.default_jwt_validity = "7m30s".into();
        }),
        Example::new("subject").server(|server| {
            server.ca_subject = Some(CaSubject {
                country: "NO".into(),
                organization: "Fjord & \"Søn\" <AS>".into(),
                common_name: "Example Root".into(),
            });
        }),
        Example::new("subject-in-part").server(|server| {
            server.ca_subject = Some(CaSubject {
                common_name: "example.org".into(),
                ..CaSubject::default()
            });
        }),
    ]
}

fn logs(agent: &mut SpireAgentSpec) {
    agent.log_level = LogLevel::Error;
    agent.log_format = LogFormat::Json;
}

fn databases() -> Vec<Example> {
    let certs = "/run/spire/db/certs";
    vec![
        Example::new("sqlite").datastore(Datastore {
            connection_string: "file:/run/spire/data/entries.sqlite3?cache=shared".into(),
            max_open_conns: 7,
            max_idle_conns: 0,
            conn_max_lifetime: Some(3600),
            disable_migration: StringBool::True,
            ..Datastore::default()
        }),
        Example::new("postgres").datastore(Datastore {
            database_type: DatabaseType::Postgres,
            connection_string: format!(
                "host=db.example.org dbname=spire user=spire password='p\\'a\"ss' sslmode=verify-full sslrootcert={certs}/ca.crt"
            ),
            tls_secret_name: Some("db-tls".into()),
            ..Datastore::default()
        }),
        Example::new("mysql").datastore(Datastore {
            database_type: DatabaseType::Mysql,
            connection_string: "spire:secret@tcp(db.example.org:3306)/spire?parseTime=true".into(),
            ..Datastore::default()
        }),
        Example::new("mysql-with-tls").datastore(Datastore {
            database_type: DatabaseType::Mysql,
            connection_string: "spire:secret@tcp(db.example.org:3306)/spire?parseTime=true".into(),
            tls_secret_name: Some("db-tls".into()),
            client_cert_path: Some(format!("{certs}/tls.crt")),
            client_key_path: Some(format!("{certs}/tls.key")),
            ..Datastore::default()
        }),
    ]
}

fn federations() -> Vec<Example> {
    let spiffe = |trust_domain: &str| FederatesWith {
        trust_domain: trust_domain.into(),
        bundle_endpoint_url: format!("https://federation.{trust_domain}:8443"),
        bundle_endpoint_profile: BundleProfile::HttpsSpiffe,
        endpoint_spiffe_id: Some(format!("spiffe://{trust_domain}/spire/server")),
    };
    let web = |trust_domain: &str| FederatesWith {
        bundle_endpoint_profile: BundleProfile::HttpsWeb,
        endpoint_spiffe_id: None,
        ..spiffe(trust_domain)
    };
    let by_web = |https_web: HttpsWeb| BundleEndpoint {
        profile: BundleProfile::HttpsWeb,
        https_web: Some(https_web),
        ..BundleEndpoint::default()
    };
    let acme = Acme {
        directory_url: "https://acme.example.org/directory".into(),
        domain_name: "federation.example.org".into(),
        email: "pki@example.org".into(),
        tos_accepted: StringBool::True,
    };
    vec![
        Example::new("federation").federation(BundleEndpoint::default(), vec![]),
        Example::new("federation-with-others").federation(
            BundleEndpoint {
                refresh_hint: 60,
                ..BundleEndpoint::default()
            },
            vec![web("web.example.com"), spiffe("spiffe.example.net")],
        ),
        Example::new("federation-by-acme").federation(
            by_web(HttpsWeb {
                acme: Some(acme),
                serving_cert: None,
            }),
            vec![],
        ),
        // SPIRE reads the certificate as soon as it reads the configuration.
        Example::new("federation-by-certificate").federation(
            by_web(HttpsWeb {
                acme: None,
                serving_cert: Some(ServingCert::default()),
            }),
            vec![web("web.example.com")],
        ),
    ]
}

fn agents() -> Vec<Example> {
    let verified = |r#type, base: Option<&str>, file: Option<&str>| Verification {
        r#type,
        host_cert_base_path: base.map(str::to_owned),
        host_cert_file_name: file.map(str::to_owned),
    };
    vec![
        Example::new("kubelet-by-cluster-ca").verification(verified(VerificationType::Auto, None, None)),
        Example::new("kubelet-by-given-file").verification(verified(
            VerificationType::HostCert,
            Some("/etc/kubernetes/"),
            Some("kubelet-ca.crt"),
        )),
        Example::new("kubelet-by-usual-file").verification(verified(
            VerificationType::HostCert,
            None,
            Some("kubelet.crt"),
        )),
        Example::new("kubelet-unverified").verification(verified(VerificationType::Skip, None, None)),
        Example::new("attestors-said").agent(|agent| {
            agent.node_attestor = Some(NodeAttestor::default());
            agent.workload_attestors = Some(WorkloadAttestors {
                disable_container_selectors: StringBool::True,
                use_new_container_locator: StringBool::False,
                ..WorkloadAttestors::default()
            });
        }),
    ]
}

fn issuers() -> Vec<Example> {
    vec![
        Example::new("issuer").issuer(ISSUER),
        Example::new("issuer-with-port").issuer("https://oidc.example.org:8443"),
        Example::new("issuer-with-path").issuer("https://oidc.example.org/tenants/a"),
        Example::new("issuer-with-slash").issuer("https://oidc.example.org/tenants/"),
        Example::new("issuer-with-all").issuer("https://oidc.example.org:444/a"),
        Example::new("issuer-without-tls").issuer("http://oidc.example.org"),
    ]
}
