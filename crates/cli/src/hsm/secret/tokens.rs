//! Finds the tokens that a command is about, by the pods of their agents.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_hsm_core::objects::label_value;

use crate::cluster::Cluster;
use crate::hsm::agent::{Agent, COMPONENT};

/// Which tokens.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TokenArgs {
    /// Only the tokens of this HSMDevice; without it those of every HSMDevice in the namespace.
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Only this token, by its serial number or its name. Can be given several times.
    #[arg(long, value_name = "SERIAL")]
    pub token: Vec<String>,
}

/// A token whose agent has a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its agent.
    pub agent: Agent,
    /// Why the agent's pod cannot be asked, if it cannot.
    pub obstacle: Option<String>,
}

impl Token {
    /// Its name for people: the serial number, as far as a label can hold it.
    pub fn serial(&self) -> &str {
        &self.agent.token
    }

    /// Its HSMDevice.
    pub fn device(&self) -> &str {
        &self.agent.device
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} of {}", self.serial(), self.device())
    }
}

/// Looks for the agents in a namespace, and chooses their tokens.
pub async fn find(cluster: &Cluster, namespace: &str, args: &TokenArgs) -> Result<Vec<Token>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let labels = match &args.device {
        Some(device) => format!("{COMPONENT},{DEVICE_LABEL}={}", label_value(device)),
        None => COMPONENT.to_owned(),
    };
    let found = cluster
        .ask(pods.list(&ListParams::default().labels(&labels)))
        .await
        .map_err(|obstacle| anyhow!("list the agents in namespace {namespace}: {obstacle}"))?;
    choose(&found.items, namespace, args)
}

/// The tokens of these pods that the arguments choose.
fn choose(pods: &[Pod], namespace: &str, args: &TokenArgs) -> Result<Vec<Token>> {
    let mut by_agent: BTreeMap<String, Token> = BTreeMap::new();
    for pod in pods {
        let token = Token {
            agent: Agent::of(pod)?,
            obstacle: obstacle(pod),
        };
        let name = token.agent.name.clone();
        // An agent that is replaced has two pods for a while: the running pod counts.
        match by_agent.get(&name) {
            Some(known) if known.obstacle.is_none() || token.obstacle.is_some() => {}
            _ => drop(by_agent.insert(name, token)),
        }
    }
    let mut tokens: Vec<Token> = by_agent.into_values().collect();
    tokens.sort_by(|one, other| (one.serial(), one.device()).cmp(&(other.serial(), other.device())));
    if tokens.is_empty() {
        let of = args.device.as_ref();
        let of = of.map_or_else(String::new, |device| format!(" of HSMDevice {device}"));
        bail!(
            "no agent{of} runs in namespace {namespace}: name another namespace with --namespace, or look at the pools, \
             `kubectl describe hsmpools --namespace {namespace}`"
        )
    }
    if args.token.is_empty() {
        return Ok(tokens);
    }
    for wanted in &args.token {
        if !tokens.iter().any(|token| token.agent.has(wanted)) {
            let names: Vec<&str> = tokens.iter().map(Token::serial).collect();
            bail!("there is no token {wanted}; there are: {}", names.join(", "))
        }
    }
    tokens.retain(|token| args.token.iter().any(|wanted| token.agent.has(wanted)));
    Ok(tokens)
}

/// Why a pod cannot be asked. A running pod that is not ready can be asked: its agent says why it does not serve.
fn obstacle(pod: &Pod) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Unknown");
    match phase {
        _ if pod.metadata.deletion_timestamp.is_some() => Some(format!("its pod {name} is about to end")),
        "Running" => None,
        _ => Some(format!("its pod {name} does not run: it is {phase}")),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::hsm::agent::tests::pod;

    /// A token of HSMDevice `pico` whose agent runs.
    pub fn token(name: &str) -> Token {
        Token {
            agent: Agent::of(&pod(name, "Running", &["--device-name=pico"])).unwrap(),
            obstacle: None,
        }
    }

    fn names(pods: &[Pod], wanted: &[&str]) -> Result<Vec<String>, String> {
        let args = TokenArgs {
            device: None,
            token: wanted.iter().map(ToString::to_string).collect(),
        };
        let tokens = choose(pods, "tokens", &args).map_err(|error| error.to_string())?;
        Ok(tokens.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn choose_takes_every_agent_or_those_that_are_named() {
        let pods = ["b", "a", "c"].map(|name| pod(name, "Running", &["--device-name=pico"]));
        let all = ["token a of pico", "token b of pico", "token c of pico"];
        assert_eq!(names(&pods, &[]).unwrap(), all);
        assert_eq!(names(&pods, &["c", "a"]).unwrap(), [all[0], all[2]]);
        let told = names(&pods, &["a", "d"]).unwrap_err();
        assert_eq!(told, "there is no token d; there are: a, b, c");
        let told = names(&[], &[]).unwrap_err();
        assert!(told.starts_with("no agent runs in namespace tokens: "), "{told}");
    }

    #[test]
    fn choose_names_the_pod_that_does_not_run() {
        let mut ending = pod("b", "Running", &[]);
        ending.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-07-07T08:00:00Z\"").unwrap());
        let pods = [pod("a", "Pending", &[]), ending];
        let tokens = choose(&pods, "tokens", &TokenArgs::default()).unwrap();
        let obstacles: Vec<_> = tokens.iter().map(|token| token.obstacle.as_deref()).collect();
        assert_eq!(
            obstacles,
            [
                Some("its pod hsm-agent-pico-a-x does not run: it is Pending"),
                Some("its pod hsm-agent-pico-b-x is about to end"),
            ]
        );
    }

    #[test]
    fn choose_prefers_the_pod_that_runs_when_an_agent_is_replaced() {
        for pods in [["Failed", "Running"], ["Running", "Failed"]] {
            let pods = pods.map(|phase| pod("a", phase, &[]));
            let tokens = choose(&pods, "tokens", &TokenArgs::default()).unwrap();
            assert_eq!((tokens.len(), &tokens[0].obstacle), (1, &None));
        }
    }
}
