//! How an agent is doing: what a pod says late does not hide its successor.

use tokio::sync::watch;
use tokio::task::JoinHandle;
use trustplane_api::hsm::record::{AgentPhase, AgentState};

use super::*;
use crate::health::{Health, Phase};

fn health(phase: Phase) -> Health {
    Health {
        phase,
        ..Health::default()
    }
}

/// Has a pod report that it is so, and end.
async fn reported(memory: &Arc<Memory>, pod: &str, phase: Phase) {
    let (tell, told) = watch::channel(health(phase));
    // What it was told first it writes in any case.
    drop(tell);
    report(memory.clone(), told, pod.to_owned()).await;
}

/// A pod that serves, has said so, and goes on reporting what it is told.
async fn serving(memory: &Arc<Memory>, pod: &str) -> (watch::Sender<Health>, JoinHandle<()>) {
    let (tell, told) = watch::channel(health(Phase::Serving));
    let reporting = tokio::spawn(report(memory.clone(), told, pod.to_owned()));
    while memory.record().state.is_none() {
        tokio::task::yield_now().await;
    }
    (tell, reporting)
}

impl Memory {
    fn state(&self) -> (String, AgentPhase) {
        let state = self.record().state.unwrap();
        (state.by, state.phase)
    }
}

#[tokio::test]
async fn what_a_pod_says_after_its_successor_has_spoken_is_not_written() {
    let memory = Arc::new(Memory::default());
    let (tell, old) = serving(&memory, "pod-a").await;
    reported(&memory, "pod-b", Phase::Serving).await;
    assert_eq!(memory.state(), ("pod-b".to_owned(), AgentPhase::Serving));
    tell.send_replace(health(Phase::Unavailable));
    drop(tell);
    old.await.unwrap();
    assert_eq!(memory.state(), ("pod-b".to_owned(), AgentPhase::Serving));
}

#[tokio::test]
async fn a_write_that_the_successor_has_overtaken_is_not_made() {
    let memory = Arc::new(Memory::default());
    let (tell, old) = serving(&memory, "pod-a").await;
    // It has read the record, and then the other one writes.
    let state = AgentState {
        phase: AgentPhase::Serving,
        message: String::new(),
        since: "2026-07-07T08:00:00Z".parse().unwrap(),
        by: "pod-b".to_owned(),
    };
    *memory.meanwhile.lock().unwrap() = Some(Record {
        state: Some(state),
        ..Record::default()
    });
    tell.send_replace(health(Phase::Unavailable));
    drop(tell);
    old.await.unwrap();
    assert_eq!(memory.state(), ("pod-b".to_owned(), AgentPhase::Serving));
}

#[tokio::test]
async fn a_pod_that_begins_takes_the_record_over() {
    let memory = Arc::new(Memory::default());
    reported(&memory, "pod-a", Phase::Serving).await;
    reported(&memory, "pod-b", Phase::Opening).await;
    assert_eq!(memory.state(), ("pod-b".to_owned(), AgentPhase::Opening));
    reported(&memory, "pod-b", Phase::Unavailable).await;
    // That one has begun says less than what is wrong.
    reported(&memory, "pod-c", Phase::Opening).await;
    assert_eq!(memory.state(), ("pod-b".to_owned(), AgentPhase::Unavailable));
}
