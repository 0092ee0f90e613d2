//! Stores: found by name, opened when they are asked, changed while they are in use.

use std::fs;

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trustplane_api::sync::SecretSyncStore;
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::proxy::{Match, Proxy, Verb};
use trustplane_testkit::{ControlPlane, DEADLINE, Instance, Log, Rules, Sandbox, wait_for};

use crate::stage::{Stage, asking};

/// A stage with a store of its own, whose name nobody else uses.
pub struct Shop {
    pub stage: Stage,
    store: String,
}

impl Shop {
    pub async fn new(name: &str) -> Result<Self> {
        let stage = Stage::new(name).await?;
        let store = stage.sandbox.namespace().to_owned();
        Ok(Self { stage, store })
    }

    fn stores(&self) -> Api<SecretSyncStore> {
        Api::all(self.stage.sandbox.client())
    }

    pub async fn open(&self, spec: Value) -> Result<()> {
        let body = json!({
            "apiVersion": "trustplane.io/v1alpha1", "kind": "SecretSyncStore",
            "metadata": {"name": self.store}, "spec": spec,
        });
        let hand = PatchParams::apply("test").force();
        self.stores()
            .patch(&self.store, &hand, &Patch::Apply(body))
            .await?;
        Ok(())
    }

    pub async fn ask(&self, pod: &str, path: &str, more: &str) -> Result<()> {
        let asks = format!("store: {}\npath: {path}\nsecretName: {pod}\n{more}", self.store);
        asking(&self.stage.sandbox, pod, &asks).await?;
        Ok(())
    }

