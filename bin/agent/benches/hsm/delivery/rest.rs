//! What the capability asks for while nothing happens.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep_until};
use trustplane_testkit::audit::Mark;

use super::served::{Running, Served};
use super::{INTERVAL, TOKENS, progress};
use crate::table::{Goal, Row};

/// So many intervals are watched.
const INTERVALS: u32 = 12;
/// So many pass before, in which what was begun ends.
const SETTLE: u32 = 2;
const LENGTH: Duration = Duration::from_secs(INTERVAL);

/// Counts, with all HSMSecrets in sync.
pub async fn measure(served: &Served, running: &Running) -> Result<[Row; 2]> {
    progress(&format!("at rest for {INTERVALS} intervals of {INTERVAL} s"));
    tokio::time::sleep(LENGTH * SETTLE).await;
    let (begun, before) = (Instant::now(), lists(served)?);
    let mark = Mark::now(served.sandbox.plane()).await?;
    for interval in 1..=INTERVALS {
        sleep_until(begun + LENGTH * interval).await;
        let calls = lists(served)? - before;
        progress(&format!("at rest, interval {interval}: {calls} lists so far"));
    }
    let calls = lists(served)? - before;
    let audit = mark.since().await?.by(&running.instance);
    progress(&format!("writes at rest: {:?}", audit.story()));
    Ok([
        Row {
            what: "at rest: ListSecrets calls of all agents",
            ours: calls as f64,
            theirs: Some(TOKENS.len() as f64 * f64::from(INTERVALS)),
            unit: "calls",
            peer: "3 tokens × 12 intervals of 5 s",
            goal: Some(Goal::Equal),
        },
        Row {
            what: "at rest: writes to Kubernetes",
            ours: audit.writes().len() as f64,
            theirs: None,
            unit: "writes",
            peer: "",
            goal: Some(Goal::Below(1.0)),
        },
    ])
}

/// How often the agents were asked for their lists.
fn lists(served: &Served) -> Result<u64> {
    served.tokens.iter().map(crate::token::Token::lists).sum()
}
