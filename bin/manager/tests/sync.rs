//! The shipped binary with the capability sync, as the shipped account with the shipped rights.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use trustplane_api::sync::{SecretSyncPolicy, SecretSyncStore};
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::Place;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule, Verb};
use trustplane_testkit::{
    Account, ControlPlane, DEADLINE, Instance, Process, Program, Rules, Sandbox, Select, eventually,
    wait_for, wait_for_some,
};

/// The name that the chart would give it.
const MANAGER: &str = "tp-trustplane-manager";

/// A namespace, the account, a proxy before the API server, and a directory of secrets.
struct Stage {
    sandbox: Sandbox,
    proxy: Proxy,
    account: Account,
    files: TempDir,
}

impl Stage {
    async fn new(plane: Arc<ControlPlane>, name: &str) -> Result<Self> {
        let sandbox = Sandbox::on(plane, name).await?;
        let rights = process_rights(MANAGER).and(trustplane_sync_controller::rights());
        let rules = Rules {
            cluster: rights.wide(),
            namespaced: rights.of(Place::Home),
        };
        Ok(Self {
            proxy: Proxy::start(sandbox.plane()).await?,
            account: sandbox.apply_rbac("manager", &rules).await?,
            files: tempfile::tempdir()?,
            sandbox,
        })
    }

    async fn start(&self, log: &str) -> Result<(Instance, Process)> {
        self.start_as("manager", log, &[]).await
    }

    /// A replica.
    async fn start_as(&self, name: &str, log: &str, more: &[String]) -> Result<(Instance, Process)> {
        let namespace = self.sandbox.namespace();
        let mut program = Program::new(env!("CARGO_BIN_EXE_trustplane-manager"))
            .arg("--capabilities=sync")
            .arg(format!("--name={MANAGER}"))
            .arg("--admin-bind-address=127.0.0.1:0")
            .arg("--webhook-bind-address=0")
            .arg("--log-format=json")
            .arg(format!("--log={log}"))
            .arg(format!("--sync-namespaces={namespace}"))
            .arg(format!("--sync-file-root={}", self.files.path().display()));
        for argument in more {
            program = program.arg(argument);
        }
        let instance = self.account.instance(name).await?.through(&self.proxy);
        let running = program.start(&instance)?;
        Ok((instance, running))
    }

    /// A file in the folder of the namespace.
    fn file(&self, name: &str) -> PathBuf {
        let folder = self.files.path().join(self.sandbox.namespace());
        fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    /// What the admin sets: a policy that asks for service accounts, and a store.
    async fn admin(&self) -> Result<()> {
        let client = self.sandbox.client();
        let policy = json!({
            "metadata": {"name": "all"}, "spec": {"serviceAccounts": ["default"], "rules": [{"paths": ["**"]}]},
        });
        let policies: Api<SecretSyncPolicy> = Api::all(client.clone());
        policies
            .create(&PostParams::default(), &serde_json::from_value(policy)?)
            .await?;
        let store =
            json!({"metadata": {"name": "made-up"}, "spec": {"from": {"mock": {"configMap": "made-up"}}}});
        let stores: Api<SecretSyncStore> = Api::all(client);
        stores
            .create(&PostParams::default(), &serde_json::from_value(store)?)
            .await?;
        let content = json!({"metadata": {"name": "made-up"}, "data": {"any": "{\"a\":\"1\"}"}});
        let config_maps: Api<ConfigMap> = self.sandbox.api();
        config_maps
            .create(&PostParams::default(), &serde_json::from_value(content)?)
            .await?;
        Ok(())
    }

    fn secrets(&self) -> Api<Secret> {
        self.sandbox.api()
    }

    /// A pod that asks for the file of its name.
    async fn pod(&self, name: &str, secret: &str, more: &str) -> Result<()> {
        let namespace = self.sandbox.namespace();
        let asks = format!("provider: file\npath: {namespace}/{name}\nsecretName: {secret}\n{more}");
        self.asking(name, &asks).await
    }

    async fn asking(&self, name: &str, asks: &str) -> Result<()> {
        // The account without which no pod is let in comes a moment after its namespace.
        wait_for_some(&self.sandbox.api::<ServiceAccount>(), "default", DEADLINE, |_| {
            true
        })
        .await?;
        let pod = serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": {"jasm.codnod.io/secret-sync": asks}},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }))?;
        let pods: Api<Pod> = self.sandbox.api();
        pods.create(&PostParams::default(), &pod)
            .await
            .with_context(|| format!("create the pod {name}"))?;
        Ok(())
    }

    async fn force(&self, pod: &str, value: &str) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {"jasm.codnod.io/force-sync": value}}});
        let pods: Api<Pod> = self.sandbox.api();
        pods.patch(pod, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    async fn told(&self, pod: &str, reason: &str) -> Result<()> {
        let events: Api<Event> = self.sandbox.api();
        let all = Select::default();
        let found = eventually(&events, &all, DEADLINE, |found| {
            let told = found.values().any(|event| {
                let about = event
                    .regarding
                    .as_ref()
                    .and_then(|regarding| regarding.name.as_deref());
                about == Some(pod) && event.reason.as_deref() == Some(reason)
            });
            told.then_some(())
        });
        found.await.with_context(|| format!("{reason} on {pod}"))
    }
}

