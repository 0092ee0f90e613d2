//! `kubectl trustplane inventory enroll`: makes the credentials of this cluster, registers them at the hub, and starts the agent.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use trustplane_api::inventory::OBSYK_AGENT;
use trustplane_kit::apply::Writer;
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Apply, Kind, ObjectRef};
use trustplane_process::metrics::Metrics;

use super::credentials::Credentials;
use super::enrolment::{Existing, Platform, Wanted, quoted};
use super::hub;
use crate::cluster::{Cluster, ClusterArgs};
use crate::installation::{self, Process};

/// The capability that sends the inventory.
const CAPABILITY: &str = "inventory";
/// The field manager of what this program writes.
const MANAGER: &str = "kubectl-trustplane";
/// The longest name of a cluster that an ObsykAgent and the hub take.
const LONGEST_NAME: usize = 253;

/// Enrol this cluster at a hub: make its key, register it, and start the agent that sends the inventory.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl trustplane inventory enroll --namespace trustplane --name prod\n  \
    kubectl trustplane inventory enroll --name prod --platform-url https://hub.example.com --ca-file hub-ca.pem\n\n\
    The private key is made here and written to the Secret, and nowhere else. If a hub runs in the namespace of the manager, its \
    pod registers the public key; that needs the right to exec into the pod. For another platform the command prints the public key, \
    and what to run where the hub is. It needs the rights to read and write the Secret and the ObsykAgent."
)]
pub struct Args {
    /// The name of this cluster at the platform.
    #[arg(long, value_name = "CLUSTER", value_parser = cluster_name)]
    name: String,
    /// Where the platform is; by default the hub in the namespace of the manager.
    #[arg(long, value_name = "URL", value_parser = platform_url)]
    platform_url: Option<String>,
    /// The Secret for the credentials. The manager may read those that the chart's value inventory.credentialsSecrets names.
    #[arg(long, value_name = "NAME", default_value = "obsyk-credentials")]
    credentials_secret: String,
    /// The ObsykAgent.
    #[arg(long, value_name = "NAME", default_value = "inventory")]
    agent: String,
    /// Certificates by which to know the platform, as PEM; by default those that the hub names.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Make a new key, overwrite a Secret and an ObsykAgent that are there already, and remove older keys at the hub.
    #[arg(long)]
    replace: bool,
}

fn cluster_name(text: &str) -> Result<String, String> {
    let fits = (1..=LONGEST_NAME).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("must have 1 to {LONGEST_NAME} bytes and no control characters"))
}

fn platform_url(text: &str) -> Result<String, String> {
    let is_url = ["https://", "http://"]
        .iter()
        .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    match is_url {
        true => Ok(text.to_owned()),
        false => Err("must begin with https:// or http://".to_owned()),
    }
}

/// Runs the command.
pub async fn run(args: &Args, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let ca_file = args.ca_file.as_deref().map(certificates).transpose()?;
    let cluster = cluster.connect().await?;
    let namespace = match &cluster.namespace {
        Some(namespace) => namespace.clone(),
        None => {
            let seen = installation::processes(&cluster).await;
            home(&seen.map_err(|obstacle| anyhow!("look for the manager: {obstacle}"))?)?
        }
    };
    let hub = hub::find(&cluster, Some(&namespace)).await?;
    let platform = Platform::choose(args.platform_url.as_deref(), hub, &namespace)?;
    let wanted = Wanted {
        namespace,
        cluster: args.name.clone(),
        secret: args.credentials_secret.clone(),
        agent: args.agent.clone(),
        replace: args.replace,
    };
    enroll(&wanted, &platform, ca_file, &cluster, out).await?;
    Ok(ExitCode::SUCCESS)
}

