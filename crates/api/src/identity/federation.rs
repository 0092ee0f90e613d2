//! Federation with other trust domains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BundleProfile, StringBool};

/// Federation: how other trust domains get the bundle of this trust domain, and which other trust domains the server trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Federation {
    /// The endpoint, on port 8443 of the server, from which other trust domains get the bundle of this trust domain.
    pub bundle_endpoint: BundleEndpoint,
    /// The other trust domains that the server trusts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 50),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["trustDomain"])
    )]
    pub federates_with: Vec<FederatesWith>,
    /// Whether the bundle endpoint gets a Route, on clusters that know Routes.
    #[serde(default = "yes")]
    pub managed_route: StringBool,
}

fn yes() -> StringBool {
    StringBool::True
}

/// The endpoint from which other trust domains get the bundle of this trust domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.profile != 'https_web' || has(self.httpsWeb)",
    "message": "httpsWeb: required if profile is https_web",
}]))]
pub struct BundleEndpoint {
    /// How the endpoint proves its identity: by an X.509 SVID or by a certificate of the Web PKI. The profile cannot change.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self == oldSelf",
        "message": "profile: cannot change once it is set",
    }]))]
    pub profile: BundleProfile,
    /// After how many seconds other trust domains should fetch the bundle again.
    #[schemars(range(min = 60, max = 3600))]
    pub refresh_hint: i32,
    /// The certificate of the endpoint, for profile https_web.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https_web: Option<HttpsWeb>,
}

impl Default for BundleEndpoint {
    fn default() -> Self {
        Self {
            profile: BundleProfile::default(),
            refresh_hint: 300,
            https_web: None,
        }
    }
}

/// The certificate of the endpoint: from a CA that speaks ACME, or from a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.acme) != has(self.servingCert)",
    "message": "acme, servingCert: exactly one of the two is required",
}, {
    "rule": "has(self.acme) == has(oldSelf.acme)",
    "message": "acme, servingCert: the one cannot be replaced by the other",
}]))]
pub struct HttpsWeb {
    /// A certificate from a CA that speaks ACME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acme: Option<Acme>,
    /// A certificate from a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_cert: Option<ServingCert>,
}

/// A certificate from a CA that speaks ACME.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acme {
    /// The URL of the ACME directory of the CA.
    #[schemars(length(max = 2048), regex(pattern = r"^https://.*"))]
    pub directory_url: String,
    /// The DNS name in the certificate.
    #[schemars(length(min = 1, max = 253))]
    pub domain_name: String,
    /// The address to which the CA sends mail.
    #[schemars(length(max = 254), regex(pattern = r"^[^@\s]+@[^@\s]+[.][^@\s]+$"))]
    pub email: String,
    /// Whether you accept the terms of service of the CA.
    #[serde(default = "no")]
    pub tos_accepted: StringBool,
}

fn no() -> StringBool {
    StringBool::False
}

/// A certificate from a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServingCert {
    /// After how many seconds the server reads the certificate again.
    #[schemars(range(min = 3600, max = 7776000))]
    pub file_sync_interval: i32,
    /// The Secret, in the namespace of the operands, with a certificate for the Route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = super::patterns::OPTIONAL_NAME))]
    pub external_secret_ref: Option<String>,
}

impl Default for ServingCert {
    fn default() -> Self {
        Self {
            file_sync_interval: 86400,
            external_secret_ref: None,
        }
    }
}

/// Another trust domain that the server trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.bundleEndpointProfile != 'https_spiffe' || has(self.endpointSpiffeId)",
    "message": "endpointSpiffeId: required if bundleEndpointProfile is https_spiffe",
}]))]
pub struct FederatesWith {
    /// The name of the trust domain.
    #[schemars(length(max = 255), regex(pattern = r"^[a-z0-9._-]{1,255}$"))]
    pub trust_domain: String,
    /// The URL of the bundle endpoint of the trust domain.
    #[schemars(length(max = 2048), regex(pattern = r"^https://.*"))]
    pub bundle_endpoint_url: String,
    /// How the bundle endpoint proves its identity.
    pub bundle_endpoint_profile: BundleProfile,
    /// The SPIFFE ID of the bundle endpoint, for profile https_spiffe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = r"^spiffe://.*"))]
    pub endpoint_spiffe_id: Option<String>,
}
