use serde_json::{Value, json};
use trustplane_api::identity::{CommonConfig, DatabaseType, Datastore, OperandKind, Resources};

use super::*;
use crate::examples::{matrix, settings};

mod pods;

/// Field and rule of defects.
fn lines(defects: &[Defect]) -> Vec<String> {
    defects.iter().map(ToString::to_string).collect()
}

fn server_of(spec: Value) -> Vec<Defect> {
    server_spec(&serde_json::from_value(spec).unwrap())
}

/// The fields of defects, all with the same reason.
fn fields(defects: &[Defect], reason: &str) -> Vec<String> {
    assert!(
        defects.iter().all(|defect| defect.reason == reason),
        "{defects:?}"
    );
    defects.iter().map(|defect| defect.field.clone()).collect()
}

#[test]
fn no_example_has_a_defect() {
    for example in matrix() {
        let settings = settings();
        let defects = [
            server(&example.server, &settings),
            agent(&example.agent, &settings),
            csi(&SpiffeCsiDriverSpec::default()),
            oidc(&example.oidc, &settings),
            issuer(Some(example.issuer)).into_iter().collect(),
            common(&example.server.common),
        ];
        assert_eq!(lines(&defects.concat()), [""; 0], "{}", example.name);
    }
}

#[test]
fn validities_are_refused_when_they_do_not_fit() {
    let of = |ca, x509, jwt| {
        let spec = json!({"caValidity": ca, "defaultX509Validity": x509, "defaultJWTValidity": jwt});
        lines(&server_of(spec))
    };
    assert_eq!(of("24h", "24h", "24h"), [""; 0]);
    assert_eq!(
        of("1h", "2h", "90m"),
        [
            "spec.caValidity: must not be shorter than spec.defaultX509Validity (2h), but is 1h",
            "spec.caValidity: must not be shorter than spec.defaultJWTValidity (90m), but is 1h",
        ]
    );
    assert_eq!(of("0s", "1h", "5m"), ["spec.caValidity: must be longer than 0"]);
    assert_eq!(
        of("24h", "0", "5m"),
        ["spec.defaultX509Validity: must be longer than 0"]
    );
    assert_eq!(
        of("24h", "1h", "soon"),
        ["spec.defaultJWTValidity: must be a duration such as 24h or 1h30m"]
    );
    assert_eq!(
        of("24h", "-1h", "5m"),
        ["spec.defaultX509Validity: must be a duration such as 24h or 1h30m"]
    );
    assert_eq!(
        of("9999999h", "1h", "5m"),
        ["spec.caValidity: must be at most 2562047h"]
    );
    let failed = server_of(json!({"caValidity": "0s"}));
    assert_eq!(
        (failed[0].condition, failed[0].reason),
        ("TTLConfigurationValid", "TTLValidationFailed")
    );
}

#[test]
fn a_warning_is_given_when_spire_cannot_promise_a_validity() {
    let of = |ca: &str, x509: &str, jwt: &str| {
        warnings(&SpireServerSpec {
            ca_validity: ca.into(),
            default_x509_validity: x509.into(),
            default_jwt_validity: jwt.into(),
            ..SpireServerSpec::default()
        })
    };
    assert_eq!(of("24h", "4h", "5m"), [""; 0]);
    assert_eq!(
        of("24h", "5h", "4h1s"),
        [
            "spec.defaultX509Validity: 5h is longer than 4h0m0s, a sixth of spec.caValidity (24h): SVIDs may end sooner while the CA is \
             replaced",
            "spec.defaultJWTValidity: 4h1s is longer than 4h0m0s, a sixth of spec.caValidity (24h): SVIDs may end sooner while the CA is \
             replaced",
        ]
    );
    assert_eq!(
        of("8760h", "169h", "168h"),
        [
            "spec.defaultX509Validity: 169h is longer than 168h0m0s, the longest that SPIRE promises: SVIDs may end sooner while the CA is \
             replaced"
        ]
    );
    // What is refused is not warned of, too.
    assert_eq!(of("1h", "2h", "5m"), [""; 0]);
}

#[test]
fn an_issuer_is_refused_when_the_provider_cannot_serve_it() {
    let defect = issuer(Some("https://example.org/{tenant}")).unwrap();
    assert_eq!(
        (&*defect.field, defect.condition, defect.reason),
        ("spec.jwtIssuer", "ConfigurationValid", "InvalidJWTIssuerURL")
    );
    assert!(defect.rule.starts_with("must have a path of letters"), "{defect}");
    assert_eq!(issuer(None), None);
    assert_eq!(issuer(Some("")), None);
    let http: SpireServerSpec = serde_json::from_value(json!({"jwtIssuer": "http://example.org"})).unwrap();
    assert_eq!(lines(&server_spec(&http)), [""; 0]);
    assert!(server_advice(&http)[0].starts_with("spec.jwtIssuer: http lets anyone"));
}

