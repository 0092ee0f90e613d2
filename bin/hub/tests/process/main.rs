//! The hub as a process: started, killed and started again; and the commands beside it.

#[allow(dead_code, reason = "the tests of the crate use more of it")]
#[path = "../../../../crates/inventory/hub/tests/hub/client.rs"]
mod client;
mod frame;
mod laptop;
mod process;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};
use trustplane_api::inventory::wire::JWT_BEARER;

use client::{Answer, Peer, trusting};

const HUB: &str = env!("CARGO_BIN_EXE_trustplane-hub");
/// How long a start may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a command beside the hub, with this on stdin.
fn command(folder: &Path, arguments: &[&str], stdin: &str) -> Result<Output> {
    let mut child = Command::new(HUB)
        .env_clear()
        .env("TRUSTPLANE_DATA_DIR", folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // A command that refuses its arguments may not read.
    let _ = child.stdin.take().context("stdin")?.write_all(stdin.as_bytes());
    Ok(child.wait_with_output()?)
}

fn json_of(output: &Output) -> Result<Value> {
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).context("JSON on stdout")
}

/// A running hub, killed when it is dropped.
struct Process {
    child: Child,
    agents: SocketAddr,
    console: SocketAddr,
}

impl Process {
    /// Starts a hub on free ports and waits until it serves.
    async fn start(folder: &Path) -> Result<Self> {
        let log = folder.with_extension("log");
        let child = Command::new(HUB)
            .env_clear()
            .arg(format!("--data-dir={}", folder.display()))
            .args([
                "--agents-bind-address=127.0.0.1:0",
                "--console-bind-address=127.0.0.1:0",
                "--url=https://hub.example",
            ])
            .args(["--admin-bind-address=0", "--log-format=json"])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        let mut process = Self {
            child,
            agents: "0.0.0.0:0".parse()?,
            console: "0.0.0.0:0".parse()?,
        };
        let served = tokio::time::timeout(DEADLINE, async {
            loop {
                let text = std::fs::read_to_string(&log)?;
                if let Some(line) = text.lines().find(|line| line.contains("\"serves\"")) {
                    return serde_json::from_str::<Value>(line).context("a log line");
                }
                ensure!(process.child.try_wait()?.is_none(), "the hub ended: {text}");
                tokio::task::yield_now().await;
            }
        });
        let line = served.await.context("the hub does not serve")??;
        let address = |field: &str| -> Result<SocketAddr> {
            let text = line[field].as_str().context("an address")?;
            Ok(text.trim_start_matches("Some(").trim_end_matches(')').parse()?)
        };
        (process.agents, process.console) = (address("agents")?, address("console")?);
        Ok(process)
    }

    /// Kills it: it gets no chance to end in order.
    fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn console(&self) -> Peer {
        Peer {
            at: self.console,
            tls: None,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.kill();
    }
}

/// An agent that was enrolled by the command.
struct Enrolled {
    id: String,
    ca: String,
    key: EcdsaKeyPair,
    token: String,
}

impl Enrolled {
    fn new(folder: &Path) -> Result<Self> {
        let pair = rcgen::KeyPair::generate()?;
        let added = command(
            folder,
            &["client", "add", "--name=test", "--json"],
            &pair.public_key_pem(),
        )?;
        let added = json_of(&added)?;
        ensure!(added["urls"] == json!(["https://hub.example"]), "{added}");
        let text = |field: &str| added[field].as_str().map(str::to_owned).context("a text");
        Ok(Self {
            id: text("client_id")?,
            ca: text("ca_bundle")?,
            key: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pair.serialized_der())?,
            token: String::new(),
        })
    }

    fn hub(&self, process: &Process) -> Result<Peer> {
        Ok(Peer {
            at: process.agents,
            tls: Some(trusting(&self.ca)?),
        })
    }

    async fn renew(&mut self, process: &Process, jti: &str) -> Result<()> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)?
            .as_secs();
        let claims = json!({"iss": self.id, "sub": self.id, "aud": ["https://hub.example"], "iat": now, "exp": now + 300, "jti": jti});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!(
            "{}.{}",
            encode(&json!({"alg": "ES256", "typ": "JWT"})),
            encode(&claims)
        );
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes())?;
        let assertion = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("grant_type", JWT_BEARER), ("assertion", &assertion)])
            .finish();
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer = self
            .hub(process)?
            .send(Method::POST, "/oauth/token", &headers, form)
            .await?;
        ensure!(answer.status == 200, "{}", answer.text());
        self.token = answer.json()["access_token"]
            .as_str()
            .context("a token")?
            .to_owned();
        Ok(())
    }

    async fn event(&self, process: &Process, type_: &str, uid: &str) -> Result<Answer> {
        let event = json!({"cluster_uid": "c", "type": type_, "kind": "Pod", "uid": uid, "name": uid, "namespace": "shop",
            "object": {"uid": uid, "name": uid, "namespace": "shop", "phase": "Running"}});
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str())];
        self.hub(process)?
            .send(Method::POST, "/api/v1/agent/events", &headers, event.to_string())
            .await
    }
}

/// The names of all objects, seen by a person who signs in by the command.
async fn names(folder: &Path, process: &Process) -> Result<Vec<String>> {
    let link = json_of(&command(folder, &["sign-in", "--json"], "")?)?;
    let console = process.console();
    let path = format!("/sign-in?token={}", link["token"].as_str().context("a token")?);
    let answer = console.send(Method::GET, &path, &[], "").await?;
    ensure!(answer.status == 303, "{}", answer.text());
    let cookie = answer
        .header("set-cookie")
        .split(';')
        .next()
        .unwrap_or_default()
        .to_owned();
    let list = console
        .send(Method::GET, "/api/v1/objects", &[("cookie", &cookie)], "")
        .await?
        .json();
    let items = list["items"].as_array().context("items")?;
    Ok(items
        .iter()
        .filter_map(|item| item["name"].as_str())
        .map(str::to_owned)
        .collect())
}
