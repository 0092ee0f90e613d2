//! Secrets of other namespaces, or of another cluster. The path is `namespace/name`.
//!
//! Three have to agree: the admin names the namespaces that are offered, the owner of a Secret names in its annotation
//! [`CONSENT`] who may have it, and a policy allows the request. Whoever is not named learns nothing, not even that there is a
//! Secret.

use std::collections::BTreeSet;

use futures::future::{BoxFuture, join_all};
use futures::stream::{BoxStream, unfold};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use trustplane_kit::watch::{Change, Metadata, WatchSpec, Watches};
use trustplane_plan::Keep;
use trustplane_process::metrics::Metrics;
use trustplane_process::outside::{Fault, FaultKind, Limit, Outside};
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::{FetchError, Fetched};
use trustplane_sync_core::state::SECRET;

use crate::outage::{self, unavailable};
use crate::{Identity, Locator, Provider};

/// The annotation of a Secret with the namespaces that may have it, separated by commas; `*` stands for any part of a name.
pub const CONSENT: &str = "trustplane.io/sync-to-namespaces";

const NAME: &str = "kubernetes";

/// Secrets of some namespaces of a cluster.
pub struct Kubernetes {
    client: Client,
    watches: Watches,
    namespaces: BTreeSet<String>,
    outside: Outside,
}

impl Kubernetes {
    /// Offers the Secrets of these namespaces. `target` is what it is called in metrics.
    pub fn new(
        client: Client,
        watches: Watches,
        namespaces: impl IntoIterator<Item = String>,
        (target, limit): (String, Option<Limit>),
        metrics: &Metrics,
    ) -> Self {
        Self {
            client,
            watches,
            namespaces: namespaces.into_iter().collect(),
            outside: outage::outside(target, limit, metrics),
        }
    }

    async fn fetch_one(&self, locator: &Locator) -> Result<Fetched, FetchError> {
        if locator.version.is_some() {
            return Err(FetchError::Invalid {
                what: "Secrets have no versions".to_owned(),
            });
        }
        let path = locator.path.trim_start_matches('/');
        let (namespace, name) = path
            .split_once('/')
            .filter(|(_, name)| !name.contains('/'))
            .ok_or_else(|| FetchError::Invalid {
                what: "the path must be namespace/name".to_owned(),
            })?;
        if !self.namespaces.contains(namespace) {
            return Err(FetchError::NotOffered);
        }
        let secret = self.read(namespace, name).await?.ok_or(FetchError::NotOffered)?;
        let consent = secret
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(CONSENT));
        let asks = locator.on_behalf_of.namespace().unwrap_or_default();
        if !consent.is_some_and(|consent| agrees(consent, asks)) {
            return Err(FetchError::NotOffered);
        }
        let data = secret.data.unwrap_or_default().into_iter();
        Ok(Fetched {
            provider: NAME,
            payload: Payload::Map(data.map(|(key, value)| (key, Value::new(value.0))).collect()),
            version: None,
            lease: None,
        })
    }

    async fn read(&self, namespace: &str, name: &str) -> Result<Option<Secret>, FetchError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secrets = &secrets;
        let answer = self.outside.call_alone(|_| async move {
            match secrets.get_opt(name).await {
                Ok(found) => Ok(Ok(found)),
                Err(kube::Error::Api(status)) => match status.code {
                    403 => Ok(Err(FetchError::Denied {
                        permission: format!("the right to get Secrets in namespace {namespace}"),
                    })),
                    429 => Err(Fault::throttled(None, "HTTP status 429")),
                    code @ 500.. => Err(Fault::new(FaultKind::Server5xx, format!("HTTP status {code}"))),
                    code => Ok(Err(unavailable(&format!("the API server answered {code}")))),
                },
                Err(_) => Err(Fault::transport("the API server cannot be reached")),
            }
        });
        answer.await.map_err(|error| outage::told(&error))?
    }
}

impl Provider for Kubernetes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn identity(&self) -> Identity {
        Identity::Namespace
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        Box::pin(join_all(wanted.iter().map(|locator| self.fetch_one(locator))))
    }

    fn changes(&self) -> Option<BoxStream<'static, String>> {
        let spec = WatchSpec::new(SECRET, Metadata(Keep::default())).namespaces(self.namespaces.clone());
        let subscription = self.watches.subscribe(spec);
        Some(Box::pin(unfold(subscription, |mut subscription| async move {
            loop {
                let change = subscription.next().await?;
                // What is there at first is no news.
                if !matches!(change, Change::Applied { initial: true, .. }) {
                    return Some((change.object().to_string(), subscription));
                }
            }
        })))
    }
}

/// Whether an annotation names a namespace.
fn agrees(consent: &str, namespace: &str) -> bool {
    consent
        .split(',')
        .any(|pattern| trustplane_sync_core::policy::is_glob_match(pattern.trim(), namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_names_namespaces() {
        for (consent, agreed) in [
            ("shop", true),
            ("a, shop", true),
            ("sh*", true),
            ("*", true),
            ("", false),
            ("shops, sho", false),
        ] {
            assert_eq!(agrees(consent, "shop"), agreed, "{consent}");
        }
        assert!(!agrees("a", ""));
    }
}
