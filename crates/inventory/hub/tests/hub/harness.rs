//! A hub in this process, on ports of its own, with a clock that the test moves; an agent; and a person.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trustplane_inventory_hub::app::{IngestLimits, Rates};
use trustplane_inventory_hub::rate::Rate;
use trustplane_inventory_hub::serve::{Config, Hub, ProcessContext, remove_expired, start};
use trustplane_inventory_hub::store;
use trustplane_inventory_hub::store::apply::ClusterLimits;
use trustplane_inventory_hub::store::identity::{Added, ClientKey, add_client, add_sign_in};
use trustplane_inventory_hub::store::writer::WriteTransaction;
use trustplane_process::admin::Readiness;
use trustplane_process::clock::{Clock, ManualClock};
use trustplane_process::metrics::Metrics;
use trustplane_process::shutdown::Shutdown;
use trustplane_process::supervise::Supervisor;

use crate::client::{Answer, Peer, trusting};

/// Rates that no test reaches.
const UNLIMITED: Rate = Rate {
    burst: 1e9,
    per_second: 1e9,
};
/// Short, so that a test sees the end of a session soon; longer than the half second for which changes are gathered, so that a check that
/// waits for a pause between changes would never come.
const SESSION_CHECK: Duration = Duration::from_secs(1);
/// How long what surely comes may take.
const DEADLINE: Duration = Duration::from_secs(60);

pub struct TestHub {
    folder: tempfile::TempDir,
    running: Option<Running>,
    pub clock: Arc<ManualClock>,
    limits: IngestLimits,
    rates: Rates,
}

struct Running {
    hub: Hub,
    supervisor: Supervisor,
    shutdown: Shutdown,
    metrics: Metrics,
}

impl TestHub {
    pub async fn start() -> Result<Self> {
        Self::with(|_, _| {}).await
    }

    /// Starts with other limits and rates.
    pub async fn with(change: impl FnOnce(&mut IngestLimits, &mut Rates)) -> Result<Self> {
        let mut limits = IngestLimits {
            snapshot_bytes: 64 << 20,
            event_bytes: 1 << 20,
            snapshot_objects: 2_000_000,
            cluster: ClusterLimits::default(),
        };
        let mut rates = Rates {
            token_address: UNLIMITED,
            token_client: UNLIMITED,
            events: UNLIMITED,
            snapshots: UNLIMITED,
        };
        change(&mut limits, &mut rates);
        let mut hub = Self {
            folder: tempfile::tempdir()?,
            running: None,
            clock: Arc::new(ManualClock::new(Timestamp::now())),
            limits,
            rates,
        };
        hub.begin().await?;
        Ok(hub)
    }

    async fn begin(&mut self) -> Result<()> {
        let config = Config {
            folder: self.folder.path().to_owned(),
            agents: "127.0.0.1:0".parse()?,
            console: "127.0.0.1:0".parse()?,
            urls: vec!["https://hub.example".to_owned()],
            hosts: Vec::new(),
            tls: None,
            limits: self.limits,
            rates: self.rates,
            session_check: SESSION_CHECK,
        };
        let metrics = Metrics::new();
        let shutdown = Shutdown::new(DEADLINE);
        let supervisor = Supervisor::new(&metrics, shutdown.clone());
        let readiness = Readiness::default();
        let context = ProcessContext {
            metrics: &metrics,
            readiness: &readiness,
            supervisor: &supervisor,
            shutdown: &shutdown,
            clock: self.clock.clone(),
        };
        let hub = start(config, &context).await?;
        ensure!(readiness.is_ready());
        self.running = Some(Running {
            hub,
            supervisor,
            shutdown,
            metrics,
        });
        Ok(())
    }

    /// Ends the hub in order.
    pub async fn stop(&mut self) -> Result<()> {
        let running = self.running.take().context("the hub does not run")?;
        running.shutdown.request();
        running.supervisor.run_until_shutdown().await?;
        Ok(())
    }

