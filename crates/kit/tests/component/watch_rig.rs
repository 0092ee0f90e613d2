//! A namespace, a fault proxy and watches that go through it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use trustplane_kit::watch::{
    Change, Health, Metadata, Standing, Store, Subscription, Tuning, WatchSpec, Watches,
};
use trustplane_plan::Keep;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_process::{backoff::Backoff, metrics::Metrics};
use trustplane_testkit::proxy::{Match, Proxy, Verb};
use trustplane_testkit::{DEADLINE, Instance, Rules, Sandbox};

/// Every namespace has a ConfigMap of the cluster's own: tests look at theirs.
pub const OURS: &str = "test=ours";

pub struct Rig {
    pub sandbox: Sandbox,
    pub proxy: Proxy,
    pub instance: Instance,
    pub metrics: Metrics,
    pub watches: Watches,
}

/// Short times, so that a test does not wait for a backoff; the watch itself lasts.
pub fn tuning() -> Tuning {
    let quick = Backoff {
        first: Duration::from_millis(20),
        max: Duration::from_millis(300),
    };
    Tuning {
        backoff: quick,
        probe: quick,
        request_timeout: Duration::from_secs(20),
        ..Tuning::default()
    }
}

pub fn readers() -> Rules {
    let watch = &["get", "list", "watch"];
    Rules::default()
        .allow("", "configmaps", watch)
        .allow("", "secrets", watch)
}

impl Rig {
    pub async fn new(name: &str) -> Result<Self> {
        Self::with(name, tuning()).await
    }

    pub async fn with(name: &str, tuning: Tuning) -> Result<Self> {
        Self::on(Sandbox::new(name).await?, &readers(), tuning).await
    }

    pub async fn on(sandbox: Sandbox, rules: &Rules, tuning: Tuning) -> Result<Self> {
        let proxy = Proxy::start(sandbox.plane()).await?;
        let instance = sandbox.instance("watcher", rules).await?.through(&proxy);
        let metrics = Metrics::new();
        let watches = Watches::new(instance.client()?, tuning, &metrics);
        Ok(Self {
            sandbox,
            proxy,
            instance,
            metrics,
            watches,
        })
    }

    /// Watches that know nothing of the others, as after a restart.
    pub fn restarted(&self, tuning: Tuning) -> Result<Watches> {
        Ok(Watches::new(self.instance.client()?, tuning, &Metrics::new()))
    }

    /// Our ConfigMaps of the namespace, by their metadata.
    pub fn spec(&self) -> WatchSpec<Metadata> {
        self.spec_of(Metadata(Keep::default()))
    }

    pub fn spec_of<P>(&self, project: P) -> WatchSpec<P> {
        WatchSpec::new(CONFIG_MAP, project)
            .namespaces([self.sandbox.namespace()])
            .labels(OURS)
    }

    pub fn subscribe(&self) -> Subscription<()> {
        self.watches.subscribe(self.spec())
    }

    /// A subscription that has heard of these objects, which are made for it.
    pub async fn settled(&self, names: &[&str]) -> Result<Subscription<()>> {
        for name in names {
            self.create(name).await?;
        }
        let mut subscription = self.subscribe();
        let mut expected: Vec<_> = names.iter().map(|name| format!("+{name}")).collect();
        expected.sort();
        assert_eq!(hear(&mut subscription, names.len()).await?, expected);
        Ok(subscription)
    }

    /// Makes a ConfigMap of ours; gives its uid.
    pub async fn create(&self, name: &str) -> Result<String> {
        let body = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "test": "ours" } }, "data": { "key": "value" },
        }))?;
        let made = self
            .sandbox
            .api::<ConfigMap>()
            .create(&PostParams::default(), &body)
            .await?;
        made.metadata.uid.context("a uid")
    }

    pub async fn patch(&self, name: &str, patch: serde_json::Value) -> Result<ConfigMap> {
        let api = self.sandbox.api::<ConfigMap>();
        Ok(api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?)
    }

    /// Makes a ConfigMap that our label does not select.
    pub async fn create_foreign(&self) -> Result<()> {
        let body = serde_json::from_value(json!({ "metadata": { "generateName": "foreign-" } }))?;
        self.sandbox
            .api::<ConfigMap>()
            .create(&PostParams::default(), &body)
            .await?;
        Ok(())
    }

    pub async fn delete(&self, name: &str) -> Result<()> {
        self.sandbox
            .api::<ConfigMap>()
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// The watch requests on ConfigMaps, through the proxy.
    pub fn watching(&self) -> Match {
        Match::verb(Verb::Watch).resource("configmaps")
    }

    /// How often the whole was asked for: by streaming, or by the first page.
    pub fn lists(&self) -> usize {
        let entries = self.proxy.requests(&Match::any().resource("configmaps"));
        let whole = |query: &str| {
            query.contains("sendInitialEvents") || query.contains("limit=") && !query.contains("continue=")
        };
        entries.iter().filter(|entry| whole(&entry.request.query)).count()
    }
}

/// The next change, within the deadline.
pub async fn next<T: Send + Sync>(subscription: &mut Subscription<T>) -> Result<Change<T>> {
    let next = tokio::time::timeout(DEADLINE, subscription.next()).await;
    next.context("waited in vain for a change")?
        .context("the watch was stopped")
}

/// The next changes as `+name` and `-name`, in the order of the names.
pub async fn hear<T: Send + Sync>(subscription: &mut Subscription<T>, count: usize) -> Result<Vec<String>> {
    let mut heard = Vec::new();
    for _ in 0..count {
        heard.push(show(&next(subscription).await?));
    }
    heard.sort_by_key(|line| line[1..].to_owned());
    Ok(heard)
}

pub fn show<T>(change: &Change<T>) -> String {
    let sign = if matches!(change, Change::Applied { .. }) {
        '+'
    } else {
        '-'
    };
    format!("{sign}{}", change.object().name())
}

/// Waits until the store stands as told.
pub async fn stands<T>(store: &Store<T>, wanted: impl Fn(&Standing) -> bool) -> Result<Standing> {
    let mut standing = store.standing();
    let waited = tokio::time::timeout(DEADLINE, standing.wait_for(|now| wanted(now))).await;
    let now = *store.standing().borrow();
    Ok(*waited.with_context(|| format!("waited in vain, it stands at {now:?}"))??)
}

pub async fn is_well<T>(store: &Store<T>) -> Result<()> {
    stands(store, |now| now.health == Health::Ready && now.ready).await?;
    Ok(())
}

/// Names and versions of what a store holds.
pub fn content<T>(store: &Store<T>) -> BTreeMap<String, String> {
    let entry = |object: &std::sync::Arc<trustplane_kit::watch::Watched<T>>| {
        (
            object.meta.object.name().to_owned(),
            object.meta.resource_version.to_string(),
        )
    };
    store.list().iter().map(entry).collect()
}
