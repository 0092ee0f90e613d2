//! Two managers, of which one leads: it is killed, and gives way, and whoever leads writes each thing once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use trustplane_api::hsm::conditions::{self, phase, reason};
use trustplane_cluster::wait;
use trustplane_e2e::say;
use trustplane_testkit::audit::Event;

use crate::NAME;
use crate::devices::TOKENS;
use crate::secrets::{self, SHOP};
use crate::stage::{Stage, process_of};

/// A standby looks at the Lease every second, and a request takes its time.
const MARGIN: Duration = Duration::from_secs(10);

/// Who leads, and how long the others leave it alone.
struct Leader {
    instance: String,
    life: Duration,
}

impl Leader {
    fn of(stage: &Stage<'_>) -> Option<Self> {
        let leases = stage.release.read(&["get", "leases"]).unwrap();
        let leases = leases["items"].as_array()?;
        let mut held = leases.iter().filter_map(|lease| {
            let instance = lease["spec"]["holderIdentity"].as_str()?;
            let life = lease["spec"]["leaseDurationSeconds"].as_u64()?;
            (!instance.is_empty()).then(|| Self {
                instance: instance.to_owned(),
                life: Duration::from_secs(life),
            })
        });
        held.next()
    }

    /// Its pod: the instance is named after it, with a number of the process behind.
    fn pod(&self) -> &str {
        self.instance.rsplit_once('-').unwrap().0
    }

    /// Waits until another one leads.
    fn is_followed(&self, stage: &Stage<'_>) -> String {
        wait::until("another leader", self.life + MARGIN, || {
            let leader = Self::of(stage).filter(|leader| leader.instance != self.instance);
            Ok(leader.map(|leader| leader.instance))
        })
        .inspect_err(|_| stage.explain())
        .unwrap()
    }
}

/// The leader dies without a word; another one leads when the Lease has run out, and is named.
pub fn is_killed_and_followed(stage: &Stage<'_>) -> String {
    let leader = Leader::of(stage).unwrap();
    let pod = stage.release.read(&["get", "pod", leader.pod()]).unwrap();
    let process = process_of(pod["metadata"]["uid"].as_str().unwrap(), "trustplane-manager");
    say(Command::new("kill").arg("-KILL").arg(process.to_string())).unwrap();
    leader.is_followed(stage)
}

/// The leader is told to end, and the other one leads.
pub fn gives_way(stage: &Stage<'_>) {
    let leader = Leader::of(stage).unwrap();
    say(&mut stage
        .release
        .kubectl(&["delete", "pod", leader.pod(), "--wait=false"]))
    .unwrap();
    leader.is_followed(stage);
}

/// What the managers have written in the namespaces of tokens and of Secrets made from them, from a place of the audit log on.
fn writes(stage: &Stage<'_>, from: usize) -> Vec<Event> {
    let log = fs::read(stage.cluster.control_plane().audit_log()).unwrap();
    let whole = log
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let log = String::from_utf8_lossy(&log[from..whole]).into_owned();
    let us = format!("system:serviceaccount:{NAME}:{NAME}-trustplane-manager");
    let events = log
        .lines()
        .map(|line| serde_json::from_str::<Event>(line).unwrap());
    events
        .filter(|event| event.user() == us && event.is_write() && event.succeeded())
        .filter(|event| [TOKENS, SHOP].contains(&event.namespace()) && event.resource() != "events")
        .collect()
}

/// Each object of an agent was written once, and all of them by this instance.
pub fn has_written_once(stage: &Stage<'_>, instance: &str, agent: &str) {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut writers = BTreeSet::new();
    for event in writes(stage, 0) {
        if event.name().starts_with(agent) {
            *counts
                .entry((event.resource().to_owned(), event.name().to_owned()))
                .or_default() += 1;
            writers.insert(event.agent().to_owned());
        }
    }
    let kinds: BTreeSet<&str> = counts.keys().map(|(kind, _)| kind.as_str()).collect();
    let expected = [
        "configmaps",
        "deployments",
        "rolebindings",
        "roles",
        "secrets",
        "serviceaccounts",
    ];
    assert_eq!(kinds, expected.into(), "{counts:?}");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    let [writer] = Vec::from_iter(writers).try_into().expect("one writer");
    assert!(writer.contains(instance), "{writer} is not {instance}");
}

/// A time in which nothing changes, so that nothing may be written.
pub struct Rest<'a> {
    stage: &'a Stage<'a>,
    from: usize,
}

impl<'a> Rest<'a> {
    /// Waits until the pools and the HSMSecrets say what they will go on saying.
    pub fn begin(stage: &'a Stage<'a>) -> Self {
        secrets::are_in_sync(stage);
        stage.until("every pool to be at rest", || {
            let pools = stage.read(&["get", "hsmpools"]);
            let pools = pools["items"].as_array()?;
            pools.iter().all(is_settled).then_some(())
        });
        let log = fs::metadata(stage.cluster.control_plane().audit_log()).unwrap();
        Self {
            stage,
            from: usize::try_from(log.len()).unwrap(),
        }
    }

    /// Nothing was written.
    pub fn end(self) {
        let written = writes(self.stage, self.from);
        assert!(written.is_empty(), "{written:?}");
    }
}

fn is_settled(pool: &Value) -> bool {
    let status = &pool["status"];
    let tokens = status["aggregatedDevices"].as_array().into_iter().flatten();
    let mut here = tokens.filter(|token| token["available"] == true);
    let is_known = |token: &Value| {
        ["Serving", "PinLocked"]
            .iter()
            .any(|word| token["health"] == *word)
    };
    // That a token is not served is said at once, and told after a minute.
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let is_told = |condition: &Value| {
        condition["type"] == conditions::SERVED && condition["reason"] == reason::NOT_SERVED
    };
    let settled = status["phase"] == phase::READY || conditions.clone().any(is_told);
    settled && here.all(is_known)
}
