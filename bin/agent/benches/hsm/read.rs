//! How many secrets are read in a second, one after the other.

use std::time::{Duration, Instant};

use cryptoki::object::ObjectHandle;

use crate::agent::Agent;
use crate::raw::Raw;
use crate::secrets::{FIRST, objects_of};
use crate::table::{Goal, Row};

/// Those that nobody writes to before.
const SECRETS: usize = 200;
const WARM: usize = 20;
const GOAL: f64 = 0.8;

/// Reads each secret through the agent and by the raw loop, in turns.
pub fn compare(agent: &Agent, raw: &Raw) -> Vec<Row> {
    for number in 0..WARM {
        agent.read(number);
        raw.read(&objects_of(number, FIRST));
    }
    let [mut ours, mut theirs, mut floor] = [Duration::ZERO; 3];
    for number in 0..SECRETS {
        let objects = objects_of(number, FIRST);
        let handles: Vec<ObjectHandle> = objects.iter().map(|object| raw.find(object)).collect();
        let answer = timed(&mut ours, || agent.read(number));
        let values = timed(&mut theirs, || raw.read(&objects));
        let again = timed(&mut floor, || raw.read_found(&handles));
        let mut data: Vec<_> = answer.secret_data.unwrap().data.into_iter().collect();
        data.sort();
        assert!(
            data.into_iter()
                .map(|(_, value)| value)
                .eq(values[1..].iter().cloned())
        );
        assert_eq!(values, again);
    }
    let rate = |took: Duration| SECRETS as f64 / took.as_secs_f64();
    let row = |what, theirs, peer, goal| Row {
        what,
        ours: rate(ours),
        theirs: Some(rate(theirs)),
        unit: "secrets/s",
        peer,
        goal,
    };
    let (found, known) = (
        "find by label and get, each object",
        "get alone: nobody looks whether it is still so",
    );
    vec![
        row("read", theirs, found, Some(Goal::AtLeast(GOAL))),
        row("read, against a loop that has the handles", floor, known, None),
    ]
}

/// Does something, and adds the time that it took.
pub fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    *total += begun.elapsed();
    done
}
