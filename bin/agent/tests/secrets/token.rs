//! A token in software, and the agent that serves it: the program that ships, as a process.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use tempfile::TempDir;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::{Tool, Toolchain};
use trustplane_cluster::wait;
use trustplane_pkcs11_shim::{Control, Shim, library};
use trustplane_testkit::DEADLINE;

use crate::pod_address::PodAddress;

/// Debian's SoftHSM.
pub const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PROGRAM: &str = env!("CARGO_BIN_EXE_trustplane-agent");
const PIN: &str = "648219";
/// The agent makes no pass by itself: what is seen is seen because the manager asks.
const PASSES: &str = "--pass-interval=1h";

/// A token, its agent, and the address of the agent's pod.
pub struct Token {
    name: String,
    folder: TempDir,
    module: PathBuf,
    environment: Vec<(String, PathBuf)>,
    shim: Option<Shim>,
    pod_address: PodAddress,
    agent: Option<Child>,
}

impl Token {
    /// A new token with this label. Its agent does not run yet.
    pub async fn new(name: &str) -> Result<Self> {
        let token = Self::blank(name, SOFTHSM.into(), ("SOFTHSM2_CONF", "softhsm2.conf")).await?;
        let objects = token.file("tokens");
        fs::create_dir(&objects)?;
        let objects = objects.display();
        let configuration =
            format!("directories.tokendir = {objects}\nobjectstore.backend = file\nlog.level = ERROR\n");
        fs::write(token.file("softhsm2.conf"), configuration)?;
        token.initialise()?;
        Ok(token)
    }

    /// A new token of kryoptic: another module, whose token is a file of SQLite. `pkcs11-tool` is not for it.
    pub async fn kryoptic(name: &str) -> Result<Self> {
        let module = Toolchain::new(&Cache::locate()?).ensure(Tool::Kryoptic)?;
        let module = module.join("libkryoptic_pkcs11.so");
        let token = Self::blank(name, module, ("KRYOPTIC_CONF", "kryoptic.conf")).await?;
        let objects = token.file("token.sql");
        let configuration = format!(
            "[[slots]]\nslot = 0\ndescription = \"slot {name}\"\ndbtype = \"sqlite\"\ndbargs = \"{}\"\n",
            objects.display()
        );
        fs::write(token.file("kryoptic.conf"), configuration)?;
        token.initialise()?;
        Ok(token)
    }

