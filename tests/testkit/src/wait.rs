//! Waiting for the cluster, by watch and with a deadline.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures::{StreamExt, pin_mut};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// How long a test waits for something that should happen at once: long enough for a busy machine, because it is spent
/// in full only by a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// What a watched selection holds, by name.
pub type Selection<K> = BTreeMap<String, K>;

/// Watches one object until `predicate` holds. It is called with nothing while the object does not exist.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn example(api: kube::Api<ConfigMap>) -> anyhow::Result<()> {
/// use trustplane_testkit::{DEADLINE, wait_for};
///
/// wait_for(&api, "target", DEADLINE, |live| live.is_some_and(|live| live.data.is_some())).await?;
/// wait_for(&api, "leftover", DEADLINE, |live| live.is_none()).await?;
/// # Ok(())
/// # }
/// ```
pub async fn wait_for<K>(
    api: &Api<K>,
    name: &str,
    deadline: Duration,
    mut predicate: impl FnMut(Option<&K>) -> bool,
) -> Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    let selection = Select::default().field("metadata.name", name);
    eventually(api, &selection, deadline, |found| {
        let live = found.get(name);
        predicate(live).then(|| live.cloned())
    })
    .await
    .with_context(|| format!("wait for {name:?}"))
}

/// Watches one object until it exists and `predicate` holds for it.
pub async fn wait_for_some<K>(
    api: &Api<K>,
    name: &str,
    deadline: Duration,
    mut predicate: impl FnMut(&K) -> bool,
) -> Result<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    wait_for(api, name, deadline, |live| live.is_some_and(&mut predicate))
        .await?
        .context("wait for an object: it is not there")
}

/// Which objects to watch.
#[derive(Debug, Clone, Default)]
pub struct Select {
    labels: Option<String>,
    fields: Option<String>,
}

impl Select {
    /// Only objects with this label selector.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.labels = Some(selector.to_owned());
        self
    }

    /// Only objects with this value of a field that the API server can select by.
    #[must_use]
    pub fn field(mut self, field: &str, value: &str) -> Self {
        self.fields = Some(format!("{field}={value}"));
        self
    }

    fn list(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        }
    }

    fn watch(&self) -> WatchParams {
        WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..WatchParams::default()
        }
    }
}

/// Watches a selection of objects until `condition` gives a value. In a namespace the objects are known by their names;
/// in all namespaces by `namespace/name`.
pub async fn eventually<K, T>(
    api: &Api<K>,
    select: &Select,
    deadline: Duration,
    mut condition: impl FnMut(&Selection<K>) -> Option<T>,
) -> Result<T>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    let mut seen = Selection::new();
    let mut trouble = None;
    let watched = timeout_at(Instant::now() + deadline, async {
        loop {
            match follow(api, select, &mut seen, &mut condition).await {
                Ok(Some(value)) => return value,
                Ok(None) => {}
                // The server may be away: that is what some tests are about. The deadline ends it.
                Err(error) => {
                    trouble = Some(error);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    })
    .await;
    watched.map_err(|_| {
        let state = serde_json::to_string_pretty(&without_managed_fields(&seen)).unwrap_or_default();
        match trouble {
            Some(trouble) => trouble.context(format!("waited {deadline:?} in vain; last seen: {state}")),
            None => anyhow!("waited {deadline:?} in vain; last seen: {state}"),
        }
    })
}

/// One list and the watch that follows it; `None` when the watch ended before the condition held.
async fn follow<K, T>(
    api: &Api<K>,
    select: &Select,
    seen: &mut Selection<K>,
    condition: &mut impl FnMut(&Selection<K>) -> Option<T>,
) -> Result<Option<T>>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    let list = api.list(&select.list()).await.context("list the selection")?;
    *seen = list
        .items
        .into_iter()
        .map(|live| (key(api, &live), live))
        .collect();
    if let Some(value) = condition(seen) {
        return Ok(Some(value));
    }
    let version = list.metadata.resource_version.unwrap_or_default();
    let stream = api
        .watch(&select.watch(), &version)
        .await
        .context("watch the selection")?;
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        match event.context("read a watch")? {
            WatchEvent::Added(live) | WatchEvent::Modified(live) => {
                seen.insert(key(api, &live), live);
            }
            WatchEvent::Deleted(live) => {
                seen.remove(&key(api, &live));
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(anyhow!("the watch ended: {status}")),
        }
        if let Some(value) = condition(seen) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn key<K: Resource>(api: &Api<K>, live: &K) -> String {
    let meta = live.meta();
    let name = meta.name.clone().unwrap_or_default();
    match (api.namespace(), &meta.namespace) {
        (None, Some(namespace)) => format!("{namespace}/{name}"),
        _ => name,
    }
}

fn without_managed_fields<K: Resource + Clone>(seen: &Selection<K>) -> Selection<K> {
    let mut seen = seen.clone();
    for live in seen.values_mut() {
        live.meta_mut().managed_fields = None;
    }
    seen
}

/// Asks again and again until `condition` gives a value: for what cannot be watched, such as a file or a metric.
pub async fn until<T, F>(what: &str, deadline: Duration, mut condition: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let asked = async {
        let mut interval = tokio::time::interval(Duration::from_millis(20));
        loop {
            interval.tick().await;
            if let Some(value) = condition().await? {
                return Ok(value);
            }
        }
    };
    tokio::time::timeout(deadline, asked)
        .await
        .map_err(|_| anyhow!("waited {deadline:?} in vain for {what}"))?
}
