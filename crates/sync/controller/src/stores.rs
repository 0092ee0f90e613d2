//! Stores: providers with a configuration by the admin, opened when somebody asks for them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use trustplane_api::sync::{AwsStore, KubernetesStore, Limits, MockStore, SecretKey, StoreSpec};
use trustplane_kit::apply::Writer;
use trustplane_kit::watch::{Payload, Project, ProjectError, Store, Tuning, Watches};
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};
use trustplane_plan::{Meta, ObjectRef};
use trustplane_process::metrics::Metrics;
use trustplane_process::outside::Limit;
use trustplane_sync_core::fetch::FetchError;
use trustplane_sync_core::path::Home;
use trustplane_sync_core::situation::StoreView;
use trustplane_sync_providers::aws::{Aws, AwsSettings};
use trustplane_sync_providers::file::Files;
use trustplane_sync_providers::kubernetes::Kubernetes;
use trustplane_sync_providers::mock::Written;
use trustplane_sync_providers::{Opened, Opener, Opening, Provider};

/// A store as the admin has written it.
pub(crate) struct Configured {
    pub spec: StoreSpec,
    revision: Arc<str>,
}

impl Configured {
    /// What matters of it before it is asked.
    pub fn view(&self) -> StoreView {
        let from = &self.spec.from;
        let provider = match (&from.aws_secrets_manager, &from.kubernetes, &from.file) {
            (Some(_), _, _) => "aws-secretsmanager",
            (None, Some(_), _) => "kubernetes",
            (None, None, Some(_)) => "file",
            (None, None, None) => "mock",
        };
        let aws = from.aws_secrets_manager.as_ref();
        let known = |text: &Option<String>| text.as_deref().map(Into::into);
        StoreView {
            provider,
            revision: self.revision.clone(),
            home: Home {
                region: aws.and_then(|aws| known(&aws.region)),
                account: aws.and_then(|aws| known(&aws.account)),
            },
        }
    }
}

/// Keeps stores whole. One that cannot be read counts as absent.
pub(crate) struct StoreObjects;

#[derive(Deserialize)]
struct Object {
    spec: StoreSpec,
}

impl Project for StoreObjects {
    type Out = Option<Arc<Configured>>;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn project(&self, meta: &Meta, json: &str) -> Result<Self::Out, ProjectError> {
        let object = serde_json::from_str::<Object>(json);
        if let Err(error) = &object {
            let column = error.column();
            tracing::error!(store = %meta.object, column, "a store cannot be read, so nobody can use it");
        }
        let revision = format!("{}/{}", meta.uid, meta.generation);
        Ok(object.ok().map(|object| {
            Arc::new(Configured {
                spec: object.spec,
                revision: revision.into(),
            })
        }))
    }
}

/// Opens stores.
pub(crate) struct Doors {
    pub stores: Store<Option<Arc<Configured>>>,
    /// Reads what stores refer to, in our own namespace only.
    pub writer: Writer,
    pub namespace: Arc<str>,
    /// This cluster.
    pub client: Client,
    pub watches: Watches,
    /// The directory that stores of files lie beneath.
    pub files: Option<Arc<Files>>,
    pub metrics: Metrics,
}

/// Why a store cannot be opened: for the admin. The people of a pod learn only that it cannot.
#[derive(Debug, thiserror::Error)]
enum DoorError {
    #[error("{0}")]
    Wrong(String),
    #[error("failed to read {0} {1}")]
    Unreadable(&'static str, String),
}

fn wrong(what: impl Into<String>) -> DoorError {
    DoorError::Wrong(what.into())
}

#[derive(Deserialize)]
struct Content<T> {
    #[serde(default = "BTreeMap::new")]
    data: BTreeMap<String, T>,
}

impl Opener for Doors {
    fn open<'a>(
        &'a self,
        store: &'a str,
        revision: &'a str,
        before: Option<u64>,
    ) -> BoxFuture<'a, Result<Opening, FetchError>> {
        Box::pin(async move {
            let found = self.stores.get(&ObjectRef::new(None, store));
            let found = found.and_then(|found| found.value.clone());
            let Some(configured) = found else {
                return Err(FetchError::NoStore);
            };
            if *configured.revision != *revision {
                return Ok(Opening::OtherRevision);
            }
            let opened = self.open_door(store, &configured.spec, before).await;
            opened.map_err(|error| {
                tracing::warn!(store, "the store cannot be opened: {error}");
                FetchError::Unavailable {
                    what: "the store cannot be opened; the log of the manager tells its admin why".to_owned(),
                }
            })
        })
    }
}

