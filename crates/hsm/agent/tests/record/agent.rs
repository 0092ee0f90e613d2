//! An agent as a process of its own, without a server: what it does is seen by the token, the record and its health.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use trustplane_hsm_agent::kubernetes::Ties;
use trustplane_hsm_agent::{Health, Host, Program, Provision, Settings, Wanted, child};
use trustplane_hsm_core::pin_record::DigestKey;
use trustplane_hsm_token::Attempt;
use trustplane_kit::clients::{Clients, KubeArgs};
use trustplane_kit::lease::{Fence, Identity};
use trustplane_kit::watch::{Tuning, Watches};
use trustplane_process::backoff::Backoff;
use trustplane_process::metrics::Metrics;
use trustplane_process::secret::Secret;
use trustplane_testkit::{Credentials, Instance};

use crate::stage::{KEY, LABEL, RECORD, SECRET, Stage, change_token, eventually, make_token, shim};

pub const ROLE: &str = "TRUSTPLANE_TEST_ROLE";
pub const FOLDER: &str = "TRUSTPLANE_TEST_STAGE";
pub const PIN_TO_MAKE: &str = "TRUSTPLANE_TEST_PIN";
pub const LABEL_TO_MAKE: &str = "TRUSTPLANE_TEST_LABEL";
const ORDER: &str = "TRUSTPLANE_TEST_ORDER";

/// Each byte of the key of the digests.
const DIGEST_KEY: u8 = 7;

/// What an agent is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub pod: String,
    pub pin: String,
    pub record: String,
    pub label: String,
    /// How long the module may take, in seconds.
    pub opening: u64,
    /// The file with the SO-PIN, for an agent that sets up a blank token; empty while the manager has not made the SO-PIN.
    pub officer: Option<String>,
    /// What each byte of the key of the digests is.
    pub key: u8,
}

impl Order {
    pub fn new(stage: &Stage, pod: &str) -> Self {
        let namespace = stage.sandbox.namespace();
        Self {
            pod: pod.to_owned(),
            pin: format!("{namespace}/{SECRET}/{KEY}"),
            record: format!("{namespace}/{RECORD}"),
            label: LABEL.to_owned(),
            opening: 30,
            officer: None,
            key: DIGEST_KEY,
        }
    }
}

/// A running agent. It is killed when this is dropped.
pub struct Agent {
    child: Child,
    folder: PathBuf,
    _credentials: Credentials,
}

