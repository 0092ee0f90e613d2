//! Short commands of the machine (`ip`, `nsenter`, `ctr`, `kubectl`): their answer, or why there is none.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::wait;

/// Splits a line into a command, for commands whose words hold no spaces.
pub(super) fn words(line: &str) -> Command {
    let mut words = line.split_ascii_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Runs a command to its end and gives what it printed. It is killed when `limit` has passed or an end was asked for.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<String> {
    run_with_input(command, Stdio::null(), limit)
}

/// The same with something to read.
pub(super) fn run_with_input(
    command: &mut Command,
    input: impl Into<Stdio>,
    limit: Duration,
) -> Result<String> {
    attempt(command, input.into(), limit).with_context(|| format!("run {}", line(command)))
}

/// Files instead of pipes: a process that the command leaves behind cannot keep us waiting for the end of its output.
fn attempt(command: &mut Command, input: Stdio, limit: Duration) -> Result<String> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = command
        .stdin(input)
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()?;
    let status = match ended(&mut child, limit) {
        Ok(status) => status,
        Err(error) => {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    };
    if !status.success() {
        bail!("{status}: {}", content(&mut stderr)?.trim());
    }
    content(&mut stdout)
}

fn ended(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    wait::until("its end", limit, || Ok(child.try_wait()?))
}

fn content(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn the_answer_is_the_output_and_a_failure_tells_the_last_words() {
        assert_eq!(run(&mut words("echo one two"), LIMIT).unwrap(), "one two\n");
        let error = format!("{:#}", run(&mut words("ls /absent"), LIMIT).unwrap_err());
        assert!(error.starts_with("run ls /absent: exit status: 2"), "{error}");
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn neither_a_slow_command_nor_what_it_leaves_behind_is_waited_for() {
        let started = Instant::now();
        assert!(run(&mut words("sleep 600"), Duration::from_millis(100)).is_err());
        let mut leaving = Command::new("sh");
        leaving.args(["-c", "sleep 5 & echo $!"]);
        run(&mut leaving, LIMIT).unwrap();
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
