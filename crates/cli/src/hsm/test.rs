//! `kubectl trustplane hsm test`: tries a token where it is, by the agent's own tool in the agent's own pod.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_api::hsm::record::Record;
use trustplane_api::hsm::{DEVICE, HsmDevice, PinSecret};
use trustplane_hsm_core::objects::label_value;
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};
use trustplane_plan::{Kind, ObjectRef};

use super::agent::{self, Agent};
use super::order::{self, Pin};
use crate::cluster::{Cluster, ClusterArgs, Obstacle};
use crate::{exec, output};

/// Try a token: what it is, what is on it, whether it can be read and written, and how fast.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl trustplane hsm test pico --namespace tokens\n  \
    kubectl trustplane hsm test softhsm --namespace tokens --token a -- list\n  \
    kubectl trustplane hsm test softhsm --namespace tokens --token a -- write demo/db --from-literal password=s3cret\n  \
    kubectl trustplane hsm test softhsm --namespace tokens --token a -- benchmark\n\n\
    It needs the rights to read the HSMDevice and the agent's record (a ConfigMap), and to exec into the agent's pod. While the \
    agent serves the token, everything goes through the agent. If it does not, --try-anyway after -- opens the token with the \
    PIN, whose Secret must be readable too. It is tried once, and that is in no record, so be sure that it is right; a low count \
    that the agent has not reported stops it. Values on the command line reach the audit log of the API \
    server: use it for trials, not for secrets."
)]
pub struct Args {
    /// The HSMDevice.
    device: String,
    /// The token, by its serial number or its name; needed if there are several.
    #[arg(long, value_name = "SERIAL")]
    token: Option<String>,
    /// What to do, as `trustplane-agent test-token` takes it: info, list, read, write, delete, benchmark.
    #[arg(last = true, value_name = "ACTION", default_value = "info")]
    action: Vec<String>,
}

/// Runs the command.
pub async fn run(args: &Args, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let action = order::action(&args.action)?;
    let cluster = cluster.connect().await?;
    let namespace = cluster.namespace.clone().unwrap_or_else(|| cluster.home.clone());
    let device: HsmDevice = get(&cluster, &DEVICE, &namespace, &args.device).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &namespace);
    let labels = format!(
        "{},{DEVICE_LABEL}={}",
        agent::COMPONENT,
        label_value(&args.device)
    );
    let found = cluster
        .ask(pods.list(&ListParams::default().labels(&labels)))
        .await
        .map_err(|obstacle| anyhow!("list the agents of {}: {obstacle}", args.device))?;
    let agent = agent::choose(&found.items, (&namespace, &args.device), args.token.as_deref())?;
    let record = record(&cluster, &namespace, &agent).await?;
    let secret = device.spec.pkcs11.and_then(|pkcs11| pkcs11.pin_secret);
    let ordered = match &secret {
        Some(_) => order::pin(action, &args.action, &record)?,
        None => Pin::Kept,
    };
    let pin = match &secret {
        Some(secret) if ordered.is_handed_over() => Some(pin(&cluster, &namespace, secret).await?),
        _ => None,
    };
    let command = order::command(&agent, &record, ordered, &args.action);
    let program = exec::Program {
        pod: &agent.pod,
        container: None,
        command,
    };
    let pin = pin.as_ref().map(|ByteString(pin)| pin.as_slice());
    let said = exec::run(&pods, program, pin).await?;
    out.write_all(&said.out)?;
    output::pass_on(&said.err)?;
    let code = match said.is_success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    match ordered.complaint() {
        Some(complaint) if code != ExitCode::SUCCESS => bail!(complaint),
        _ => Ok(code),
    }
}

/// What is read of an object with data.
#[derive(Deserialize)]
struct Content<T> {
    #[serde(default = "BTreeMap::new")]
    data: BTreeMap<String, T>,
}

async fn get<T: DeserializeOwned>(cluster: &Cluster, kind: &Kind, namespace: &str, name: &str) -> Result<T> {
    let object = ObjectRef::new(Some(namespace), name);
    let told = |obstacle: Obstacle| anyhow!("read {} {object}: {obstacle}", kind.kind);
    cluster.read(kind, &object).await.map_err(told)
}

/// What the agent has written down.
async fn record(cluster: &Cluster, namespace: &str, agent: &Agent) -> Result<Record> {
    let record: Content<String> = get(cluster, &CONFIG_MAP, namespace, &agent.name).await?;
    Ok(Record::read(&record.data)?)
}

async fn pin(cluster: &Cluster, namespace: &str, from: &PinSecret) -> Result<ByteString> {
    let namespace = from.namespace.as_deref().unwrap_or(namespace);
    let mut secret: Content<ByteString> = get(cluster, &SECRET, namespace, &from.name).await?;
    let pin = secret.data.remove(&from.key);
    pin.with_context(|| format!("Secret {namespace}/{} has no key {}", from.name, from.key))
}
