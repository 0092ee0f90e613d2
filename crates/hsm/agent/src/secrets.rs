//! `trustplane-agent secrets`: reads and changes the secrets of the token that the agent of this pod serves, for
//! `kubectl trustplane hsm`.
//!
//! The tool reads one [`Request`] on standard input and writes one [`Answer`] to standard output, each a JSON document on one
//! line. It asks the agent over the agent's local socket: it opens no token, and it handles no PIN.

mod agent;
pub(crate) mod connection;
mod failure;
mod write;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use trustplane_api::hsm::secrets_tool::{Answer, ErrorKind, Request};
use trustplane_hsm_core::encoded::Encoded;
use trustplane_hsm_core::limits::check_secret;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::Data;
use zeroize::Zeroizing;

use crate::hold::usual_folder;
use agent::Agent;
use failure::Failure;
use write::Wanted;

/// The longest request. The largest secret fits, in base64 and with its keys.
const LONGEST_REQUEST: u64 = 4 * 1024 * 1024;

/// Read and change the secrets of the token that the agent of this pod serves. `kubectl trustplane hsm` runs it; people run that.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It reads one request on standard input and answers it on standard output, each a JSON document on one line. It asks \
                  the agent, which has to serve the token; it opens no token and needs no PIN. The exit code is 1 if the answer is an \
                  error.\n\nExample:\n  echo '{\"list\": {}}' | trustplane-agent secrets"
)]
pub struct SecretsArgs {
    /// Where the agent's socket is, as the agent has it; without this, the directory for temporary files
    #[arg(long, value_name = "DIRECTORY")]
    pub runtime_dir: Option<PathBuf>,
}

/// Why the tool ends without an answer.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The request cannot be read.
    #[error("read the request: {0}")]
    Request(#[source] io::Error),
    /// The process cannot be set up.
    #[error("start the tool: {0}")]
    Runtime(#[source] io::Error),
    /// The answer cannot be written.
    #[error("write the answer: {0}")]
    Answer(#[source] io::Error),
}

/// Answers the request on `input`. The exit code says whether the answer is an error.
pub fn run(
    args: &SecretsArgs,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<ExitCode, SecretsError> {
    let mut line = Zeroizing::new(Vec::new());
    input
        .take(LONGEST_REQUEST)
        .read_until(b'\n', &mut line)
        .map_err(SecretsError::Request)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(SecretsError::Runtime)?;
    let folder = args.runtime_dir.clone().unwrap_or_else(usual_folder);
    let answer = runtime.block_on(answer(&folder, &line));
    let code = match &answer {
        Answer::Error(_) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    };
    tell(&answer, out).map_err(SecretsError::Answer)?;
    Ok(code)
}

fn tell(answer: &Answer<Encoded>, out: &mut impl Write) -> io::Result<()> {
    let mut text = Zeroizing::new(Vec::new());
    serde_json::to_writer(&mut *text, answer)?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()
}

async fn answer(folder: &Path, line: &[u8]) -> Answer<Encoded> {
    let answered = async {
        let request = parse(line)?;
        let mut agent = Agent::new(connection::connect_to_only(folder).await?);
        let done = carry_out(&mut agent, request).await;
        match done {
            Err(failure) if failure.is_about_the_agent() => Err(explained(failure, &mut agent).await),
            done => done,
        }
    };
    answered
        .await
        .unwrap_or_else(|failure: Failure| Answer::Error(failure.error))
}

/// A request whose names were checked.
#[derive(Debug)]
enum Checked {
    List,
    Read(SecretPath, bool),
    Write(SecretPath, Wanted),
    Delete(SecretPath, Option<KeyName>),
}

/// Reads a request. The parser's error text is dropped: it quotes the request, which holds values.
fn parse(line: &[u8]) -> Result<Checked, Failure> {
    if line.len() as u64 >= LONGEST_REQUEST {
        return Err(invalid(format!(
            "the request has {LONGEST_REQUEST} bytes or more"
        )));
    }
    let request: Request<Encoded> = serde_json::from_slice(line).map_err(|_| {
        Failure::new(
            ErrorKind::Unsupported,
            "the agent does not understand the request: plugin and agent are of different versions",
        )
    })?;
    Ok(match request {
        Request::List {} => Checked::List,
        Request::Read { path, values } => Checked::Read(checked_path(&path)?, values),
        Request::Write {
            path,
            mode,
            data,
            description,
        } => {
            let data = checked_data(data)?;
            let wanted = Wanted {
                mode,
                data,
                description,
            };
            Checked::Write(checked_path(&path)?, wanted)
        }
        Request::Delete { path, key } => {
            let key = key.map(|key| KeyName::parse(&key)).transpose();
            Checked::Delete(checked_path(&path)?, key.map_err(invalid)?)
        }
    })
}

fn invalid(error: impl ToString) -> Failure {
    Failure::new(ErrorKind::Invalid, error.to_string())
}

fn checked_path(path: &str) -> Result<SecretPath, Failure> {
    SecretPath::parse(path).map_err(invalid)
}

fn checked_data(data: BTreeMap<String, Encoded>) -> Result<Data, Failure> {
    let pairs = data
        .into_iter()
        .map(|(key, Encoded(value))| Ok((KeyName::parse(&key).map_err(invalid)?, value)));
    let data = pairs.collect::<Result<Data, Failure>>()?;
    check_secret(&data).map_err(invalid)?;
    Ok(data)
}

async fn carry_out(agent: &mut Agent, request: Checked) -> Result<Answer<Encoded>, Failure> {
    match request {
        Checked::List => {
            let secrets = agent.list().await?;
            Ok(Answer::List { secrets })
        }
        Checked::Read(path, values) => agent.secret(&path, values).await.map(Answer::Secret),
        Checked::Write(path, wanted) => write::write(agent, &path, &wanted).await,
        Checked::Delete(path, key) => agent.delete(&path, key.as_ref()).await,
    }
}

/// Adds to a failure how the agent says that it is doing.
async fn explained(mut failure: Failure, agent: &mut Agent) -> Failure {
    if let Some((phase, message)) = agent.condition().await {
        let error = &mut failure.error;
        if !error.message.contains(&message) {
            error.message = format!("{}; the agent says: {phase}: {message}", error.message);
        }
        error.phase = Some(phase);
    }
    failure
}

#[cfg(test)]
mod tests;
