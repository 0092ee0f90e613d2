//! What the stream of an agent runs with, and what a change of it means.

use std::sync::Arc;

use trustplane_api::inventory::ObsykAgentSpec;

use super::Wanted;
use crate::credentials::Credentials;

/// What an agent's stream runs with. Only another `platformURL` needs another sender: everything else changes while the stream runs,
/// and pending changes are kept.
pub(super) struct Binding {
    spec: ObsykAgentSpec,
    credentials: Arc<Credentials>,
}

impl Binding {
    pub(super) fn is_same_platform(&self, wanted: &Wanted) -> bool {
        self.spec.platform_url == wanted.spec.platform_url
    }

    /// Whether requests are made by the same credentials, in the same way, and say the same of the cluster.
    pub(super) fn is_same_connection(&self, wanted: &Wanted) -> bool {
        let (now, then) = (&self.spec, &wanted.spec);
        self.credentials.is_same(&wanted.credentials)
            && now.cluster_name == then.cluster_name
            && now.ca_bundle == then.ca_bundle
            && now.proxy_url == then.proxy_url
    }

    /// Whether the platform files the objects under the same client and the same name of the cluster. If not, it has to be sent a
    /// snapshot.
    pub(super) fn is_same_cluster(&self, wanted: &Wanted) -> bool {
        self.credentials.client_id() == wanted.credentials.client_id()
            && self.spec.cluster_name == wanted.spec.cluster_name
    }
}

impl Wanted {
    pub(super) fn binding(&self) -> Binding {
        Binding {
            spec: self.spec.clone(),
            credentials: self.credentials.clone(),
        }
    }
}
