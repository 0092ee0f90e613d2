//! What the frame promises of every binary: the form of `--version`, exit codes, and how a fault is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// A binary, run without a cluster and with an empty environment.
#[derive(Debug, Clone, Copy)]
pub struct Binary {
    /// Where it is, such as `env!("CARGO_BIN_EXE_…")`.
    pub path: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl Binary {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path);
        command.env_clear().args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs it to its end, which must have this exit code, and gives stdout and stderr.
    pub fn ends(&self, arguments: &[&str], code: i32) -> Result<(String, String)> {
        let output: Output = self.command(arguments).output().context("run a binary")?;
        let [out, err] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        ensure!(
            output.status.code() == Some(code),
            "{arguments:?} ended with {}: {err}",
            output.status
        );
        Ok((out, err))
    }

    /// `--version` prints the name and the version, and nothing else.
    pub fn tells_its_version(&self) -> Result<()> {
        let (out, err) = self.ends(&["--version"], 0)?;
        let wanted = format!("{} {}\n", self.name, self.version);
        ensure!(
            (out.as_str(), err.as_str()) == (wanted.as_str(), ""),
            "{out}{err}"
        );
        Ok(())
    }

    /// A wrong flag after these words ends with 2 and a text for people that names the flag.
    pub fn refuses_a_wrong_flag(&self, words: &[&str]) -> Result<()> {
        let (out, err) = self.ends(&[words, &["--no-such-flag"]].concat(), 2)?;
        ensure!(out.is_empty(), "{out}");
        let told = err.starts_with("error: ") && err.contains("'--no-such-flag'") && err.contains("Usage: ");
        ensure!(told, "{err}");
        Ok(())
    }

    /// A log filter that makes no sense ends with 2 and a text for people.
    pub fn refuses_a_wrong_log_filter(&self, arguments: &[&str]) -> Result<()> {
        let (_, err) = self.ends(&[arguments, &["--log=info,x=loudest"]].concat(), 2)?;
        ensure!(
            err.starts_with("error: --log: `info,x=loudest` is not a log filter"),
            "{err}"
        );
        Ok(())
    }

    /// A start that fails ends with 1, and its last line is a record of the log that says why.
    pub fn logs_a_failed_start(&self, arguments: &[&str], why: &str) -> Result<()> {
        let (_, err) = self.ends(&[arguments, &["--log-format=json"]].concat(), 1)?;
        let last = err.lines().last().context("it says nothing")?;
        let record: Value = serde_json::from_str(last).with_context(|| format!("not a record: {err}"))?;
        let is = |field: &str, value: &str| record[field].as_str() == Some(value);
        ensure!(
            is("level", "ERROR") && is("message", "cannot start") && is("version", self.version),
            "{err}"
        );
        ensure!(
            record["error"].as_str().is_some_and(|error| error.contains(why)),
            "{err}"
        );
        Ok(())
    }

    /// Once started, its memory is protected and it leaves no core. The API server that it is given never answers.
    pub fn protects_its_memory(&self, arguments: &[&str]) -> Result<()> {
        let silent = SilentServer::new()?;
        let kubeconfig = format!("--kubeconfig={}", silent.kubeconfig.display());
        let more = [
            kubeconfig.as_str(),
            "--log-format=json",
            "--admin-bind-address=127.0.0.1:0",
        ];
        let child = self
            .command(&[arguments, &more].concat())
            .stderr(Stdio::piped())
            .spawn();
        let mut running = Running(child.context("start a binary")?);
        let admin = running.admin()?;
        let state = get(&admin, "/debug/state.json")?;
        let state: Value =
            serde_json::from_str(&state).with_context(|| format!("not a document: {state}"))?;
        ensure!(state["process"]["memoryProtected"] == true, "{state}");
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.0.id()))?;
        let core = limits.lines().find(|line| line.starts_with("Max core file size"));
        let most = core.and_then(|line| line.split_whitespace().nth(5));
        ensure!(most == Some("0"), "{limits}");
        Ok(())
    }
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Running {
    /// Where its admin port is, once its log says so.
    fn admin(&mut self) -> Result<String> {
        let log = self.0.stderr.take().context("its log is not piped")?;
        let mut seen = String::new();
        for line in BufReader::new(log).lines() {
            let line = line.context("read its log")?;
            if let Some(address) = admin_address(&line) {
                return Ok(address);
            }
            seen = format!("{seen}{line}\n");
        }
        anyhow::bail!("it ended without an admin port:\n{seen}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An API server that takes connections and never answers.
struct SilentServer {
    _listener: TcpListener,
    _folder: TempDir,
    kubeconfig: PathBuf,
}

impl SilentServer {
    fn new() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
        let folder = tempfile::tempdir().context("make a folder")?;
        let kubeconfig = folder.path().join("kubeconfig");
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "silent",
            "clusters": [{"name": "silent", "cluster": {"server": format!("http://{}", listener.local_addr()?)}}],
            "contexts": [{"name": "silent", "context": {"cluster": "silent", "user": "nobody"}}],
            "users": [{"name": "nobody", "user": {}}],
        });
        std::fs::write(&kubeconfig, config.to_string()).context("write a kubeconfig")?;
        Ok(Self {
            _listener: listener,
            _folder: folder,
            kubeconfig,
        })
    }
}

/// The first address of the admin port, if this line of a log in JSON tells it.
pub(crate) fn admin_address(line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).ok()?;
    let first = record["admin"].as_str()?.split(", ").next()?;
    Some(first.trim_matches(['[', ']']).to_owned())
}

/// The body of an answer.
pub(crate) fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("reach the admin port")?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    Ok(body.to_owned())
}
