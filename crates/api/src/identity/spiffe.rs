//! ClusterSPIFFEID, ClusterFederatedTrustDomain and ClusterStaticEntry: the kinds that spire-controller-manager reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BundleProfile, LabelSelector};

fn is_false(value: &bool) -> bool {
    !value
}

/// A SPIFFE ID for the pods that a selector chooses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "spire.spiffe.io",
        version = "v1alpha1",
        kind = "ClusterSPIFFEID",
        root = "ClusterSpiffeId",
        plural = "clusterspiffeids",
        schema = "manual",
        status = "ClusterSpiffeIdStatus"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpiffeIdSpec {
    /// The SPIFFE ID, as a Go template with .TrustDomain, .ClusterName, .ClusterDomain, .PodMeta, .PodSpec, .NodeMeta and .NodeSpec.
    #[serde(rename = "spiffeIDTemplate")]
    pub spiffe_id_template: String,
    /// How long X.509 SVIDs are valid at most, as a Go duration; as long as the server says if this is absent or 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = super::patterns::ANY_DURATION))]
    pub ttl: Option<String>,
    /// How long JWT SVIDs are valid at most, as a Go duration; as long as the server says if this is absent or 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = super::patterns::ANY_DURATION))]
    pub jwt_ttl: Option<String>,
    /// Templates of the DNS names in SVIDs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_name_templates: Vec<String>,
    /// Templates of further selectors that a workload must match, such as k8s:container-name:main.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_selector_templates: Vec<String>,
    /// The other trust domains whose bundles the workload gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub federates_with: Vec<String>,
    /// The labels of the namespaces of the pods; every namespace if this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The labels of the pods; every pod if this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Whether a workload with the SVID may use the administrative API of the server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub admin: bool,
    /// Whether the workload is a downstream SPIRE server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub downstream: bool,
    /// Whether SVIDs have the DNS names of the pod's Services.
    #[serde(rename = "autoPopulateDNSNames", default, skip_serializing_if = "is_false")]
    pub auto_populate_dns_names: bool,
    /// The class of the controller-manager that reads the object. Our controller-manager reads objects of the class
    /// zero-trust-workload-identity-manager-spire only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
    /// Whether the SPIFFE ID is only for pods that no ClusterSPIFFEID without fallback selects.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fallback: bool,
    /// A word that tells a workload with several SVIDs what this SVID is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The result of a ClusterSPIFFEID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpiffeIdStatus {
    /// The counts of the controller-manager's last pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<EntryStats>,
}

/// The counts of a pass of the controller-manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EntryStats {
    /// Namespaces that the ClusterSPIFFEID selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces_selected: Option<i64>,
    /// Selected namespaces that the controller-manager ignores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces_ignored: Option<i64>,
    /// Pods that the ClusterSPIFFEID selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_selected: Option<i64>,
    /// Pods for which the templates give no valid entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_entry_render_failures: Option<i64>,
    /// Entries that equal an entry of another ClusterSPIFFEID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries_masked: Option<i64>,
    /// Entries that the server should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries_to_set: Option<i64>,
    /// Entries that the server refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_failures: Option<i64>,
}

/// Another trust domain that the server trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "spire.spiffe.io",
        version = "v1alpha1",
        kind = "ClusterFederatedTrustDomain",
        plural = "clusterfederatedtrustdomains",
        schema = "manual",
        status = "ClusterFederatedTrustDomainStatus",
        printcolumn = r#"{"name":"Trust Domain","type":"string","jsonPath":".spec.trustDomain"}"#,
        printcolumn = r#"{"name":"Endpoint URL","type":"string","jsonPath":".spec.bundleEndpointURL"}"#
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFederatedTrustDomainSpec {
    /// The name of the trust domain.
    #[schemars(length(max = 255), regex(pattern = r"^[a-z0-9._-]{1,255}$"))]
    pub trust_domain: String,
    /// The URL of the bundle endpoint of the trust domain: https, without user and password.
    #[serde(rename = "bundleEndpointURL")]
    #[schemars(regex(pattern = r"^https://"))]
    pub bundle_endpoint_url: String,
    /// How the bundle endpoint proves its identity.
    pub bundle_endpoint_profile: EndpointProfile,
    /// The first bundle of the trust domain, as a JWKS document. For https_spiffe the server needs this bundle to verify the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_domain_bundle: Option<String>,
    /// The class of the controller-manager that reads the object. Our controller-manager reads objects of the class
    /// zero-trust-workload-identity-manager-spire only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
}

/// How the bundle endpoint of another trust domain proves its identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.type != 'https_spiffe' || (has(self.endpointSPIFFEID) && self.endpointSPIFFEID != '')",
    "message": "endpointSPIFFEID: required if type is https_spiffe",
}]))]
pub struct EndpointProfile {
    /// https_spiffe: by an X.509 SVID. https_web: by a certificate of the Web PKI.
    #[serde(rename = "type")]
    pub r#type: BundleProfile,
    /// The SPIFFE ID of the bundle endpoint, for type https_spiffe.
    #[serde(rename = "endpointSPIFFEID", default, skip_serializing_if = "Option::is_none")]
    pub endpoint_spiffe_id: Option<String>,
}

/// The result of a ClusterFederatedTrustDomain. spire-controller-manager reports nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterFederatedTrustDomainStatus {}

/// A registration entry of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "spire.spiffe.io",
        version = "v1alpha1",
        kind = "ClusterStaticEntry",
        plural = "clusterstaticentries",
        schema = "manual",
        status = "ClusterStaticEntryStatus"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStaticEntrySpec {
    /// The SPIFFE ID of the workload.
    #[serde(rename = "spiffeID")]
    pub spiffe_id: String,
    /// The SPIFFE ID of the agent or server that gives the workload its SVID.
    #[serde(rename = "parentID")]
    pub parent_id: String,
    /// The selectors that a workload must match, each as type:value.
    pub selectors: Vec<String>,
    /// The other trust domains whose bundles the workload gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub federates_with: Vec<String>,
    /// How long X.509 SVIDs are valid, as a Go duration; as long as the server says if this is absent or 0s.
    #[serde(rename = "x509SVIDTTL", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = super::patterns::ANY_DURATION))]
    pub x509_svid_ttl: Option<String>,
    /// How long JWT SVIDs are valid, as a Go duration; as long as the server says if this is absent or 0s.
    #[serde(rename = "jwtSVIDTTL", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = super::patterns::ANY_DURATION))]
    pub jwt_svid_ttl: Option<String>,
    /// The DNS names in SVIDs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_names: Vec<String>,
    /// A word that tells a workload with several SVIDs what this SVID is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether a workload with the SVID may use the administrative API of the server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub admin: bool,
    /// Whether the workload is a downstream SPIRE server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub downstream: bool,
    /// Whether agents put the SVID into a store, and do not give it to workloads.
    #[serde(rename = "storeSVID", default, skip_serializing_if = "is_false")]
    pub store_svid: bool,
    /// The class of the controller-manager that reads the object. Our controller-manager reads objects of the class
    /// zero-trust-workload-identity-manager-spire only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
}

/// The result of a ClusterStaticEntry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStaticEntryStatus {
    /// Whether the object gives a valid entry.
    pub rendered: bool,
    /// Whether the entry equals the entry of another object.
    pub masked: bool,
    /// Whether the server has the entry.
    pub set: bool,
}