#[tokio::test]
async fn it_uses_exactly_its_rights() -> Result<()> {
    let plane = ControlPlane::own().await?;
    plane.install(&trustplane_sync_controller::kinds()).await?;
    let stage = Stage::new(plane, "manager-rights").await?;
    stage.admin().await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    // A server that does not stream lists is listed by pages: the right to list is for that.
    for resource in [
        "pods",
        "secrets",
        "namespaces",
        "secretsyncpolicies",
        "secretsyncstores",
    ] {
        let streams = Match::verb(Verb::Watch).resource(resource);
        stage
            .proxy
            .add(Rule::new(streams, Fault::Answer(Answer::invalid())).once());
    }
    let (_, running) = stage.start("info").await?;
    fs::write(stage.file("one"), r#"{"a":"1"}"#)?;
    stage.pod("one", "first", "onMissing: delete").await?;
    wait_for_some(&stage.secrets(), "first", DEADLINE, |_| true).await?;
    stage
        .asking("store", "store: made-up\npath: any\nsecretName: from-store\n")
        .await?;
    wait_for_some(&stage.secrets(), "from-store", DEADLINE, |_| true).await?;
    // A Secret of somebody else is met, and looked at.
    let foreign = serde_json::from_value(json!({"metadata": {"name": "taken"}}))?;
    stage.secrets().create(&PostParams::default(), &foreign).await?;
    fs::write(stage.file("two"), r#"{"a":"1"}"#)?;
    stage.pod("two", "taken", "").await?;
    stage.told("two", "SecretConflict").await?;
    fs::remove_file(stage.file("one"))?;
    stage.force("one", "1").await?;
    wait_for(&stage.secrets(), "first", DEADLINE, |live| live.is_none()).await?;
    // The same news a second time goes on with the series of the first; it is read only if another has written to it.
    let events = Match::verb(Verb::Patch).resource("events");
    stage
        .proxy
        .add(Rule::new(events.clone(), Fault::Answer(Answer::conflict())).once());
    for round in ["2", "3"] {
        fs::write(stage.file("one"), format!(r#"{{"a":"{round}"}}"#))?;
        stage.force("one", round).await?;
        wait_for_some(&stage.secrets(), "first", DEADLINE, |live| {
            let data = live.data.clone().unwrap_or_default();
            data.get("a").is_some_and(|value| value.0 == round.as_bytes())
        })
        .await?;
    }
    stage.proxy.answered(&events, 1, DEADLINE).await?;
    running.kill().await?;
    mark.since()
        .await?
        .assert_rights_used_are_rights_granted(&stage.account);
    Ok(())
}

#[tokio::test]
async fn of_two_replicas_one_writes_and_the_other_takes_over() -> Result<()> {
    let stage = Stage::new(ControlPlane::shared().await?, "manager-two").await?;
    let (_, leader) = stage.start_as("first", "info", &[]).await?;
    fs::write(stage.file("one"), r#"{"a":"1"}"#)?;
    stage.pod("one", "first", "").await?;
    wait_for_some(&stage.secrets(), "first", DEADLINE, |_| true).await?;
    let (second, standby) = stage.start_as("second", "info", &[]).await?;
    let looked = Match::any().resource("leases").by(&second);
    stage.proxy.wait_for(&looked, 2, DEADLINE).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    fs::write(stage.file("two"), r#"{"a":"2"}"#)?;
    stage.pod("two", "second", "").await?;
    wait_for_some(&stage.secrets(), "second", DEADLINE, |_| true).await?;
    mark.since().await?.by(&second).assert_silent();

    leader.kill().await?;
    fs::write(stage.file("three"), r#"{"a":"3"}"#)?;
    stage.pod("three", "third", "").await?;
    wait_for_some(&stage.secrets(), "third", DEADLINE, |_| true).await?;
    standby.kill().await
}

#[tokio::test]
async fn no_value_shows_anywhere() -> Result<()> {
    let stage = Stage::new(ControlPlane::shared().await?, "manager-leaks").await?;
    let canaries = ["text", "bad", "raw"].map(Canary::new);
    let [text, bad, raw] = &canaries;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (instance, running) = stage.start("trace").await?;
    fs::write(
        stage.file("good"),
        json!({ "password": text.value() }).to_string(),
    )?;
    fs::write(stage.file("bad"), format!("no json: {}", bad.value()))?;
    fs::write(stage.file("raw"), raw.value())?;
    // Writes fail in every way while values are at hand.
    let writes = || Match::writes().resource("secrets").name("good");
    for fault in [
        Fault::Answer(Answer::conflict()),
        Fault::Answer(Answer::internal_error()),
        Fault::Cut,
    ] {
        stage.proxy.add(Rule::new(writes(), fault).times(1));
    }
    stage.pod("good", "good", "").await?;
    stage.pod("bad", "bad", "").await?;
    stage.pod("raw", "raw", "format: raw").await?;
    for secret in ["good", "raw"] {
        wait_for_some(&stage.secrets(), secret, DEADLINE, |_| true).await?;
        stage.told(secret, "SecretSyncSuccess").await?;
    }
    stage.told("bad", "SecretDataInvalid").await?;

    let mut search = Search::for_canaries(&canaries);
    search.text("the log", &running.log()?);
    let events: Api<Event> = stage.sandbox.api();
    search.json("the events", &events.list(&ListParams::default()).await?.items)?;
    let made = stage.secrets().list(&ListParams::default()).await?;
    let metadata: Vec<_> = made
        .items
        .iter()
        .map(|secret: &Secret| &secret.metadata)
        .collect();
    search.json("the metadata of the Secrets", &metadata)?;
    for entry in stage
        .proxy
        .requests(&Match::writes().except(&["secrets"]).by(&instance))
    {
        search.bytes(&entry.request.to_string(), &entry.body);
    }
    let audit = mark.since().await?.by(&instance);
    let sent: Vec<&Value> = audit
        .events()
        .iter()
        .filter_map(|event| event.request_object.as_ref())
        .collect();
    search.json("the audit log of our writes", &sent)?;
    search.assert_clean();
    running.kill().await
}

#[tokio::test]
async fn secrets_of_the_namespaces_that_the_admin_offers_are_given_with_consent() -> Result<()> {
    let stage = Stage::new(ControlPlane::shared().await?, "offered").await?;
    let source = Sandbox::new("source").await?;
    let consent = json!({"trustplane.io/sync-to-namespaces": stage.sandbox.namespace()});
    for (name, annotations) in [("open", consent), ("closed", json!({}))] {
        let secret =
            json!({"metadata": {"name": name, "annotations": annotations}, "stringData": {"a": "1"}});
        source
            .api::<Secret>()
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await?;
    }
    let more = [
        format!("--sync-kubernetes-namespaces={}", source.namespace()),
        "--sync-policy=off".to_owned(),
    ];
    let (_, running) = stage.start_as("manager", "info", &more).await?;
    for name in ["open", "closed"] {
        let path = format!("{}/{name}", source.namespace());
        let asks = format!("provider: kubernetes\npath: {path}\nsecretName: {name}\n");
        stage.asking(name, &asks).await?;
    }
    wait_for_some(&stage.secrets(), "open", DEADLINE, |live| {
        live.data.as_ref().is_some_and(|data| data["a"].0 == b"1")
    })
    .await?;
    let events: Api<Event> = stage.sandbox.api();
    eventually(&events, &Select::default(), DEADLINE, |found| {
        let refused = |event: &&Event| {
            let note = event.note.as_deref().unwrap_or_default();
            note.ends_with("it does not exist, or is not offered to this namespace")
        };
        found.values().find(refused).map(drop)
    })
    .await?;
    assert!(stage.secrets().get_opt("closed").await?.is_none());
    // What the pod is told stands in the log too.
    let log = running.log()?;
    let line = log
        .lines()
        .find(|line| line.contains("is not offered to this namespace"));
    let line = line.with_context(|| format!("no line for the failed fetch: {log}"))?;
    assert!(
        line.contains("WARN") && line.contains("SecretFetchFailed"),
        "{line}"
    );
    running.kill().await
}

#[tokio::test]
async fn it_ends_as_soon_as_it_is_asked_to() -> Result<()> {
    let stage = Stage::new(ControlPlane::shared().await?, "ends").await?;
    fs::write(stage.file("db"), r#"{"a":"1"}"#)?;
    let (_, mut running) = stage.start("info").await?;
    stage.pod("db", "db", "").await?;
    wait_for_some(&stage.secrets(), "db", DEADLINE, |_| true).await?;
    running.terminate()?;
    // Work that does not end in time is told, and is a failure.
    let ended = running.ended(DEADLINE).await?;
    assert!(ended.success(), "{}", running.log()?);
    Ok(())
}

#[tokio::test]
async fn what_is_not_needed_never_reaches_its_memory() -> Result<()> {
    let stage = Stage::new(ControlPlane::shared().await?, "little").await?;
    let pods: Api<Pod> = stage.sandbox.api();
    fs::write(stage.file("without"), r#"{"a":"1"}"#)?;
    fs::write(stage.file("with"), r#"{"a":"1"}"#)?;
    let more = ["--sync-pod-selector=sync=yes".to_owned()];
    let (instance, running) = stage.start_as("manager", "info", &more).await?;
    for name in ["without", "with"] {
        stage.pod(name, name, "").await?;
    }
    let label = Patch::Merge(json!({"metadata": {"labels": {"sync": "yes"}}}));
    pods.patch("with", &PatchParams::default(), &label).await?;
    wait_for_some(&stage.secrets(), "with", DEADLINE, |_| true).await?;
    assert!(stage.secrets().get_opt("without").await?.is_none());
    // Pods and Secrets come as metadata, finished pods and other people's Secrets not at all.
    for (resource, selector) in [
        ("pods", "labelSelector=sync%3Dyes"),
        (
            "pods",
            "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
        ),
        (
            "secrets",
            "labelSelector=app.kubernetes.io%2Fmanaged-by%20in%20%28",
        ),
    ] {
        let mut followed = 0;
        for verb in [Verb::List, Verb::Watch] {
            let asked = Match::verb(verb).resource(resource).by(&instance);
            for entry in stage.proxy.requests(&asked) {
                let request = entry.request;
                assert!(request.query.contains(selector), "{request}");
                assert!(
                    request.accept.contains("as=PartialObjectMetadata"),
                    "{}",
                    request.accept
                );
                followed += 1;
            }
        }
        assert!(followed > 0, "nobody has followed {resource}");
    }
    running.kill().await
}
