//! The verbs that change secrets: create, update and delete.

mod report;

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use trustplane_api::hsm::secrets_tool::{ErrorKind, WriteMode};
use trustplane_hsm_core::checksum::DataDigest;
use trustplane_hsm_core::encoded::Encoded;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::Data;

use super::plan::{self, Content, Plan};
use super::sources::Sources;
use super::tokens::TokenArgs;
use super::transport::{Answer, Request, Transport};
use super::{MISUNDERSTOOD, Problem, Tokens, named_key, path};
use crate::cluster::ClusterArgs;
use crate::output::{self, ReportFormat};
use report::{Outcome, Report};

/// Write a new secret to the tokens.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It is written to every token of the namespace, or to those that --device and --token choose; tokens do not copy it to \
    each other yet. Nothing is written if a token has the secret with other content, or is not reached. A command that failed in part \
    can be run again.\n\nExamples:\n  kubectl trustplane hsm create shop/db --namespace tokens --from-file password=./password\n  \
    generate-password | kubectl trustplane hsm create shop/db --namespace tokens --from-file password=-\n  \
    kubectl trustplane hsm create shop/tls --namespace tokens --from-file tls.crt --from-file tls.key"
)]
pub struct CreateArgs {
    #[command(flatten)]
    write: WriteArgs,
}

/// Change a secret on the tokens that have it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The given keys are set and the others stay, unless --replace says otherwise. An edit that somebody else makes at the \
    same time is not lost.\n\nExamples:\n  kubectl trustplane hsm update shop/db --namespace tokens --from-file password=./password\n  \
    kubectl trustplane hsm update shop/db --namespace tokens --replace --from-json db.json"
)]
pub struct UpdateArgs {
    #[command(flatten)]
    write: WriteArgs,
    /// Remove the keys that are not given.
    #[arg(long)]
    replace: bool,
}

/// Delete a secret, or one key of it, on the tokens that have it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Kubernetes Secrets that were made from it stay as they are.\n\nExamples:\n  \
    kubectl trustplane hsm delete shop/db --namespace tokens\n  \
    kubectl trustplane hsm delete shop/db --namespace tokens --key password --force\n  \
    kubectl trustplane hsm delete shop/db --namespace tokens --token DENK0123456"
)]
pub struct DeleteArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Delete this key only. With its last key the secret is deleted.
    #[arg(long)]
    key: Option<String>,
    /// Do not ask.
    #[arg(long)]
    force: bool,
}

/// What is written where.
#[derive(Debug, clap::Args)]
struct WriteArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    sources: Sources,
    /// What the secret is for; everybody who may list secrets sees it.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

/// Which secret on which tokens.
#[derive(Debug, clap::Args)]
struct TargetArgs {
    /// The path of the secret on the tokens.
    name: String,
    #[command(flatten)]
    tokens: TokenArgs,
    /// Leave out tokens that are not reached, and change the others.
    #[arg(long)]
    skip_unreachable: bool,
    /// How to print the result.
    #[arg(long, short, value_enum, default_value_t)]
    output: ReportFormat,
}

/// Runs `create`.
pub async fn create(args: &CreateArgs, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let write = &args.write;
    let (path, data) = (
        path(&write.target.name)?,
        write.sources.read(&mut io::stdin().lock())?,
    );
    let tokens = Tokens::find(cluster, &write.target.tokens).await?;
    let views = tokens.views(&path, false).await;
    let content = Content {
        digest: &DataDigest::of(&data).to_hex(),
        description: write.description.as_deref(),
    };
    let plan = plan::create(path.as_str(), &views, content, write.target.skip_unreachable)?;
    let request = write.request(&path, WriteMode::Create, data);
    let report = carry_out(&tokens, &path, plan, &request).await;
    report.print(write.target.output, out)
}

