//! Whether the federation of a SpireServer makes sense.

use std::collections::BTreeSet;

use trustplane_api::identity::conditions::{self, reason};
use trustplane_api::identity::{BundleEndpoint, BundleProfile, FederatesWith, SpireServerSpec};

use super::Defect;

const INVALID: (&str, &str) = (
    conditions::CONFIGURATION_VALID,
    reason::INVALID_FEDERATION_CONFIGURATION,
);
const WEB: &str = "spec.federation.bundleEndpoint.httpsWeb";

/// The defects of the federation. The trust domain of the spec is that of ZTWIM, as soon as it is filled in; before that,
/// [`self_federation`] tells.
pub(super) fn defects(spec: &SpireServerSpec) -> Vec<Defect> {
    let Some(federation) = &spec.federation else {
        return Vec::new();
    };
    let mut defects: Vec<_> = endpoint(&federation.bundle_endpoint).into_iter().collect();
    let mut seen = BTreeSet::new();
    for (n, other) in federation.federates_with.iter().enumerate() {
        let field = format!("spec.federation.federatesWith[{n}]");
        if !seen.insert(&other.trust_domain) {
            let rule = format!("is listed twice: {}", other.trust_domain);
            defects.push(Defect::new(format!("{field}.trustDomain"), rule, INVALID));
        }
        defects.extend(of_other(&field, other));
    }
    let own = spec.trust_domain.as_deref();
    defects.extend(own.and_then(|own| self_federation(spec, own)));
    defects
}

/// The defect of a server that federates with its own trust domain.
pub fn self_federation(spec: &SpireServerSpec, trust_domain: &str) -> Option<Defect> {
    let others = &spec.federation.as_ref()?.federates_with;
    let n = others
        .iter()
        .position(|other| other.trust_domain == trust_domain)?;
    Some(Defect::new(
        format!("spec.federation.federatesWith[{n}].trustDomain"),
        format!("must not be the trust domain of this server, {trust_domain}"),
        INVALID,
    ))
}

fn endpoint(endpoint: &BundleEndpoint) -> Option<Defect> {
    if endpoint.profile != BundleProfile::HttpsWeb {
        return None;
    }
    let rule = match &endpoint.https_web {
        None => "required if profile is https_web",
        Some(web) if web.acme.is_some() == web.serving_cert.is_some() => {
            "must have exactly one of acme and servingCert"
        }
        Some(_) => return None,
    };
    Some(Defect::new(WEB, rule, INVALID))
}

fn of_other(field: &str, other: &FederatesWith) -> Vec<Defect> {
    let mut defects = Vec::new();
    let host = other.bundle_endpoint_url.strip_prefix("https://");
    if host.is_none_or(|rest| rest.starts_with('/') || rest.is_empty() || rest.contains('@')) {
        let rule = "must be https:// with a host, without user and password";
        defects.push(Defect::new(format!("{field}.bundleEndpointUrl"), rule, INVALID));
    }
    if other.bundle_endpoint_profile == BundleProfile::HttpsSpiffe {
        let id = other.endpoint_spiffe_id.as_deref().unwrap_or_default();
        let rule = match id {
            "" => "required if bundleEndpointProfile is https_spiffe",
            id if !is_spiffe_id(id) => "must be a SPIFFE ID such as spiffe://example.org/spire/server",
            _ => return defects,
        };
        defects.push(Defect::new(format!("{field}.endpointSpiffeId"), rule, INVALID));
    }
    defects
}

/// Whether SPIRE takes it for a SPIFFE ID.
fn is_spiffe_id(id: &str) -> bool {
    let Some(rest) = id.strip_prefix("spiffe://") else {
        return false;
    };
    let (trust_domain, path) = rest
        .split_once('/')
        .map_or((rest, None), |(td, path)| (td, Some(path)));
    let in_domain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
    let in_path = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.chars().all(in_path);
    id.len() <= 2048
        && !trust_domain.is_empty()
        && trust_domain.len() <= 255
        && trust_domain.chars().all(in_domain)
        && path.is_none_or(|path| path.split('/').all(is_segment))
}

/// Lines for the user.
pub(super) fn advice(spec: &SpireServerSpec) -> Option<String> {
    let web = spec.federation.as_ref()?.bundle_endpoint.https_web.as_ref()?;
    let accepted = web.acme.as_ref()?.tos_accepted.is_true();
    let line = format!("{WEB}.acme.tosAccepted: no certificate is issued before it is \"true\"");
    (!accepted).then_some(line)
}
