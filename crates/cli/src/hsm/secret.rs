//! `kubectl trustplane hsm create|update|get|list|delete`: a person reads and edits secrets on the tokens.
//!
//! A command asks each chosen token what it has, decides which tokens to change ([`plan`]), and then changes them one after
//! another. Only [`transport`] knows how a token is asked.

mod change;
mod plan;
mod progress;
mod read;
mod sources;
mod tokens;
mod transport;

use anyhow::{Context, Result};
use futures::future::join_all;
use trustplane_api::hsm::secrets_tool::ErrorKind;
use trustplane_hsm_core::path::{KeyName, SecretPath};

use crate::cluster::ClusterArgs;
use plan::{CopyState, TokenView};
use tokens::{Token, TokenArgs};
use transport::{Answer, ExecTransport, Request, Transport};

pub use change::{CreateArgs, DeleteArgs, UpdateArgs, create, delete, update};
pub use read::{GetArgs, ListArgs, get, list};

/// The error of an answer of another kind than the request asks for.
const MISUNDERSTOOD: &str = "its answer is of another kind: plugin and agent are of different versions";

/// The chosen tokens, and the transport to their agents.
struct Tokens<T> {
    tokens: Vec<Token>,
    transport: T,
}

impl Tokens<ExecTransport> {
    /// Finds the tokens that the arguments choose.
    async fn find(cluster: &ClusterArgs, args: &TokenArgs) -> Result<Self> {
        let cluster = cluster.connect().await?;
        let namespace = cluster.namespace.clone().unwrap_or_else(|| cluster.home.clone());
        let tokens = tokens::find(&cluster, &namespace, args).await?;
        Ok(Self {
            tokens,
            transport: ExecTransport::new(cluster, namespace),
        })
    }
}

impl<T: Transport> Tokens<T> {
    /// Asks all tokens at once what they have of a secret.
    async fn views(&self, path: &SecretPath, values: bool) -> Vec<TokenView> {
        let request = Request::Read {
            path: path.to_string(),
            values,
        };
        let asked = self.tokens.iter().map(|token| async {
            TokenView {
                token: token.clone(),
                state: state(self.ask(token, &request).await),
            }
        });
        join_all(asked).await
    }

    /// The answer of one token to a request, or why there is none.
    async fn ask(&self, token: &Token, request: &Request) -> Result<Answer, Problem> {
        if let Some(obstacle) = &token.obstacle {
            return Err(Problem {
                kind: ErrorKind::Unavailable,
                message: obstacle.clone(),
            });
        }
        let asked = progress::told(&token.to_string(), self.transport.ask(token, request)).await;
        asked.map_err(|error| Problem {
            kind: error.kind,
            message: error.message,
        })
    }
}

/// Why a token has not carried out a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    kind: ErrorKind,
    message: String,
}

fn state(answer: Result<Answer, Problem>) -> CopyState {
    match answer {
        Ok(Answer::Secret(secret)) => CopyState::Live(Box::new(secret)),
        Ok(_) => CopyState::NotReached(MISUNDERSTOOD.to_owned()),
        Err(problem) => match problem.kind {
            ErrorKind::NotFound => CopyState::Absent,
            ErrorKind::Damaged => CopyState::Unreadable(problem.message),
            _ => CopyState::NotReached(problem.message),
        },
    }
}

/// Reads the path that a person has given.
fn path(name: &str) -> Result<SecretPath> {
    SecretPath::parse(name).with_context(|| format!("NAME {name:?}"))
}

/// Parses the key that `--key` names.
fn named_key(key: Option<&str>) -> Result<Option<KeyName>> {
    key.map(KeyName::parse).transpose().context("--key")
}
