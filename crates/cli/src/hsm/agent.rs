//! Finding the agent of a token: pure, from what the cluster says of its pods.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use trustplane_api::hsm::names::{DEVICE_LABEL, SERIAL_LABEL};
use trustplane_hsm_core::objects::label_value;

/// The agents of a device, by their labels.
pub const COMPONENT: &str = "app.kubernetes.io/component=hsm-agent";
/// The label that names the agent, and with it its record.
const APP: &str = "app";
/// The flag that names the HSMDevice.
const DEVICE: &str = "device-name";
/// The agent's program in its image.
pub const PROGRAM: &str = "/usr/bin/trustplane-agent";

/// The agent of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its pod.
    pub pod: String,
    /// Its name, which is also that of its record.
    pub name: String,
    /// Its token, as far as a label can say.
    pub token: String,
    /// Its HSMDevice.
    pub device: String,
    /// Its flags by their names.
    flags: BTreeMap<String, String>,
}

impl Agent {
    /// The agent of a pod.
    pub fn of(pod: &Pod) -> Result<Self> {
        let name = pod.metadata.name.clone().context("a pod without a name")?;
        let label = |key: &str| {
            let labels: &BTreeMap<_, _> = pod.metadata.labels.as_ref()?;
            labels.get(key).cloned()
        };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let arguments = containers.flat_map(|container| container.args.iter().flatten());
        let flags: BTreeMap<String, String> = arguments
            .filter_map(|argument| argument.strip_prefix("--")?.split_once('='))
            // The kubelet takes two of these for one.
            .map(|(flag, value)| (flag.to_owned(), value.replace("$$", "$")))
            .collect();
        let device = flags.get(DEVICE).cloned().or_else(|| label(DEVICE_LABEL));
        Ok(Self {
            name: label(APP).with_context(|| format!("pod {name} lacks the label {APP}"))?,
            token: label(SERIAL_LABEL).unwrap_or_default(),
            device: device.unwrap_or_default(),
            pod: name,
            flags,
        })
    }

    /// What the agent was told by a flag.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.flags
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Whether its token is the one that a person means, by its serial number or its name.
    pub fn has(&self, token: &str) -> bool {
        self.token == token || self.token == label_value(token)
    }
}

/// The agent of the token that is wanted, or of the only one.
pub fn choose(pods: &[Pod], (namespace, device): (&str, &str), wanted: Option<&str>) -> Result<Agent> {
    let running = pods.iter().filter(|pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
    });
    let agents: Vec<Agent> = running.map(Agent::of).collect::<Result<_>>()?;
    let names = || {
        let names: Vec<&str> = agents.iter().map(|agent| agent.token.as_str()).collect();
        names.join(", ")
    };
    let wanted_ones: Vec<&Agent> = agents
        .iter()
        .filter(|agent| wanted.is_none_or(|wanted| agent.has(wanted)))
        .collect();
    match (wanted_ones.as_slice(), wanted) {
        ([only], _) => Ok((*only).clone()),
        ([], _) if agents.is_empty() => {
            bail!(
                "no agent of {device} runs: look at its pool, `kubectl describe hsmpool --namespace {namespace} {device}-pool`"
            )
        }
        ([], _) => bail!("{device} has no such token; it has: {}", names()),
        ([first, ..], None) => bail!(
            "{device} has several tokens: {}; choose one, `kubectl trustplane hsm test --namespace {namespace} {device} --token {}`",
            names(),
            first.token
        ),
        ([_, ..], Some(wanted)) => bail!(
            "several agents of {device} have the token {wanted}: one of them is about to end, try again"
        ),
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// The pod of an agent with these arguments.
    pub fn pod(token: &str, phase: &str, arguments: &[&str]) -> Pod {
        let own = label_value(token);
        let arguments = [&["serve", "--pkcs11-library=/m.so"], arguments].concat();
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("hsm-agent-pico-{own}-x"),
                "labels": {"app": format!("hsm-agent-pico-{own}"), SERIAL_LABEL: own},
            },
            "spec": {"containers": [{"name": "agent", "args": arguments}]},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn the_only_one_needs_no_name_and_pods_that_do_not_run_do_not_count() {
        let pods = [pod("a", "Running", &[]), pod("b", "Pending", &[])];
        let agent = choose(&pods, ("tokens", "pico"), None).unwrap();
        assert_eq!(
            (agent.name.as_str(), agent.flag("pkcs11-library")),
            ("hsm-agent-pico-a", Some("/m.so"))
        );
    }

    #[test]
    fn whoever_has_to_choose_is_told_what_there_is() {
        let pods = [pod("a", "Running", &[]), pod("b", "Running", &[])];
        assert_eq!(choose(&pods, ("tokens", "pico"), Some("b")).unwrap().token, "b");
        for (wanted, told) in [
            (
                None,
                "pico has several tokens: a, b; choose one, `kubectl trustplane hsm test --namespace tokens pico --token a`",
            ),
            (Some("c"), "pico has no such token; it has: a, b"),
        ] {
            assert_eq!(
                choose(&pods, ("tokens", "pico"), wanted).unwrap_err().to_string(),
                told
            );
        }
        let told = choose(&[], ("tokens", "pico"), None).unwrap_err().to_string();
        assert!(
            told.ends_with("`kubectl describe hsmpool --namespace tokens pico-pool`"),
            "{told}"
        );
    }

    #[test]
    fn a_token_is_found_by_a_serial_number_that_is_no_label_and_by_what_the_label_says() {
        let odd = "DENK (01)/ä";
        let pods = [
            pod(odd, "Running", &["--reader-serial=DENK $$(01)"]),
            pod("b", "Running", &[]),
        ];
        let agent = choose(&pods, ("tokens", "pico"), Some(odd)).unwrap();
        assert_eq!(agent.flag("reader-serial"), Some("DENK $(01)"));
        assert_eq!(
            choose(&pods, ("tokens", "pico"), Some(&agent.token)).unwrap(),
            agent
        );
    }
}
