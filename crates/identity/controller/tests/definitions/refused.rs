//! Specs that the API server refuses.

use serde_json::{Value, json};
use trustplane_api::identity::{
    CLUSTER_FEDERATED_TRUST_DOMAIN, CLUSTER_SPIFFE_ID, CLUSTER_STATIC_ENTRY, SPIFFE_CSI_DRIVER, SPIRE_AGENT,
    SPIRE_OIDC, SPIRE_SERVER, ZTWIM,
};
use trustplane_plan::Kind;

const MATCH: &str = "should match '";
const UNSUPPORTED: &str = "Unsupported value";
const UNDECLARED: &str = "field not declared in schema";
const STEP_BACK: &str = "must not hold '.' or '..' as a part";
const AT_MOST: &str = "should be less than or equal to";
const AT_LEAST: &str = "should be greater than or equal to";

/// A kind, a spec that the kind refuses, and the field and the rule that the message names.
pub type Refusal = (Kind, Value, &'static str, &'static str);

/// What each kind refuses.
pub fn specs() -> Vec<Refusal> {
    [ztwim(), common(), server(), federation(), node(), spiffe()].concat()
}

fn ztwim() -> Vec<Refusal> {
    let long = "a".repeat(64);
    [
        (
            json!({"trustDomain": ""}),
            "spec.trustDomain",
            "should be at least 1 chars long",
        ),
        (json!({"trustDomain": "Example.org"}), "spec.trustDomain", MATCH),
        (json!({"trustDomain": "a..b"}), "spec.trustDomain", MATCH),
        (json!({"trustDomain": "-a"}), "spec.trustDomain", MATCH),
        (json!({"trustDomain": long}), "spec.trustDomain", MATCH),
        (
            json!({"trustDomain": "a.".repeat(128) + "a"}),
            "spec.trustDomain",
            "may not be more than 255",
        ),
        (json!({"clusterName": "West"}), "spec.clusterName", MATCH),
        (json!({"clusterName": "west."}), "spec.clusterName", MATCH),
        (
            json!({"clusterName": "a".repeat(64)}),
            "spec.clusterName",
            "may not be more than 63",
        ),
        (
            json!({"bundleConfig": {"name": "Bundle"}}),
            "spec.bundleConfig.name",
            MATCH,
        ),
        (
            json!({"bundleConfig": {"namespace": "a"}}),
            "spec.bundleConfig.name",
            "Required value",
        ),
        (
            json!({"bundleConfig": {"name": "a", "key": "b"}}),
            "spec.bundleConfig.key",
            UNDECLARED,
        ),
        (json!({"bundleConfigMap": "_"}), "spec.bundleConfigMap", MATCH),
        (json!({"namespace": "a.b"}), "spec.namespace", MATCH),
        (
            json!({"changePolicy": "Forbid"}),
            "spec.changePolicy",
            UNSUPPORTED,
        ),
        (
            json!({"expectedOperands": ["SpireServers"]}),
            "spec.expectedOperands[0]",
            UNSUPPORTED,
        ),
        (
            json!({"expectedOperands": ["SpireAgent", "SpireAgent"]}),
            "spec.expectedOperands",
            "duplicate",
        ),
        (json!({"logLevel": 6}), "spec.logLevel", AT_MOST),
        (json!({"trustdomain": "a"}), "spec.trustdomain", UNDECLARED),
    ]
    .map(|(spec, field, rule)| (ZTWIM, spec, field, rule))
    .into()
}

fn common() -> Vec<Refusal> {
    let many = |count: usize| -> Value {
        (0..count)
            .map(|index| (format!("k{index}"), json!("v")))
            .collect()
    };
    let cases = [
        (json!({"labels": many(65)}), "spec.labels", "must have at most 64"),
        (
            json!({"nodeSelector": many(51)}),
            "spec.nodeSelector",
            "must have at most 50",
        ),
        (
            json!({"tolerations": vec![json!({"operator": "Exists"}); 51]}),
            "spec.tolerations",
            "must have at most 50",
        ),
        (
            json!({"tolerations": [{"kee": "a"}]}),
            "spec.tolerations[0].kee",
            UNDECLARED,
        ),
        (
            json!({"resources": {"requests": {"cpu": "much"}}}),
            "spec.resources.requests",
            MATCH,
        ),
        (
            json!({"resources": {"cpu": "1"}}),
            "spec.resources.cpu",
            UNDECLARED,
        ),
        (
            json!({"affinity": {"nodesAffinity": {}}}),
            "spec.affinity.nodesAffinity",
            UNDECLARED,
        ),
    ];
    let of = |kind: Kind| {
        cases
            .clone()
            .map(|(spec, field, rule)| (kind.clone(), spec, field, rule))
    };
    [of(ZTWIM), of(SPIRE_SERVER)].concat()
}

