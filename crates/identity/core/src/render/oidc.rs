//! `oidc-discovery-provider.conf`.

use serde_json::{Value, json};
use trustplane_api::identity::{SpireOidcDiscoveryProviderSpec, names};

use super::{Issuer, paths};
use crate::Shared;

/// The hosts under which the provider answers, which are also the names for its certificate: those of its Service, and that of the issuer.
pub fn hosts(shared: &Shared, issuer: &str) -> Vec<String> {
    let service = names::OIDC;
    let namespace = &shared.namespace;
    let mut hosts = vec![
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc.cluster.local"),
    ];
    if let Ok(issuer) = Issuer::parse(issuer)
        && !hosts.contains(&issuer.host)
    {
        hosts.push(issuer.host);
    }
    hosts
}

pub(super) fn conf(spec: &SpireOidcDiscoveryProviderSpec, shared: &Shared, issuer: &str) -> Value {
    let mut conf = json!({
        "domains": hosts(shared, issuer),
        "health_checks": { "bind_port": "8008", "live_path": "/live", "ready_path": "/ready" },
        "log_format": spec.log_format.as_str(),
        "log_level": spec.log_level.as_str(),
        "serving_cert_file": {
            "addr": ":8443",
            "cert_file_path": format!("{}/tls.crt", paths::OIDC_CERTS),
            "key_file_path": format!("{}/tls.key", paths::OIDC_CERTS),
        },
        "workload_api": {
            "socket_path": format!("{}/{}", paths::WORKLOAD_API, names::SOCKET),
            "trust_domain": shared.trust_domain,
        },
    });
    // The provider makes `https://HOST` of the host of a request, and the document has to name the very issuer that tokens name.
    if let Ok(issuer) = Issuer::parse(issuer)
        && !issuer.is_plain
    {
        conf["jwks_uri"] = format!("{}/keys", issuer.url.trim_end_matches('/')).into();
        conf["jwt_issuer"] = issuer.url.into();
        if !issuer.path.is_empty() {
            conf["server_path_prefix"] = issuer.path.into();
        }
    }
    conf
}