/// Looks first, so that nothing is registered that cannot be written.
async fn enroll(
    wanted: &Wanted,
    platform: &Platform,
    ca_file: Option<String>,
    cluster: &Cluster,
    out: &mut impl Write,
) -> Result<()> {
    let existing = Existing {
        secret: find(cluster, &SECRET, &wanted.namespace, &wanted.secret).await?,
        agent: find(cluster, &OBSYK_AGENT, &wanted.namespace, &wanted.agent)
            .await
            .context(
                "is the capability inventory on? helm upgrade with capabilities.inventory.enabled=true",
            )?,
    };
    wanted.permit(&existing, platform.url())?;
    let credentials = Credentials::generate(existing.client_id())?;
    let mut ca_bundle = ca_file;
    if let Platform::Hub(hub, _) = platform {
        let registration = hub.register(cluster, &wanted.cluster, &credentials).await?;
        ca_bundle = ca_bundle.or(registration.ca_bundle);
        writeln!(
            out,
            "client {} registered as {:?} at the hub in pod {}",
            credentials.client_id,
            wanted.cluster,
            hub.path()
        )?;
    }
    let ca_bundle = ca_bundle.or_else(|| existing.ca_bundle(platform.url()));
    let writer = Writer::new(cluster.client.clone(), MANAGER, &Metrics::new());
    let secret = wanted.secret(&credentials, &existing);
    write(&writer, &secret, existing.secret.is_some(), out).await?;
    match wanted.agent(platform.url(), ca_bundle.as_deref(), &existing) {
        Some(agent) => write(&writer, &agent, existing.agent.is_some(), out).await?,
        None => writeln!(
            out,
            "ObsykAgent {}/{} is as wanted",
            wanted.namespace, wanted.agent
        )?,
    }
    if let (Platform::Hub(hub, _), true) = (platform, existing.client_id().is_some()) {
        hub.retire_keys(cluster, &credentials.client_id)
            .await
            .context("the agent has its new key, but the older keys still open the hub")?;
        writeln!(
            out,
            "older keys of client {} removed at the hub",
            credentials.client_id
        )?;
    }
    next(wanted, platform, &credentials, &existing, out)
}

/// What a person does next.
fn next(
    wanted: &Wanted,
    platform: &Platform,
    credentials: &Credentials,
    existing: &Existing,
    out: &mut impl Write,
) -> Result<()> {
    let (namespace, agent) = (&wanted.namespace, &wanted.agent);
    if let Platform::Outside(url) = platform {
        writeln!(
            out,
            "\nRegister the public key at {url}. If it is a hub, run there:\n\n{}",
            wanted.registration(credentials)
        )?;
        writeln!(
            out,
            "\nThe answer has the certificates of the hub. If this cluster does not trust them yet, give them to the agent, from a file:\n  \
             kubectl patch obsykagent {agent} --namespace {namespace} --type merge \\\n    \
             --patch \"$(jq --null-input --rawfile pem hub-ca.pem '{{spec: {{caBundle: $pem}}}}')\""
        )?;
        if existing.client_id().is_some() {
            writeln!(
                out,
                "\nThe older keys of this client still open the platform. When the agent is connected, remove them there:\n  \
                 trustplane-hub client retire-keys {}",
                quoted(&credentials.client_id)
            )?;
        }
    }
    writeln!(
        out,
        "\nIs it connected?\n  kubectl wait obsykagent/{agent} --namespace {namespace} --for=condition=Syncing --timeout=60s"
    )?;
    if let Platform::Hub(..) = platform {
        writeln!(
            out,
            "Look at it:\n  kubectl trustplane inventory open --namespace {namespace}"
        )?;
    }
    Ok(())
}

/// The namespace of the one manager that sends inventories.
fn home(processes: &[Process]) -> Result<String> {
    let sends = |process: &&Process| process.capabilities.iter().any(|name| name == CAPABILITY);
    let mut found: Vec<&str> = processes
        .iter()
        .filter(sends)
        .map(|process| process.namespace.as_str())
        .collect();
    found.dedup();
    match found.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => bail!(
            "no manager of this cluster has the capability {CAPABILITY}: helm upgrade with capabilities.{CAPABILITY}.enabled=true, or name \
             its namespace with --namespace"
        ),
        several => bail!(
            "several managers have the capability {CAPABILITY}, in {}: choose one with --namespace",
            several.join(", ")
        ),
    }
}

async fn find<T: DeserializeOwned>(
    cluster: &Cluster,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<T>> {
    let object = ObjectRef::new(Some(namespace), name);
    let found = cluster.find(kind, &object).await;
    found.map_err(|obstacle| anyhow!("read {} {object}: {obstacle}", kind.kind))
}

async fn write(writer: &Writer, apply: &Apply, was_there: bool, out: &mut impl Write) -> Result<()> {
    writer.apply(apply).await?;
    let done = if was_there { "changed" } else { "created" };
    let (kind, object) = (apply.manifest.kind(), apply.manifest.object());
    Ok(writeln!(out, "{} {object} {done}", kind.kind)?)
}

/// What a file with certificates holds.
fn certificates(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        bail!("{} holds no certificate in PEM", path.display());
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
