//! What goes wrong with one key stays with that key.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_counted_and_backed_off_and_hurts_no_other_key() {
    let mut stage = Stage::new();
    stage.options.workers = 1;
    stage.add(&["panic", "fine"]);
    let run = stage.run();
    seconds(1).await;
    assert_eq!(stage.called(), ["fine"]);
    stage.assert_metric(r#"reconcile_errors_total{controller="puppet",class="bug",reason="Panic"} 1"#);
    assert_eq!(
        stage.queue.state().backoff.worst.map(|worst| worst.key),
        Some("ns/panic".into())
    );
    seconds(36).await;
    stage.assert_metric(r#"reconcile_errors_total{controller="puppet",class="bug",reason="Panic"} 2"#);
    stage.add(&["fine"]);
    seconds(1).await;
    assert_eq!(stage.called(), ["fine", "fine"]);
    assert!(!run.is_finished());
}

#[tokio::test(start_paused = true)]
async fn endless_work_ends_at_its_deadline_and_frees_the_worker() {
    let mut stage = Stage::new();
    stage.options.workers = 1;
    stage.add(&["endless", "fine"]);
    let _run = stage.run();
    seconds(29).await;
    assert!(stage.called().is_empty());
    seconds(2).await;
    assert_eq!(stage.called(), ["fine"]);
    let error =
        r#"reconcile_errors_total{controller="puppet",class="transient",reason="DeadlineExceeded"} 1"#;
    stage.assert_metric(error);
}

#[tokio::test(start_paused = true)]
async fn a_stale_view_is_looked_at_again_at_once_but_only_twice() {
    let mut stage = Stage::new();
    stage.api.refusals.store(2, Ordering::SeqCst);
    stage.add(&["write"]);
    let _run = stage.run();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(
        (stage.looks(), stage.called().len()),
        (3, 1),
        "two looks more, and the plan is carried out"
    );
    stage.assert_metric(r#"reconcile_stale_views_total{controller="puppet"} 2"#);
    assert_eq!(stage.held(), [(false, 1), (true, 2), (true, 3)]);
    assert_eq!(stage.queue.depths().failing, 0);

    stage.api.refusals.store(3, Ordering::SeqCst);
    stage.add(&["write"]);
    sleep(Duration::from_millis(10)).await;
    assert_eq!((stage.looks(), stage.called().len()), (6, 1), "now it backs off");
    stage.assert_metric(r#"reconcile_errors_total{controller="puppet",class="transient",reason="Stale"} 1"#);
    seconds(2).await;
    assert_eq!((stage.looks(), stage.called().len()), (7, 2));
    assert_eq!(stage.queue.depths().failing, 0);
}

#[tokio::test(start_paused = true)]
async fn the_first_step_that_fails_ends_the_plan() {
    let mut stage = Stage::new();
    stage.api.refusals.store(u32::MAX, Ordering::SeqCst);
    stage.add(&["write"]);
    let _run = stage.run();
    seconds(1).await;
    assert!(stage.called().is_empty(), "the call comes after the write");
    assert!(stage.api.writes.load(Ordering::SeqCst) >= 3);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_user_is_told_and_waits_for_a_change() {
    let mut stage = Stage::new();
    stage.add(&["mistake"]);
    let _run = stage.run();
    seconds(1800).await;
    assert_eq!(stage.looks(), 1, "nothing has changed");
    stage.assert_metric(r#"reconcile_errors_total{controller="puppet",class="user",reason="NoSuchThing"} 1"#);
    stage.assert_metric("events_waiting 1");
    stage.add(&["mistake"]);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(stage.looks(), 2, "a change is looked at without delay");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_the_plan_tells_is_counted_and_tried_again_when_it_says() {
    let mut stage = Stage::new();
    stage.add(&["failing"]);
    let _run = stage.run();
    let failed = |count| {
        format!(
            r#"reconcile_errors_total{{controller="puppet",class="transient",reason="NoSuchThing"}} {count}"#
        )
    };
    seconds(6).await;
    assert_eq!((stage.looks(), stage.queue.depths().failing), (1, 1));
    stage.assert_metric(&failed(1));
    stage.assert_metric("events_waiting 1");
    seconds(2).await;
    assert_eq!(stage.looks(), 2, "neither sooner nor later than the plan said");
    stage.assert_metric(&failed(2));
    // What is looked at before it is time does not count, and keeps its backoff.
    stage.add(&["failing"]);
    seconds(2).await;
    assert_eq!((stage.looks(), stage.queue.depths().failing), (3, 1));
    stage.assert_metric(&failed(2));
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_whose_note_is_refused_keeps_the_wait_of_its_plan() {
    let mut stage = Stage::new();
    fill(&stage);
    stage.add(&["failing"]);
    let _run = stage.run();
    seconds(1).await;
    stage.assert_metric(
        r#"reconcile_errors_total{controller="puppet",class="transient",reason="NoSuchThing"} 1"#,
    );
    assert!(!stage.metrics.encode().contains(r#"reason="Untold""#));
    seconds(2).await;
    assert_eq!(stage.looks(), 2, "it looks again to tell");
}

#[tokio::test(start_paused = true)]
async fn steps_and_outcomes_are_counted() {
    let mut stage = Stage::new();
    stage.add(&["write", "gone"]);
    let _run = stage.run();
    seconds(1).await;
    stage.assert_metric(r#"reconcile_steps_total{controller="puppet",step="create"} 1"#);
    stage.assert_metric(r#"reconcile_steps_total{controller="puppet",step="call"} 1"#);
    stage.assert_metric(r#"reconcile_seconds_count{controller="puppet",outcome="success"} 2"#);
}

/// Leaves no room for another note of the namespace.
fn fill(stage: &Stage) {
    let taken = |n: u32| stage.events.tell(&note(&n.to_string(), "Flood", "x")).is_taken();
    (0..).take_while(|n| taken(*n)).for_each(drop);
}

#[tokio::test(start_paused = true)]
async fn a_note_that_is_refused_is_not_remembered_and_told_later() {
    let mut stage = Stage::new();
    fill(&stage);
    stage.add(&["tell"]);
    let _run = stage.run();
    seconds(10).await;
    let before = stage.looks();
    assert!((2..=5).contains(&before), "it backs off: {before} looks");
    assert!(
        stage.called().iter().all(|called| called == "tell"),
        "the plan goes on, but nothing is remembered as told"
    );
    stage.assert_metric(&format!(
        r#"reconcile_errors_total{{controller="puppet",class="transient",reason="Untold"}} {before}"#
    ));
    let publisher = stage.publisher.take().unwrap();
    tokio::spawn(publisher.run(stage.shutdown.clone()));
    seconds(60).await;
    assert_eq!(stage.looks(), before + 1, "told, and then it is quiet");
    assert_eq!(stage.called()[before..], ["told", "tell"]);
    stage.assert_metric("events_waiting 0");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_user_that_could_not_be_told_does_not_wait_for_a_change() {
    let mut stage = Stage::new();
    fill(&stage);
    stage.add(&["mistake"]);
    let _run = stage.run();
    seconds(5).await;
    assert!(stage.looks() > 1, "nobody knows yet what to change");
    let publisher = stage.publisher.take().unwrap();
    tokio::spawn(publisher.run(stage.shutdown.clone()));
    seconds(60).await;
    let looks = stage.looks();
    seconds(1800).await;
    assert_eq!(stage.looks(), looks);
}
