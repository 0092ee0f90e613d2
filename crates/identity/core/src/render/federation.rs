//! Federation, as the server wants it.

use serde_json::{Map, Value, json};
use trustplane_api::identity::{
    Acme, BundleEndpoint, BundleProfile, FederatesWith, Federation, ServingCert, SpireServerSpec,
};

use super::paths;

/// The certificate from a Secret that the federation endpoint serves with, if it does.
pub fn certificate(spec: &SpireServerSpec) -> Option<&ServingCert> {
    let endpoint = &spec.federation.as_ref()?.bundle_endpoint;
    let web = endpoint.https_web.as_ref();
    web.filter(|_| endpoint.profile == BundleProfile::HttpsWeb)?
        .serving_cert
        .as_ref()
}

pub(super) fn conf(federation: &Federation) -> Value {
    let mut conf = json!({ "bundle_endpoint": endpoint(&federation.bundle_endpoint) });
    if !federation.federates_with.is_empty() {
        let others: Map<String, Value> = federation.federates_with.iter().map(other).collect();
        conf["federates_with"] = others.into();
    }
    conf
}

fn endpoint(endpoint: &BundleEndpoint) -> Value {
    let profile = match endpoint.profile {
        BundleProfile::HttpsSpiffe => json!({ "https_spiffe": {} }),
        BundleProfile::HttpsWeb => {
            let web = endpoint.https_web.clone().unwrap_or_default();
            let certificate = match (&web.acme, &web.serving_cert) {
                (Some(by), _) => json!({ "acme": acme(by) }),
                (None, Some(from)) => json!({ "serving_cert_file": serving_cert(from) }),
                (None, None) => json!({}),
            };
            json!({ "https_web": certificate })
        }
    };
    json!({
        "address": "0.0.0.0",
        "port": 8443,
        "profile": profile,
        "refresh_hint": format!("{}s", endpoint.refresh_hint),
    })
}

fn acme(acme: &Acme) -> Value {
    json!({
        "directory_url": acme.directory_url,
        "domain_name": acme.domain_name,
        "email": acme.email,
        "tos_accepted": acme.tos_accepted.is_true(),
    })
}

fn serving_cert(cert: &ServingCert) -> Value {
    json!({
        "cert_file_path": format!("{}/tls.crt", paths::FEDERATION_CERTS),
        "file_sync_interval": format!("{}s", cert.file_sync_interval),
        "key_file_path": format!("{}/tls.key", paths::FEDERATION_CERTS),
    })
}

fn other(other: &FederatesWith) -> (String, Value) {
    let profile = match other.bundle_endpoint_profile {
        BundleProfile::HttpsSpiffe => json!({ "https_spiffe": {
            "endpoint_spiffe_id": other.endpoint_spiffe_id.as_deref().unwrap_or_default(),
        } }),
        BundleProfile::HttpsWeb => json!({ "https_web": {} }),
    };
    let conf = json!({
        "bundle_endpoint_profile": profile,
        "bundle_endpoint_url": other.bundle_endpoint_url,
    });
    (other.trust_domain.clone(), conf)
}
