//! How long it takes to list everything, and to learn that nothing has changed.

use std::time::Duration;

use crate::agent::Agent;
use crate::raw::Raw;
use crate::read::timed;
use crate::secrets::SECRETS;
use crate::table::Row;

const ROUNDS: u32 = 10;
/// So many of ours in a row.
const BLOCK: u32 = 10;

/// Looks through the agent and by the raw loop, in turns.
pub fn compare(agent: &Agent, raw: &Raw) -> Vec<Row> {
    let [mut list, mut unchanged, mut generation, mut theirs] = [Duration::ZERO; 4];
    for _ in 0..ROUNDS {
        let mut known = agent.list("");
        for _ in 0..BLOCK {
            known = timed(&mut list, || agent.list(""));
            assert_eq!(known.entries.len(), SECRETS);
        }
        for _ in 0..BLOCK {
            assert!(timed(&mut unchanged, || agent.list(&known.revision)).unchanged);
        }
        for _ in 0..BLOCK {
            let counter = timed(&mut generation, || agent.generation());
            assert_eq!(Some(counter), known.generation.map(|known| known.counter));
        }
        let objects = timed(&mut theirs, || raw.enumerate());
        // All secrets, and the object of the generation.
        assert_eq!(objects.len(), SECRETS * 3 + 1);
    }
    let each = |took: Duration, times: u32| (took / times).as_secs_f64() * 1000.0;
    let row = |what, ours| Row {
        what,
        ours: each(ours, ROUNDS * BLOCK),
        theirs: Some(each(theirs, ROUNDS)),
        unit: "ms",
        peer: "label and value of all 1,000 objects",
        goal: None,
    };
    vec![
        row("list of all secrets", list),
        row("change check: list unless a revision", unchanged),
        row("change check: generation of the token", generation),
    ]
}