    /// Ends the hub and starts another on the same data.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.begin().await
    }

    /// Removes what has expired, as the hub does every minute.
    pub async fn clean(&self) -> Result<()> {
        let writer = &self.running().hub.writer;
        writer
            .run(|transaction: &mut WriteTransaction| Box::pin(remove_expired(transaction)))
            .await?;
        Ok(())
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the hub runs")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn metrics(&self) -> String {
        self.running().metrics.encode()
    }

    pub fn agents(&self) -> Peer {
        let hub = &self.running().hub;
        Peer {
            at: hub.agents.expect("agents are served"),
            tls: Some(trusting(hub.ca_bundle.as_ref().expect("an own CA")).expect("a CA bundle")),
        }
    }

    pub fn console(&self) -> Peer {
        Peer {
            at: self.running().hub.console.expect("the console is served"),
            tls: None,
        }
    }

    /// Moves the clock.
    pub fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub fn now(&self) -> i64 {
        self.clock.now().as_second()
    }

    /// The files of the database, as they lie on the disk.
    pub fn files(&self) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            files.push((path.clone(), std::fs::read(path)?));
        }
        Ok(files)
    }

    /// Adds a client, as the command does while the hub runs.
    pub async fn agent(&self, name: &str) -> Result<Agent> {
        let agent = Agent {
            id: format!("c-{name}"),
            key: Arc::new(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?),
            uid: format!("uid-of-{name}"),
            token: String::new(),
        };
        self.add_key(&agent, name).await?;
        Ok(agent)
    }

    pub async fn add_key(&self, agent: &Agent, name: &str) -> Result<Added> {
        let mut connection = store::open(self.folder.path()).await?;
        let key = agent.public();
        Ok(add_client(
            &mut connection,
            &agent.id,
            name,
            &key,
            self.clock.now().as_millisecond(),
        )
        .await?)
    }

    /// A client that has a token.
    pub async fn signed_in_agent(&self, name: &str) -> Result<Agent> {
        let mut agent = self.agent(name).await?;
        agent.renew(self).await?;
        Ok(agent)
    }

    /// A link to sign in, as the command makes it.
    pub async fn link(&self) -> Result<String> {
        let mut connection = store::open(self.folder.path()).await?;
        let token = add_sign_in(&mut connection, self.clock.now().as_millisecond()).await?;
        Ok(format!("/sign-in?token={}", token.expose()))
    }

    /// A person who is signed in.
    pub async fn person(&self) -> Result<Person> {
        let link = self.link().await?;
        let answer = self.console().send(Method::GET, &link, &[], "").await?;
        ensure!(answer.status == 303, "{answer:?}");
        let cookie = answer
            .header("set-cookie")
            .split(';')
            .next()
            .unwrap_or_default()
            .to_owned();
        Ok(Person {
            cookie,
            console: self.console(),
        })
    }
}

#[derive(Clone)]
pub struct Agent {
    pub id: String,
    pub uid: String,
    pub token: String,
    key: Arc<EcdsaKeyPair>,
}

impl Agent {
    pub fn public(&self) -> ClientKey {
        ClientKey {
            kid: format!("kid-{}", self.id),
            point: self.key.public_key().as_ref().to_vec(),
        }
    }

    pub fn claims(&self, hub: &TestHub, jti: &str) -> Value {
        let now = hub.now();
        json!({"iss": self.id, "sub": self.id, "aud": ["https://hub.example"], "iat": now, "exp": now + 300, "jti": jti})
    }

