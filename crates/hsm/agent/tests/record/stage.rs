//! A place for a test: a folder of tokens, a namespace with the PIN and the record, and agents that may use nothing else.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tempfile::TempDir;
use trustplane_api::hsm::record::{AgentPhase, Record};
use trustplane_hsm_agent::pin_secret::TRY_AGAIN;
use trustplane_hsm_token::{Attempt, Module, Pin, Selector};
use trustplane_pkcs11_shim::pkcs11::CKR_PIN_INCORRECT;
use trustplane_pkcs11_shim::{Control, Shim};
use trustplane_testkit::{Account, DEADLINE, Rules, Sandbox, wait_for_some};

use crate::agent::{Agent, FOLDER, LABEL_TO_MAKE, Order, PIN_TO_MAKE, ROLE};

/// Debian's SoftHSM.
pub const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
/// The user PIN of the tokens.
pub const PIN: &str = "648219";
/// Another one.
pub const WRONG: &str = "111111";
/// One that it is changed to.
pub const NEW: &str = "975310";
/// The security officer's PIN.
pub const OFFICER: &str = "12345678";
/// The label of the tokens.
pub const LABEL: &str = "stick";
/// The Secret with the PIN, and the ConfigMap with the record.
pub const SECRET: &str = "token-pin";
pub const RECORD: &str = "hsm-agent-stick";
pub const KEY: &str = "pin";

pub struct Stage {
    pub sandbox: Sandbox,
    pub account: Account,
    folder: TempDir,
    pub shim: Shim,
}

impl Stage {
    /// A stage with one token, whose PIN is [`PIN`]; the Secret says this.
    pub async fn new(secret: &str) -> Result<Self> {
        let stage = Self::blank(secret).await?;
        stage.make_token(PIN);
        Ok(stage)
    }

