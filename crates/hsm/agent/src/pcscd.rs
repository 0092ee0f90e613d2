//! The daemon between readers and modules, where the module needs it: started, watched, started again, ended.

mod bus;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use trustplane_process::backoff::Backoff;
use trustplane_process::supervise::Supervisor;

use crate::health::{Health, Phase};
use crate::host::Program;
use crate::host::output::drain;
use bus::Bus;

/// Where Debian's pcscd listens.
const SOCKET: &str = "/run/pcscd/pcscd.comm";
/// How often to look whether it listens.
const LOOK: Duration = Duration::from_millis(20);

/// Why it does not run. It is started again.
#[derive(Debug, thiserror::Error)]
enum PcscdError {
    #[error("start {}: {source}", .path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("remove the socket {} that is left over: {source}", .socket.display())]
    Socket { socket: PathBuf, source: io::Error },
    #[error("it does not listen on {} after {patience:?}", .socket.display())]
    Deaf { socket: PathBuf, patience: Duration },
    #[error("it has ended: {0}")]
    Ended(String),
}

/// Why it was ended.
enum End {
    /// All of us end.
    Stop,
    /// It cannot see what was plugged in since.
    Outdated,
    /// Whoever asks it gets no answer.
    Wedged,
}

/// What the token's health says of pcscd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signs {
    /// The token is missed.
    pub missed: bool,
    /// How often two children in a row have hung.
    pub wedges: u64,
}

/// How pcscd is run.
#[derive(Debug, Clone)]
pub struct Pcscd {
    /// The program; it stays in the foreground.
    pub program: Program,
    /// Where it listens.
    pub socket: PathBuf,
    /// How long it may take to listen.
    pub patience: Duration,
    /// How long it may take to end when it is told to.
    pub grace: Duration,
    /// How long to wait before it is started again.
    pub backoff: Backoff,
    /// Where the kernel lists what is on the USB bus.
    pub bus: PathBuf,
    /// How often to look there while the token is missed.
    pub look: Duration,
}

impl Pcscd {
    /// pcscd as Debian has it.
    pub fn at(path: &Path) -> Self {
        Self {
            program: Program {
                path: path.to_owned(),
                arguments: vec!["--foreground".into()],
                ..Program::default()
            },
            socket: PathBuf::from(SOCKET),
            patience: Duration::from_secs(5),
            grace: Duration::from_secs(5),
            backoff: Backoff {
                first: Duration::from_millis(200),
                max: Duration::from_secs(10),
            },
            bus: PathBuf::from(bus::DEVICES),
            look: Duration::from_millis(500),
        }
    }

    /// Has it run as long as the module may need it, which is until that is given back, and says whether it does.
    pub fn attend(
        self,
        supervisor: &Supervisor,
        signs: watch::Receiver<Signs>,
        given_back: CancellationToken,
    ) -> watch::Receiver<bool> {
        let (runs, seen) = watch::channel(false);
        supervisor.spawn_attendant("pcscd", |_| self.run(signs, runs, given_back));
        seen
    }

    /// Has it run until the end, and says whether it does. While the token is missed it is started again whenever something was
    /// plugged in or out, and when one child after the other has hung.
    pub async fn run(
        self,
        signs: watch::Receiver<Signs>,
        runs: watch::Sender<bool>,
        stop: CancellationToken,
    ) {
        let mut failures = 0;
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let outcome = self.once(&signs, &runs, &stop).await;
            runs.send_replace(false);
            let error = match outcome {
                Ok(End::Stop) => return,
                Ok(End::Outdated) => {
                    tracing::info!("the USB bus has changed, so pcscd is started again to see its readers");
                    continue;
                }
                Ok(End::Wedged) => {
                    tracing::error!("one child after the other has hung, so pcscd is started again");
                    continue;
                }
                Err(error) => error,
            };
            // What has run for long is not what fails to start.
            if begun.elapsed() > self.backoff.max {
                failures = 0;
            }
            let pause = self.backoff.jittered(failures);
            tracing::error!(%error, ?pause, "pcscd does not run; it is started again");
            failures = failures.saturating_add(1);
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Runs it once. Comes back without an error only if we have ended it.
    async fn once(
        &self,
        signs: &watch::Receiver<Signs>,
        runs: &watch::Sender<bool>,
        stop: &CancellationToken,
    ) -> Result<End, PcscdError> {
        match tokio::fs::remove_file(&self.socket).await {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                let socket = self.socket.clone();
                return Err(PcscdError::Socket { socket, source });
            }
            _ => {}
        }
        let (seen, wedges) = (Bus::look(&self.bus), signs.borrow().wedges);
        let mut child = self.start()?;
        let outcome = tokio::select! {
            error = self.serve(&mut child, runs) => Err(error),
            () = self.outdated(&seen, signs.clone()) => Ok(End::Outdated),
            () = wedged(wedges, signs.clone()) => Ok(End::Wedged),
            () = stop.cancelled() => Ok(End::Stop),
        };
        self.end(child).await;
        outcome
    }