    pub fn sign(&self, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!(
            "{}.{}",
            encode(&json!({"alg": "ES256", "typ": "JWT"})),
            encode(claims)
        );
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Gets a token.
    pub async fn renew(&mut self, hub: &TestHub) -> Result<()> {
        let jti = format!("{}-{}", self.id, trustplane_inventory_hub::secret::random_id(""));
        let answer = exchange(hub, &self.sign(&self.claims(hub, &jti))).await?;
        ensure!(answer.status == 200, "{}", answer.text());
        self.token = answer.json()["access_token"]
            .as_str()
            .context("a token")?
            .to_owned();
        Ok(())
    }

    pub async fn post(&self, hub: &TestHub, path: &str, body: &Value) -> Result<Answer> {
        self.post_with(hub, path, &[], body.to_string()).await
    }

    pub async fn post_with(
        &self,
        hub: &TestHub,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<bytes::Bytes>,
    ) -> Result<Answer> {
        let bearer = format!("Bearer {}", self.token);
        let mut all = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        all.extend_from_slice(headers);
        hub.agents().send(Method::POST, path, &all, body).await
    }

    /// Sends a snapshot that must be accepted.
    pub async fn snapshot(&self, hub: &TestHub, arrays: Value) -> Result<()> {
        let answer = self
            .post(hub, "/api/v1/agent/snapshot", &self.snapshot_of(arrays))
            .await?;
        ensure!(answer.status == 200, "{}", answer.text());
        Ok(())
    }

    pub fn snapshot_of(&self, arrays: Value) -> Value {
        let mut body = json!({"cluster_uid": self.uid, "cluster_name": format!("cluster of {}", self.id)});
        if let (Value::Object(body), Value::Object(arrays)) = (&mut body, arrays) {
            body.extend(arrays);
        }
        body
    }

    /// Sends a change that must be accepted.
    pub async fn event(&self, hub: &TestHub, type_: &str, kind: &str, object: &Value) -> Result<()> {
        let answer = self
            .post(hub, "/api/v1/agent/events", &self.event_of(type_, kind, object))
            .await?;
        ensure!(answer.status == 200, "{}", answer.text());
        Ok(())
    }

    pub fn event_of(&self, type_: &str, kind: &str, object: &Value) -> Value {
        let mut event = json!({"cluster_uid": self.uid, "type": type_, "kind": kind, "uid": object["uid"], "name": object["name"]});
        if !object["namespace"].is_null() {
            event["namespace"] = object["namespace"].clone();
        }
        if !type_.eq_ignore_ascii_case("deleted") {
            event["object"] = object.clone();
        }
        event
    }

    pub async fn heartbeat(&self, hub: &TestHub) -> Result<()> {
        let body = json!({"cluster_uid": self.uid, "agent_version": "0.3.7"});
        let answer = self.post(hub, "/api/v1/agent/heartbeat", &body).await?;
        ensure!(answer.status == 200, "{}", answer.text());
        Ok(())
    }
}

/// Exchanges an assertion.
pub async fn exchange(hub: &TestHub, assertion: &str) -> Result<Answer> {
    let body = form(&[
        ("grant_type", trustplane_api::inventory::wire::JWT_BEARER),
        ("assertion", assertion),
    ]);
    ask_token(hub, body).await
}

pub fn form(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
}

pub async fn ask_token(hub: &TestHub, body: String) -> Result<Answer> {
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    hub.agents()
        .send(Method::POST, "/oauth/token", &headers, body)
        .await
}

#[derive(Clone)]
pub struct Person {
    pub cookie: String,
    console: Peer,
}

impl Person {
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.get_with(path, &[]).await
    }

    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        let mut all = vec![("cookie", self.cookie.as_str())];
        all.extend_from_slice(headers);
        self.console.send(Method::GET, path, &all, "").await
    }

    /// What a path says, which must be there.
    pub async fn see(&self, path: &str) -> Result<Value> {
        let answer = self.get(path).await?;
        ensure!(answer.status == 200, "{path}: {}", answer.text());
        Ok(answer.json())
    }

    /// The names of the objects that a query finds.
    pub async fn names(&self, query: &str) -> Result<Vec<String>> {
        let list = self.see(&format!("/api/v1/objects?{query}")).await?;
        Ok(strings(&list["items"], "name"))
    }

    pub async fn cluster(&self, agent: &Agent) -> Result<Value> {
        self.see(&format!("/api/v1/clusters/{}", agent.id)).await
    }
}

/// A field of each item of a list.
pub fn strings(items: &Value, field: &str) -> Vec<String> {
    let items = items.as_array().cloned().unwrap_or_default();
    items
        .iter()
        .map(|item| item[field].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Waits for something that surely comes.
pub async fn until<F: Future<Output = Result<bool>>>(mut test: impl FnMut() -> F) -> Result<()> {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !test().await? {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    });
    waited.await.context("it did not come")?
}

pub fn pod(uid: &str, name: &str) -> Value {
    json!({"uid": uid, "name": name, "namespace": "shop", "phase": "Running", "node_name": "node-1",
        "labels": {"app": "web"}, "k8s_created_at": "2026-01-02T03:04:05Z",
        "containers": [{"name": "c", "image": "nginx:1", "ready": true, "state": "running", "restart_count": 0, "resources": {}}]})
}