impl Doors {
    async fn open_door(
        &self,
        name: &str,
        spec: &StoreSpec,
        before: Option<u64>,
    ) -> Result<Opening, DoorError> {
        let limit = spec.limits.map(limit);
        let from = &spec.from;
        if let Some(aws) = &from.aws_secrets_manager {
            return self.aws(name, aws, limit, before).await;
        }
        if let Some(kubernetes) = &from.kubernetes {
            return self.kubernetes(name, kubernetes, limit, before).await;
        }
        let provider: Arc<dyn Provider> = match (&from.file, &from.mock) {
            (Some(file), _) => {
                let root = self.files.as_ref();
                let root = root.ok_or_else(|| wrong("from.file: the process has no --sync-file-root"))?;
                let files = root.within(&file.directory);
                Arc::new(files.map_err(|error| wrong(format!("from.file.directory: {error}")))?)
            }
            (None, Some(mock)) => Arc::new(self.mock(mock)),
            (None, None) => return Err(wrong("from: names no provider that is known here")),
        };
        Ok(fresh(provider, 0, before))
    }

    async fn aws(
        &self,
        name: &str,
        aws: &AwsStore,
        limit: Option<Limit>,
        before: Option<u64>,
    ) -> Result<Opening, DoorError> {
        let mut settings = AwsSettings::new(format!("aws-secretsmanager/{name}"));
        settings.limit = limit;
        settings.ca_bundle.clone_from(&aws.ca_bundle);
        if let Some(region) = &aws.region {
            settings.region(region);
        }
        if let Some(endpoint) = &aws.endpoint {
            settings.endpoint(endpoint);
        }
        let mut content = 0;
        if let Some(credentials) = &aws.credentials {
            let secret = self.secret(&credentials.secret_name).await?;
            content = hash(&secret);
            let key = |key| text(&secret, &credentials.secret_name, key);
            let token = secret.contains_key("sessionToken").then(|| key("sessionToken"));
            settings.keys(key("accessKeyId")?, key("secretAccessKey")?, token.transpose()?);
        }
        if before == Some(content) {
            return Ok(Opening::Unchanged);
        }
        let provider = Aws::with(settings, &self.metrics).map_err(|error| wrong(error.to_string()))?;
        Ok(fresh(Arc::new(provider), content, before))
    }

    async fn kubernetes(
        &self,
        name: &str,
        kubernetes: &KubernetesStore,
        limit: Option<Limit>,
        before: Option<u64>,
    ) -> Result<Opening, DoorError> {
        let (client, watches, content) = match &kubernetes.kubeconfig {
            None => (self.client.clone(), self.watches.clone(), 0),
            Some(reference) => {
                let secret = self.secret(&reference.secret_name).await?;
                let content = hash(&secret);
                if before == Some(content) {
                    return Ok(Opening::Unchanged);
                }
                let client = other_cluster(&secret, reference).await?;
                let watches = Watches::new(client.clone(), Tuning::default(), &Metrics::new());
                (client, watches, content)
            }
        };
        let called = (format!("kubernetes/{name}"), limit);
        let namespaces = kubernetes.namespaces.iter().cloned();
        let provider = Kubernetes::new(client, watches, namespaces, called, &self.metrics);
        Ok(fresh(Arc::new(provider), content, before))
    }

    fn mock(&self, mock: &MockStore) -> Written {
        let (writer, object) = (
            self.writer.clone(),
            ObjectRef::new(Some(&self.namespace), &mock.config_map),
        );
        Written(Arc::new(move || {
            let (writer, object) = (writer.clone(), object.clone());
            Box::pin(async move {
                let found: Option<Content<String>> =
                    writer
                        .get_slim(&CONFIG_MAP, &object)
                        .await
                        .map_err(|error| FetchError::Unavailable {
                            what: error.to_string(),
                        })?;
                Ok(found.map(|found| found.data).unwrap_or_default())
            })
        }))
    }

    /// The content of a Secret of our own namespace.
    async fn secret(&self, name: &str) -> Result<BTreeMap<String, ByteString>, DoorError> {
        let object = ObjectRef::new(Some(&self.namespace), name);
        let found: Result<Option<Content<ByteString>>, _> = self.writer.get_slim(&SECRET, &object).await;
        let unreadable = || DoorError::Unreadable("Secret", object.to_string());
        Ok(found.map_err(|_| unreadable())?.ok_or_else(unreadable)?.data)
    }
}

/// What was opened, unless it rests on the same as before.
fn fresh(provider: Arc<dyn Provider>, content: u64, before: Option<u64>) -> Opening {
    if before == Some(content) {
        Opening::Unchanged
    } else {
        Opening::Opened(Opened { provider, content })
    }
}

fn limit(limits: Limits) -> Limit {
    Limit {
        per_second: limits.per_second,
        burst: limits.burst,
    }
}

/// A hash that stays in memory, so that a change shows.
fn hash(data: &BTreeMap<String, ByteString>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (key, value) in data {
        (key, &value.0).hash(&mut hasher);
    }
    hasher.finish()
}