    /// A stage without a token.
    pub async fn blank(secret: &str) -> Result<Self> {
        assert!(
            Path::new(SOFTHSM).exists(),
            "{SOFTHSM} is not there: apt-get install softhsm2, or `cargo xtask doctor`"
        );
        let sandbox = Sandbox::new("hsm-record").await?;
        let rule = |resource: &str, name: &str, verbs: &[&str]| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec![resource.to_owned()]),
            resource_names: Some(vec![name.to_owned()]),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..PolicyRule::default()
        };
        let rules = Rules {
            namespaced: vec![
                rule("secrets", SECRET, &["get", "list", "watch"]),
                rule("configmaps", RECORD, &["get", "patch"]),
            ],
            ..Rules::default()
        };
        let account = sandbox.apply_rbac("agent", &rules).await?;
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let stage = Self {
            shim: Shim::new(folder.path())?,
            folder,
            account,
            sandbox,
        };
        stage.make_folder("tokens");
        stage.write_secret(secret).await?;
        // The manager makes it, with nothing in it.
        let record = serde_json::from_value(json!({ "metadata": { "name": RECORD } }))?;
        stage
            .sandbox
            .api::<ConfigMap>()
            .create(&PostParams::default(), &record)
            .await?;
        Ok(stage)
    }

    fn make_folder(&self, name: &str) {
        let tokens = self.path().join(name);
        fs::create_dir_all(&tokens).unwrap();
        fs::write(
            self.path().join("softhsm2.conf"),
            format!(
                "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
                self.path().join("tokens").display()
            ),
        )
        .unwrap();
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a token with this PIN.
    pub fn make_token(&self, pin: &str) {
        let status = self
            .command("provision")
            .env(PIN_TO_MAKE, pin)
            .env(LABEL_TO_MAKE, LABEL)
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
    }

    /// Changes the PIN of the token with another tool, which nobody counts. If both are the same, it has only shown no wrong PIN.
    pub fn change_token(&self, old: &str, new: &str) {
        let status = self
            .command("change")
            .env(PIN_TO_MAKE, format!("{old} {new}"))
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
    }

    /// Puts all tokens aside, and others in their place.
    pub fn swap(&self) {
        let [here, aside, between] = ["tokens", "aside", "between"].map(|name| self.path().join(name));
        fs::create_dir_all(&aside).unwrap();
        fs::rename(&here, &between).unwrap();
        fs::rename(&aside, &here).unwrap();
        fs::rename(&between, &aside).unwrap();
    }

    /// This binary as a process that does one thing.
    pub fn command(&self, role: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "agent::process", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FOLDER, self.path())
            .env("SOFTHSM2_CONF", self.path().join("softhsm2.conf"))
            .envs(self.shim.environment(Path::new(SOFTHSM)))
            .stdout(Stdio::null());
        command
    }

    /// Starts an agent in a pod, with the usual order.
    pub async fn agent(&self, pod: &str) -> Result<Agent> {
        self.agent_with(&Order::new(self, pod)).await
    }

    pub async fn agent_with(&self, order: &Order) -> Result<Agent> {
        let instance = self.account.instance("agent").await?;
        Agent::start(self, &instance, order)
    }

    pub fn set(&self, control: Control) {
        self.shim.set(&control).unwrap();
    }

    /// From now on nothing goes wrong, and calls are counted anew.
    pub fn heal(&self) {
        self.set(Control::default());
    }

    /// What the calls of a function were answered since the control was set.
    pub fn answers(&self, function: &str) -> Vec<Option<u64>> {
        let calls = self.shim.calls().unwrap();
        let calls = calls.iter().filter(|call| call.function == function);
        calls.map(|call| call.code).collect()
    }

    /// How many wrong PINs the token has seen since the control was set.
    pub fn wrong_tries(&self) -> usize {
        let answers = self.answers("C_Login");
        answers
            .iter()
            .filter(|code| **code == Some(CKR_PIN_INCORRECT))
            .count()
    }

    /// Writes a PIN into the Secret.
    pub async fn write_secret(&self, pin: &str) -> Result<()> {
        let data = BTreeMap::from([(KEY, ByteString(pin.as_bytes().to_vec()))]);
        let patch = Patch::Merge(json!({ "data": data }));
        let secrets = self.sandbox.api::<Secret>();
        secrets.patch(SECRET, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Allows another try, with this text.
    pub async fn allow(&self, text: &str) -> Result<()> {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { TRY_AGAIN: text } } }));
        let secrets = self.sandbox.api::<Secret>();
        secrets.patch(SECRET, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Makes the Secret anew, with this PIN.
    pub async fn recreate_secret(&self, pin: &str) -> Result<()> {
        let secrets = self.sandbox.api::<Secret>();
        secrets.delete(SECRET, &DeleteParams::default()).await?;
        let anew = json!({ "metadata": { "name": SECRET }, "stringData": { KEY: pin } });
        secrets
            .create(&PostParams::default(), &serde_json::from_value(anew)?)
            .await?;
        Ok(())
    }

    /// The record as it is.
    pub async fn record(&self) -> Result<Record> {
        let map = self.sandbox.api::<ConfigMap>().get(RECORD).await?;
        Ok(Record::read(&map.data.unwrap_or_default())?)
    }

    /// Waits until the record says this of the agent.
    pub async fn state(&self, phase: AgentPhase) -> Result<Record> {
        self.recorded(|record| record.state.as_ref().is_some_and(|state| state.phase == phase))
            .await
    }

    /// Waits until the record is such.
    pub async fn recorded(&self, is_so: impl Fn(&Record) -> bool) -> Result<Record> {
        let read = |map: &ConfigMap| Record::read(&map.data.clone().unwrap_or_default());
        let maps = self.sandbox.api::<ConfigMap>();
        let map = wait_for_some(&maps, RECORD, DEADLINE, |map| read(map).is_ok_and(|r| is_so(&r))).await?;
        Ok(read(&map)?)
    }
}

/// Looks again and again, for what tells nobody.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let look = || ready(Ok(is_so().then_some(())));
    trustplane_testkit::until(what, DEADLINE, look).await.unwrap();
}

/// In a process of its own: makes the blank token one of ours.
pub fn make_token() {
    let mut module = Module::load(Path::new(SOFTHSM)).unwrap();
    let blank = module.inventory().unwrap().blank().unwrap().clone();
    let [label, pin] = [LABEL_TO_MAKE, PIN_TO_MAKE].map(|name| env::var(name).unwrap());
    module
        .provision(&blank, &label, &Pin::new(OFFICER), &Pin::new(pin))
        .unwrap();
}

/// In a process of its own: changes the PIN.
pub fn change_token() {
    let module = Module::load(Path::new(SOFTHSM)).unwrap();
    let inventory = module.inventory().unwrap();
    let ours = Selector::of(None, Some(LABEL), None).unwrap();
    let token = module.open(inventory.choose(&ours).unwrap()).unwrap();
    let pins = env::var(PIN_TO_MAKE).unwrap();
    let (old, new) = pins.split_once(' ').unwrap();
    token.log_in(&Pin::new(old), Attempt::Ordered).unwrap();
    token
        .change_pin(&Pin::new(old), &Pin::new(new), Attempt::Ordered)
        .unwrap();
}

/// Where the shared object of the shim is.
pub fn shim() -> PathBuf {
    trustplane_pkcs11_shim::library().unwrap()
}
