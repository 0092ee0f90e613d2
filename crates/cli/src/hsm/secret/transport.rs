//! Sends requests to the agents of tokens. Commands know only the [`Transport`], so that another transport can replace `pods/exec`.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde::Deserialize;
use trustplane_api::hsm::record::Record;
use trustplane_api::hsm::secrets_tool::{self, ErrorKind, SUBCOMMAND, ToolError};
use trustplane_hsm_core::encoded::Encoded;
use trustplane_plan::ObjectRef;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_process::secret::Secret;

use super::tokens::Token;
use crate::cluster::Cluster;
use crate::exec::{self, ExecOutput, Program};
use crate::hsm::agent::PROGRAM;

/// How long one request may take, the wait for a slow token included.
const ANSWER: Duration = Duration::from_secs(300);

/// A request to the agent of a token.
pub type Request = secrets_tool::Request<Encoded>;
/// The answer of the agent.
pub type Answer = secrets_tool::Answer<Encoded>;

/// Asks the agent of a token.
pub trait Transport {
    /// Sends a request and waits for the answer. An answer that is an error becomes an error here.
    async fn ask(&self, token: &Token, request: &Request) -> Result<Answer, ToolError>;
}

/// Runs the tool of the agent in the agent's own pod, with the rights of the user.
pub struct ExecTransport {
    cluster: Cluster,
    namespace: String,
}

impl ExecTransport {
    /// A transport to the agents of a namespace.
    pub fn new(cluster: Cluster, namespace: String) -> Self {
        Self { cluster, namespace }
    }

    async fn run(&self, token: &Token, request: &Request) -> Result<Answer, ToolError> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.namespace);
        let line = line(request)?;
        let program = Program {
            pod: &token.agent.pod,
            container: None,
            command: command(token),
        };
        let started = exec::start(&pods, program, true).await;
        let process = started.map_err(|error| ToolError::new(ErrorKind::Unavailable, not_started(&error)))?;
        let finished = exec::finish(process, &token.agent.pod, Some(line.expose()));
        let lost = |why: String| ToolError::new(lost_kind(request), why);
        match tokio::time::timeout(ANSWER, finished).await {
            Err(_) => Err(lost(format!("no answer within {} s", ANSWER.as_secs()))),
            Ok(Err(error)) => Err(lost(format!("{error:#}"))),
            Ok(Ok(said)) => parse(&token.agent.pod, request, said),
        }
    }

    /// Adds to an error what the agent record says, and which pool to look at.
    async fn explained(&self, token: &Token, mut error: ToolError) -> ToolError {
        if error.phase.is_none() {
            let object = ObjectRef::new(Some(&self.namespace), &token.agent.name);
            let record = self.cluster.find::<Content>(&CONFIG_MAP, &object).await;
            let record = record.ok().flatten();
            let record = record.and_then(|content| Record::read(&content.data).ok());
            if let Some(state) = record.and_then(|record| record.state) {
                let phase = format!("{:?}", state.phase);
                error.message = format!("{}; its record says: {phase}: {}", error.message, state.message);
                error.phase = Some(phase);
            }
        }
        let pool = format!("{}-pool", token.device());
        error.message = format!(
            "{}; look at `kubectl describe hsmpool --namespace {} {pool}`",
            error.message, self.namespace
        );
        error
    }
}

/// The ConfigMap of an agent record.
#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    data: std::collections::BTreeMap<String, String>,
}

impl Transport for ExecTransport {
    async fn ask(&self, token: &Token, request: &Request) -> Result<Answer, ToolError> {
        match self.run(token, request).await {
            Ok(Answer::Error(error)) | Err(error) if error.kind == ErrorKind::Unavailable => {
                Err(self.explained(token, error).await)
            }
            Ok(Answer::Error(error)) | Err(error) => Err(error),
            answer => answer,
        }
    }
}

/// The tool and its arguments. They reach the audit log of the API server, so no value is among them.
fn command(token: &Token) -> Vec<String> {
    let mut command = vec![PROGRAM.to_owned(), SUBCOMMAND.to_owned()];
    let folder = token.agent.flag("runtime-dir");
    command.extend(folder.map(|folder| format!("--runtime-dir={folder}")));
    command
}

fn line(request: &Request) -> Result<Secret<Vec<u8>>, ToolError> {
    let mut line = serde_json::to_vec(request)
        .map_err(|_| ToolError::new(ErrorKind::Invalid, "the request cannot be written as JSON"))?;
    line.push(b'\n');
    Ok(Secret::new(line))
}

/// What a broken connection means for a request.
fn lost_kind(request: &Request) -> ErrorKind {
    match request {
        Request::List {} | Request::Read { .. } => ErrorKind::Unavailable,
        Request::Write { .. } | Request::Delete { .. } => ErrorKind::EffectUnknown,
    }
}

fn not_started(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    match text.contains("403") {
        true => format!("{text}: you need the right to create pods/exec"),
        false => text,
    }
}

/// Reads an answer. The answer may hold values, so no error quotes it.
fn parse(pod: &str, request: &Request, said: ExecOutput) -> Result<Answer, ToolError> {
    let out = Secret::new(said.out);
    if let Ok(answer) = serde_json::from_slice(out.expose()) {
        return Ok(answer);
    }
    let err = String::from_utf8_lossy(&said.err);
    let err = err.trim();
    let unsupported = |what: String| Err(ToolError::new(ErrorKind::Unsupported, what));
    match () {
        () if err.contains("unrecognized subcommand") => unsupported(format!(
            "the agent in pod {pod} is older than this plugin: it has no `{SUBCOMMAND}`. Upgrade Trustplane, so that the pod gets the \
             agent's newer image"
        )),
        () if ["no such file", "not found"]
            .iter()
            .any(|text| said.reason.contains(text)) =>
        {
            unsupported(format!(
                "pod {pod} has no {PROGRAM}: it is no agent of Trustplane"
            ))
        }
        () if said.is_success => Err(ToolError::new(
            lost_kind(request),
            format!("the answer of pod {pod} is not understood: plugin and agent are of different versions"),
        )),
        () => {
            let why = [err, said.reason.as_str()]
                .into_iter()
                .find(|text| !text.is_empty());
            let why = why.unwrap_or("it says nothing");
            Err(ToolError::new(
                lost_kind(request),
                format!("the tool in pod {pod} failed: {why}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests;