fn text<'a>(data: &'a BTreeMap<String, ByteString>, name: &str, key: &str) -> Result<&'a str, DoorError> {
    let value = data
        .get(key)
        .ok_or_else(|| wrong(format!("Secret {name} has no key {key}")))?;
    std::str::from_utf8(&value.0).map_err(|_| wrong(format!("Secret {name}: {key} is no text")))
}

/// A client by a kubeconfig. Everything has to stand in it: it must not make us run a program or read a file of ours.
async fn other_cluster(
    secret: &BTreeMap<String, ByteString>,
    reference: &SecretKey,
) -> Result<Client, DoorError> {
    let text = text(secret, &reference.secret_name, &reference.key)?;
    let unreadable = || wrong("the kubeconfig cannot be read");
    let config = Kubeconfig::from_yaml(text).map_err(|_| unreadable())?;
    for user in config
        .auth_infos
        .iter()
        .filter_map(|user| user.auth_info.as_ref())
    {
        let elsewhere = [&user.token_file, &user.client_certificate, &user.client_key];
        if user.exec.is_some() || user.auth_provider.is_some() || elsewhere.iter().any(|file| file.is_some())
        {
            return Err(wrong(
                "the kubeconfig must hold its credentials itself: no program, no provider, no file",
            ));
        }
    }
    let mut clusters = config
        .clusters
        .iter()
        .filter_map(|cluster| cluster.cluster.as_ref());
    if clusters.any(|cluster| cluster.certificate_authority.is_some() || cluster.proxy_url.is_some()) {
        return Err(wrong("the kubeconfig must hold its CA itself, and name no proxy"));
    }
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    Client::try_from(config.map_err(|_| unreadable())?).map_err(|_| unreadable())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trustplane_api::sync::STORE;
    use trustplane_kit::watch::WatchSpec;

    use super::*;
    use crate::fake_api::with_object;

    #[tokio::test]
    async fn store_is_opened_only_in_the_revision_that_was_judged() {
        let client = with_object(
            &STORE,
            &json!({
                "metadata": {"name": "s", "uid": "u", "generation": 2, "resourceVersion": "5"},
                "spec": {"from": {"mock": {"configMap": "c"}}},
            }),
        );
        let metrics = Metrics::new();
        let watches = Watches::new(client.clone(), Tuning::default(), &metrics);
        let watch = watches.subscribe(WatchSpec::new(STORE, StoreObjects));
        watch.store().ready().await.unwrap();
        let doors = Doors {
            stores: watch.store(),
            writer: Writer::new(client.clone(), "trustplane-sync", &metrics),
            namespace: "home".into(),
            client,
            watches,
            files: None,
            metrics,
        };
        let is_refused = async |revision: &str| {
            let opening = doors.open("s", revision, None).await;
            matches!(opening, Ok(Opening::OtherRevision))
        };
        assert!(is_refused("u/1").await && is_refused("other/2").await);
        assert!(!is_refused("u/2").await);
    }

    #[test]
    fn another_generation_is_another_revision() {
        let read = |generation: i64, spec: serde_json::Value| {
            let object =
                json!({"metadata": {"name": "s", "uid": "u", "generation": generation}, "spec": spec});
            let meta = Meta::decode(&object.to_string(), &StoreObjects.keep()).unwrap();
            StoreObjects.project(&meta, &object.to_string()).unwrap()
        };
        let mock = json!({"from": {"mock": {"configMap": "c"}}});
        let view = |generation| read(generation, mock.clone()).unwrap().view();
        assert_eq!(view(1), view(1));
        assert_ne!(view(1), view(2));
        assert_eq!(view(1).provider, "mock");
        assert!(read(1, json!({"from": 1})).is_none());
    }

    #[tokio::test]
    async fn a_kubeconfig_must_not_make_us_run_or_read_anything() {
        let reference = SecretKey {
            secret_name: "s".to_owned(),
            key: "config".to_owned(),
        };
        let open = async |user: serde_json::Value, cluster: serde_json::Value| {
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            });
            let secret = BTreeMap::from([("config".to_owned(), ByteString(config.to_string().into_bytes()))]);
            other_cluster(&secret, &reference).await.map(drop)
        };
        let server = json!({"server": "https://127.0.0.1:1"});
        trustplane_process::crypto::install();
        assert!(open(json!({"token": "t"}), server.clone()).await.is_ok());
        for user in [
            json!({"exec": {"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}}),
            json!({"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}),
            json!({"client-certificate": "/etc/passwd", "client-key": "/etc/passwd"}),
            json!({"auth-provider": {"name": "gcp", "config": {}}}),
        ] {
            assert!(open(user.clone(), server.clone()).await.is_err(), "{user}");
        }
        let file = json!({"server": "https://127.0.0.1:1", "certificate-authority": "/etc/passwd"});
        assert!(open(json!({"token": "t"}), file).await.is_err());
    }
}
