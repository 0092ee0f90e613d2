//! Changes of ZTWIM, one after the other.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trustplane_testkit::audit::{Event, Mark};

use crate::floor::Floor;
use crate::follower::{FOLLOWERS, Followers};
use crate::progress;
use crate::stage::{KINDS, Stage};
use crate::table::{Goal, Row};

/// So many changes, in so many blocks.
const CHANGES: usize = 200;
const BLOCKS: usize = 4;
/// The longest that a change may take.
const LIMIT: Duration = Duration::from_secs(5);
const GOAL: f64 = 0.2;

/// Measures all of it.
pub async fn measure() -> Result<Vec<Row>> {
    let stage = Stage::open().await?;
    let mut followers = Followers::watch(&stage.sandbox.client()).await?;
    let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
    let mut writes = 0;
    for block in 1..=BLOCKS {
        let names = move |side: &'static str| {
            (0..CHANGES / BLOCKS).map(move |number| format!("{side}-{block}-{number}"))
        };
        let running = stage.start(&format!("block-{block}")).await?;
        stage.rename(&format!("start-{block}")).await?;
        followers.have(&format!("start-{block}")).await?;
        let mark = Mark::now(stage.sandbox.plane()).await?;
        for name in names("ours") {
            let begun = Instant::now();
            stage.rename(&name).await?;
            ours.push(followers.have(&name).await? - begun);
        }
        let audit = mark.since().await?.by(&running.instance);
        writes += audit
            .writes()
            .into_iter()
            .filter(|event| is_of_people(event))
            .count();
        stage.stop(running).await?;

        let mut floor = Floor::new(&stage).await?;
        for name in names("floor") {
            let begun = Instant::now();
            stage.rename(&name).await?;
            floor.bring().await?;
            theirs.push(followers.have(&name).await? - begun);
        }
        progress(&format!(
            "block {block} of {BLOCKS}: {} changes, {writes} writes",
            ours.len()
        ));
    }
    ensure!(
        ours.len() == CHANGES && theirs.len() == CHANGES,
        "{CHANGES} changes each"
    );
    ours.sort();
    theirs.sort();
    Ok(rows(&ours, &theirs, writes))
}

/// Whether an object that people write was written, apart from its status.
fn is_of_people(event: &Event) -> bool {
    event.subresource().is_empty() && KINDS.iter().any(|kind| event.resource() == kind.plural)
}

fn rows(ours: &[Duration], theirs: &[Duration], writes: usize) -> Vec<Row> {
    let row = |what, percent| Row {
        what,
        ours: percentile(ours, percent) * 1000.0,
        theirs: Some(percentile(theirs, percent) * 1000.0),
        unit: "ms",
        peer: "a loop: read ZTWIM, apply to each operand",
        goal: None,
    };
    vec![
        row("change of ZTWIM until operands have it, p50", 50),
        row("change of ZTWIM until operands have it, p99", 99),
        Row {
            what: "the same p99 against its limit",
            ours: percentile(ours, 99),
            theirs: Some(LIMIT.as_secs_f64()),
            unit: "s",
            peer: "the limit",
            goal: Some(Goal::AtMost(GOAL)),
        },
        Row {
            what: "writes of operands and of ZTWIM",
            ours: writes as f64,
            theirs: Some((CHANGES * FOLLOWERS.len()) as f64),
            unit: "writes",
            peer: "operands that differed: 200 changes × 2",
            goal: Some(Goal::Equal),
        },
    ]
}

/// In seconds, of times in their order.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64()
}
