//! Running a command to its end: its output read line by line, ended with us, its last words kept for the error.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt;
use crate::wait;

const LAST_WORDS: usize = 30;
const POLL: Duration = Duration::from_millis(100);

/// Runs a command and hands each line of its standard error to `on_line`. An interruption ends the command and all
/// that it started.
pub fn stream(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<()> {
    interrupt::check()?;
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {program}"))?;
    let stderr = child.stderr.take().context("read the output of a command")?;
    let (sender, lines) = mpsc::sync_channel(256);
    let reader = std::thread::spawn(move || read_lines(stderr, &sender));
    let mut last_words = VecDeque::new();
    let followed = follow(&lines, |line| {
        if last_words.len() == LAST_WORDS {
            last_words.pop_front();
        }
        last_words.push_back(line.to_owned());
        on_line(line);
    });
    if let Err(interrupted) = followed {
        drop(lines);
        end_group(&mut child)?;
        return Err(interrupted);
    }
    let status = child.wait().with_context(|| format!("wait for {program}"))?;
    let _ = reader.join();
    if !status.success() {
        let words: Vec<String> = last_words.into();
        bail!("{program} failed ({status}):\n{}", words.join("\n"));
    }
    Ok(())
}

/// Runs a command that says nothing while it goes well.
pub fn quiet(command: &mut Command) -> Result<()> {
    stream(command, |_| {})
}

fn follow(lines: &Receiver<String>, mut on_line: impl FnMut(&str)) -> Result<()> {
    loop {
        interrupt::check()?;
        match lines.recv_timeout(POLL) {
            Ok(line) => on_line(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Progress displays end their lines with a carriage return, so both count.
fn read_lines(mut source: impl Read, sink: &SyncSender<String>) {
    let mut pending = Vec::new();
    let mut buffer = [0; 4096];
    let emit = |line: &mut Vec<u8>| -> bool {
        let text = String::from_utf8_lossy(line).trim().to_owned();
        line.clear();
        text.is_empty() || sink.send(text).is_ok()
    };
    while let Ok(length @ 1..) = source.read(&mut buffer) {
        for byte in &buffer[..length] {
            match byte {
                b'\n' | b'\r' => {
                    if !emit(&mut pending) {
                        return;
                    }
                }
                other => pending.push(*other),
            }
        }
    }
    emit(&mut pending);
}

fn end_group(child: &mut Child) -> Result<()> {
    let Some(group) = Pid::from_raw(child.id().cast_signed()) else {
        return Ok(());
    };
    // The child is not reaped before the group is signalled, so the group's number cannot be anyone else's.
    let _ = kill_process_group(group, Signal::TERM);
    if !wait::patiently(Duration::from_secs(5), || Ok(child.try_wait()?.is_some()))? {
        let _ = kill_process_group(group, Signal::KILL);
        child.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_newlines_and_carriage_returns() {
        let mut seen = Vec::new();
        let script = r"printf 'one\rtwo\n\nthree' >&2";
        stream(Command::new("sh").args(["-c", script]), |line| {
            seen.push(line.to_owned());
        })
        .unwrap();
        assert_eq!(seen, ["one", "two", "three"]);
    }

    #[test]
    fn a_failure_tells_the_last_words() {
        let script = "seq 100 >&2; exit 3";
        let error = quiet(Command::new("sh").args(["-c", script]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.ends_with("99\n100"),
            "{error}"
        );
        assert!(!error.contains("\n70\n"), "{error}");
    }
}
