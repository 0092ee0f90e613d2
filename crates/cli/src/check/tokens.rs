//! HSMDevices and their pools: what was seen of them, and what it means.

use kube::api::ListParams;
use kube::{Api, ResourceExt};
use trustplane_api::hsm::conditions::{self, phase};
use trustplane_api::hsm::{HsmDevice, HsmPool, HsmPoolStatus};

use super::report::Finding;
use crate::cluster::{Cluster, Obstacle, Seen};

/// The kind whose objects say what is served.
pub const KIND: &str = "hsmpools.hsm.j5t.io";

/// What was seen of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All pools.
    pub pools: Vec<PoolView>,
    /// Namespaces and names of HSMDevices that no pool belongs to.
    pub unserved: Vec<(String, String)>,
}

/// A pool, and what its status says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    pub namespace: String,
    pub name: String,
    pub status: HsmPoolStatus,
}

/// Looks at all pools and HSMDevices that the user may see.
pub async fn look(cluster: &Cluster) -> Seen<Tokens> {
    let pools: Vec<HsmPool> = list(cluster).await?;
    let devices: Vec<HsmDevice> = list(cluster).await?;
    let has_pool = |device: &HsmDevice| {
        let mut pools = pools.iter().filter(|pool| pool.namespace() == device.namespace());
        let name = device.name_any();
        pools.any(|pool| {
            let named = pool.spec.hsm_device_refs.contains(&name);
            let owned = pool.owner_references().iter().any(|owner| owner.name == name);
            named || owned || pool.spec.hsm_device_ref.as_ref() == Some(&name)
        })
    };
    let unserved = devices.iter().filter(|device| !has_pool(device));
    Ok(Tokens {
        unserved: unserved
            .map(|device| (device.namespace().unwrap_or_default(), device.name_any()))
            .collect(),
        pools: pools.iter().map(view).collect(),
    })
}

fn view(pool: &HsmPool) -> PoolView {
    PoolView {
        namespace: pool.namespace().unwrap_or_default(),
        name: pool.name_any(),
        status: pool.status.clone().unwrap_or_default(),
    }
}

/// All objects of a kind, or those of the user's own namespace if there is no right to all.
async fn list<K>(cluster: &Cluster) -> Seen<Vec<K>>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let everything = ListParams::default();
    let all: Api<K> = Api::all(cluster.client.clone());
    match cluster.ask(all.list(&everything)).await {
        Err(Obstacle::Forbidden) => {
            let home = cluster.namespace.as_deref().unwrap_or(&cluster.home);
            let here: Api<K> = Api::namespaced(cluster.client.clone(), home);
            Ok(cluster.ask(here.list(&everything)).await?.items)
        }
        found => Ok(found?.items),
    }
}

/// Judges what was seen.
pub fn judge(seen: &Seen<Tokens>) -> Vec<Finding> {
    let tokens = match seen {
        Ok(tokens) => tokens,
        Err(obstacle) => {
            return vec![Finding::unseen(
                "hsmpools",
                obstacle,
                "ask for the right to list hsmpools and hsmdevices, or name a namespace: --namespace",
            )];
        }
    };
    let unserved = tokens.unserved.iter().map(|(namespace, name)| {
        Finding::bad(
            format!("hsmdevice/{namespace}/{name}"),
            "has no pool, so nobody looks for its tokens",
            format!("if its namespace is not served: helm upgrade with capabilities.hsm.namespaces={{{namespace}}}"),
        )
    });
    tokens.pools.iter().map(pool).chain(unserved).collect()
}

fn pool(view: &PoolView) -> Finding {
    let PoolView {
        namespace,
        name,
        status,
    } = view;
    let subject = format!("hsmpool/{namespace}/{name}");
    let phase = status.phase.as_deref().unwrap_or(phase::PENDING);
    let (there, served) = (
        status.available_devices,
        status.served_devices.unwrap_or_default(),
    );
    let told = format!("{phase}: {served} of {there} tokens are served");
    let describe = format!("kubectl describe hsmpool --namespace {namespace} {name}");
    match (phase, there) {
        (phase::READY, 0) => Finding::warning(subject, "Ready, but no token was found", describe),
        (phase::READY, _) if served >= there => Finding::good(subject, told),
        (phase::PENDING, _) => {
            let advice = format!("kubectl describe daemonsets --namespace {namespace}");
            Finding::bad(subject, "Pending: no discovery pod reports", advice)
        }
        _ => match complaints(status) {
            said if said.is_empty() => Finding::bad(subject, told, describe),
            said => Finding::bad(subject, format!("{told}; {said}"), describe),
        },
    }
}