#[test]
fn a_database_is_refused_by_name_when_spire_has_no_such_type() {
    for (database, way_out) in [
        (DatabaseType::Sql, "use sqlite3, postgres or mysql"),
        (DatabaseType::AwsPostgresql, "use postgres with"),
        (DatabaseType::AwsMysql, "use mysql with"),
    ] {
        let spec = json!({"datastore": {"databaseType": database, "connectionString": "host=db"}});
        let defects = server_of(spec);
        assert_eq!(
            fields(&defects, "SpireServerConfigMapGenerationFailed"),
            ["spec.datastore.databaseType"]
        );
        let rule = &defects[0].rule;
        assert!(
            rule.contains(database.as_str()) && rule.contains(way_out),
            "{rule}"
        );
    }
}

#[test]
fn a_connection_string_is_refused_when_it_does_not_fit_its_database() {
    let of = |database: DatabaseType, connection: &str| {
        let store = Datastore {
            database_type: database,
            connection_string: connection.into(),
            ..Datastore::default()
        };
        database::defects(&store).len()
    };
    let default = Datastore::default().connection_string;
    for (database, connection, faults) in [
        (DatabaseType::Sqlite3, &*default, 0),
        (
            DatabaseType::Sqlite3,
            "file:/run/spire/data/a.sqlite3?cache=shared",
            0,
        ),
        (DatabaseType::Sqlite3, "postgres://me:secret@db/spire", 1),
        (DatabaseType::Postgres, &*default, 1),
        (DatabaseType::Postgres, " ", 1),
        (DatabaseType::Postgres, "host=db dbname=spire", 0),
        (DatabaseType::Postgres, "postgres://db/spire", 0),
        (DatabaseType::Mysql, &*default, 1),
        (DatabaseType::Mysql, "me:pw@tcp(db)/spire", 1),
        (DatabaseType::Mysql, "me:pw@tcp(db)/spire?parseTime=false", 1),
        (
            DatabaseType::Mysql,
            "me:pw@tcp(db)/spire?tls=true&parseTime=true",
            0,
        ),
    ] {
        assert_eq!(of(database, connection), faults, "{connection}");
    }
}

#[test]
fn advice_about_a_database_never_quotes_the_connection_string() {
    let store = Datastore {
        connection_string: "/nowhere/hunter2$x".into(),
        options: vec!["hunter2".into()],
        root_ca_path: Some("hunter2".into()),
        ..Datastore::default()
    };
    let advice = database::advice(&store);
    assert_eq!(advice.len(), 4, "{advice:?}");
    let refused = database::defects(&Datastore {
        connection_string: "postgres://me:hunter2@db/spire".into(),
        ..store
    });
    let said = format!("{advice:?}{refused:?}");
    assert!(!said.contains("hunter2") && !said.contains("nowhere"), "{said}");
    let escaped = Datastore {
        connection_string: "/run/spire/data/a$$b".into(),
        ..Datastore::default()
    };
    assert_eq!(database::advice(&escaped), [""; 0]);
}

#[test]
fn federation_is_refused_when_it_makes_no_sense() {
    let other = |name: &str, id: Value| {
        json!({
            "trustDomain": name, "bundleEndpointUrl": format!("https://{name}:8443"),
            "bundleEndpointProfile": "https_spiffe", "endpointSpiffeId": id,
        })
    };
    let good = json!("spiffe://b.org/spire/server");
    let defects = server_of(json!({"trustDomain": "a.org", "federation": {
        "bundleEndpoint": {"profile": "https_web"},
        "federatesWith": [
            other("b.org", good.clone()),
            other("b.org", good.clone()),
            other("a.org", good),
            other("c.org", Value::Null),
            other("d.org", json!("spiffe://d.org/")),
            {"trustDomain": "e.org", "bundleEndpointUrl": "https:///x", "bundleEndpointProfile": "https_web"},
        ],
    }}));
    assert_eq!(
        fields(&defects, "InvalidFederationConfiguration"),
        [
            "spec.federation.bundleEndpoint.httpsWeb",
            "spec.federation.federatesWith[1].trustDomain",
            "spec.federation.federatesWith[3].endpointSpiffeId",
            "spec.federation.federatesWith[4].endpointSpiffeId",
            "spec.federation.federatesWith[5].bundleEndpointUrl",
            "spec.federation.federatesWith[2].trustDomain",
        ]
    );
}

#[test]
fn federation_with_itself_is_told_by_the_trust_domain_of_ztwim() {
    let example = matrix()
        .into_iter()
        .find(|example| example.name == "federation-with-others");
    let spec = example.unwrap().server;
    assert_eq!(self_federation(&spec, "example.org"), None);
    let defect = self_federation(&spec, "web.example.com").unwrap();
    assert_eq!(defect.field, "spec.federation.federatesWith[0].trustDomain");
}

