//! More notes than the buffer has room for: every object gets its event, and a repeated event costs one call.

use std::collections::BTreeSet;
use std::sync::Mutex;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use trustplane_kit::apply::Writer;
use trustplane_kit::controller::{Controller, Executor, Fault, Look, Options, Runner};
use trustplane_kit::events::Events;
use trustplane_kit::lease::Fence;
use trustplane_kit::queue::{Lane, Policy, Queue};
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Class, Classified, Note, ObjectRef, Plan, Severity, Step, Target};
use trustplane_process::metrics::Metrics;
use trustplane_testkit::proxy::{Match, Proxy, Verb};
use trustplane_testkit::{DEADLINE, Rules, Sandbox, Select, eventually};

use crate::events::count;
use crate::write_rig::{Rig, clients};

const LOUD: usize = 2000;
const QUIET: usize = 500;

/// Tells each object once that it is denied.
#[derive(Default)]
struct Teller {
    told: Mutex<BTreeSet<ObjectRef>>,
}

#[derive(Debug, thiserror::Error)]
#[error("nothing fails")]
struct Never;

impl Classified for Never {
    fn class(&self) -> Class {
        Class::Bug
    }

    fn reason(&self) -> &'static str {
        "Never"
    }
}

impl Controller for Teller {
    type Key = ObjectRef;
    type Input = ObjectRef;
    type Action = ObjectRef;
    type Error = Never;
    type Held = ();

    fn name(&self) -> &'static str {
        "teller"
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<ObjectRef>, Never> {
        Ok((!self.told.lock().unwrap().contains(key)).then(|| key.clone()))
    }

    fn decide(&self, object: &ObjectRef, _now: Timestamp) -> Plan<ObjectRef> {
        let mut plan = Plan::default();
        plan.push(Step::TellOnce(denied(object), object.clone()));
        plan
    }

    async fn perform(&self, object: ObjectRef) -> Result<(), Fault<Never>> {
        assert!(self.told.lock().unwrap().insert(object), "told once");
        Ok(())
    }
}

fn denied(object: &ObjectRef) -> Note {
    let about = Target {
        kind: CONFIG_MAP,
        object: object.clone(),
    };
    Note::new(
        about,
        &object.to_string(),
        Severity::Warning,
        "Denied",
        "Sync",
        "no",
    )
}

async fn rig(name: &str) -> Result<Rig> {
    let rules = Rules {
        cluster: Events::rights().wide(),
        namespaced: Vec::new(),
    };
    Rig::with(name, rules).await
}

#[tokio::test]
async fn every_object_of_a_flood_gets_its_event() -> Result<()> {
    let rig = rig("loud").await?;
    let others = [
        Sandbox::on(rig.sandbox.plane().clone(), "quiet").await?,
        Sandbox::on(rig.sandbox.plane().clone(), "calm").await?,
    ];
    let floods = [(&rig.sandbox, LOUD), (&others[0], QUIET), (&others[1], QUIET)];
    let metrics = Metrics::new();
    let (events, publisher) = Events::new(rig.clients.call.clone(), "trustplane.io/test", "me", &metrics);
    let writer = Writer::new(rig.clients.call.clone(), "test", &metrics);
    let queue = Queue::new("teller", Policy::default(), 1, &metrics);
    let teller = Teller::default();
    for (sandbox, objects) in floods {
        for n in 0..objects {
            let object = ObjectRef::new(Some(sandbox.namespace()), &format!("object-{n}"));
            queue.add(object, Lane::Normal);
        }
    }
    let stop = CancellationToken::new();
    let executor = Executor::new(writer, events, &metrics);
    let runner = tokio::spawn(Runner::new(teller, queue, executor, Options::default()).run(stop.clone()));
    let publisher = tokio::spawn(publisher.run(stop.clone()));
    for (sandbox, objects) in floods {
        eventually(&sandbox.api::<Event>(), &Select::default(), DEADLINE, |found| {
            (found.len() == objects).then_some(())
        })
        .await?;
    }
    stop.cancel();
    runner.await??;
    publisher.await?;
    assert!(
        count(&metrics, "refused") > 0,
        "there was more than the buffer takes"
    );
    let told = (LOUD + 2 * QUIET) as u64;
    let outcomes = ["started", "joined", "published", "given_up"].map(|outcome| count(&metrics, outcome));
    assert_eq!(outcomes, [told, 0, told, 0], "{}", metrics.encode());
    Ok(())
}

/// How a known event is met again.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    Nothing,
    Changed,
    Expired,
}

/// A process that tells the same twice; gives the verbs of the calls that the second time took, and the count of the event.
async fn tell_twice(rig: &Rig, proxy: &Proxy, meanwhile: Meanwhile) -> Result<(Vec<Verb>, Option<i32>)> {
    let client = clients(&rig.instance.through(proxy), Fence::always())?.call;
    let (events, publisher) = Events::new(client, "trustplane.io/test", "me", &Metrics::new());
    let stop = CancellationToken::new();
    let run = tokio::spawn(publisher.run(stop.clone()));
    let note = denied(&rig.object(&format!("{meanwhile:?}").to_lowercase()));
    let api: Api<Event> = rig.sandbox.api();
    assert!(events.tell(&note).is_taken());
    let about =
        |event: &&Event| event.regarding.as_ref().and_then(|about| about.uid.as_deref()) == Some(&note.uid);
    let name = eventually(&api, &Select::default(), DEADLINE, |found| {
        let event = found.values().find(about)?;
        event.metadata.name.clone()
    })
    .await?;
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::Changed => {
            let touch = Patch::Merge(json!({ "metadata": { "labels": { "touched": "yes" } } }));
            api.patch(&name, &PatchParams::default(), &touch).await?;
        }
        Meanwhile::Expired => drop(api.delete(&name, &Default::default()).await?),
    }
    let mark = proxy.mark();
    for _ in 0..3 {
        assert!(events.tell(&note).is_taken());
    }
    stop.cancel();
    run.await?;
    let calls = proxy.requests_since(mark, &Match::any());
    let series = api.get(&name).await?.series;
    Ok((
        calls.iter().map(|call| call.request.verb).collect(),
        series.map(|series| series.count),
    ))
}

#[tokio::test]
async fn a_repeated_event_costs_one_call() -> Result<()> {
    let rig = rig("repeated").await?;
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let again = tell_twice(&rig, &proxy, Meanwhile::Nothing).await?;
    assert_eq!(again, (vec![Verb::Patch], Some(4)));
    let changed = tell_twice(&rig, &proxy, Meanwhile::Changed).await?;
    assert_eq!(changed, (vec![Verb::Patch, Verb::Get, Verb::Patch], Some(4)));
    let expired = tell_twice(&rig, &proxy, Meanwhile::Expired).await?;
    assert_eq!(expired, (vec![Verb::Patch, Verb::Get, Verb::Create], Some(3)));
    Ok(())
}
