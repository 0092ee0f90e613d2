//! Silence at rest, also with two writers.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use trustplane_api::identity::names;
use trustplane_plan::kinds::{DAEMON_SET, DEPLOYMENT, STATEFUL_SET};
use trustplane_testkit::audit::Mark;

use crate::stage::Stage;
use crate::workloads::AllPodsRun;

/// More than two looks at each of the five keys, by each of two.
const MANY: usize = 30;

#[tokio::test]
async fn nothing_is_written_when_nothing_changes() -> Result<()> {
    let mut stage = Stage::new("rest").await?;
    stage.resync_every(Duration::from_millis(300));
    let (one, other) = (stage.start("one").await?, stage.start("other").await?);
    stage.quickstart().await?;
    stage.all_there().await?;
    let pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    // What kubectl rollout restart writes, and what others write to objects of ours.
    let workloads = [
        (STATEFUL_SET, names::SERVER),
        (DAEMON_SET, names::AGENT),
        (DAEMON_SET, names::CSI_DRIVER),
        (DEPLOYMENT, names::OIDC),
    ];
    let restart = json!({ "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z" });
    let theirs = json!({ "example.org/theirs": "stays" });
    for (kind, name) in &workloads {
        let patch = json!({
            "metadata": { "annotations": theirs, "labels": theirs },
            "spec": { "template": { "metadata": { "annotations": restart } } },
        });
        stage.patch(kind, name, patch).await?;
    }
    stage.looks.more(MANY).await?;
    stage.is_ready().await?;
    stage.looks.more(MANY).await?;
    drop(pods);

    let mark = Mark::now(stage.sandbox.plane()).await?;
    stage.looks.more(2 * MANY).await?;
    one.kill().await?;
    other.kill().await?;
    // Nor does a process that starts, with the fresh memory that it has.
    let _next = stage.start("next").await?;
    stage.looks.more(MANY).await?;
    mark.since().await?.by_account(&stage.account).assert_silent();
    for (kind, name) in &workloads {
        let live = stage.read(kind, name).await?;
        assert_eq!(
            live["metadata"]["annotations"]["example.org/theirs"], "stays",
            "{name}"
        );
        assert_eq!(
            live["metadata"]["labels"]["example.org/theirs"], "stays",
            "{name}"
        );
        let annotations = &live["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(
            annotations["kubectl.kubernetes.io/restartedAt"], "2026-01-01T00:00:00Z",
            "{name}"
        );
    }
    Ok(())
}