fn server() -> Vec<Refusal> {
    [
        (json!({"logLevel": "trace"}), "spec.logLevel", UNSUPPORTED),
        (json!({"logFormat": "xml"}), "spec.logFormat", UNSUPPORTED),
        (json!({"jwtIssuer": "oidc.example"}), "spec.jwtIssuer", MATCH),
        (json!({"jwtIssuer": "https://a?b"}), "spec.jwtIssuer", MATCH),
        (json!({"caValidity": "1 day"}), "spec.caValidity", MATCH),
        (
            json!({"defaultX509Validity": "-1h"}),
            "spec.defaultX509Validity",
            MATCH,
        ),
        (
            json!({"defaultJWTValidity": "5"}),
            "spec.defaultJWTValidity",
            MATCH,
        ),
        (json!({"caKeyType": "rsa-1024"}), "spec.caKeyType", UNSUPPORTED),
        (json!({"jwtKeyType": ""}), "spec.jwtKeyType", UNSUPPORTED),
        (
            json!({"keyManager": {"diskEnabled": "yes"}}),
            "spec.keyManager.diskEnabled",
            UNSUPPORTED,
        ),
        (
            json!({"caSubject": {"country": "DEU"}}),
            "spec.caSubject.country",
            "may not be more than 2",
        ),
        (
            json!({"persistence": {"size": "0Gi"}}),
            "spec.persistence.size",
            MATCH,
        ),
        (
            json!({"persistence": {"size": "1Mi"}}),
            "spec.persistence.size",
            MATCH,
        ),
        (
            json!({"persistence": {"accessMode": "ReadOnlyMany"}}),
            "spec.persistence.accessMode",
            UNSUPPORTED,
        ),
        (
            json!({"datastore": {"databaseType": "oracle"}}),
            "spec.datastore.databaseType",
            UNSUPPORTED,
        ),
        (
            json!({"datastore": {"connectionString": ""}}),
            "spec.datastore.connectionString",
            "should be at least 1 chars long",
        ),
        (
            json!({"datastore": {"maxOpenConns": 0}}),
            "spec.datastore.maxOpenConns",
            AT_LEAST,
        ),
        (
            json!({"datastore": {"connMaxLifetime": -1}}),
            "spec.datastore.connMaxLifetime",
            AT_LEAST,
        ),
        (
            json!({"datastore": {"tlsSecretName": "DB"}}),
            "spec.datastore.tlsSecretName",
            MATCH,
        ),
        (
            json!({"defaultIdentity": "maybe"}),
            "spec.defaultIdentity",
            UNSUPPORTED,
        ),
        (json!({"trustDomain": "spiffe://a"}), "spec.trustDomain", MATCH),
        (json!({"replicas": 2}), "spec.replicas", UNDECLARED),
    ]
    .map(|(spec, field, rule)| (SPIRE_SERVER, spec, field, rule))
    .into()
}

fn federation() -> Vec<Refusal> {
    let with = |with: Value| json!({"federation": {"bundleEndpoint": {}, "federatesWith": with}});
    let web =
        |web: Value| json!({"federation": {"bundleEndpoint": {"profile": "https_web", "httpsWeb": web}}});
    let acme =
        json!({"directoryUrl": "https://a.example/d", "domainName": "f.example", "email": "a@a.example"});
    let changed = |field: &str, value: &str| {
        let mut acme = acme.clone();
        acme[field] = json!(value);
        web(json!({"acme": acme}))
    };
    let other = json!({
        "trustDomain": "b.example", "bundleEndpointUrl": "https://b.example", "bundleEndpointProfile": "https_web",
    });
    [
        (
            json!({"federation": {}}),
            "spec.federation.bundleEndpoint",
            "Required value",
        ),
        (
            json!({"federation": {"bundleEndpoint": {"profile": "https_web"}}}),
            "spec.federation.bundleEndpoint",
            "httpsWeb: required if profile is https_web",
        ),
        (
            json!({"federation": {"bundleEndpoint": {"refreshHint": 59}}}),
            "spec.federation.bundleEndpoint.refreshHint",
            AT_LEAST,
        ),
        (
            web(json!({})),
            "spec.federation.bundleEndpoint.httpsWeb",
            "acme, servingCert: exactly one",
        ),
        (
            web(json!({"acme": acme, "servingCert": {}})),
            "spec.federation.bundleEndpoint.httpsWeb",
            "acme, servingCert: exactly one",
        ),
        (
            changed("directoryUrl", "http://a.example"),
            "httpsWeb.acme.directoryUrl",
            MATCH,
        ),
        (changed("email", "a"), "httpsWeb.acme.email", MATCH),
        (changed("tosAccepted", "yes"), "httpsWeb.acme.tosAccepted", UNSUPPORTED),
        (
            web(json!({"servingCert": {"fileSyncInterval": 3599}})),
            "httpsWeb.servingCert.fileSyncInterval",
            AT_LEAST,
        ),
        (
            with(json!([])),
            "spec.federation.federatesWith",
            "should have at least 1 items",
        ),
        (
            with(json!([other, other])),
            "spec.federation.federatesWith",
            "duplicate",
        ),
        (
            with(json!([{
                "trustDomain": "b.example", "bundleEndpointUrl": "https://b.example",
                "bundleEndpointProfile": "https_spiffe",
            }])),
            "spec.federation.federatesWith[0]",
            "endpointSpiffeId: required if bundleEndpointProfile is https_spiffe",
        ),
        (
            with(json!([{
                "trustDomain": "B", "bundleEndpointUrl": "https://b.example", "bundleEndpointProfile": "https_web",
            }])),
            "spec.federation.federatesWith[0].trustDomain",
            MATCH,
        ),
        (
            with(json!([{
                "trustDomain": "b", "bundleEndpointUrl": "http://b.example", "bundleEndpointProfile": "https_web",
            }])),
            "spec.federation.federatesWith[0].bundleEndpointUrl",
            MATCH,
        ),
    ]
    .map(|(spec, field, rule)| (SPIRE_SERVER, spec, field, rule))
    .into()
}

