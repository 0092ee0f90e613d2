//! Events on a real API server: one for each series, whoever reports, whatever fails.

use anyhow::Result;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use trustplane_kit::apply::Writer;
use trustplane_kit::events::Events;
use trustplane_kit::lease::Fence;
use trustplane_kit::rights::Place;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{MAX_NOTE, Meta, Note, Severity};
use trustplane_process::metrics::Metrics;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule};
use trustplane_testkit::{DEADLINE, Rules, Select, eventually};

use crate::write_rig::{Rig, clients};

const CONTROLLER: &str = "trustplane.io/test";

async fn rig(name: &str) -> Result<(Rig, Meta)> {
    let rights = Events::rights();
    let rules = Rules {
        cluster: Vec::new(),
        namespaced: rights.of(Place::Served),
    };
    let rig = Rig::with(name, rules).await?;
    rig.stranger("a", json!({})).await?;
    let admin = Writer::new(rig.sandbox.client(), "test", &Metrics::new());
    let meta = admin
        .get_meta(&CONFIG_MAP, &rig.object("a"), &Default::default())
        .await?;
    Ok((rig, meta.unwrap()))
}

fn note(about: &Meta, text: &str) -> Note {
    Note::about(&CONFIG_MAP, about, Severity::Warning, "TokenLost", "Sync", text)
}

/// A process that tells these notes and ends.
async fn process(rig: &Rig, client: kube::Client, notes: &[Note]) -> Metrics {
    let metrics = Metrics::new();
    let (events, publisher) = Events::new(client, CONTROLLER, rig.clients.identity.instance(), &metrics);
    for note in notes {
        let _ = events.tell(note);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    publisher.run(stop).await;
    metrics
}

async fn events(rig: &Rig) -> Result<Vec<Event>> {
    Ok(rig.sandbox.api::<Event>().list(&Default::default()).await?.items)
}

pub fn count(metrics: &Metrics, outcome: &str) -> u64 {
    let line = format!("trustplane_events_notes_total{{outcome=\"{outcome}\"}} ");
    let text = metrics.encode();
    text.lines()
        .find_map(|text| text.strip_prefix(&line))
        .map_or(0, |value| value.parse().unwrap())
}

#[tokio::test]
async fn a_restart_goes_on_with_the_series() -> Result<()> {
    let (rig, about) = rig("series").await?;
    let mark = Mark::now(rig.sandbox.plane()).await?;
    let once = note(&about, "the token is gone");
    process(&rig, rig.clients.call.clone(), std::slice::from_ref(&once)).await;
    let [first] = &events(&rig).await?[..] else {
        panic!("one event")
    };
    assert_eq!(first.series, None, "one is no series");
    assert_eq!(first.note.as_deref(), Some("the token is gone"));
    assert_eq!(first.type_.as_deref(), Some("Warning"));
    assert_eq!(
        (first.reason.as_deref(), first.action.as_deref()),
        (Some("TokenLost"), Some("Sync"))
    );
    assert_eq!(first.reporting_controller.as_deref(), Some(CONTROLLER));
    let regarding = first.regarding.clone().unwrap_or_default();
    assert_eq!(
        (regarding.name.as_deref(), regarding.uid.as_deref()),
        (Some("a"), Some(&*about.uid))
    );

    process(&rig, rig.clients.call.clone(), &vec![once.clone(); 3]).await;
    process(&rig, rig.clients.call.clone(), &[once, note(&about, "another")]).await;
    let mut all = events(&rig).await?;
    all.sort_by_key(|event| event.note.clone());
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].series.as_ref().map(|series| series.count), Some(5));
    mark.since()
        .await?
        .assert_rights_used_are_rights_granted(rig.instance.account());
    Ok(())
}

#[tokio::test]
async fn a_running_process_publishes_at_once_and_only_once() -> Result<()> {
    let (rig, about) = rig("at-once").await?;
    let metrics = Metrics::new();
    let (told, publisher) = Events::new(rig.clients.call.clone(), CONTROLLER, "me-1", &metrics);
    let stop = CancellationToken::new();
    let run = tokio::spawn(publisher.run(stop.clone()));
    assert!(told.clone().tell(&note(&about, "hello")).is_taken());
    let api: Api<Event> = rig.sandbox.api();
    eventually(&api, &Select::default(), DEADLINE, |found| {
        (found.len() == 1).then_some(())
    })
    .await?;
    stop.cancel();
    run.await?;
    assert_eq!(count(&metrics, "published"), 1);
    Ok(())
}

#[tokio::test]
async fn a_long_and_a_hostile_note_are_taken() -> Result<()> {
    let (rig, about) = rig("long").await?;
    let long = "ü".repeat(2 * MAX_NOTE);
    let notes = [
        note(&about, &long),
        note(&about, "line\nline\u{0}\u{2028}\"quoted\""),
    ];
    let metrics = process(&rig, rig.clients.call.clone(), &notes).await;
    assert_eq!(count(&metrics, "published"), 2);
    for event in events(&rig).await? {
        let text = event.note.unwrap_or_default();
        assert!(text.len() <= MAX_NOTE && !text.contains('\n'), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn one_object_cannot_flood_the_cluster() -> Result<()> {
    let (rig, about) = rig("flood").await?;
    let notes: Vec<Note> = (0..60).map(|n| note(&about, &format!("number {n}"))).collect();
    let metrics = process(&rig, rig.clients.call.clone(), &notes).await;
    assert_eq!(events(&rig).await?.len(), 25);
    assert_eq!(count(&metrics, "over_budget"), 35, "{}", metrics.encode());
    Ok(())
}

#[tokio::test]
async fn an_outage_delays_a_note_and_a_refusal_drops_it() -> Result<()> {
    let (rig, about) = rig("outage").await?;
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let behind = clients(&rig.instance.through(&proxy), Fence::always())?;
    proxy.add(Rule::new(Match::writes(), Fault::Answer(Answer::unavailable())).times(2));
    let metrics = process(&rig, behind.call.clone(), &[note(&about, "late")]).await;
    assert_eq!((count(&metrics, "published"), events(&rig).await?.len()), (1, 1));

    let mark = proxy.mark();
    proxy.add(Rule::new(Match::writes(), Fault::Answer(Answer::forbidden())));
    let metrics = process(&rig, behind.call.clone(), &[note(&about, "never")]).await;
    assert_eq!(
        (count(&metrics, "published"), count(&metrics, "given_up")),
        (0, 1)
    );
    // Once by the names of today and once by those of old.
    assert_eq!(proxy.requests_since(mark, &Match::writes()).len(), 2, "no storm");
    Ok(())
}

#[tokio::test]
async fn who_does_not_lead_tells_nothing() -> Result<()> {
    let (rig, about) = rig("fenced").await?;
    let standby = clients(&rig.instance, Fence::closed())?;
    let metrics = process(&rig, standby.call, &[note(&about, "x")]).await;
    assert_eq!(count(&metrics, "given_up"), 1);
    assert!(events(&rig).await?.is_empty());
    Ok(())
}
