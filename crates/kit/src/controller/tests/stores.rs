//! What a key waits for when a store lags behind the API server.

use trustplane_plan::Keep;

use super::*;
use crate::watch::{Metadata, Subscription, Tuning, WatchSpec, Watches};

/// A watch of ConfigMaps whose store stays empty: the API server of the stage answers every read with 404.
fn unlisted(stage: &Stage) -> Subscription<()> {
    let watches = Watches::new(stage.api.client(), Tuning::default(), &stage.metrics);
    watches.subscribe(WatchSpec::new(CONFIG_MAP, Metadata(Keep::default())))
}

#[tokio::test(start_paused = true)]
async fn plan_that_removes_is_held_while_a_store_is_not_current() {
    let mut stage = Stage::new();
    let watch = unlisted(&stage);
    let runner = stage.runner().removals_rest_on(&watch.store());
    stage.add(&["remove", "write"]);
    let _run = tokio::spawn(runner.run(stage.shutdown.clone()));
    seconds(1).await;
    assert_eq!(stage.called(), ["write"], "a plan that removes nothing goes on");
    assert_eq!(stage.api.writes.load(Ordering::SeqCst), 1);
    seconds(2).await;
    assert_eq!(stage.looks(), 3, "the plan is made anew");
    stage.assert_metric(r#"reconcile_held_removals_total{controller="puppet"} 2"#);
}

#[tokio::test(start_paused = true)]
async fn key_waits_until_a_store_shows_its_last_write() {
    let mut stage = Stage::new();
    let watch = unlisted(&stage);
    let runner = stage.runner().after_store_if_any(&watch.store());
    stage.add(&["write"]);
    let _run = tokio::spawn(runner.run(stage.shutdown.clone()));
    seconds(1).await;
    assert_eq!(stage.called(), ["write"]);
    stage.add(&["write"]);
    seconds(60).await;
    assert_eq!(
        stage.called(),
        ["write"],
        "a second look would write the same again"
    );
    stage.add(&["other"]);
    seconds(1).await;
    assert_eq!(stage.called(), ["write", "other"], "other keys do not wait");
}