/// What the status says is wrong: all tokens are not served, or another condition that is there only while something is wrong.
fn complaints(status: &HsmPoolStatus) -> String {
    let wrong = status.conditions.iter().filter(|condition| {
        let wanted = conditions::WANTED.contains(&condition.type_.as_str());
        condition.status == if wanted { "False" } else { "True" }
    });
    let of_nodes = status.reporting_pods.iter().filter_map(|pod| {
        let error = pod.error.as_deref()?;
        Some(format!("node {}: {error}", pod.node_name))
    });
    let said: Vec<String> = wrong
        .map(|condition| format!("{}: {}", condition.type_, condition.message))
        .chain(of_nodes)
        .collect();
    said.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::report::Report;
    use super::*;

    fn seen(status: serde_json::Value) -> Seen<Tokens> {
        Ok(Tokens {
            pools: vec![PoolView {
                namespace: "tokens".to_owned(),
                name: "pico-pool".to_owned(),
                status: serde_json::from_value(status).unwrap(),
            }],
            unserved: Vec::new(),
        })
    }

    fn told(seen: &Seen<Tokens>) -> (bool, String) {
        let report = Report::new(judge(seen));
        (report.well, serde_json::to_string(&report).unwrap())
    }

    #[test]
    fn pool_that_serves_all_its_tokens_is_well() {
        let (well, told) = told(&seen(json!({
            "totalDevices": 1, "availableDevices": 1, "servedDevices": 1, "expectedPods": 1, "phase": "Ready",
        })));
        assert!(well && told.contains("Ready: 1 of 1 tokens are served"), "{told}");
    }

    #[test]
    fn pool_that_serves_nothing_is_not_well_and_says_what_to_do() {
        let (well, told) = told(&seen(json!({
            "totalDevices": 1, "availableDevices": 1, "servedDevices": 0, "expectedPods": 1, "phase": "Partial",
            "conditions": [{
                "type": "Served", "status": "False", "reason": "NotServed", "lastTransitionTime": "2026-07-07T08:00:00Z",
                "message": "token e6: its agent says PinMissing",
            }, {
                "type": "PinMissing", "status": "True", "reason": "PinMissing", "lastTransitionTime": "2026-07-07T08:00:00Z",
                "message": "create it",
            }],
        })));
        assert!(!well, "{told}");
        for words in [
            "Partial: 0 of 1 tokens are served",
            "its agent says PinMissing",
            "PinMissing: create it",
            "kubectl describe hsmpool --namespace tokens pico-pool",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    /// The status of a manager that did not count what is served.
    #[test]
    fn pool_of_an_older_manager_is_not_taken_for_served() {
        let (well, told) = told(&seen(json!({
            "totalDevices": 1, "availableDevices": 1, "expectedPods": 1, "phase": "Ready",
        })));
        assert!(!well && told.contains("0 of 1 tokens"), "{told}");
    }

    #[test]
    fn pool_without_reports_or_tokens_is_told() {
        let (well, said) = told(&seen(json!({})));
        assert!(
            !well && said.contains("kubectl describe daemonsets --namespace tokens"),
            "{said}"
        );
        let (well, said) = told(&seen(json!({
            "totalDevices": 0, "availableDevices": 0, "servedDevices": 0, "expectedPods": 1, "phase": "Ready",
        })));
        assert!(well && said.contains("no token was found"), "{said}");
    }

    #[test]
    fn device_of_a_namespace_that_is_not_served_is_told() {
        let unserved = Ok(Tokens {
            pools: Vec::new(),
            unserved: vec![("lab".to_owned(), "pico".to_owned())],
        });
        let (well, said) = told(&unserved);
        assert!(!well && said.contains("hsmdevice/lab/pico"), "{said}");
        assert!(said.contains("capabilities.hsm.namespaces={lab}"), "{said}");
    }

    #[test]
    fn pools_that_cannot_be_seen_are_told() {
        let (well, said) = told(&Err(Obstacle::Forbidden));
        assert!(!well && said.contains("you may not look at it"), "{said}");
    }
}
