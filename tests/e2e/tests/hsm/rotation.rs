//! The CA rotates while agents are called, without a call that fails and without a new pod. The steps are the product's own; the
//! test moves the dates in the CA's Secret, so that each is due at once, and the leader changes, so that somebody looks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use trustplane_e2e::say;
use trustplane_process::ca::{Authority, AuthorityState, Policy};

use crate::client::{Agent, inside};
use crate::stage::{Pod, Stage};

/// The Secret with the CA.
const AUTHORITY: &str = "hsm-mtls-ca";
const TIMES: &str = "times.json";
/// Between rounds of calls, so that other parts of the test have the processor too.
const PAUSE: Duration = Duration::from_millis(100);

/// A rotation, and the calls that go on meanwhile.
pub struct Rotation<'a> {
    stage: &'a Stage<'a>,
    agents: [&'static str; 2],
    pods: Vec<Pod>,
    /// The certificates of agents before the rotation.
    leaves: BTreeMap<String, String>,
    /// The CA as replicas of the manager know it.
    known: watch::Sender<Arc<Authority>>,
    stop: Arc<AtomicBool>,
    caller: JoinHandle<Vec<String>>,
}

impl<'a> Rotation<'a> {
    /// Begins to call the agents: over a connection that lasts, and over a new one each time.
    pub fn begin(stage: &'a Stage<'a>, agents: [&'static str; 2]) -> Self {
        let pods: Vec<Pod> = agents.iter().map(|agent| stage.pod(agent).unwrap()).collect();
        let (known, news) = watch::channel(Arc::new(authority(state(stage))));
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let targets = agents.iter().zip(&pods).map(|(name, pod)| target(name, pod));
        let calls = calls(targets.collect(), news, stop.clone(), rounds.clone());
        let caller = inside(stage.cluster, calls);
        stage.until("the first calls", || {
            let begun = rounds.load(Ordering::Relaxed) > 0 || caller.is_finished();
            begun.then_some(())
        });
        Self {
            stage,
            agents,
            pods,
            leaves: certificates(stage, "tls.crt"),
            known,
            stop,
            caller,
        }
    }

    /// Makes the CA old, so that a successor is due.
    pub fn let_announce(&self) {
        self.shift(|times| times["current"]["created"] = ago(SignedDuration::from_hours(24 * 365 * 9)));
    }

    /// Waits until the successor is in the bundle of every agent.
    pub fn is_announced(&self) {
        let next = self
            .stage
            .until("the successor of the CA", || state(self.stage).next);
        self.reaches("ca.crt", |_, bundle| bundle.contains(&next.certificate));
    }

    /// Waits until the agents that are called take a client for which the successor vouches.
    pub fn is_trusted(&self) {
        let both = state(self.stage);
        let bundle = authority(both.clone()).bundle_pem();
        let next = authority(AuthorityState {
            current: both.next.unwrap(),
            next: None,
            previous: None,
        });
        self.answer(&self.agents, &next, &bundle);
    }

    /// Makes the announcement old, so that the successor signs.
    pub fn let_promote(&self) {
        self.shift(|times| times["next"]["created"] = ago(SignedDuration::from_hours(2)));
    }

    /// Waits until the successor has signed for every agent. From then on it vouches for the client too.
    pub fn is_promoted(&self) {
        let now = self.stage.until("the successor to sign", || {
            Some(state(self.stage)).filter(|state| state.next.is_none() && state.previous.is_some())
        });
        self.known.send_replace(Arc::new(authority(now)));
        self.reaches("tls.crt", |secret, leaf| {
            self.leaves.get(secret) != Some(&leaf.to_owned())
        });
    }

    /// Waits until every agent shows a certificate of the successor.
    pub fn is_served(&self) {
        let now = state(self.stage);
        let only = now.current.certificate.clone();
        let agents = ["hsm-agent-mistaken-c", "hsm-agent-locked-d", crate::MOVED];
        let agents = [&agents[..], &self.agents].concat();
        self.answer(&agents, &authority(now), &only);
    }

    /// Ends the calls: none has failed, and no pod that was called is another one.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let failures = self.caller.join().unwrap();
        assert!(
            failures.is_empty(),
            "{} calls failed: {failures:#?}",
            failures.len()
        );
        for (agent, before) in self.agents.iter().zip(&self.pods) {
            let now = self.stage.pod(agent).unwrap();
            assert_eq!((&now.uid, now.restarts), (&before.uid, 0), "{agent} began anew");
        }
    }

