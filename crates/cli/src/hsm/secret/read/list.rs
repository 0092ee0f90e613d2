//! `kubectl trustplane hsm list`: which secrets the tokens have.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use futures::future::join_all;
use serde::Serialize;
use trustplane_api::hsm::secrets_tool::ListedSecret;

use super::super::tokens::{Token, TokenArgs};
use super::super::transport::{Answer, Request, Transport};
use super::super::{MISUNDERSTOOD, Tokens, path};
use crate::cluster::ClusterArgs;
use crate::output::{self, ReportFormat};

/// List the secrets on the tokens, without values.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A change that another program made on a token within the last minute may be missing.\n\nExamples:\n  \
    kubectl trustplane hsm list --namespace tokens\n  kubectl trustplane hsm list shop --namespace tokens -o json"
)]
pub struct ListArgs {
    /// Only the secret at this path, and those below it.
    prefix: Option<String>,
    #[command(flatten)]
    tokens: TokenArgs,
    /// Secrets that were deleted too.
    #[arg(long)]
    deleted: bool,
    /// How to print them.
    #[arg(long, short, value_enum, default_value_t)]
    output: ReportFormat,
}

/// A token, and the secrets that it has listed or why it has listed none.
type Listing = (Token, Result<Vec<ListedSecret>, String>);

/// The lists of all tokens, as a document has them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lists<'a> {
    secrets: Vec<Listed<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_reached: Vec<NotReached<'a>>,
}

/// A path, and what each token has there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    path: &'a str,
    copies: Vec<CopyOn<'a>>,
    /// Tokens that have answered and do not have it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_on: Vec<&'a str>,
}

/// What one token has at a path.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CopyOn<'a> {
    token: &'a str,
    device: &'a str,
    #[serde(flatten)]
    secret: &'a ListedSecret,
}

/// A token that has not answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NotReached<'a> {
    token: &'a str,
    device: &'a str,
    message: &'a str,
}

/// Runs `list`. The exit code is 1 if a token was not reached, because secrets may be missing then.
pub async fn list(args: &ListArgs, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    if let Some(prefix) = &args.prefix {
        path(prefix)?;
    }
    let tokens = Tokens::find(cluster, &args.tokens).await?;
    let listings = listings(&tokens).await;
    let lists = Lists::of(&listings, args.prefix.as_deref(), args.deleted);
    if lists.not_reached.len() == listings.len() {
        bail!("no token is reached:{}", lists.troubles())
    }
    match args.output {
        ReportFormat::Table => output::table(out, &HEAD, lists.rows())?,
        ReportFormat::Json => output::json(out, &lists)?,
        ReportFormat::Yaml => output::yaml(out, &lists)?,
    }
    if lists.not_reached.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    output::note(&format!("some tokens are not reached:{}", lists.troubles()));
    Ok(ExitCode::FAILURE)
}

async fn listings(tokens: &Tokens<impl Transport>) -> Vec<Listing> {
    let asked = tokens.tokens.iter().map(|token| async {
        let listed = match tokens.ask(token, &Request::List {}).await {
            Ok(Answer::List { secrets }) => Ok(secrets),
            Ok(_) => Err(MISUNDERSTOOD.to_owned()),
            Err(problem) => Err(problem.message),
        };
        (token.clone(), listed)
    });
    join_all(asked).await
}

impl<'a> Lists<'a> {
    /// What the tokens have at or below a path.
    fn of(listings: &'a [Listing], prefix: Option<&str>, deleted: bool) -> Self {
        let mut secrets: BTreeMap<&str, Vec<CopyOn<'a>>> = BTreeMap::new();
        let mut not_reached = Vec::new();
        for (token, listed) in listings {
            let listed = match listed {
                Ok(listed) => listed,
                Err(message) => {
                    not_reached.push(NotReached {
                        token: token.serial(),
                        device: token.device(),
                        message,
                    });
                    continue;
                }
            };
            for secret in listed.iter().filter(|secret| is_below(prefix, &secret.path)) {
                if deleted || !secret.deleted {
                    secrets.entry(&secret.path).or_default().push(CopyOn {
                        token: token.serial(),
                        device: token.device(),
                        secret,
                    });
                }
            }
        }
        let missing_on = |copies: &[CopyOn<'_>]| {
            let answered = listings.iter().filter(|(_, listed)| listed.is_ok());
            let names = answered.map(|(token, _)| token.serial());
            let lacks = |name: &&str| !copies.iter().any(|copy| copy.token == *name);
            names.filter(lacks).collect()
        };
        let secrets = secrets.into_iter().map(|(path, copies)| Listed {
            path,
            missing_on: missing_on(&copies),
            copies,
        });
        Self {
            secrets: secrets.collect(),
            not_reached,
        }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.secrets.iter().map(Listed::row).collect()
    }

    fn troubles(&self) -> String {
        let told = self.not_reached.iter();
        told.map(|lost| format!("\n  token {} of {}: {}", lost.token, lost.device, lost.message))
            .collect()
    }
}

/// Whether a path is `prefix` or below it: `shop` covers `shop/db`, and not `shopping`.
fn is_below(prefix: Option<&str>, path: &str) -> bool {
    prefix.is_none_or(|prefix| {
        let rest = path.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The columns of the table.
const HEAD: [&str; 6] = ["PATH", "KEYS", "VERSION", "UPDATED", "TOKENS", "NOTE"];

impl Listed<'_> {
    fn row(&self) -> Vec<String> {
        let newest = self.copies.iter().max_by_key(|copy| copy.secret.version);
        let told =
            |text: fn(&ListedSecret) -> String| newest.map(|copy| text(copy.secret)).unwrap_or_default();
        let tokens: Vec<&str> = self.copies.iter().map(|copy| copy.token).collect();
        vec![
            self.path.to_owned(),
            told(|secret| secret.keys.to_string()),
            told(|secret| secret.version.to_string()),
            told(|secret| secret.timestamp.clone()),
            tokens.join(","),
            self.notes().join("; "),
        ]
    }

    /// The notes of a row: where copies are unreadable, deleted, different or missing.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let on = |wanted: &dyn Fn(&ListedSecret) -> bool| {
            let found = self.copies.iter().filter(|copy| wanted(copy.secret));
            found.map(|copy| copy.token).collect::<Vec<_>>().join(",")
        };
        let faulty = on(&|secret| !secret.fault.is_empty());
        if !faulty.is_empty() {
            notes.push(format!("unreadable on {faulty}"));
        }
        let deleted = on(&|secret| secret.deleted);
        if !deleted.is_empty() {
            notes.push(format!("deleted on {deleted}"));
        }
        let readable = || {
            let all = self.copies.iter().map(|copy| copy.secret);
            all.filter(|secret| secret.fault.is_empty() && !secret.deleted)
        };
        let first = readable().next();
        if readable().any(|secret| Some(&secret.digest) != first.map(|first| &first.digest)) {
            notes.push("copies differ".to_owned());
        }
        if !self.missing_on.is_empty() {
            notes.push(format!("not on {}", self.missing_on.join(",")));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
