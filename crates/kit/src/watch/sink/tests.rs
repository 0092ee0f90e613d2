use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_process::metrics::Metrics;

use super::*;
use crate::watch::{
    Reason, Tuning,
    failure::Failure,
    follower::Follower,
    hub::Running,
    lines::Line,
    machine::{Ask, Step},
    metrics::WatchMetrics,
    request::Selection,
};

/// Writes down its calls.
#[derive(Default)]
struct Script(Mutex<Vec<String>>);

impl Script {
    fn note(&self, call: impl Into<String>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call.into());
    }

    /// The calls since the last look.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Script {
    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn list_begun(&self) {
        self.note("begun");
    }

    fn applied(&self, object: &Sighting<'_>) -> Result<(), ProjectError> {
        let sign = if object.listing { "  +" } else { "+" };
        self.note(format!("{sign}{}@{}", object.object.name(), object.version));
        assert!(!object.json.contains("panic"), "told to");
        if object.json.contains("bad") {
            return Err(ProjectError::new("it is bad"));
        }
        Ok(())
    }

    fn deleted(&self, object: &ObjectRef, uid: &str) {
        self.note(format!("-{} {uid}", object.name()));
    }

    fn list_complete(&self, whole: bool) {
        self.note(if whole { "complete" } else { "complete in parts" });
    }

    fn list_dropped(&self) {
        self.note("dropped");
    }
}

struct Rig {
    script: Arc<Script>,
    hub: Arc<Hub<()>>,
    follower: Follower<IntoSink<Script>>,
    metrics: Metrics,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let selection = Selection {
            kind: CONFIG_MAP,
            labels: None,
            fields: None,
            payload: Payload::Full,
        };
        let metrics = Metrics::new();
        let of_kind = WatchMetrics::new(&metrics).of(&CONFIG_MAP);
        let collections = [Arc::from("")].into();
        let hub = Arc::new(Hub::poured(
            selection,
            collections,
            of_kind,
            CancellationToken::new(),
        ));
        let script = Arc::new(Script::default());
        let sink = IntoSink::new(hub.clone(), Arc::from(""), script.clone());
        let tuning = Arc::new(Tuning::default());
        Self {
            follower: Follower::new(hub.clone(), Arc::from(""), sink, tuning),
            script,
            hub,
            metrics,
            now: Instant::now(),
        }
    }

    /// A rig whose server has streamed a list of this version with these objects.
    fn listed(version: u64, objects: &[&str]) -> Self {
        let mut rig = Self::new();
        rig.follower.accepted(rig.now);
        for object in objects {
            rig.event("ADDED", object);
        }
        rig.end_list(version);
        rig.script.calls();
        rig
    }

    fn line(&mut self, line: &str) {
        self.follower.line(&Line::Whole(line.to_owned().into()), self.now);
    }

    /// An event of an object, as `name uid version` and anything else.
    fn event(&mut self, kind: &str, object: &str) {
        let object = item(object);
        self.line(&format!(r#"{{"type":"{kind}","object":{object}}}"#));
    }

    fn end_list(&mut self, version: u64) {
        self.line(&format!(
            r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}",
            "annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
        ));
    }

    fn page(&mut self, version: u64, next: &str, objects: &[&str]) {
        let items: Vec<_> = objects.iter().map(|object| item(object)).collect();
        let body = format!(
            r#"{{"metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
            items.join(",")
        );
        self.follower.page(body.as_bytes(), self.now);
    }

    fn fail(&mut self, reason: Reason) {
        self.follower.failed(Failure::new(reason, ""), self.now);
    }

    fn asks_for_a_list(&mut self) -> bool {
        if let Step::Wait(until) = self.follower.step(self.now) {
            self.now = until;
        }
        !matches!(self.follower.step(self.now), Step::Send(Ask::Watch { .. }))
    }

    fn collection(&self) -> Value {
        self.hub.debug_state()["collections"][0].clone()
    }
}

fn item(object: &str) -> String {
    let mut words = object.split(' ');
    let [name, uid, version] = [(); 3].map(|()| words.next().unwrap());
    let rest = words.next().unwrap_or_default();
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{uid}","resourceVersion":"{version}"}},"rest":"{rest}"}}"#
    )
}

#[test]
fn sink_hears_a_deletion_during_a_streaming_list() {
    let mut rig = Rig::new();
    rig.follower.accepted(rig.now);
    assert_eq!(rig.script.calls(), [""; 0], "nothing is known of the list yet");
    rig.event("ADDED", "a u1 3");
    rig.event("ADDED", "b u2 4");
    rig.event("DELETED", "a u1 6");
    rig.event("MODIFIED", "b u2 5");
    rig.end_list(6);
    let calls = ["begun", "  +a@3", "  +b@4", "-a u1", "  +b@5", "complete"];
    assert_eq!(rig.script.calls(), calls);
    assert!(rig.hub.standing().borrow().complete);
}