#[test]
fn an_agent_is_refused_when_it_has_no_attestor_or_no_file() {
    let of = |spec: Value| {
        let defects = agent_spec(&serde_json::from_value(spec).unwrap());
        fields(&defects, "SpireAgentConfigMapGenerationFailed")
    };
    assert_eq!(
        of(
            json!({"nodeAttestor": {"k8sPSATEnabled": "false"}, "workloadAttestors": {"k8sEnabled": "false"}})
        ),
        [
            "spec.nodeAttestor.k8sPSATEnabled",
            "spec.workloadAttestors.k8sEnabled"
        ]
    );
    let verified = |verification: Value| {
        of(json!({"workloadAttestors": {"workloadAttestorsVerification": verification}}))
            .iter()
            .map(|field| field.rsplit_once('.').unwrap().1.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(verified(json!({"type": "hostCert"})), ["hostCertFileName"]);
    assert_eq!(
        verified(json!({"type": "hostCert", "hostCertBasePath": "/", "hostCertFileName": "a.crt"})),
        ["hostCertBasePath"]
    );
    assert_eq!(
        verified(json!({"type": "auto", "hostCertBasePath": "/etc/../x", "hostCertFileName": ".."})),
        ["hostCertFileName", "hostCertBasePath"]
    );
    assert_eq!(
        verified(json!({"type": "skip", "hostCertBasePath": "/"})),
        [""; 0]
    );
    assert_eq!(
        verified(json!({"type": "auto", "hostCertBasePath": "/"})),
        [""; 0]
    );
}

#[test]
fn a_socket_path_is_refused_when_it_is_no_directory_of_its_own() {
    for (path, sound) in [
        ("/run/spire/agent-sockets", true),
        ("/run/spire/agent-sockets/", true),
        ("/run/spire/agent-sockets/spire-agent.sock", true),
        ("/", false),
        ("", false),
        ("run/spire", false),
        ("/run/../etc", false),
        ("/run/.", false),
        ("/agent.sock", false),
    ] {
        let spec: SpiffeCsiDriverSpec = serde_json::from_value(json!({"agentSocketPath": path})).unwrap();
        let defects = csi(&spec);
        assert_eq!(defects.is_empty(), sound, "{path}");
        assert!(
            defects
                .iter()
                .all(|defect| defect.condition == "ConfigurationValid")
        );
    }
    let file: SpiffeCsiDriverSpec =
        serde_json::from_value(json!({"agentSocketPath": "/run/spire/agent-sockets/spire-agent.sock"}))
            .unwrap();
    assert!(csi_advice(&file)[0].contains(": /run/spire/agent-sockets is used"));
    assert_eq!(csi_advice(&SpiffeCsiDriverSpec::default()), [""; 0]);
}

#[test]
fn a_driver_name_is_refused_when_kubernetes_takes_no_such_name() {
    let long = "a".repeat(64);
    for (name, sound) in [
        ("csi.spiffe.io", true),
        ("a..b", false),
        ("A", false),
        (&*long, false),
    ] {
        let csi_spec: SpiffeCsiDriverSpec = serde_json::from_value(json!({"pluginName": name})).unwrap();
        let oidc: SpireOidcDiscoveryProviderSpec =
            serde_json::from_value(json!({"csiDriverName": name})).unwrap();
        assert_eq!(csi(&csi_spec).is_empty(), sound, "{name}");
        assert_eq!(oidc_spec(&oidc).is_empty(), sound, "{name}");
    }
}

#[test]
fn an_image_is_refused_when_its_tag_is_of_another_minor_version() {
    let with = |image: &str| {
        let mut images = settings().images;
        images.spire_server = image.to_owned();
        version(OperandKind::SpireServer, &images)
    };
    for image in [
        "ghcr.io/spiffe/spire-server:1.15.3",
        "ghcr.io/spiffe/spire-server:v1.15",
        "localhost:5000/spire-server:1.15.0-debug",
        "localhost:5000/spire-server",
        "ghcr.io/spiffe/spire-server@sha256:0123",
        "spire-server:nightly",
        "spire-server:20260101",
    ] {
        assert_eq!(with(image), None, "{image}");
    }
    for image in [
        "ghcr.io/spiffe/spire-server:1.13.3",
        "ghcr.io/spiffe/spire-server:1.14.7@sha256:0123",
        "localhost:5000/spire-server:v1.16.0",
        "spire-server:2.15",
        "spire-server:1.150.0",
    ] {
        let defect = with(image).unwrap();
        assert_eq!(defect.field, "RELATED_IMAGE_SPIRE_SERVER");
        assert!(
            defect.rule.contains(image) && defect.rule.contains("SPIRE 1.15"),
            "{defect}"
        );
    }
    let mut old = settings();
    old.images.spire_server = "x:1.13.3".into();
    assert_eq!(server(&SpireServerSpec::default(), &old).len(), 1);
    assert_eq!(agent(&SpireAgentSpec::default(), &old).len(), 0);
}