    /// Changes the dates of the CA.
    fn shift(&self, change: impl FnOnce(&mut Value)) {
        let mut times: Value = serde_json::from_slice(&data(&self.secret())[TIMES]).unwrap();
        change(&mut times);
        let times = STANDARD.encode(times.to_string());
        let patch = format!("--patch={}", json!({"data": {TIMES: times}}));
        let patch = ["patch", "secret", AUTHORITY, "--type=merge", &patch];
        say(&mut self.stage.release.kubectl(&patch)).unwrap();
    }

    fn secret(&self) -> Value {
        self.stage.release.read(&["get", "secret", AUTHORITY]).unwrap()
    }

    /// Waits until an entry of every agent's Secret is as it should be, and has kubelet bring it to the pods: a pod that changes
    /// is looked at there and then, others within minutes.
    fn reaches(&self, entry: &str, is_right: impl Fn(&str, &str) -> bool) {
        self.stage.until(&format!("{entry} of every agent"), || {
            let found = certificates(self.stage, entry);
            let right = found.iter().all(|(secret, text)| is_right(secret, text));
            (right && found.len() >= self.leaves.len()).then_some(())
        });
        let now = format!("test.trustplane.io/looked={}", Timestamp::now().as_millisecond());
        let pods = "--selector=app.kubernetes.io/component=hsm-agent";
        say(&mut self
            .stage
            .kubectl(&["annotate", "pods", pods, "--overwrite", &now]))
        .unwrap();
    }

    /// Waits until these agents answer a client of this CA with a certificate that is trusted.
    fn answer(&self, agents: &[&str], signer: &Authority, trust: &str) {
        let mut left: BTreeSet<&str> = agents.iter().copied().collect();
        self.stage.until("every agent to take and show certificates", || {
            for agent in left.clone() {
                let target = target(agent, &self.stage.pod(agent)?);
                let (signer, trust) = (signer.clone(), trust.to_owned());
                let asked = async move { target.connect(&signer, &trust).await?.ask().await };
                if inside(self.stage.cluster, asked).join().unwrap().is_ok() {
                    left.remove(agent);
                }
            }
            left.is_empty().then_some(())
        });
    }
}

/// Calls the agents until it is told to stop, and says what went wrong.
async fn calls(
    agents: Vec<Agent>,
    known: watch::Receiver<Arc<Authority>>,
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut failures = Vec::new();
    let mut kept = Vec::new();
    for agent in &agents {
        let now = known.borrow().clone();
        let mut line = agent.connect(&now, &now.bundle_pem()).await.unwrap();
        line.write().await.unwrap();
        kept.push(line);
    }
    while !stop.load(Ordering::Relaxed) {
        let now = known.borrow().clone();
        for (agent, line) in agents.iter().zip(&mut kept) {
            let fresh = async { agent.connect(&now, &now.bundle_pem()).await?.read().await };
            for (how, outcome) in [("a new", fresh.await), ("the old", line.read().await)] {
                if let Err(error) = outcome {
                    failures.push(format!("{} over {how} connection: {error:#}", agent.name));
                }
            }
        }
        rounds.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
    failures
}

fn target(agent: &str, pod: &Pod) -> Agent {
    Agent {
        name: agent.to_owned(),
        address: pod.address.parse().expect("a pod has an address"),
    }
}

/// The CA, as the Secret has it.
fn state(stage: &Stage<'_>) -> AuthorityState {
    let secret = stage.release.read(&["get", "secret", AUTHORITY]).unwrap();
    AuthorityState::from_data(&data(&secret)).unwrap()
}

fn authority(state: AuthorityState) -> Authority {
    Authority::resume("trustplane", Policy::default(), state).unwrap()
}

/// An entry of the Secrets of all agents, by the name of the Secret.
fn certificates(stage: &Stage<'_>, entry: &str) -> BTreeMap<String, String> {
    let secrets = stage.read(&["get", "secrets", "--selector=app.kubernetes.io/component=mtls"]);
    let secrets = secrets["items"].as_array().into_iter().flatten();
    let entries = secrets.map(|secret| {
        let name = secret["metadata"]["name"].as_str().unwrap().to_owned();
        let text = String::from_utf8(data(secret).remove(entry).unwrap()).unwrap();
        (name, text)
    });
    entries.collect()
}

fn data(secret: &Value) -> BTreeMap<String, Vec<u8>> {
    let data = secret["data"].as_object().unwrap().iter();
    data.map(|(name, value)| (name.clone(), STANDARD.decode(value.as_str().unwrap()).unwrap()))
        .collect()
}

fn ago(time: SignedDuration) -> Value {
    Timestamp::now().checked_sub(time).unwrap().to_string().into()
}
