//! When a component counts as ready: when it has done what others will ask of it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Component, Record, certificates};
use crate::daemon;
use crate::identity::Identity;
use crate::wait;

/// Generous: it decides only how soon a failure is reported.
const LIMIT: Duration = Duration::from_secs(120);
const LOG_LINES: usize = 25;

/// Waits for a component, and shows the end of its log when it ends or does not become ready.
pub(super) fn wait(component: Component, process: &Identity, dir: &Path, record: &Record) -> Result<()> {
    let name = component.name();
    wait::until(name, LIMIT, || {
        if !process.alive()? {
            bail!("{name} has ended");
        }
        let ready = match component {
            Component::Etcd => listens(process, record.etcd_port)?,
            Component::ApiServer => {
                listens(process, record.api_port)? && kubectl(dir, record, &["get", "--raw=/readyz"])?
            }
            // Its first visible work, and what every pod needs.
            Component::ControllerManager => kubectl(
                dir,
                record,
                &["--namespace=default", "get", "serviceaccount", "default"],
            )?,
            Component::Scheduler => true,
        };
        Ok(ready.then_some(()))
    })
    .with_context(|| {
        format!(
            "start {name}; the end of its log:\n{}",
            daemon::log_tail(dir, name, LOG_LINES)
        )
    })
}

fn kubectl(dir: &Path, record: &Record, arguments: &[&str]) -> Result<bool> {
    let kubectl = record.kubernetes.join("kubectl");
    let mut words = record
        .options
        .wrapper
        .iter()
        .map(AsRef::as_ref)
        .chain([kubectl.as_os_str()]);
    let program = words.next().context("run kubectl")?;
    let Output { status, .. } = Command::new(program)
        .args(words)
        .arg("--kubeconfig")
        .arg(certificates::kubeconfig(dir, "admin"))
        .arg("--request-timeout=5s")
        .args(arguments)
        .env_clear()
        // Its cache of discovery documents would go to the home directory.
        .env("HOME", dir)
        .stdin(Stdio::null())
        .output()
        .context("run kubectl")?;
    Ok(status.success())
}

/// Whether the port is open, seen from the process itself, as it may live in another network namespace.
fn listens(process: &Identity, port: u16) -> Result<bool> {
    for table in ["tcp", "tcp6"] {
        match fs::read_to_string(format!("/proc/{}/net/{table}", process.pid())) {
            Ok(text) if listening(&text, port) => return Ok(true),
            Ok(_) => {}
            // Ended, or a kernel without IPv6.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("read the table of sockets"),
        }
    }
    Ok(false)
}

/// Lines are `sl local_address rem_address st …`; addresses end in the port in hexadecimal, 0A is LISTEN.
fn listening(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(1).is_some_and(|local| local.ends_with(&suffix)) && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listening_socket_on_the_port_counts() {
        let table = "  sl  local_address rem_address   st\n\
                     0: 0100007F:1F90 00000000:0000 0A 0\n\
                     1: 0100007F:1F91 0100007F:1F90 01 0\n";
        assert!(listening(table, 0x1F90));
        assert!(!listening(table, 0x1F91));
        assert!(!listening(table, 0x1F92));
    }
}
