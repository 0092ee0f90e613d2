//! How many secrets are read in a second, one after the other.

use std::time::{Duration, Instant};

use cryptoki::object::ObjectHandle;
use trustplane_api::hsm::v1::ReadSecretResponse;
use trustplane_hsm_core::object::NewObject;

use crate::agent::Agent;
use crate::raw::Raw;
use crate::secrets::{FIRST, objects_of};
use crate::table::{Goal, Row};

/// Those that nobody writes to before.
const SECRETS: usize = 120;
/// So many in a row.
const BLOCK: usize = 20;
/// What is quick is done so often: in one go a block of it would be over before it is warm.
const TURNS: usize = 5;
const GOAL: f64 = 0.8;

/// Reads each secret through the agent and by the raw loop, in turns.
pub fn compare(agent: &Agent, raw: &Raw) -> Vec<Row> {
    let known = raw.handles();
    let handle = |object: &NewObject| known[object.label.as_bytes()];
    let secrets: Vec<Vec<NewObject>> = (0..SECRETS).map(|number| objects_of(number, FIRST)).collect();
    // Both have read something before.
    assert_eq!(values(agent.read(0)), raw.read(&secrets[0])[1..]);
    let [mut ours, mut theirs, mut floor] = [Duration::ZERO; 3];
    for (block, secrets) in secrets.chunks(BLOCK).enumerate() {
        let numbers = block * BLOCK..block * BLOCK + secrets.len();
        let handles: Vec<Vec<ObjectHandle>> = secrets
            .iter()
            .map(|objects| objects.iter().map(handle).collect())
            .collect();
        let (mut answers, mut got) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            answers = timed(&mut ours, || {
                numbers.clone().map(|number| agent.read(number)).collect()
            });
        }
        let found: Vec<_> = timed(&mut theirs, || {
            secrets.iter().map(|objects| raw.read(objects)).collect()
        });
        for _ in 0..TURNS {
            got = timed(&mut floor, || {
                handles.iter().map(|handles| raw.read_found(handles)).collect()
            });
        }
        assert_eq!(found, got);
        for (answer, found) in answers.into_iter().zip(found) {
            assert_eq!(values(answer), found[1..]);
        }
    }
    let rate = |took: Duration, turns: usize| (SECRETS * turns) as f64 / took.as_secs_f64();
    let row = |what, theirs, peer, goal| Row {
        what,
        ours: rate(ours, TURNS),
        theirs: Some(theirs),
        unit: "secrets/s",
        peer,
        goal,
    };
    let (found, known) = (
        "find by label and get, each object",
        "get alone: nobody looks whether it is still so",
    );
    vec![
        row("read", rate(theirs, 1), found, Some(Goal::AtLeast(GOAL))),
        row(
            "read, against a loop that has the handles",
            rate(floor, TURNS),
            known,
            None,
        ),
    ]
}

/// The values, in the order of the objects behind the metadata.
fn values(answer: ReadSecretResponse) -> Vec<Vec<u8>> {
    let mut pairs: Vec<_> = answer.secret_data.unwrap().data.into_iter().collect();
    pairs.sort();
    pairs.into_iter().map(|(_, value)| value).collect()
}

/// Does something, and adds the time that it took.
pub fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    *total += begun.elapsed();
    done
}
