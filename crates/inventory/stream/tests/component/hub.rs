//! The agent and the hub together: the hub equals the cluster, also after either of them was killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::process::{Child, Command};
use trustplane_process::web::{Web, WebOptions};
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::platform::{Platform, Settings};
use trustplane_testkit::proxy::Proxy;
use trustplane_testkit::{DEADLINE, until};

use crate::equality::{OUTAGE, change_for, expire, furnish, refuse, take_right};
use crate::stage::{AGENT, Projections, Stage, differ, key_pair};

/// The largest object that the hub takes.
const MAX_OBJECT: usize = 5_000;

/// A hub as a process of its own, on ports of its own.
pub struct Hub {
    data: TempDir,
    agents: u16,
    console: u16,
    /// Where agents reach it.
    url: String,
    process: Child,
    /// Bound and never listening: they keep the ports while no hub runs.
    _ports: [TcpSocket; 2],
}

/// The hub of the same build: cargo puts it above the directory of the tests.
fn program() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let built = test
        .parent()
        .and_then(|deps| deps.parent())
        .context("a build directory")?;
    let hub = built.join("trustplane-hub");
    ensure!(hub.exists(), "{} is not built", hub.display());
    Ok(hub)
}

fn port() -> Result<(TcpSocket, u16)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}

impl Hub {
    pub async fn start() -> Result<Self> {
        Self::start_at(None).await
    }

    /// Starts a hub that agents reach through a platform, which can refuse what the hub would take.
    async fn start_behind(platform: &Platform) -> Result<Self> {
        Self::start_at(Some(platform.url())).await
    }

    async fn start_at(url: Option<String>) -> Result<Self> {
        let ((first, agents), (second, console)) = (port()?, port()?);
        let data = tempfile::tempdir()?;
        let url = url.unwrap_or_else(|| format!("https://127.0.0.1:{agents}"));
        let process = launch(&data, agents, console, &url)?;
        let hub = Self {
            data,
            agents,
            console,
            url,
            process,
            _ports: [first, second],
        };
        hub.serves().await?;
        Ok(hub)
    }

    async fn serves(&self) -> Result<()> {
        let web = Web::new(WebOptions::default())?;
        let url = format!("http://127.0.0.1:{}/health", self.console);
        until("the hub to serve", DEADLINE, || async {
            Ok(web
                .get(&url, &[])
                .await
                .ok()
                .filter(|answer| answer.status.is_success()))
        })
        .await
        .map(drop)
    }

    /// Kills it and starts it again over the same data.
    async fn kill(&mut self) -> Result<()> {
        self.process.kill().await?;
        Ok(())
    }

    async fn restart(&mut self) -> Result<()> {
        self.process = launch(&self.data, self.agents, self.console, &self.url)?;
        self.serves().await
    }

    /// Forgets every token that was issued.
    async fn revoke_tokens(&self) -> Result<()> {
        let options = SqliteConnectOptions::new().filename(self.data.path().join("hub.db"));
        let mut database = SqliteConnection::connect_with(&options).await?;
        sqlx::query("DELETE FROM tokens").execute(&mut database).await?;
        database.close().await?;
        Ok(())
    }

