//! What a manager runs: the capabilities that were named, or those that can; and what it writes when it only rehearses.

use anyhow::{Context, Result, ensure};
use trustplane_kit::apply::INSTALLATION_KEY;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::Place;
use trustplane_sample::capability;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{ControlPlane, DEADLINE, Process, Program, Rules, Sandbox, until};

use crate::stage::{MANAGER, Stage, binary, rules, single};

/// Waits until the process has said this.
async fn said(running: &Process, words: &str) -> Result<String> {
    until(words, DEADLINE, || async {
        let log = running.log()?;
        Ok(log.lines().find(|line| line.contains(words)).map(str::to_owned))
    })
    .await
    .with_context(|| running.log().unwrap_or_default())
}

fn choosing() -> Program {
    binary()
        .arg("--leader-elect=false")
        .arg("--webhook-bind-address=0")
}

#[tokio::test]
async fn a_name_that_does_not_exist_ends_it_with_the_names_that_do() -> Result<()> {
    let stage = Stage::new("misnamed").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (instance, mut running) = stage
        .start(&choosing().arg("--capabilities=mirror,miror"), "misnamed")
        .await?;
    let status = running.ended(DEADLINE).await?;
    let log = running.log()?;
    ensure!(!status.success(), "{log}");
    assert_eq!(
        log.matches(r#"\"miror\" does not exist; this build has mirror"#)
            .count(),
        1,
        "told once: {log}"
    );
    mark.since().await?.by(&instance).assert_silent();
    Ok(())
}

#[tokio::test]
async fn without_names_what_can_run_runs() -> Result<()> {
    let stage = Stage::new("chosen").await?;
    let (_, running) = stage.start(&choosing(), "chosen").await?;
    let line = said(&running, "\"running\"").await?;
    ensure!(line.contains(r#""capabilities":"mirror""#), "{line}");
    stage.set_source("one").await?;
    stage.mirror("m", &["a"]).await?;
    stage.in_step("a", "one").await?;
    running.kill().await
}

#[tokio::test]
async fn without_its_rights_a_capability_rests_and_the_log_names_them() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    plane.install(&(capability().crds)()).await?;
    let sandbox = Sandbox::on(plane, "powerless").await?;
    let rights = process_rights(MANAGER);
    let bare = Rules {
        cluster: rights.wide(),
        namespaced: rights.of(Place::Home),
    };
    let account = sandbox.apply_rbac("powerless", &bare).await?;
    let running = choosing().start(&account.instance("powerless").await?)?;
    let line = said(&running, "does not run").await?;
    ensure!(
        line.contains("not permitted: ") && line.contains("watch test.trustplane.io/mirrors"),
        "{line}"
    );
    let line = said(&running, "\"running\"").await?;
    ensure!(line.contains(r#""capabilities":"""#), "{line}");
    running.kill().await
}

#[tokio::test]
async fn without_its_kind_a_capability_rests_and_the_log_names_it() -> Result<()> {
    let plane = ControlPlane::own().await?;
    let sandbox = Sandbox::on(plane, "unserved").await?;
    let account = sandbox.apply_rbac("sample", &rules()).await?;
    let running = choosing().start(&account.instance("unserved").await?)?;
    let line = said(&running, "does not run").await?;
    ensure!(line.contains("not served: mirrors.test.trustplane.io"), "{line}");
    said(&running, "\"running\"").await?;
    running.kill().await
}

/// A rehearsal beside the real thing must not take its lease, and an empty key stays empty.
#[tokio::test]
async fn a_dry_run_prints_the_plan_and_writes_nothing() -> Result<()> {
    let stage = Stage::new("rehearsal").await?;
    stage.set_source("one").await?;
    stage.mirror("m", &["a"]).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let rehearsal = binary().arg("--capabilities=mirror").arg("--dry-run");
    let (instance, running) = stage.start(&rehearsal, "rehearsal").await?;
    let line = said(&running, "dry run: ").await?;
    ensure!(!line.contains("one"), "a value shows: {line}");
    said(&running, "Secret").await?;
    mark.since().await?.by(&instance).assert_silent();
    let key = stage.secrets().get(INSTALLATION_KEY).await?;
    ensure!(key.data.is_none(), "the key was filled");
    running.kill().await?;

    // The real thing finds what it would have found.
    let (_, running) = stage.start(&single(), "real").await?;
    stage.in_step("a", "one").await?;
    running.kill().await
}
