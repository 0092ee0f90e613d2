//! Starting a process that outlives the command which starts it, without ever losing sight of it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::identity::Identity;
use crate::wait;

/// The environment variable that every process of a cluster carries, with the cluster's directory as its value.
/// Children that leave their parent (the shims of containerd) keep it, and so can be found and ended.
pub const MARKER: &str = "TRUSTPLANE_CLUSTER_PROCESS";

/// Debian's default for root; what a daemon finds must not depend on the shell that ran the command.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The shell holds the process back until its identity is recorded. When the recorder dies first, the pipe closes
/// and the process ends without having run; so at no moment does a process run that no state file names.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// What the kernel may take to put one program in the place of another, or to end a process that has left its memory.
const TRANSIT_LIMIT: Duration = Duration::from_secs(15);

/// What to start, and how.
#[derive(Debug, Clone)]
pub struct Daemon {
    name: String,
    program: OsString,
    arguments: Vec<OsString>,
    wrapper: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    grace: Duration,
}

impl Daemon {
    /// A daemon with a name that is unique in its cluster; the log file bears it too.
    pub fn new(name: impl Into<String>, program: impl AsRef<OsStr>) -> Self {
        Self {
            name: name.into(),
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            wrapper: Vec::new(),
            environment: Vec::new(),
            grace: Duration::from_secs(5),
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// A command that goes before the program and replaces itself by it, such as `nsenter --net=…` or `unshare -m`.
    /// It must not fork: the pid that is recorded is the one that runs the program.
    pub fn wrapper(mut self, wrapper: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.wrapper = wrapper.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    /// Adds a variable. Daemons get a clean environment with nothing but a search path, the marker and these.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// How long it may take to end by itself before it is killed.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn grace_period(&self) -> Duration {
        self.grace
    }

    /// Starts it in a session of its own; `record` is called with its identity before the program runs.
    pub(crate) fn start(
        &self,
        cluster_dir: &Path,
        record: impl FnOnce(&Identity) -> Result<()>,
    ) -> Result<Identity> {
        let log = open_log(&log_path(cluster_dir, &self.name))?;
        // `setsid` does not fork here, as a fresh child never leads a process group; the pid stays the same.
        let mut child = Command::new("setsid")
            .args(["sh", "-c", GATE, "gate"])
            .args(&self.wrapper)
            .arg(&self.program)
            .args(&self.arguments)
            .current_dir(cluster_dir)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("HOME", cluster_dir)
            .env(MARKER, cluster_dir)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().context("share a log file")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", self.name))?;
        let mut gate = child.stdin.take().context("hold back a process")?;
        let identity = Identity::of(child.id().cast_signed())?
            .with_context(|| format!("start {}: it ended at once", self.name))?;
        if let Err(error) = record(&identity) {
            drop(gate);
            child.wait().with_context(|| format!("end {}", self.name))?;
            return Err(error);
        }
        gate.write_all(b"go\n")
            .with_context(|| format!("start {}: it ended at once", self.name))?;
        Ok(identity)
    }
}

/// The log file of a daemon.
pub fn log_path(cluster_dir: &Path, name: &str) -> PathBuf {
    cluster_dir.join("logs").join(format!("{name}.log"))
}

/// The last lines of a daemon's log, for error messages.
pub fn log_tail(cluster_dir: &Path, name: &str, lines: usize) -> String {
    const WINDOW: u64 = 64 * 1024;
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log_path(cluster_dir, name))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.take(WINDOW).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(its log cannot be read: {error})"),
    }
}

fn open_log(path: &Path) -> Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("open {}", path.display()))
}

/// The processes that carry the marker of this cluster, recorded or not. One that is about to end has no environment
/// any more, but is still in its namespaces, so it is waited for.
pub fn marked(cluster_dir: &Path) -> Result<Vec<Identity>> {
    let mut wanted = format!("{MARKER}=").into_bytes();
    wanted.extend_from_slice(cluster_dir.as_os_str().as_encoded_bytes());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("list the processes")? {
        let name = entry.context("list the processes")?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        wait::patiently(TRANSIT_LIMIT, || Ok(!Identity::in_transit(pid)?))?;
        // Gone since the listing, or another user's: neither can be ours.
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
            continue;
        };
        if environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted)
        {
            found.extend(Identity::of(pid)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_daemon_runs_in_its_own_session_with_a_clean_environment_and_is_found_by_its_marker() {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"env; echo "session $(ps -o sid= -p $$)"; echo done; exec sleep 600"#;
        let daemon = Daemon::new("probe", "sh")
            .args(["-c", script])
            .env("EXTRA", "yes");
        let identity = daemon.start(dir.path(), |_| Ok(())).unwrap();
        let log = wait::until("the daemon's output", LIMIT, || {
            Ok(Some(log_tail(dir.path(), "probe", 50)).filter(|text| text.ends_with("done")))
        });
        let marked = marked(dir.path()).unwrap();
        identity.stop(LIMIT).unwrap();
        let log = log.unwrap();
        assert_eq!(marked, std::slice::from_ref(&identity));
        assert!(log.contains("EXTRA=yes"), "{log}");
        assert!(!log.contains("CARGO"), "the environment leaked in: {log}");
        let session = log
            .lines()
            .find_map(|line| line.strip_prefix("session"))
            .unwrap()
            .trim()
            .to_owned();
        assert_eq!(session, identity.pid().to_string());
    }

    #[test]
    fn a_daemon_whose_identity_cannot_be_recorded_never_runs() {
        let dir = tempfile::tempdir().unwrap();
        let witness = dir.path().join("witness");
        let daemon = Daemon::new("probe", "touch").arg(&witness);
        let mut seen = None;
        let failed = daemon.start(dir.path(), |identity| {
            seen = Some(identity.clone());
            anyhow::bail!("the disk is full")
        });
        assert!(failed.is_err());
        let identity = seen.unwrap();
        wait::until("the gate to give up", LIMIT, || {
            Ok((!identity.alive()?).then_some(()))
        })
        .unwrap();
        identity.stop(LIMIT).unwrap();
        assert!(!witness.exists());
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("logs")).unwrap();
        fs::write(log_path(dir.path(), "x"), "one\ntwo\nthree\n").unwrap();
        assert_eq!(log_tail(dir.path(), "x", 2), "two\nthree");
        assert!(log_tail(dir.path(), "absent", 2).contains("cannot be read"));
    }
}