#[test]
fn sink_hears_an_empty_list() {
    let mut rig = Rig::new();
    rig.fail(Reason::Rejected);
    rig.page(5, "", &[]);
    assert_eq!(rig.script.calls(), ["begun", "complete"]);
}

#[test]
fn sink_hears_that_a_list_starts_over() {
    let mut rig = Rig::new();
    rig.fail(Reason::Rejected);
    rig.page(5, "t", &["a u1 3"]);
    rig.fail(Reason::Connection);
    rig.page(5, "t2", &["b u2 4"]);
    assert_eq!(rig.script.calls(), ["begun", "  +a@3", "  +b@4"], "one list");
    rig.fail(Reason::Expired);
    rig.page(6, "", &["b u2 4"]);
    assert_eq!(rig.script.calls(), ["dropped", "begun", "  +b@4", "complete"]);
}

#[test]
fn sink_hears_nothing_of_a_stale_list_by_pages() {
    let mut rig = Rig::listed(9, &["a u1 8"]);
    rig.fail(Reason::Expired);
    rig.follower.accepted(rig.now);
    rig.fail(Reason::Rejected);
    rig.page(7, "t", &["gone u0 3", "a u1 5"]);
    assert_eq!(rig.script.calls(), [""; 0]);
    assert!(rig.asks_for_a_list());
    rig.page(9, "", &["a u1 8"]);
    assert_eq!(rig.script.calls(), ["begun", "  +a@8", "complete"]);
}

#[test]
fn stale_streaming_list_is_dropped_at_its_end() {
    let mut rig = Rig::listed(9, &["a u1 8"]);
    rig.fail(Reason::Expired);
    rig.follower.accepted(rig.now);
    rig.event("ADDED", "a u1 5");
    rig.end_list(7);
    assert_eq!(rig.script.calls(), ["begun", "  +a@5", "dropped"]);
    assert!(rig.asks_for_a_list());
}

#[test]
fn event_out_of_order_is_not_told_and_leads_to_a_list() {
    for kind in ["MODIFIED", "DELETED"] {
        let mut rig = Rig::listed(9, &["a u1 8"]);
        rig.follower.accepted(rig.now);
        rig.event("ADDED", "b u2 12");
        rig.event(kind, "a u1 11");
        assert_eq!(rig.script.calls(), ["+b@12"], "{kind}");
        assert!(rig.asks_for_a_list(), "{kind}");
        assert_eq!(
            rig.collection()["lastFailure"],
            "Disorder: an event is older than what was seen before"
        );
    }
}

#[test]
fn object_that_cannot_be_read_is_counted_and_disturbs_no_other() {
    let mut rig = Rig::listed(9, &["a u1 3 bad", "b u2 4 panic", "c u3 5"]);
    let collection = rig.collection();
    assert_eq!(collection["unreadable"], 2, "{collection}");
    let named: Vec<_> = collection["unreadableObjects"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(
        named,
        [
            "ns/a: failed to read an object: it is bad",
            "ns/b: the sink panicked"
        ]
    );
    let text = rig.metrics.encode();
    assert!(text.contains(r#"trustplane_watch_failures_total{kind="ConfigMap",reason="Undecodable"} 2"#));
    assert!(
        rig.hub.standing().borrow().complete,
        "the list is whole all the same"
    );

    rig.event("MODIFIED", "a u1 10");
    rig.event("DELETED", "b u2 11");
    assert_eq!(rig.collection()["unreadable"], 0);
    assert_eq!(rig.script.calls(), ["+a@10", "-b u2"]);
}

#[test]
fn list_with_an_object_without_a_name_is_not_whole() {
    let mut rig = Rig::new();
    rig.follower.accepted(rig.now);
    rig.line(r#"{"type":"ADDED","object":{"metadata":{}}}"#);
    rig.follower.line(&Line::TooLong, rig.now);
    rig.end_list(5);
    assert_eq!(rig.script.calls(), ["begun", "complete in parts"]);
    rig.follower.relist(rig.now);
    rig.follower.accepted(rig.now);
    rig.end_list(6);
    assert_eq!(
        rig.script.calls(),
        ["begun", "complete"],
        "the next list is another one"
    );
}

#[test]
fn list_that_is_cut_off_by_the_end_of_the_watch_is_dropped() {
    let mut rig = Rig::new();
    rig.follower.accepted(rig.now);
    rig.event("ADDED", "a u1 3");
    drop(rig.follower);
    assert_eq!(rig.script.calls(), ["begun", "  +a@3", "dropped"]);
}
