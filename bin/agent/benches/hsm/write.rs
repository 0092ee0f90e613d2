//! How long it takes to replace a secret.

use std::time::Duration;

use crate::agent::Agent;
use crate::raw::Raw;
use crate::read::timed;
use crate::secrets::{FIRST, objects_of};
use crate::table::Row;

/// So many secrets for each side: with objects that the other side has replaced both would first have to look for them.
const SECRETS: usize = 30;
/// So many in a row: SoftHSM reads its folder anew after another process has written.
const BLOCK: usize = 5;

/// Replaces secrets through the agent and by the raw loop, in turns.
pub fn compare(agent: &Agent, raw: &Raw) -> Vec<Row> {
    let [mut given, mut next, mut theirs] = [Duration::ZERO; 3];
    for block in 0..SECRETS / BLOCK {
        let first = block * BLOCK;
        // Whoever is the first after another process pays for that: each way is as often.
        for (version, conditional) in [(FIRST + 1, block % 2 == 0), (FIRST + 2, block % 2 == 1)] {
            let total = if conditional { &mut given } else { &mut next };
            for number in first..first + BLOCK {
                timed(total, || agent.write(number, version, conditional));
            }
        }
        for number in first + SECRETS..first + SECRETS + BLOCK {
            let objects = objects_of(number, FIRST + 1);
            timed(&mut theirs, || raw.replace(&objects));
        }
    }
    let each = |took: Duration| took.as_secs_f64() * 1000.0 / SECRETS as f64;
    let row = |what, ours| Row {
        what,
        ours: each(ours),
        theirs: Some(each(theirs)),
        unit: "ms",
        peer: "find, destroy and create: no journal",
        goal: None,
    };
    vec![
        row("write, version given", given),
        row("write, next version", next),
    ]
}
