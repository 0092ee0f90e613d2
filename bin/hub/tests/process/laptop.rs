//! A hub on a laptop: started without arguments, at a terminal.
//!
//! The ports of the test come from the environment, because other processes may have the default ones; `args::tests` of the library has
//! the defaults. `script` (Debian: bsdutils) is the terminal, because the hub prints a link only there.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use anyhow::{Context, Result, ensure};
use http::Method;

use super::client::Peer;
use super::{DEADLINE, HUB};

/// A hub at a terminal, ended when it is dropped.
struct AtTerminal {
    terminal: Child,
    link: String,
}

impl AtTerminal {
    /// Starts the binary without arguments and waits for the link on its terminal.
    fn start(home: &Path, env: &[(&str, &Path)]) -> Result<Self> {
        let mut terminal = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", HUB, "/dev/null"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .envs(env.iter().copied())
            .env("TRUSTPLANE_AGENTS_BIND_ADDRESS", "127.0.0.1:0")
            .env("TRUSTPLANE_CONSOLE_BIND_ADDRESS", "127.0.0.1:0")
            .env("TRUSTPLANE_ADMIN_BIND_ADDRESS", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("start script, of the Debian package bsdutils")?;
        let mut output = terminal.stdout.take().context("stdout")?;
        let (sender, lines) = mpsc::channel();
        // The thread ends with the terminal.
        std::thread::spawn(move || {
            let (mut text, mut some) = (String::new(), [0; 4096]);
            while let Ok(read @ 1..) = output.read(&mut some) {
                text.push_str(&String::from_utf8_lossy(&some[..read]));
                while let Some((line, rest)) = text.split_once('\n') {
                    if sender.send(line.trim_end().to_owned()).is_err() {
                        return;
                    }
                    text = rest.to_owned();
                }
            }
        });
        let mut hub = Self {
            terminal,
            link: String::new(),
        };
        let mut seen = Vec::new();
        loop {
            let line = lines.recv_timeout(DEADLINE);
            let line = line.with_context(|| format!("the hub printed no link: {seen:#?}"))?;
            if line.trim_start().starts_with("http://") {
                hub.link = line.trim().to_owned();
                return Ok(hub);
            }
            seen.push(line);
        }
    }
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        // The end of the terminal ends the hub. Both may have ended already.
        let _ = self.terminal.kill();
        let _ = self.terminal.wait();
    }
}

fn mode(path: &Path) -> Result<u32> {
    let metadata = std::fs::metadata(path).with_context(|| format!("read {}", path.display()))?;
    Ok(metadata.permissions().mode() & 0o777)
}

#[tokio::test]
async fn hub_without_arguments_prints_a_link_that_signs_in() -> Result<()> {
    let home = tempfile::tempdir()?;
    let hub = AtTerminal::start(home.path(), &[])?;
    let link = hub
        .link
        .strip_prefix("http://localhost:")
        .context("a link to this machine")?;
    let (port, path) = link.split_once('/').context("a path")?;
    ensure!(path.starts_with("sign-in?token="), "{path}");
    let console = Peer {
        at: format!("127.0.0.1:{port}").parse()?,
        tls: None,
    };
    let answer = console.send(Method::GET, &format!("/{path}"), &[], "").await?;
    assert_eq!((answer.status, answer.header("location")), (303, "/"));
    let cookie = answer.header("set-cookie").split(';').next().unwrap_or_default();
    assert!(cookie.starts_with(&format!("trustplane_hub_{port}=")), "{cookie}");
    let clusters = console
        .send(Method::GET, "/api/v1/clusters", &[("cookie", cookie)], "")
        .await?;
    assert_eq!(clusters.status, 200, "{}", clusters.text());

    let data = home.path().join(".local/share/trustplane-hub");
    assert_eq!(mode(&data)?, 0o700);
    for file in ["hub.db", "hub.db-wal", "hub.db-shm", "authority.json"] {
        assert_eq!(mode(&data.join(file))?, 0o600, "{file}");
    }
    // No other file is there that others could read.
    for entry in std::fs::read_dir(&data)? {
        let path: PathBuf = entry?.path();
        assert_eq!(mode(&path)? & 0o077, 0, "{}", path.display());
    }
    Ok(())
}

#[tokio::test]
async fn hub_without_arguments_keeps_its_data_in_xdg_data_home() -> Result<()> {
    let (home, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let _hub = AtTerminal::start(home.path(), &[("XDG_DATA_HOME", data.path())])?;
    assert_eq!(mode(&data.path().join("trustplane-hub/hub.db"))?, 0o600);
    assert!(!home.path().join(".local").exists());
    Ok(())
}