    fn start(&self) -> Result<Child, PcscdError> {
        let program = &self.program;
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .envs(program.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|source| PcscdError::Start {
            path: program.path.clone(),
            source,
        })?;
        tokio::spawn(drain("pcscd", child.stdout.take(), program.output));
        tokio::spawn(drain("pcscd", child.stderr.take(), program.output));
        Ok(child)
    }

    /// Says why it serves no more.
    async fn serve(&self, child: &mut Child, runs: &watch::Sender<bool>) -> PcscdError {
        tokio::select! {
            ended = child.wait() => return told(ended),
            listening = timeout(self.patience, self.listening()) => {
                if listening.is_err() {
                    let (socket, patience) = (self.socket.clone(), self.patience);
                    return PcscdError::Deaf { socket, patience };
                }
            }
        }
        tracing::info!(socket = %self.socket.display(), "pcscd runs");
        runs.send_replace(true);
        told(child.wait().await)
    }

    /// Waits until the token is missed and the bus is not what was seen.
    async fn outdated(&self, seen: &Bus, mut signs: watch::Receiver<Signs>) {
        loop {
            if signs.wait_for(|signs| signs.missed).await.is_err() {
                // Nobody misses anything any more.
                return std::future::pending().await;
            }
            sleep(self.look).await;
            if signs.borrow().missed && Bus::look(&self.bus) != *seen {
                return;
            }
        }
    }

    async fn listening(&self) {
        while UnixStream::connect(&self.socket).await.is_err() {
            sleep(LOOK).await;
        }
    }

    /// Asks it to end, and has it end if it does not.
    async fn end(&self, mut child: Child) {
        let id = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(id) = id {
            // It may have ended just now.
            let _ = kill_process(id, Signal::TERM);
            if timeout(self.grace, child.wait()).await.is_err() {
                tracing::warn!("pcscd does not end by itself, so it is killed");
                drop(child.kill().await);
            }
        }
    }
}

/// Waits until there were more wedges than so many.
async fn wedged(before: u64, mut signs: watch::Receiver<Signs>) {
    if signs.wait_for(|signs| signs.wedges > before).await.is_err() {
        // Nobody hangs on it any more.
        std::future::pending::<()>().await;
    }
}

/// Reads the signs, as long as anybody knows.
pub async fn read_signs(mut health: watch::Receiver<Health>, signs: watch::Sender<Signs>) {
    loop {
        let now = {
            let health = health.borrow_and_update();
            Signs {
                missed: matches!(health.phase, Phase::Opening | Phase::Unavailable),
                wedges: health.wedges,
            }
        };
        signs.send_replace(now);
        if health.changed().await.is_err() {
            return;
        }
    }
}

fn told(ended: io::Result<std::process::ExitStatus>) -> PcscdError {
    PcscdError::Ended(match ended {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Longer than anybody looks once.
    const LONG: Duration = Duration::from_secs(3600);

    /// Whether pcscd would be started again, if the bus has changed and the token is missed.
    async fn is_outdated(changed: bool, missed: bool) -> bool {
        let bus = tempfile::tempdir().unwrap();
        let pcscd = Pcscd {
            bus: bus.path().to_owned(),
            ..Pcscd::at(Path::new("/nowhere"))
        };
        let seen = Bus::look(bus.path());
        if changed {
            fs::create_dir(bus.path().join("1-1")).unwrap();
        }
        let (_signs, signs) = watch::channel(Signs { missed, wedges: 0 });
        timeout(LONG, pcscd.outdated(&seen, signs)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_outdated_only_if_the_token_is_missed_and_the_bus_has_changed() {
        for (changed, missed) in [(false, false), (false, true), (true, false), (true, true)] {
            let wanted = changed && missed;
            assert_eq!(is_outdated(changed, missed).await, wanted, "{changed} {missed}");
        }
    }

    #[tokio::test]
    async fn a_token_is_missed_until_it_answers_whatever_it_says() {
        let (health, seen) = watch::channel(Health::default());
        let (signs, mut read) = watch::channel(Signs::default());
        let task = tokio::spawn(read_signs(seen, signs));
        let locked = Phase::PinRefused(crate::PinProblem::Locked);
        for (phase, wanted) in [
            (Phase::Opening, true),
            (Phase::Serving, false),
            (Phase::Unavailable, true),
            (locked, false),
        ] {
            health.send_modify(|health| health.phase = phase);
            read.wait_for(|signs| signs.missed == wanted).await.unwrap();
        }
        health.send_modify(|health| health.wedges = 3);
        read.wait_for(|signs| signs.wedges == 3).await.unwrap();
        drop(health);
        task.await.unwrap();
    }
}
