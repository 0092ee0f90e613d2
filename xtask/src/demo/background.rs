//! A command of the story that runs on while the story does.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use trustplane_cluster::interrupt;

/// How often a wait for a line looks whether it was interrupted.
const POLL: Duration = Duration::from_millis(100);

/// A command whose lines are heard, and which ends with the value.
#[derive(Debug)]
pub struct Background {
    child: Child,
    lines: Receiver<Line>,
}

#[derive(Debug)]
enum Line {
    Out(String),
    Err(String),
}

impl Background {
    /// Starts a shell line that is one command. It also ends if this process dies without a word.
    pub fn start(line: &str, dress: impl FnOnce(&mut Command)) -> Result<Self> {
        // With `exec` the command has the process id of the shell, which is the id that is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "sh", "-c", &format!("exec {line}")]);
        dress(&mut command);
        Self::spawn(&mut command)
    }

    /// Starts a command.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", command.get_program().to_string_lossy()))?;
        let (sender, lines) = mpsc::channel();
        let out = child.stdout.take().context("read what a command says")?;
        let err = child.stderr.take().context("read what a command says")?;
        listen(out, sender.clone(), Line::Out);
        listen(err, sender, Line::Err);
        Ok(Self { child, lines })
    }

    /// Hands each line of its standard output to `take`, until that gives something. Fails with its last words if the command ends
    /// before, or if it takes longer than `limit`.
    pub fn hear<T>(&mut self, limit: Duration, mut take: impl FnMut(&str) -> Result<Option<T>>) -> Result<T> {
        let started = Instant::now();
        let mut complaints = Vec::new();
        loop {
            interrupt::check()?;
            match self.lines.recv_timeout(POLL) {
                Ok(Line::Out(line)) => {
                    if let Some(found) = take(&line)? {
                        return Ok(found);
                    }
                }
                Ok(Line::Err(line)) => complaints.push(line),
                Err(RecvTimeoutError::Timeout) if started.elapsed() < limit => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!(
                        "no answer within {} s\n{}",
                        limit.as_secs(),
                        complaints.join("\n")
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait().context("wait for a command")?;
                    bail!("{status}\n{}", complaints.join("\n"));
                }
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A command that has ended already cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes lines on until there are no more, also after the receiver is gone: a full pipe would stop the command.
fn listen(source: impl Read + Send + 'static, sink: Sender<Line>, wrap: fn(String) -> Line) {
    thread::spawn(move || {
        for line in BufReader::new(source).lines() {
            let Ok(line) = line else { return };
            let _ = sink.send(wrap(line));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn link(line: &str) -> Result<Option<String>> {
        Ok(line.starts_with("http").then(|| line.to_owned()))
    }

    #[test]
    fn command_runs_on_after_the_line_and_ends_with_the_value() {
        let script = r#"sh -c 'echo wait; echo http://here; exec sleep 600'"#;
        let mut background = Background::start(script, |_| {}).unwrap();
        assert_eq!(background.hear(LIMIT, link).unwrap(), "http://here");
        let id = background.child.id();
        assert!(std::path::Path::new(&format!("/proc/{id}")).exists());
        drop(background);
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn command_that_ends_early_is_told_of_with_its_last_words() {
        let script = "sh -c 'echo no hub runs >&2; exit 3'";
        let mut background = Background::start(script, |_| {}).unwrap();
        let told = background.hear(LIMIT, link).unwrap_err().to_string();
        assert!(
            told.contains("exit status: 3") && told.contains("no hub runs"),
            "{told}"
        );
    }
}
