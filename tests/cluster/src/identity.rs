//! Which process: a pid alone is not enough, as pids are given out again.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use serde::{Deserialize, Serialize};

/// How long a process may take to end after SIGKILL before it counts as stuck in the kernel.
const KILL_LIMIT: Duration = Duration::from_secs(15);

/// One process, never mistaken for a later one with the same pid, also across a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    pid: i32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks between boot and start.
    started: u64,
    boot: String,
}

impl Identity {
    /// The process that has this pid now, if one has.
    pub fn of(pid: i32) -> Result<Option<Self>> {
        let Some(stat) = Stat::read(pid)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            pid,
            started: stat.started,
            boot: boot_id()?,
        }))
    }

    /// The process that asks.
    pub fn own() -> Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self::of(pid)?.context("find the own process in /proc")
    }

    /// Its pid, for people and for paths below `/proc`.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether exactly this process still runs; one that has ended and waits to be reaped does not.
    pub fn alive(&self) -> Result<bool> {
        Ok(match Stat::read(self.pid)? {
            Some(stat) => stat.started == self.started && !stat.ended && boot_id()? == self.boot,
            None => false,
        })
    }

    /// Sends a signal to exactly this process; false when it has ended before.
    pub fn signal(&self, signal: Signal) -> Result<bool> {
        match self.handle()? {
            Some(handle) => send(&handle, signal),
            None => Ok(false),
        }
    }

    /// Ends exactly this process: SIGTERM, then SIGKILL after `grace`. Returns when it has really ended, which
    /// also means that its sockets are closed and its ports are free.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        let Some(handle) = self.handle()? else {
            return Ok(());
        };
        let ended = !send(&handle, Signal::TERM)? || ends_within(&handle, grace)?;
        if !ended && send(&handle, Signal::KILL)? && !ends_within(&handle, KILL_LIMIT)? {
            bail!("process {} has not ended {KILL_LIMIT:?} after SIGKILL", self.pid);
        }
        reap(&handle);
        Ok(())
    }

    /// A handle that cannot slip to another process. The identity is compared after the handle was taken: from
    /// then on the kernel does not give the pid away unnoticed.
    fn handle(&self) -> Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return Ok(None);
        };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("open process {}", self.pid)),
        };
        let same = Stat::read(self.pid)?.is_some_and(|stat| stat.started == self.started);
        Ok((same && boot_id()? == self.boot).then_some(handle))
    }
}

fn send(handle: &OwnedFd, signal: Signal) -> Result<bool> {
    match pidfd_send_signal(handle, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error).context("signal a process"),
    }
}

fn ends_within(handle: &OwnedFd, limit: Duration) -> Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).context("wait for a process to end")?;
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error).context("wait for a process to end"),
        }
    }
}

/// Collects the exit status when the process is our own child; for anyone else's there is nothing to collect.
fn reap(handle: &OwnedFd) {
    use std::os::fd::AsFd;
    let _ = waitid(
        WaitId::PidFd(handle.as_fd()),
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
    );
}

struct Stat {
    started: u64,
    ended: bool,
}

impl Stat {
    fn read(pid: i32) -> Result<Option<Self>> {
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(text) => Self::parse(&text)
                .with_context(|| format!("understand /proc/{pid}/stat"))
                .map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            // The process ended between open and read.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read /proc/{pid}/stat")),
        }
    }

    /// The command name stands in brackets and may itself hold brackets and spaces.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X" | "x");
        let started = fields.nth(18)?.parse().ok()?;
        Some(Self { started, ended })
    }
}

fn boot_id() -> Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("read the boot id")?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> (Child, Identity) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let identity = Identity::of(child.id().cast_signed()).unwrap().unwrap();
        (child, identity)
    }

    #[test]
    fn a_reused_pid_is_not_taken_for_the_process_that_had_it_before() {
        let (mut child, now) = sleeper();
        let earlier = Identity {
            started: now.started - 1,
            ..now.clone()
        };
        let other_boot = Identity {
            boot: "00000000-0000-0000-0000-000000000000".into(),
            ..now.clone()
        };
        for stranger in [earlier, other_boot] {
            assert!(!stranger.alive().unwrap());
            stranger.stop(Duration::ZERO).unwrap();
            assert!(!stranger.signal(Signal::KILL).unwrap());
        }
        assert!(
            child.try_wait().unwrap().is_none(),
            "an innocent process was ended"
        );
        now.stop(Duration::from_secs(10)).unwrap();
        assert!(!now.alive().unwrap());
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo deaf; exec sleep 600"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let identity = Identity::of(child.id().cast_signed()).unwrap().unwrap();
        identity.stop(Duration::from_millis(50)).unwrap();
        assert!(!identity.alive().unwrap());
        assert!(child.wait().is_err(), "stop collects the exit status of a child");
    }

    #[test]
    fn an_ended_process_is_no_longer_alive_and_can_be_stopped_again() {
        let (mut child, identity) = sleeper();
        child.kill().unwrap();
        identity.stop(Duration::from_secs(10)).unwrap();
        identity.stop(Duration::from_secs(10)).unwrap();
        assert!(!identity.alive().unwrap());
    }

    #[test]
    fn a_command_name_with_brackets_does_not_confuse_the_start_time() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        let stat = Stat::parse(&format!("42 (a) b ) {tail}")).unwrap();
        assert_eq!((stat.started, stat.ended), (4711, false));
    }
}
