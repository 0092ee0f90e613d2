//! How long it takes to list everything, and to learn that nothing has changed.

use std::time::Duration;

use crate::agent::Agent;
use crate::raw::Raw;
use crate::read::timed;
use crate::secrets::SECRETS;
use crate::table::Row;

const ROUNDS: u32 = 20;

/// Looks through the agent and by the raw loop, in turns.
pub fn compare(agent: &Agent, raw: &Raw) -> Vec<Row> {
    let [mut list, mut unchanged, mut generation, mut theirs] = [Duration::ZERO; 4];
    for _ in 0..ROUNDS {
        let listed = timed(&mut list, || agent.list(""));
        assert_eq!(listed.entries.len(), SECRETS);
        assert!(timed(&mut unchanged, || agent.list(&listed.revision)).unchanged);
        let counter = timed(&mut generation, || agent.generation());
        assert_eq!(Some(counter), listed.generation.map(|known| known.counter));
        let objects = timed(&mut theirs, || raw.enumerate());
        // All secrets, and the object of the generation.
        assert_eq!(objects.len(), SECRETS * 3 + 1);
    }
    let each = |took: Duration| (took / ROUNDS).as_secs_f64() * 1000.0;
    let row = |what, ours| Row {
        what,
        ours: each(ours),
        theirs: Some(each(theirs)),
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