    /// Runs a command on the data of the running hub.
    async fn command(&self, arguments: &[&str], input: &str) -> Result<Value> {
        let mut child = Command::new(program()?)
            .args(arguments)
            .arg("--json")
            .arg("--data-dir")
            .arg(self.data.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("stdin")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        ensure!(
            output.status.success(),
            "{arguments:?} ended with {}",
            output.status
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Makes the hub the platform of the agent, directly or behind the platform of the stage.
    pub async fn enrol(&self, stage: &Stage) -> Result<()> {
        let (private, public) = key_pair();
        let client = self.command(&["client", "add", "--name=test"], &public).await?;
        let id = client["client_id"].as_str().context("a client id")?;
        stage.credentials(id, &private).await?;
        let mut ca_bundle = client["ca_bundle"].as_str().context("a CA bundle")?;
        if self.url == stage.platform.url() {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.agents));
            stage.platform.stand_before(address, ca_bundle)?;
            ca_bundle = stage.platform.ca_bundle().context("a CA bundle")?;
        }
        let spec = json!({"platformURL": self.url, "caBundle": ca_bundle});
        stage.agent(AGENT, spec).await
    }

    /// A link that signs in once.
    pub async fn link(&self) -> Result<String> {
        let answer = self.command(&["sign-in"], "").await?;
        Ok(answer["url"].as_str().context("a link")?.to_owned())
    }

    /// Signs in; the cookie of the session.
    async fn sign_in(&self, web: &Web) -> Result<String> {
        let answer = web.get(&self.link().await?, &[]).await?;
        let cookie = answer.headers.get("set-cookie").context("a cookie")?.to_str()?;
        Ok(cookie.split(';').next().unwrap_or_default().to_owned())
    }

    /// Every object that the hub shows, page by page.
    async fn objects(&self, web: &Web, cookie: &str) -> Result<Projections> {
        let headers = [("cookie", cookie.to_owned())];
        let base = format!("http://127.0.0.1:{}/api/v1", self.console);
        let get = async |path: String| -> Result<Value> {
            let answer = web.get(&format!("{base}{path}"), &headers).await?;
            ensure!(answer.status.is_success(), "{path}: {}", answer.status);
            Ok(serde_json::from_slice(answer.body.expose())?)
        };
        let mut all = Projections::new();
        let mut cursor = String::new();
        loop {
            let page = get(format!("/objects?limit=500{cursor}")).await?;
            for item in page["items"].as_array().context("items")? {
                let (cluster, uid) = (item["cluster"].as_str().unwrap(), item["uid"].as_str().unwrap());
                let one = get(format!("/clusters/{cluster}/objects/{uid}")).await?;
                let kind = item["kind"].as_str().unwrap().to_owned();
                all.insert((kind, uid.to_owned()), one["object"].clone());
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(all),
            }
        }
    }
}

fn launch(data: &TempDir, agents: u16, console: u16, url: &str) -> Result<Child> {
    // Beside the database, so that a search of the data directory finds what should be in neither.
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(data.path().join("hub.log"))?;
    Command::new(program()?)
        .arg(format!("--data-dir={}", data.path().display()))
        .arg(format!("--agents-bind-address=127.0.0.1:{agents}"))
        .arg(format!("--console-bind-address=127.0.0.1:{console}"))
        .arg(format!("--url={url}"))
        .arg("--admin-bind-address=0")
        .arg(format!("--max-event-bytes={MAX_OBJECT}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("start the hub")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_equals_the_cluster_after_either_side_was_killed() -> Result<()> {
    let stage = Stage::new("hub", Settings::default()).await?;
    let canary = Canary::new("a value of a Secret and of an annotation");
    let manifest = json!({"kind": "Secret", "data": {"password": canary.value()}}).to_string();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "db", "annotations": {"anything": manifest}}, "stringData": {"password": canary.value()},
    }))?;
    stage
        .sandbox
        .api()
        .create(&PostParams::default(), &secret)
        .await?;
    for number in 0..10 {
        stage.pod(&format!("pod-{number}")).await?;
    }
    let mut hub = Hub::start().await?;
    hub.enrol(&stage).await?;
    let (_instance, running) = stage.start("first").await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    let web = Web::new(WebOptions {
        largest_answer: 16 << 20,
        ..WebOptions::default()
    })?;
    let cookie = hub.sign_in(&web).await?;
    equal(&stage, &hub, &web, &cookie, "a start").await?;

    stage.label("pod-0", 1).await?;
    stage.remove_pod("pod-1").await?;
    equal(&stage, &hub, &web, &cookie, "changes").await?;

    // What was acknowledged is there; what was not is sent again. The session survives too.
    hub.kill().await?;
    stage.label("pod-2", 1).await?;
    stage.remove_pod("pod-3").await?;
    stage.pod("while-away").await?;
    hub.restart().await?;
    equal(&stage, &hub, &web, &cookie, "a kill of the hub").await?;

    // Deletions while no agent runs are swept by the snapshot of the next start.
    stage.kill(running).await?;
    let now = DeleteParams::default().grace_period(0);
    let all = ListParams::default().fields("metadata.name!=pod-0");
    stage.sandbox.api::<Pod>().delete_collection(&now, &all).await?;
    let (_instance, running) = stage.start("second").await?;
    equal(&stage, &hub, &web, &cookie, "a kill of the agent").await?;
    stage.kill(running).await?;

    let mut search = Search::for_canaries([&canary]);
    for file in std::fs::read_dir(hub.data.path())? {
        let path = file?.path();
        if path.is_file() {
            search.bytes(&path.display().to_string(), &std::fs::read(&path)?);
        }
    }
    search.assert_clean();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_equals_the_cluster_after_an_outage_and_each_refusal() -> Result<()> {
    let settings = Settings {
        tls: true,
        ..Settings::default()
    };
    let stage = Stage::new("refused", settings).await?;
    furnish(&stage, 490).await?;
    let mut hub = Hub::start_behind(&stage.platform).await?;
    hub.enrol(&stage).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let (_instance, running) = stage.start_through("first", &proxy).await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    let web = Web::new(WebOptions {
        largest_answer: 16 << 20,
        ..WebOptions::default()
    })?;
    let cookie = hub.sign_in(&web).await?;
    equal(&stage, &hub, &web, &cookie, "a start with 500 objects").await?;

    hub.kill().await?;
    change_for(&stage, OUTAGE).await?;
    stage
        .says(AGENT, "Available", "False", "PlatformUnreachable")
        .await?;
    // Its tokens are gone too, as after a restore from a backup.
    hub.revoke_tokens().await?;
    hub.restart().await?;
    equal(&stage, &hub, &web, &cookie, "an outage under change, and 401").await?;

    refuse(&stage, async |after| {
        equal(&stage, &hub, &web, &cookie, after).await
    })
    .await?;

    // The hub itself refuses an object of more than the size that it was started with; the others go on.
    let large = json!({"metadata": {"annotations": {"a": "x".repeat(3000), "b": "x".repeat(3000)}}});
    let pods = stage.sandbox.api::<Pod>();
    pods.patch("pod-0", &PatchParams::default(), &Patch::Merge(large))
        .await?;
    stage.label("pod-1", 3).await?;
    stage.says(AGENT, "Degraded", "True", "pod-0 (413)").await?;
    let small = json!({"metadata": {"annotations": {"a": "x", "b": null}}});
    pods.patch("pod-0", &PatchParams::default(), &Patch::Merge(small))
        .await?;
    equal(&stage, &hub, &web, &cookie, "413 for one object").await?;
    stage.says(AGENT, "Degraded", "False", "AgentHealthy").await?;

    expire(&proxy, "pods").await?;
    stage.remove_pod("pod-6").await?;
    take_right(&stage, "configmaps", false).await?;
    stage
        .says(
            AGENT,
            "Degraded",
            "True",
            "not permitted to list and watch configmaps",
        )
        .await?;
    stage.label("pod-7", 1).await?;
    take_right(&stage, "configmaps", true).await?;
    stage.says(AGENT, "Degraded", "False", "AgentHealthy").await?;
    equal(
        &stage,
        &hub,
        &web,
        &cookie,
        "410 and a right taken and given back",
    )
    .await?;
    stage.kill(running).await
}

async fn equal(stage: &Stage, hub: &Hub, web: &Web, cookie: &str, after: &str) -> Result<()> {
    let difference = std::sync::Mutex::new(String::new());
    let difference = &difference;
    let equal = until("the hub to equal the cluster", DEADLINE, || async move {
        let (expected, has) = (stage.expected().await?, hub.objects(web, cookie).await?);
        let found = differ(&expected, &has);
        let is_equal = found.is_empty();
        *difference.lock().unwrap() = found;
        Ok(is_equal.then_some(()))
    })
    .await;
    equal.with_context(|| format!("after {after}: {}", difference.lock().unwrap()))
}
