//! A puppet controller whose keys say what happens to them, on paused time and an API server that a test scripts.

mod faults;
mod life;
mod stores;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{
    Apply, Class, Classified, Delete, Ending, Failure, Manifest, Note, ObjectRef, Plan, Propagation,
    Severity, Step, Target,
};
use trustplane_process::metrics::Metrics;

use super::{Controller, Executor, Fault, Look, Options, RunError, Runner};
use crate::apply::Writer;
use crate::events::{Events, Publisher};
use crate::queue::{Lane, Policy, Queue};

/// The name of a key says what happens to it.
#[derive(Clone, Default)]
struct Puppet {
    /// Keys whose outside call was made, in order.
    called: Arc<Mutex<Vec<String>>>,
    /// How often each look was taken.
    looks: Arc<Mutex<Vec<String>>>,
    /// For each look, whether it was a second one, and the count that was held from one to the next.
    held: Arc<Mutex<Vec<(bool, u32)>>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the user named a thing that does not exist")]
struct Mistake;

impl Classified for Mistake {
    fn class(&self) -> Class {
        Class::User
    }

    fn reason(&self) -> &'static str {
        "NoSuchThing"
    }
}

impl Controller for Puppet {
    type Key = ObjectRef;
    type Input = (String, u32);
    type Action = String;
    type Error = Mistake;
    type Held = u32;

    fn name(&self) -> &'static str {
        "puppet"
    }

    async fn gather(&self, key: &ObjectRef, look: &mut Look<u32>) -> Result<Option<(String, u32)>, Mistake> {
        look.held += 1;
        self.held.lock().unwrap().push((look.again, look.held));
        self.looks.lock().unwrap().push(key.name().to_owned());
        match key.name() {
            "gone" => return Ok(None),
            "mistake" => return Err(Mistake),
            "panic" => panic!("a puppet fell"),
            "slow" => sleep(Duration::from_secs(5)).await,
            "endless" => std::future::pending().await,
            _ => {}
        }
        Ok(Some((key.name().to_owned(), look.failures)))
    }

    fn decide(&self, (input, failures): &(String, u32), _now: Timestamp) -> Plan<String> {
        let mut plan = Plan::default();
        if input == "write" {
            plan.push(Step::Apply(Apply::create(Manifest::new(
                CONFIG_MAP,
                Some("ns"),
                "written",
            ))));
        }
        if input == "remove" {
            plan.push(Step::Delete(Delete {
                target: Target {
                    kind: CONFIG_MAP,
                    object: ObjectRef::new(Some("ns"), "written"),
                },
                uid: "u".into(),
                resource_version: None,
                propagation: Propagation::Background,
            }));
        }
        if input == "again" {
            plan.look_again_in(Duration::from_secs(7));
        }
        if input == "failing" {
            plan.push(Step::Tell(note(input, "NoSuchThing", "it is not there")));
            plan.ending = match failures {
                // It is looked at before it is time.
                2 => {
                    plan.look_again_in(Duration::from_secs(7));
                    Ending::StillFailing
                }
                _ => Ending::Failed(Failure {
                    class: Class::Transient,
                    reason: "NoSuchThing",
                    text: "it is not there".to_owned(),
                    retry_in: Some(Duration::from_secs(7)),
                }),
            };
        }
        if input == "note" {
            plan.push(Step::Remember("kept".to_owned()));
        }
        if input == "tell" {
            plan.push(Step::TellOnce(
                note("tell", "told", "something"),
                "told".to_owned(),
            ));
        }
        plan.push(Step::Call(input.clone()));
        plan
    }

    async fn perform(&self, action: String) -> Result<(), Fault<Mistake>> {
        self.called.lock().unwrap().push(action);
        Ok(())
    }

    fn report(&self, key: &ObjectRef, fault: &Fault<Mistake>) -> Vec<Note> {
        assert_ne!(key.name(), "panic", "it falls again while it reports");
        vec![note(key.name(), fault.reason(), &fault.to_string())]
    }
}