fn node() -> Vec<Refusal> {
    let verification =
        |verification: Value| json!({"workloadAttestors": {"workloadAttestorsVerification": verification}});
    let at = "spec.workloadAttestors.workloadAttestorsVerification";
    let agents = [
        (json!({"socketPath": "run/spire"}), "spec.socketPath", MATCH),
        (json!({"socketPath": "/run/../etc"}), "spec.socketPath", STEP_BACK),
        (
            verification(json!({"type": "hostCert"})),
            at,
            "hostCertFileName: required if type is hostCert",
        ),
        (verification(json!({"type": "apiServerCA"})), at, UNSUPPORTED),
        (verification(json!({"hostCertBasePath": "pki"})), at, MATCH),
        (verification(json!({"hostCertFileName": ".."})), at, STEP_BACK),
        (
            json!({"nodeAttestor": {"k8sPSATEnabled": "on"}}),
            "spec.nodeAttestor.k8sPSATEnabled",
            UNSUPPORTED,
        ),
    ];
    let drivers = [
        (
            json!({"agentSocketPath": "/run/./x"}),
            "spec.agentSocketPath",
            STEP_BACK,
        ),
        (json!({"pluginName": "CSI"}), "spec.pluginName", MATCH),
        (
            json!({"pluginName": "a".repeat(128)}),
            "spec.pluginName",
            "may not be more than 127",
        ),
    ];
    let providers = [
        (json!({"replicaCount": 0}), "spec.replicaCount", AT_LEAST),
        (json!({"replicaCount": 6}), "spec.replicaCount", AT_MOST),
        (json!({"managedRoute": "no"}), "spec.managedRoute", UNSUPPORTED),
        (json!({"externalSecretRef": "A"}), "spec.externalSecretRef", MATCH),
        (json!({"jwtIssuer": "ftp://a.example"}), "spec.jwtIssuer", MATCH),
    ];
    let agents = agents.map(|(spec, field, rule)| (SPIRE_AGENT, spec, field, rule));
    let drivers = drivers.map(|(spec, field, rule)| (SPIFFE_CSI_DRIVER, spec, field, rule));
    let providers = providers.map(|(spec, field, rule)| (SPIRE_OIDC, spec, field, rule));
    agents.into_iter().chain(drivers).chain(providers).collect()
}

/// Each of these makes spire-controller-manager fail to read the object, or all objects of the kind.
fn spiffe() -> Vec<Refusal> {
    let federated = |profile: Value, url: &str| json!({"trustDomain": "b.example", "bundleEndpointURL": url, "bundleEndpointProfile": profile});
    vec![
        (
            CLUSTER_SPIFFE_ID,
            json!({}),
            "spec.spiffeIDTemplate",
            "Required value",
        ),
        (
            CLUSTER_SPIFFE_ID,
            json!({"spiffeIDTemplate": "x", "ttl": "1 hour"}),
            "spec.ttl",
            MATCH,
        ),
        (
            CLUSTER_SPIFFE_ID,
            json!({"spiffeIDTemplate": "x", "jwtTtl": ""}),
            "spec.jwtTtl",
            MATCH,
        ),
        (
            CLUSTER_SPIFFE_ID,
            json!({"spiffeIDTemplate": "x", "jwtTTL": "1h"}),
            "spec.jwtTTL",
            UNDECLARED,
        ),
        (
            CLUSTER_FEDERATED_TRUST_DOMAIN,
            federated(json!({"type": "https_spiffe"}), "https://b.example"),
            "spec.bundleEndpointProfile",
            "endpointSPIFFEID: required if type is https_spiffe",
        ),
        (
            CLUSTER_FEDERATED_TRUST_DOMAIN,
            federated(json!({"type": "https_web"}), "http://b.example"),
            "spec.bundleEndpointURL",
            MATCH,
        ),
        (
            CLUSTER_FEDERATED_TRUST_DOMAIN,
            federated(json!({"type": "https"}), "https://b.example"),
            "spec.bundleEndpointProfile.type",
            UNSUPPORTED,
        ),
        (
            CLUSTER_STATIC_ENTRY,
            json!({"spiffeID": "spiffe://a/b", "parentID": "spiffe://a"}),
            "spec.selectors",
            "Required value",
        ),
        (
            CLUSTER_STATIC_ENTRY,
            json!({"spiffeID": "spiffe://a/b", "parentID": "spiffe://a", "selectors": [], "x509SVIDTTL": "1d"}),
            "spec.x509SVIDTTL",
            MATCH,
        ),
    ]
}
