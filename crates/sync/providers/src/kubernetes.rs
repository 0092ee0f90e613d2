//! Secrets of other namespaces, or of another cluster. The path is `namespace/name`.
//!
//! Three have to agree: the admin names the namespaces that are offered, the owner of a Secret names in its annotation
//! [`CONSENT`] who may have it, and a policy allows the request. Whoever is not named learns nothing, not even that there is a
//! Secret.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{BoxFuture, join_all};
use futures::stream::{BoxStream, unfold};
use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use trustplane_kit::apply::WriteError;
use trustplane_kit::read::read_object;
use trustplane_kit::watch::{Change, Metadata, WatchSpec, Watches};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Keep, ObjectRef};
use trustplane_process::metrics::Metrics;
use trustplane_process::outside::{Fault, Limit, Outside};
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::{FetchError, Fetched};
use trustplane_sync_core::name::SecretName;

use crate::outage::{self, unavailable};
use crate::{Identity, Locator, Provider};

/// The annotation of a Secret with the namespaces that may have it, separated by commas; `*` stands for any part of a name.
pub const CONSENT: &str = "trustplane.io/sync-to-namespaces";

const NAME: &str = "kubernetes";

/// What a path is, for the people of a pod.
const PATH_RULE: &str = "the path must be namespace/name, both as Kubernetes has them (DNS-1123): lower-case letters, digits \
                         and '-', and in the name '.'";
/// The longest name of a namespace.
const LONGEST_NAMESPACE: usize = 63;

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
            return Err(invalid("Secrets have no versions"));
        }
        let object = object(&locator.path)?;
        if !object
            .namespace()
            .is_some_and(|namespace| self.namespaces.contains(namespace))
        {
            return Err(FetchError::NotOffered);
        }
        let secret = self.read(&object).await?.ok_or(FetchError::NotOffered)?;
        let asks = locator.on_behalf_of.namespace().unwrap_or_default();
        let consent = secret.metadata.annotations.get(CONSENT);
        if !consent.is_some_and(|consent| agrees(consent, asks)) {
            return Err(FetchError::NotOffered);
        }
        let data = secret.data.into_iter();
        Ok(Fetched {
            provider: NAME,
            payload: Payload::Map(data.map(|(key, value)| (key, Value::new(value.0))).collect()),
            version: None,
            lease: None,
        })
    }

    async fn read(&self, object: &ObjectRef) -> Result<Option<Found>, FetchError> {
        let answer = self.outside.call_alone(|_| async move {
            match read_object(&self.client, &SECRET, object).await {
                Ok(found) => Ok(Ok(found)),
                Err(error) => judged(error).map(Err),
            }
        });
        answer.await.map_err(|error| outage::told(&error))?
    }
}

/// What is read of a Secret.
#[derive(Deserialize)]
struct Found {
    metadata: Bookkeeping,
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

#[derive(Deserialize)]
struct Bookkeeping {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The Secret that a path names. What is no name of a Secret is refused here, before any call: a policy has judged the same two
/// parts.
fn object(path: &str) -> Result<ObjectRef, FetchError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let is_namespace = |name: &str| {
        name.len() <= LONGEST_NAMESPACE && !name.contains('.') && SecretName::parse(name).is_some()
    };
    path.split_once('/')
        .filter(|(namespace, name)| is_namespace(namespace) && SecretName::parse(name).is_some())
        .map(|(namespace, name)| ObjectRef::new(Some(namespace), name))
        .ok_or_else(|| invalid(PATH_RULE))
}

/// What a failed read means. Only an API server that is away or not well speaks against it, and is an error here.
fn judged(error: WriteError) -> Result<FetchError, Fault> {
    Ok(match error {
        WriteError::Throttled { retry_after, .. } => {
            return Err(Fault::throttled(retry_after, "the API server is throttling us"));
        }
        WriteError::Unavailable { problem, .. } => return Err(Fault::transport(problem)),
        WriteError::Forbidden { attempt, .. } => FetchError::Denied {
            permission: format!(
                "the right to get Secrets in namespace {}",
                attempt.target().object.namespace().unwrap_or_default()
            ),
        },
        WriteError::WrongAnswer(_) => invalid("the API server's answer is not this Secret"),
        _ => unavailable("the API server does not let Secrets be read"),
    })
}

fn invalid(what: &str) -> FetchError {
    FetchError::Invalid {
        what: what.to_owned(),
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
    fn a_path_is_two_names_and_nothing_else() {
        assert_eq!(object("platform/tls.v1"), object("/platform/tls.v1"));
        assert_eq!(
            object("platform/tls").unwrap(),
            ObjectRef::new(Some("platform"), "tls")
        );
        let long = format!("{}/tls", "a".repeat(64));
        for odd in [
            "platform/?",
            "platform/admin?",
            "platform/admin#",
            "platform/admin?watch=1",
            "platform/",
            "platform",
            "/tls",
            "//platform/tls",
            "platform/a/b",
            "platform/../tls",
            "platform/%61dmin",
            "plat.form/tls",
            "Platform/tls",
            "platform/tls ",
            &long,
        ] {
            let told = object(odd).unwrap_err().to_string();
            assert!(
                told.contains("namespace/name") && told.contains("DNS-1123"),
                "{odd}: {told}"
            );
        }
    }

    #[test]
    fn only_an_api_server_that_is_not_well_speaks_against_itself() {
        let attempt = || {
            let target = trustplane_plan::Target {
                kind: SECRET,
                object: ObjectRef::new(Some("platform"), "tls"),
            };
            trustplane_kit::apply::Attempt::new("read", &target)
        };
        let away = WriteError::Unavailable {
            attempt: attempt(),
            problem: "connection refused".to_owned(),
            retry_after: None,
        };
        assert!(judged(away).is_err_and(|fault| fault.kind().speaks_against_target()));
        let throttled = WriteError::Throttled {
            attempt: attempt(),
            retry_after: None,
        };
        assert!(judged(throttled).is_err_and(|fault| !fault.kind().speaks_against_target()));
        assert_eq!(
            judged(WriteError::WrongAnswer(attempt())).unwrap(),
            invalid("the API server's answer is not this Secret")
        );
        assert!(judged(WriteError::NotServed(attempt())).is_ok());
    }

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