    pub async fn close(&self) -> Result<()> {
        self.stores()
            .delete(&self.store, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_store_serves_its_namespaces_from_when_it_is_there() -> Result<()> {
    let shop = Shop::new("store-mock").await?;
    let (_instance, _running) = shop.stage.start("first").await?;
    let config_maps: Api<ConfigMap> = shop.stage.sandbox.api();
    let content = json!({"metadata": {"name": "made-up"}, "data": {"team_db": "{\"user\":\"u\"}"}});
    config_maps
        .create(&PostParams::default(), &serde_json::from_value(content)?)
        .await?;
    shop.ask("db", "team/db", "").await?;
    let told = shop.stage.told("db", "ProviderUnsupported").await?;
    let nothing = format!(
        "failed to fetch team/db from {}: there is no such store for this namespace",
        shop.store
    );
    assert_eq!(told.note.as_deref(), Some(nothing.as_str()));

    // For others only: nobody learns that it is there.
    let mock = json!({"mock": {"configMap": "made-up"}});
    let other = json!({"matchLabels": {"kubernetes.io/metadata.name": "another"}});
    shop.open(json!({"from": mock, "namespaceSelector": other}))
        .await?;
    shop.ask("db-2", "team/db", "").await?;
    let told = shop.stage.told("db-2", "ProviderUnsupported").await?;
    assert_eq!(told.note.as_deref(), Some(nothing.as_str()));

    let own = json!({"matchLabels": {"kubernetes.io/metadata.name": shop.stage.sandbox.namespace()}});
    shop.open(json!({"from": mock, "namespaceSelector": own})).await?;
    shop.stage.holds("db", &[("user", "u")]).await?;
    shop.stage.holds("db-2", &[("user", "u")]).await?;
    shop.ask("wrong", "team/db", "provider: mock\n").await?;
    shop.stage.holds("wrong", &[("user", "u")]).await?;
    // What was written stays when the store goes.
    shop.close().await?;
    shop.ask("late", "team/db", "").await?;
    shop.stage.told("late", "ProviderUnsupported").await?;
    shop.stage.holds("db", &[("user", "u")]).await?;
    Ok(())
}

#[tokio::test]
async fn a_secret_of_another_namespace_is_given_with_consent_and_followed() -> Result<()> {
    let shop = Shop::new("store-source").await?;
    let (_instance, _running) = shop.stage.start("first").await?;
    let namespace = shop.stage.sandbox.namespace().to_owned();
    let source = format!("{namespace}-source");
    let namespaces: Api<Namespace> = Api::all(shop.stage.sandbox.client());
    let made = serde_json::from_value(json!({"metadata": {"name": source}}))?;
    namespaces.create(&PostParams::default(), &made).await?;
    let sources: Api<Secret> = Api::namespaced(shop.stage.sandbox.client(), &source);
    for name in ["open", "closed"] {
        let secret = json!({"metadata": {"name": name}, "stringData": {"user": "one"}});
        sources
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await?;
    }
    let consent =
        json!({"metadata": {"annotations": {"trustplane.io/sync-to-namespaces": format!("x, {namespace}")}}});
    let consent = Patch::Merge(consent);
    sources.patch("open", &PatchParams::default(), &consent).await?;
    shop.open(json!({"from": {"kubernetes": {"namespaces": [source]}}}))
        .await?;
    shop.ask("open", &format!("{source}/open"), "").await?;
    shop.ask("closed", &format!("{source}/closed"), "").await?;
    shop.ask("none", &format!("{source}/none"), "").await?;
    shop.ask("elsewhere", "kube-system/open", "").await?;
    shop.stage.holds("open", &[("user", "one")]).await?;
    for (pod, path) in [
        ("closed", format!("{source}/closed")),
        ("none", format!("{source}/none")),
        ("elsewhere", "kube-system/open".to_owned()),
    ] {
        let told = shop.stage.told(pod, "SecretFetchFailed").await?;
        let same = format!(
            "failed to fetch {path} from {}: it does not exist, or is not offered to this namespace",
            shop.store
        );
        assert_eq!(told.note.as_deref(), Some(same.as_str()), "no oracle");
    }

    // A change of the source arrives by itself, and so does its consent.
    let change = Patch::Merge(json!({"stringData": {"user": "two"}}));
    sources.patch("open", &PatchParams::default(), &change).await?;
    shop.stage.holds("open", &[("user", "two")]).await?;
    sources.patch("closed", &PatchParams::default(), &consent).await?;
    shop.stage.holds("closed", &[("user", "one")]).await?;

    // The source goes: what was written stays.
    sources.delete("open", &DeleteParams::default()).await?;
    shop.stage.told("open", "SecretFetchFailed").await?;
    shop.stage.holds("open", &[("user", "two")]).await?;
    shop.close().await?;
    namespaces.delete(&source, &DeleteParams::default()).await?;
    wait_for(&sources, "closed", DEADLINE, |live| live.is_none()).await?;
    Ok(())
}

#[tokio::test]
async fn a_path_that_is_no_name_reads_nothing_and_keeps_nobody_waiting() -> Result<()> {
    let log = Log::collect()?;
    let canary = Canary::new("value of another namespace");
    let shop = Shop::new("store-odd-path").await?;
    let namespace = shop.stage.sandbox.namespace().to_owned();
    let source = format!("{namespace}-source");
    let namespaces: Api<Namespace> = Api::all(shop.stage.sandbox.client());
    let made = serde_json::from_value(json!({"metadata": {"name": source}}))?;
    namespaces.create(&PostParams::default(), &made).await?;
    let sources: Api<Secret> = Api::namespaced(shop.stage.sandbox.client(), &source);
    let consent = json!({"trustplane.io/sync-to-namespaces": namespace});
    for (name, annotations, value) in [("open", consent, "one"), ("admin", json!({}), canary.value())] {
        let secret =
            json!({"metadata": {"name": name, "annotations": annotations}, "stringData": {"user": value}});
        sources
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await?;
    }
    let proxy = Proxy::start(shop.stage.sandbox.plane()).await?;
    let (_instance, _running) = shop.stage.start_through("first", &proxy).await?;
    shop.open(json!({"from": {"kubernetes": {"namespaces": [source]}}}))
        .await?;
    let odd = ["?", "admin?", "?limit=9", "admin#"];
    for (index, path) in odd.iter().cycle().take(12).enumerate() {
        let pod = format!("odd-{index}");
        shop.ask(&pod, &format!("'{source}/{path}'"), "").await?;
        let told = shop.stage.told(&pod, "SecretFetchFailed").await?;
        let note = told.note.unwrap_or_default();
        assert!(
            note.contains("must be namespace/name") && note.contains("DNS-1123"),
            "{note}"
        );
    }
    let reads = || Match::verb(Verb::Get).resource("secrets").namespace(&source);
    assert_eq!(proxy.requests(&reads()).len(), 0, "nothing was asked for them");
    shop.ask("good", &format!("{source}/open"), "").await?;
    shop.stage.holds("good", &[("user", "one")]).await?;
    let asked = proxy.requests(&reads());
    assert!(
        asked.iter().all(|entry| entry.request.name == "open"),
        "{}",
        asked.len()
    );
    let mut search = Search::for_canaries([&canary]);
    let events: Api<Event> = shop.stage.sandbox.api();
    search.json("the events", &events.list(&ListParams::default()).await?.items)?;
    search.text("the log", &log.text());
    search.assert_clean();
    shop.close().await?;
    namespaces.delete(&source, &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn a_store_of_files_serves_its_directory_and_follows_it() -> Result<()> {
    let shop = Shop::new("store-file").await?;
    let (_instance, _running) = shop.stage.start("first").await?;
    let root = shop.stage.files.path();
    fs::create_dir(root.join("team"))?;
    fs::write(root.join("team/db"), r#"{"user":"one"}"#)?;
    fs::write(root.join("other"), r#"{"user":"not yours"}"#)?;
    shop.open(json!({"from": {"file": {"directory": "team"}}}))
        .await?;
    shop.ask("db", "db", "").await?;
    shop.ask("other", "other", "").await?;
    shop.stage.holds("db", &[("user", "one")]).await?;
    let told = shop.stage.told("other", "SecretFetchFailed").await?;
    let nothing = format!("failed to fetch other from {}: it does not exist", shop.store);
    assert_eq!(told.note.as_deref(), Some(nothing.as_str()));
    // As a careful admin does it: a new file in the place of the old one.
    fs::write(root.join("team/next"), r#"{"user":"two"}"#)?;
    fs::rename(root.join("team/next"), root.join("team/db"))?;
    shop.stage.holds("db", &[("user", "two")]).await?;

    shop.open(json!({"from": {"file": {"directory": "nowhere"}}}))
        .await?;
    shop.ask("late", "db", "").await?;
    let told = shop.stage.told("late", "SecretFetchFailed").await?;
    let note = told.note.unwrap_or_default();
    assert!(
        note.contains("the store cannot be opened") && !note.contains("nowhere"),
        "{note}"
    );
    shop.stage.holds("db", &[("user", "two")]).await?;
    shop.close().await
}

/// A kubeconfig that holds everything itself.
fn kubeconfig(instance: &Instance) -> Result<String> {
    let written = fs::read_to_string(instance.credentials()?.kubeconfig())?;
    let mut config: Value = serde_json::from_str(&written)?;
    config["users"][0]["user"] = json!({"token": instance.token()});
    Ok(config.to_string())
}

#[tokio::test]
async fn a_secret_of_another_cluster_is_read_as_its_kubeconfig_lets_us() -> Result<()> {
    let shop = Shop::new("store-cluster").await?;
    let there = Sandbox::on(ControlPlane::own().await?, "source").await?;
    let rules = Rules::default().allow("", "secrets", &["get", "list", "watch"]);
    let reader = there
        .apply_rbac("reader", &rules)
        .await?
        .instance("reader")
        .await?;
    let consent = json!({"trustplane.io/sync-to-namespaces": shop.stage.sandbox.namespace()});
    let sources: Api<Secret> = there.api();
    for (name, annotations) in [("open", consent), ("closed", json!({}))] {
        let secret = json!({
            "metadata": {"name": name, "annotations": annotations}, "stringData": {"user": "one"},
        });
        sources
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await?;
    }
    let (_instance, _running) = shop.stage.start("first").await?;
    let access = json!({"metadata": {"name": "access"}, "stringData": {"config": kubeconfig(&reader)?}});
    shop.stage
        .secrets()
        .create(&PostParams::default(), &serde_json::from_value(access)?)
        .await?;
    shop.open(json!({"from": {"kubernetes": {
        "namespaces": [there.namespace()], "kubeconfig": {"secretName": "access", "key": "config"},
    }}}))
    .await?;
    shop.ask("open", &format!("{}/open", there.namespace()), "")
        .await?;
    shop.ask("closed", &format!("{}/closed", there.namespace()), "")
        .await?;
    shop.stage.holds("open", &[("user", "one")]).await?;
    let told = shop.stage.told("closed", "SecretFetchFailed").await?;
    let note = told.note.unwrap_or_default();
    assert!(
        note.ends_with("it does not exist, or is not offered to this namespace"),
        "{note}"
    );
    // The watch is on the other cluster too.
    let change = Patch::Merge(json!({"stringData": {"user": "two"}}));
    sources.patch("open", &PatchParams::default(), &change).await?;
    shop.stage.holds("open", &[("user", "two")]).await?;
    shop.close().await
}