fn note(name: &str, reason: &'static str, text: &str) -> Note {
    let about = Target {
        kind: CONFIG_MAP,
        object: ObjectRef::new(Some("ns"), name),
    };
    Note::new(about, name, Severity::Warning, reason, "Sync", text)
}

/// An API server that refuses the first writes as out of date.
#[derive(Clone, Default)]
struct Api {
    refusals: Arc<AtomicU32>,
    writes: Arc<AtomicU32>,
}

impl Api {
    fn client(&self) -> kube::Client {
        let api = self.clone();
        let answer = move |request: Request<Body>| {
            let (code, body) = api.answer(request.method());
            let response = Response::builder()
                .status(code)
                .body(Body::from(body.to_string().into_bytes()));
            std::future::ready(response)
        };
        kube::Client::new(tower::service_fn(answer), "default")
    }

    fn answer(&self, method: &Method) -> (u16, serde_json::Value) {
        if *method == Method::GET {
            return (404, serde_json::json!({ "kind": "Status", "code": 404 }));
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        let refused = self
            .refusals
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match refused {
            Ok(_) => (
                409,
                serde_json::json!({ "kind": "Status", "code": 409, "reason": "Conflict" }),
            ),
            Err(_) => (
                201,
                serde_json::json!({ "metadata": { "name": "written", "namespace": "ns", "resourceVersion": "5" } }),
            ),
        }
    }
}

/// A puppet on a stage.
struct Stage {
    puppet: Puppet,
    queue: Queue<ObjectRef>,
    api: Api,
    metrics: Metrics,
    options: Options,
    leading: watch::Sender<bool>,
    shutdown: CancellationToken,
    dry_run: bool,
    events: Events,
    publisher: Option<Publisher>,
}

impl Stage {
    fn new() -> Self {
        let (metrics, api) = (Metrics::new(), Api::default());
        let (events, publisher) = Events::new(api.client(), "trustplane.io/puppet", "puppet-0", &metrics);
        Self {
            puppet: Puppet::default(),
            queue: Queue::new("puppet", Policy::default(), 1, &metrics),
            api,
            metrics,
            options: Options {
                resync: None,
                ..Options::default()
            },
            leading: watch::Sender::new(true),
            shutdown: CancellationToken::new(),
            dry_run: false,
            events,
            publisher: Some(publisher),
        }
    }

    fn add(&self, names: &[&str]) {
        for name in names {
            self.queue.add(ObjectRef::new(Some("ns"), name), Lane::Normal);
        }
    }

    fn runner(&mut self) -> Runner<Puppet> {
        let writer = Writer::new(self.api.client(), "trustplane-puppet", &self.metrics);
        let executor = Executor::new(writer, self.events.clone(), &self.metrics).dry_run(self.dry_run);
        Runner::new(
            self.puppet.clone(),
            self.queue.clone(),
            executor,
            self.options.clone(),
        )
        .while_leading(self.leading.subscribe())
    }

    fn run(&mut self) -> JoinHandle<Result<(), RunError>> {
        let runner = self.runner();
        tokio::spawn(runner.run(self.shutdown.clone()))
    }

    fn called(&self) -> Vec<String> {
        self.puppet.called.lock().unwrap().clone()
    }

    /// For each look, whether it was a second one, and the count that was held from one to the next.
    fn held(&self) -> Vec<(bool, u32)> {
        self.puppet.held.lock().unwrap().clone()
    }

    fn looks(&self) -> usize {
        self.puppet.looks.lock().unwrap().len()
    }

    #[track_caller]
    fn assert_metric(&self, line: &str) {
        let text = self.metrics.encode();
        assert!(
            text.lines().any(|other| other == format!("trustplane_{line}")),
            "{line} is not in {text}"
        );
    }
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}