impl Agent {
    pub fn start(stage: &Stage, instance: &Instance, order: &Order) -> Result<Self> {
        let credentials = instance.credentials()?;
        let folder = credentials.dir().to_owned();
        let log = File::create(folder.join("log"))?;
        let child = stage
            .command("agent")
            .env("KUBECONFIG", credentials.kubeconfig())
            .env(ORDER, serde_json::to_string(order)?)
            .env("TRUSTPLANE_TEST_OWN", &folder)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Self {
            child,
            folder,
            _credentials: credentials,
        })
    }

    /// How it says it is doing.
    fn health(&self) -> String {
        fs::read_to_string(self.folder.join("health")).unwrap_or_default()
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until it says that of itself.
    pub async fn says(&self, text: &str) -> String {
        eventually_or(
            || self.health().contains(text),
            || format!("{text:?}; it says {}\n{}", self.health(), self.log()),
        )
        .await;
        self.health()
    }

    /// Tells it to change the PIN.
    pub fn change_pin(&mut self, old: &str, new: &str) {
        // What it has answered before is not the answer to this.
        drop(fs::remove_file(self.folder.join("answer")));
        let orders = self.child.stdin.as_mut().unwrap();
        writeln!(orders, "{old} {new}").unwrap();
    }

    /// Waits until it has answered that.
    pub async fn answers(&self, text: &str) {
        let answer = || fs::read_to_string(self.folder.join("answer")).unwrap_or_default();
        eventually_or(
            || answer().contains(text),
            || format!("{text:?}; it answers {:?}\n{}", answer(), self.log()),
        )
        .await;
    }

    /// Kills it, without a word before.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the process with its module.
    pub fn kill_module(&self) {
        let text = fs::read_to_string(self.folder.join("module")).unwrap();
        let id = rustix::process::Pid::from_raw(text.parse().unwrap()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    }
}

async fn eventually_or(mut is_so: impl FnMut() -> bool, what: impl Fn() -> String) {
    let begun = std::time::Instant::now();
    eventually("what an agent says of itself", || {
        assert!(
            begun.elapsed() < trustplane_testkit::DEADLINE - Duration::from_secs(5),
            "waited for {}",
            what()
        );
        is_so()
    })
    .await;
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Not a test by itself: what others start as a process of its own.
#[test]
fn process() {
    match env::var(ROLE).as_deref() {
        Ok("module") => child::run().unwrap(),
        Ok("provision") => make_token(),
        Ok("change") => change_token(),
        Ok("agent") => run().unwrap(),
        _ => {}
    }
}

fn run() -> Result<()> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let order: Order = serde_json::from_str(&env::var(ORDER)?)?;
    let own = PathBuf::from(env::var_os("TRUSTPLANE_TEST_OWN").context("a folder")?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let kube = KubeArgs {
            kubeconfig: env::var_os("KUBECONFIG").map(PathBuf::from),
            context: None,
        };
        let identity = Identity::new("agent", "0", Some(&order.pod));
        let clients = Clients::new(kube.config().await?, identity, Fence::always())?;
        let tuning = Tuning {
            backoff: quick(),
            ..Tuning::default()
        };
        let watches = Watches::new(clients.watch.clone(), tuning, &Metrics::new());
        let ties = Ties {
            pin: order.pin.parse()?,
            record: order.record.parse()?,
            digests: DigestKey::new(&[order.key; 32])?,
            pod: order.pod.clone(),
            provision: order.officer.map(|officer| Provision {
                officer: (!officer.is_empty()).then(|| Secret::new(officer)),
                label: order.label.clone(),
            }),
        };
        let settings = settings(&order.label, Duration::from_secs(order.opening), &own);
        let tied = ties.start(settings, &clients, &watches)?;
        let mut health = tied.host.health();
        obey(tied.host.clone(), own.clone());
        tokio::spawn(tied.pins);
        tokio::spawn(tied.report);
        loop {
            let now = health.borrow_and_update().clone();
            tell(&own, &now)?;
            health.changed().await?;
        }
    })
}

/// Changes the PIN whenever it is told to, and answers.
fn obey(host: Arc<Host>, own: PathBuf) {
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Some((old, new)) = line.split_once(' ') else {
                continue;
            };
            let [old, new] = [old, new].map(|pin| Secret::new(pin.to_owned()));
            let changed = runtime.block_on(host.change_pin(&old, &new, Attempt::Automatic));
            write(&own, "answer", &format!("{changed:?}")).unwrap();
        }
    });
}

fn quick() -> Backoff {
    Backoff {
        first: Duration::from_millis(50),
        max: Duration::from_millis(300),
    }
}

fn settings(label: &str, opening: Duration, own: &Path) -> Settings {
    let wanted = Wanted {
        label: Some(label.to_owned()),
        ..Wanted::default()
    };
    let program = Program {
        path: env::current_exe().unwrap_or_default(),
        arguments: ["--exact", "agent::process", "--nocapture", "--test-threads=1"]
            .map(OsString::from)
            .into(),
        environment: vec![(ROLE.into(), "module".into())],
        ..Program::default()
    };
    Settings {
        // Each agent is a pod of its own.
        runtime: own.to_owned(),
        opening,
        retry: Duration::from_millis(200),
        probe: Duration::from_millis(200),
        backoff: quick(),
        ..Settings::new(program, shim(), wanted)
    }
}

/// Tells the test how it is.
fn tell(own: &Path, health: &Health) -> Result<()> {
    let text = format!(
        "{:?} starts={} fault={:?}",
        health.phase, health.starts, health.fault
    );
    for (name, text) in [
        ("health", text),
        ("module", health.process.unwrap_or_default().to_string()),
    ] {
        write(own, name, &text)?;
    }
    Ok(())
}

/// Writes a file in one step.
fn write(own: &Path, name: &str, text: &str) -> Result<()> {
    let partial = own.join(format!("{name}.partial"));
    fs::write(&partial, text)?;
    Ok(fs::rename(partial, own.join(name))?)
}