    /// A token of a module that finds its configuration by a variable. Nothing is made yet.
    async fn blank(name: &str, module: PathBuf, (variable, file): (&str, &str)) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("trustplane-token-").tempdir()?;
        Ok(Self {
            name: name.to_owned(),
            module,
            environment: vec![(variable.to_owned(), folder.path().join(file))],
            shim: None,
            pod_address: PodAddress::new().await?,
            agent: None,
            folder,
        })
    }

    /// A new token that can be made to fail.
    pub async fn fragile(name: &str) -> Result<Self> {
        let mut token = Self::new(name).await?;
        let folder = token.file("shim");
        fs::create_dir(&folder)?;
        let shim = Shim::new(&folder)?;
        let environment = shim.environment(Path::new(SOFTHSM));
        let environment = environment
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        token.environment.extend(environment);
        token.module = library()?;
        token.shim = Some(shim);
        Ok(token)
    }

    fn initialise(&self) -> Result<()> {
        fs::write(self.file("pin"), PIN)?;
        fs::write(self.file("so-pin"), "12345678")?;
        let init = ["init", "--label", &self.name].map(str::to_owned);
        let officer = format!("--so-pin-file={}", self.file("so-pin").display());
        self.test_token(init.into_iter().chain([officer])).map(drop)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its agent, if its HSMDevice has this name.
    pub fn agent_name(&self, device: &str) -> String {
        format!("hsm-agent-{device}-{}", self.name)
    }

    /// The address of the agent's pod.
    pub fn address(&self) -> Ipv4Addr {
        self.pod_address.address()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// From now on the module answers like this.
    pub fn set(&self, control: &Control) -> Result<()> {
        let shim = self.shim.as_ref().context("this token does not fail")?;
        Ok(shim.set(control)?)
    }

    /// The agent finds this PIN when it starts.
    pub fn set_pin(&self, pin: &str) -> Result<()> {
        Ok(fs::write(self.file("pin"), pin)?)
    }

    /// The agent finds the right PIN when it starts. A person has logged in with it meanwhile: after a wrong one, no agent would try.
    pub fn mend_pin(&self) -> Result<()> {
        self.pkcs11_tool(&["--list-objects"])?;
        self.set_pin(PIN)
    }

    /// Starts the agent with what is in its Secret.
    pub fn start(&mut self, credentials: &Secret) -> Result<()> {
        let data = credentials
            .data
            .as_ref()
            .context("the Secret of the agent has data")?;
        for key in ["tls.crt", "tls.key", "ca.crt"] {
            fs::write(self.file(key), &data.get(key).context(key)?.0)?;
        }
        self.restart()
    }

    /// Starts the agent again, and waits until it serves the token.
    pub fn restart(&mut self) -> Result<()> {
        self.restart_unserved()?;
        let served = wait::until("the agent to serve its token", DEADLINE, || Ok(self.is_served()));
        served.with_context(|| self.log())
    }

    /// Starts the agent again, which listens whether or not the token takes its PIN.
    pub fn restart_unserved(&mut self) -> Result<()> {
        let named = |flag: &str, file: &str| format!("--{flag}={}", self.file(file).display());
        let log = File::create(self.file("log"))?;
        let child = self
            .program()
            .args(["serve", "--device-name=stick", PASSES, "--log-format=json"])
            .arg(format!("--token-label={}", self.name))
            .arg(format!("--pkcs11-library={}", self.module.display()))
            .args([named("pin-file", "pin"), named("runtime-dir", "run")])
            .args([
                named("tls-cert-file", "tls.crt"),
                named("tls-key-file", "tls.key"),
            ])
            .arg(named("tls-client-ca-file", "ca.crt"))
            .args(["--port=0", "--health-port=0"])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start the agent")?;
        self.agent = Some(child);
        let port = wait::until("the agent to listen", DEADLINE, || Ok(self.port("grpc")));
        let port = port.with_context(|| self.log())?;
        self.pod_address.lead_to(port);
        Ok(())
    }

    /// Whether the agent answers on its local socket, as it does while it serves the token.
    fn is_served(&self) -> Option<()> {
        let files = fs::read_dir(self.file("run")).ok()?;
        let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
        let socket = paths.find(|path| path.extension().is_some_and(|end| end == "sock"))?;
        UnixStream::connect(socket).ok().map(drop)
    }

    fn port(&self, name: &str) -> Option<u16> {
        let (log, field) = (self.log(), format!("\"{name}\":\""));
        let address = log.split(&field).nth(1)?.split('"').next()?;
        address.rsplit(':').next()?.parse().ok()
    }

    /// The metrics of the agent.
    pub fn metrics(&self) -> Result<String> {
        let port = self.port("health").context("the agent tells its port")?;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut scrape = String::new();
        stream.read_to_string(&mut scrape)?;
        Ok(scrape)
    }

    /// How often the agent was asked for its list since it was started last.
    pub fn lists(&self) -> Result<u64> {
        let scrape = self.metrics()?;
        let counted = |line: &&str| line.contains("requests_total{") && line.contains("\"ListSecrets\"");
        let lines = scrape.lines().filter(counted);
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        Ok(counts.sum())
    }

    /// What the agent has logged since it was started last.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Kills the agent. Its pod stays.
    pub fn kill(&mut self) -> Result<()> {
        self.pod_address.lead_to(0);
        if let Some(mut agent) = self.agent.take() {
            agent.kill()?;
            agent.wait()?;
        }
        Ok(())
    }

    fn program(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.env_clear();
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }

    /// The agent's own tool, which goes through the agent while that serves.
    fn test_token(&self, words: impl IntoIterator<Item = String>) -> Result<String> {
        let mut command = self.program();
        command.arg("test-token");
        for (flag, path) in [("module", self.module.clone()), ("pin-file", self.file("pin"))] {
            command.arg(format!("--{flag}={}", path.display()));
        }
        command.arg(format!("--runtime-dir={}", self.file("run").display()));
        said(command.args(words).output()?)
    }

    fn on_token(&self, words: &[&str]) -> Result<String> {
        let label = format!("--token-label={}", self.name);
        self.test_token(words.iter().map(|word| (*word).to_owned()).chain([label]))
    }

    /// Writes a secret, all of it, with our tool.
    pub fn write(&self, path: &str, pairs: &[(&str, &str)]) -> Result<()> {
        let values = pairs
            .iter()
            .map(|(key, value)| format!("--from-literal={key}={value}"));
        let label = format!("--token-label={}", self.name);
        let words = ["write".to_owned(), path.to_owned(), label];
        self.test_token(words.into_iter().chain(values)).map(drop)
    }

    /// Deletes a secret with our tool: what is left says that it was deleted.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.on_token(&["delete", path]).map(drop)
    }

    /// Writes one object as `pkcs11-tool` and the original do, past the agent. A value of that label is replaced.
    pub fn write_object(&self, label: &str, value: &[u8]) -> Result<()> {
        let file = self.file("value");
        fs::write(&file, value)?;
        // It refuses to delete what is not there.
        drop(self.pkcs11_tool(&["--delete-object", "--label", label]));
        let file = file.display().to_string();
        let application = ["--private", "--application-label", "hsm-secrets-operator"];
        let write = [&["--write-object", &file, "--label", label][..], &application].concat();
        self.pkcs11_tool(&write)
    }

    /// Deletes one object as `pkcs11-tool` does, past the agent.
    pub fn delete_object(&self, label: &str) -> Result<()> {
        self.pkcs11_tool(&["--delete-object", "--label", label])
    }

    fn pkcs11_tool(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new("pkcs11-tool");
        command
            .env("SOFTHSM2_CONF", self.file("softhsm2.conf"))
            .args(["--module", SOFTHSM, "--login", "--pin", PIN, "--type", "data"])
            .args(words);
        said(command.output()?).map(drop)
    }

    /// The labels and versions of the secrets on it.
    pub fn list(&self) -> Result<String> {
        self.on_token(&["list"])
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // One that has ended already is what we want.
        drop(self.kill());
    }
}

fn said(output: Output) -> Result<String> {
    ensure!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    match String::from_utf8(output.stdout) {
        Ok(text) => Ok(text),
        Err(_) => bail!("a tool has said what is no text"),
    }
}

/// How long an agent may be silent in these tests until its token counts as away.
pub const PATIENCE: Duration = Duration::from_secs(2);
