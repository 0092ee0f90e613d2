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

    /// Whether the process that has this pid now has no program: it is between two, or it is about to end and still in
    /// its namespaces. Neither its arguments nor its environment can be read then, whatever they were.
    pub(crate) fn in_transit(pid: i32) -> Result<bool> {
        // Gone since, which the other look finds too.
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        Ok(arguments.is_empty() && Stat::read(pid)?.is_some_and(|stat| !stat.ended && !stat.kernel))
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

/// What `/proc/<pid>/stat` tells, by the numbers of its fields in proc(5).
struct Stat {
    started: u64,
    ended: bool,
    /// A thread of the kernel, which never runs a program.
    kernel: bool,
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
        const OF_THE_KERNEL: u64 = 0x0020_0000;
        let fields: Vec<&str> = text
            .get(text.rfind(')')? + 1..)?
            .split_ascii_whitespace()
            .collect();
        // The third field is the first behind the name.
        let field = |number: usize| fields.get(number - 3).copied();
        let flags: u64 = field(9)?.parse().ok()?;
        Some(Self {
            started: field(22)?.parse().ok()?,
            ended: matches!(field(3)?, "Z" | "X" | "x"),
            kernel: flags & OF_THE_KERNEL != 0,
        })
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
        let tail = "S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 4711 23";
        let stat = Stat::parse(&format!("42 (a) b ) {tail}")).unwrap();
        assert_eq!((stat.started, stat.ended), (4711, false));
    }

    #[test]
    fn a_thread_of_the_kernel_is_told_from_a_process_that_has_lost_its_program() {
        let kernel = |flags: u64| {
            let line = format!("2 (kthreadd) S 0 0 0 0 -1 {flags} 10 11 12 13 14 15 16 17 18 19 20 21 22");
            Stat::parse(&line).unwrap().kernel
        };
        assert!(kernel(0x0020_8040) && !kernel(0x0040_0100));
        // One with an empty environment has a program all the same.
        let mut bare = Command::new("sleep").arg("600").env_clear().spawn().unwrap();
        let pid = bare.id().cast_signed();
        crate::wait::until("the program", Duration::from_secs(10), || {
            Ok((!Identity::in_transit(pid)?).then_some(()))
        })
        .unwrap();
        bare.kill().unwrap();
        bare.wait().unwrap();
    }
}