/// Runs `update`.
pub async fn update(args: &UpdateArgs, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let write = &args.write;
    let (path, data) = (
        path(&write.target.name)?,
        write.sources.read(&mut io::stdin().lock())?,
    );
    let tokens = Tokens::find(cluster, &write.target.tokens).await?;
    let views = tokens.views(&path, false).await;
    let plan = plan::update(path.as_str(), &views, write.target.skip_unreachable)?;
    let mode = match args.replace {
        true => WriteMode::Replace,
        false => WriteMode::Merge,
    };
    let request = write.request(&path, mode, data);
    let report = carry_out(&tokens, &path, plan, &request).await;
    report.print(write.target.output, out)
}

impl WriteArgs {
    fn request(&self, path: &SecretPath, mode: WriteMode, data: Data) -> Request {
        let pairs = data.into_iter();
        Request::Write {
            path: path.to_string(),
            mode,
            data: pairs
                .map(|(key, value)| (key.to_string(), Encoded(value)))
                .collect(),
            description: self.description.clone(),
        }
    }
}

/// Runs `delete`.
pub async fn delete(args: &DeleteArgs, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let path = path(&args.target.name)?;
    let key = named_key(args.key.as_deref())?;
    let tokens = Tokens::find(cluster, &args.target.tokens).await?;
    let views = tokens.views(&path, false).await;
    let named = key.as_ref().map(KeyName::as_str);
    let plan = plan::delete(path.as_str(), named, &views, args.target.skip_unreachable)?;
    if !args.force {
        let input = io::stdin();
        let asks = input.is_terminal();
        confirm(&path, named, &plan, asks.then(|| input.lock()))?;
    }
    let request = Request::Delete {
        path: path.to_string(),
        key: key.as_ref().map(KeyName::to_string),
    };
    let report = carry_out(&tokens, &path, plan, &request).await;
    report.print(args.target.output, out)
}

/// Has a person type the path of the secret before a deletion. `input` is `None` if no person can type.
fn confirm(path: &SecretPath, key: Option<&str>, plan: &Plan, input: Option<impl BufRead>) -> Result<()> {
    let Some(mut input) = input else {
        bail!(
            "standard input is no terminal, so nobody can confirm: use --force to delete without a question"
        )
    };
    let tokens: Vec<String> = plan.targets.iter().map(ToString::to_string).collect();
    let what = key.map_or_else(|| path.to_string(), |key| format!("key {key} of {path}"));
    output::note(&format!(
        "This deletes {what} on {}. Type the name {path} to confirm:",
        tokens.join(", ")
    ));
    let mut typed = String::new();
    input.read_line(&mut typed).context("read the confirmation")?;
    if typed.trim() != path.as_str() {
        bail!("not confirmed; nothing was changed")
    }
    Ok(())
}

/// Asks the tokens of a plan for a change, one after another. If a token refuses while no token can have been changed, the others
/// are not asked: they would most likely refuse too. After the first change all other tokens are asked, whatever happens, so that
/// as few tokens as possible differ.
async fn carry_out(
    tokens: &Tokens<impl Transport>,
    path: &SecretPath,
    plan: Plan,
    request: &Request,
) -> Report {
    let mut report = Report::new(path);
    for (token, why) in &plan.skipped {
        report.add(token, Outcome::Skipped(why.clone()));
    }
    for token in &plan.targets {
        let outcome = match report.is_hopeless() {
            true => Outcome::NotTried,
            false => outcome(tokens.ask(token, request).await, request),
        };
        report.add(token, outcome);
    }
    report
}

fn outcome(answer: Result<Answer, Problem>, request: &Request) -> Outcome {
    let deletes = matches!(request, Request::Delete { .. });
    match answer {
        Ok(Answer::Changed {
            version,
            checksum,
            written,
        }) => match (written, checksum) {
            (true, None) if deletes => Outcome::Deleted(version),
            (true, checksum) => Outcome::Written(version, checksum),
            (false, checksum) => Outcome::Unchanged(version, checksum),
        },
        Ok(_) => Outcome::Unknown(MISUNDERSTOOD.to_owned()),
        Err(problem) => match problem.kind {
            // Another client has deleted it already.
            ErrorKind::NotFound if deletes => Outcome::Gone,
            ErrorKind::EffectUnknown => Outcome::Unknown(problem.message),
            _ => Outcome::Failed(problem.message),
        },
    }
}

#[cfg(test)]
mod tests;
