//! From the gate to the end.

use tokio::sync::oneshot;
use tokio::time::Instant;
use trustplane_process::admin::{Liveness, Readiness, StateSource};

use super::*;
use crate::watch::Stopped;

#[tokio::test(start_paused = true)]
async fn no_key_is_touched_before_the_stores_are_ready_and_the_process_leads() {
    let mut stage = Stage::new();
    stage.leading.send_replace(false);
    stage.add(&["a"]);
    let (listed, store) = oneshot::channel::<()>();
    let (readiness, liveness, state) = (Readiness::default(), Liveness::default(), StateSource::default());
    let runner = stage
        .runner()
        .after(async move { store.await.map_err(|_| Stopped) })
        .report_to(&readiness, &liveness, &state);
    let _run = tokio::spawn(runner.run(stage.shutdown.clone()));
    let phase = || state.snapshot()["controller/puppet"]["phase"].clone();

    seconds(1).await;
    assert_eq!((stage.looks(), phase()), (0, "starting".into()));
    assert!(!readiness.is_ready());

    listed.send(()).unwrap();
    seconds(1).await;
    assert_eq!(
        (stage.looks(), phase()),
        (0, "standby".into()),
        "a standby is warm but does not work"
    );
    assert!(readiness.is_ready());

    stage.leading.send_replace(true);
    seconds(1).await;
    assert_eq!(
        (stage.called(), phase()),
        (vec!["a".to_owned()], "running".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_comes_is_an_error() {
    let mut stage = Stage::new();
    let runner = stage.runner().after(async { Err(Stopped) });
    let end = runner.run(stage.shutdown.clone()).await;
    assert_eq!(
        end,
        Err(RunError::Stopped {
            controller: "puppet",
            source: Stopped
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_running_work_end_and_takes_no_more() {
    let mut stage = Stage::new();
    stage.options.workers = 1;
    stage.add(&["slow", "later"]);
    let run = stage.run();
    seconds(1).await;
    stage.shutdown.cancel();
    assert_eq!(run.await.unwrap(), Ok(()));
    assert_eq!(stage.called(), ["slow"]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_ever() {
    let mut stage = Stage::new();
    stage.options.deadline = Duration::from_secs(3600);
    stage.add(&["endless"]);
    let run = stage.run();
    seconds(1).await;
    let start = Instant::now();
    stage.shutdown.cancel();
    assert_eq!(run.await.unwrap(), Ok(()));
    assert_eq!(start.elapsed().as_secs(), 20);
    seconds(0).await;
    assert_eq!(stage.queue.depths().running, 0, "the work was dropped");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_before_the_gate_opens_ends_at_once() {
    let mut stage = Stage::new();
    stage.leading.send_replace(false);
    let run = stage.run();
    seconds(1).await;
    stage.shutdown.cancel();
    assert_eq!(run.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn lost_leadership_lets_running_work_end_and_is_an_error() {
    let mut stage = Stage::new();
    stage.options.workers = 1;
    stage.add(&["slow", "later"]);
    let run = stage.run();
    seconds(1).await;
    stage.leading.send_replace(false);
    assert_eq!(run.await.unwrap(), Err(RunError::LeadershipLost("puppet")));
    assert_eq!(stage.called(), ["slow"]);
}

#[tokio::test(start_paused = true)]
async fn without_rivals_the_controller_just_runs() {
    let mut stage = Stage::new();
    let runner = stage.runner().while_leading(watch::Sender::new(true).subscribe());
    let run = tokio::spawn(runner.run(stage.shutdown.clone()));
    stage.add(&["a"]);
    seconds(1).await;
    assert_eq!(stage.called(), ["a"]);
    assert!(!run.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_resync_looks_at_every_key_that_matters_again() {
    let mut stage = Stage::new();
    stage.options.resync = Some(Duration::from_secs(100));
    stage.add(&["a", "gone"]);
    let _run = stage.run();
    seconds(89).await;
    assert_eq!(stage.looks(), 2);
    assert_eq!(
        stage.queue.depths().keys,
        1,
        "a key without an object is forgotten"
    );
    seconds(22).await;
    assert_eq!(stage.called(), ["a", "a"]);
    assert_eq!(stage.looks(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_plan_says_when_to_look_again() {
    let mut stage = Stage::new();
    stage.options.resync = Some(Duration::from_secs(100));
    stage.add(&["again"]);
    let _run = stage.run();
    seconds(6).await;
    assert_eq!(stage.called(), ["again"]);
    seconds(2).await;
    assert_eq!(stage.called(), ["again", "again"]);
}

#[tokio::test(start_paused = true)]
async fn another_try_comes_behind_a_look_that_came_due_later() {
    let mut stage = Stage::new();
    (stage.options.workers, stage.options.resync) = (1, None);
    stage.add(&["failing"]);
    let _run = stage.run();
    seconds(1).await;
    stage.add(&["again"]);
    seconds(1).await;
    // The only worker is busy while both come due.
    seconds(4).await;
    stage.add(&["slow"]);
    seconds(6).await;
    assert_eq!(stage.called(), ["failing", "again", "slow", "again", "failing"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_decides_but_neither_writes_nor_calls_nor_tells() {
    let mut stage = Stage::new();
    stage.dry_run = true;
    stage.add(&["write", "mistake", "tell", "note"]);
    let _run = stage.run();
    seconds(1).await;
    assert_eq!(stage.looks(), 4);
    let mut kept = stage.called();
    kept.sort();
    assert_eq!(kept, ["kept", "told"], "only what is remembered");
    assert_eq!(stage.api.writes.load(Ordering::SeqCst), 0);
    stage.assert_metric("events_waiting 0");
    assert!(!stage.metrics.encode().contains("reconcile_steps_total{"));
}

#[tokio::test(start_paused = true)]
async fn the_heart_stops_when_a_worker_is_stuck() {
    let mut stage = Stage::new();
    let (readiness, liveness, state) = (Readiness::default(), Liveness::default(), StateSource::default());
    let runner = stage.runner().report_to(&readiness, &liveness, &state);
    // Taken before the runner starts: to it, this is a key that some thread does not let go of.
    stage.add(&["stuck"]);
    let stuck = stage.queue.next().await.unwrap();
    let _run = tokio::spawn(runner.run(stage.shutdown.clone()));
    let alive = || liveness.report().iter().all(|(_, pulse)| pulse.is_ok());
    seconds(100).await;
    assert!(alive(), "long work alone is no reason");
    seconds(60).await;
    assert!(!alive());
    stuck.done(crate::queue::Outcome::Success { look_again: None });
    seconds(11).await;
    assert!(alive());
}
