//! The verbs that change nothing: get and list.

mod list;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use trustplane_hsm_core::encoded::Encoded;
use trustplane_hsm_core::path::{KeyName, SecretPath};

use super::plan::{self, Copy, CopyState, TokenView};
use super::tokens::TokenArgs;
use super::{Tokens, named_key, path};
use crate::cluster::ClusterArgs;
use crate::output;

pub use list::{ListArgs, list};

/// Show a secret.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The table shows no values; json, yaml and raw do. The tokens that are reached must have the same content.\n\n\
    Examples:\n  kubectl trustplane hsm get shop/db --namespace tokens\n  \
    kubectl trustplane hsm get shop/db --namespace tokens --key password -o raw > password\n  \
    kubectl trustplane hsm get shop/db --namespace tokens --token b -o json"
)]
pub struct GetArgs {
    /// The path of the secret on the tokens.
    name: String,
    #[command(flatten)]
    tokens: TokenArgs,
    /// Only this key.
    #[arg(long)]
    key: Option<String>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t)]
    output: SecretFormat,
}

/// The `-o` of `get`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum SecretFormat {
    /// Keys and sizes for people, without values.
    #[default]
    Table,
    /// One JSON document, with values in base64.
    Json,
    /// One YAML document, with values in base64.
    Yaml,
    /// The bytes of the one value that --key names, and nothing else.
    Raw,
}

/// A secret, and which tokens have it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    path: &'a str,
    checksum: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    tokens: Vec<Holder<'a>>,
    sizes: BTreeMap<&'a str, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<BTreeMap<&'a str, &'a Encoded>>,
}

/// A token that has the secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Holder<'a> {
    token: &'a str,
    device: &'a str,
    version: u64,
}

/// Runs `get`.
pub async fn get(args: &GetArgs, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let path = path(&args.name)?;
    let key = named_key(args.key.as_deref())?;
    if args.output == SecretFormat::Raw && key.is_none() {
        bail!("-o raw prints the bytes of one value: name its key with --key")
    }
    let tokens = Tokens::find(cluster, &args.tokens).await?;
    let views = tokens.views(&path, args.output != SecretFormat::Table).await;
    show(&path, key.as_ref(), &views, args.output, out)?;
    for note in doubts(&views) {
        output::note(&note);
    }
    Ok(ExitCode::SUCCESS)
}

fn show(
    path: &SecretPath,
    key: Option<&KeyName>,
    views: &[TokenView],
    format: SecretFormat,
    out: &mut impl Write,
) -> Result<()> {
    let copies = plan::agreed(path.as_str(), views)?;
    let shown = Shown::of(path, key, &copies)?;
    match format {
        SecretFormat::Table => shown.table(out),
        SecretFormat::Json => output::json(out, &shown),
        SecretFormat::Yaml => output::yaml(out, &shown),
        SecretFormat::Raw => {
            let data = shown.data.iter().flatten().next();
            let (_, value) = data.context("the agent has sent no value")?;
            Ok(out.write_all(value.0.expose())?)
        }
    }
}

impl<'a> Shown<'a> {
    /// The secret, which is the same in all copies, or one key of it.
    fn of(path: &'a SecretPath, key: Option<&KeyName>, copies: &[Copy<'a>]) -> Result<Self> {
        let (_, secret) = copies.first().context("no copy")?;
        let is_meant = |name: &str| key.is_none_or(|key| key.as_str() == name);
        let sizes = secret.sizes.iter().filter(|(name, _)| is_meant(name));
        let sizes: BTreeMap<&str, usize> = sizes.map(|(name, size)| (name.as_str(), *size)).collect();
        if let Some(key) = key.filter(|_| sizes.is_empty()) {
            let keys: Vec<&str> = secret.sizes.keys().map(String::as_str).collect();
            bail!("{path} has no key {key}; it has {}", keys.join(", "))
        }
        let data = secret.data.as_ref().map(|data| {
            let meant = data.iter().filter(|(name, _)| is_meant(name));
            meant.map(|(name, value)| (name.as_str(), value)).collect()
        });
        let holders = copies.iter().map(|(token, copy)| Holder {
            token: token.serial(),
            device: token.device(),
            version: copy.version,
        });
        Ok(Self {
            path: path.as_str(),
            checksum: &secret.checksum,
            description: &secret.description,
            tokens: holders.collect(),
            sizes,
            data,
        })
    }

    fn table(&self, out: &mut impl Write) -> Result<()> {
        let holders: Vec<String> = self
            .tokens
            .iter()
            .map(|holder| {
                format!(
                    "{} of {} (version {})",
                    holder.token, holder.device, holder.version
                )
            })
            .collect();
        let holders = holders.join(", ");
        let lines = [
            ("Path", self.path),
            ("Description", self.description),
            ("Checksum", self.checksum),
            ("Tokens", &holders),
        ];
        for (name, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
            writeln!(out, "{:<13}{text}", format!("{name}:"))?;
        }
        writeln!(out)?;
        let rows = self.sizes.iter();
        let rows = rows
            .map(|(key, size)| vec![(*key).to_owned(), size.to_string()])
            .collect();
        output::table(out, &["KEY", "BYTES"], rows)
    }
}

/// The notes about tokens that have not shown the secret.
fn doubts(views: &[TokenView]) -> Vec<String> {
    let doubt = |view: &TokenView| match &view.state {
        CopyState::Live(_) => None,
        CopyState::Absent => Some(format!("{} does not have it", view.token)),
        CopyState::Unreadable(why) => Some(format!("{} cannot read it: {why}", view.token)),
        CopyState::NotReached(why) => Some(format!("{} is not reached: {why}", view.token)),
    };
    views.iter().filter_map(doubt).collect()
}

#[cfg(test)]
mod tests;
