//! The values that all operands share.

/// The values that all operands share, resolved and valid: what ZTWIM says, or else what the operands say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The namespace in which the operands run.
    pub namespace: String,
    /// The trust domain, without `spiffe://`.
    pub trust_domain: String,
    /// The name of the cluster, as agents give it when they attest.
    pub cluster_name: String,
    /// The ConfigMap with the bundle of the trust domain.
    pub bundle: String,
}
