//! How many PKCS#11 calls a read and a write take, counted by a module between us and SoftHSM.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trustplane_pkcs11_shim::{Control, Shim, library};

use crate::agent::Agent;
use crate::raw::Raw;
use crate::secrets::{FIRST, objects_of};
use crate::stage::{Role, SOFTHSM, Stage};
use crate::table::{Goal, Row};

/// Those whose calls are counted. Nobody else writes to them.
const OURS: std::ops::Range<usize> = 300..310;
const THEIRS: std::ops::Range<usize> = 310..320;
/// Folders of what counts them.
const RAW: &str = "calls-of-the-raw-loop";
const AGENT: &str = "calls-of-the-agent";
const WRITES: f64 = 2.0;

#[derive(Serialize, Deserialize)]
struct Counted {
    read: f64,
    write: f64,
}

/// Counts on both sides.
pub fn compare(stage: &Stage) -> Vec<Row> {
    let theirs = raw(stage);
    let shim = shim(&stage.file(AGENT));
    let environment = shim.environment(Path::new(SOFTHSM));
    let agent = Agent::start(stage, &library().unwrap(), environment);
    // The first write also makes the object of the generation, which then is there for ever.
    agent.write(OURS.start, FIRST + 1, false);
    agent.write(OURS.start, FIRST + 2, false);
    let ours = OURS.skip(1);
    let read = count(&shim, ours.clone(), |number| drop(agent.read(number)));
    let next = count(&shim, ours.clone(), |number| {
        agent.write(number, FIRST + 1, false);
    });
    let given = count(&shim, ours, |number| agent.write(number, FIRST + 2, true));
    let row = |what, ours, theirs, peer, goal| Row {
        what,
        ours,
        theirs: Some(theirs),
        unit: "calls",
        peer,
        goal,
    };
    let (found, replaced) = (
        "find by label and get, each object",
        "find, destroy and create, each object",
    );
    let goal = Some(Goal::AtMost(WRITES));
    vec![
        row("read: PKCS#11 calls", read, theirs.read, found, None),
        row(
            "write, version given: PKCS#11 calls",
            given,
            theirs.write,
            replaced,
            goal,
        ),
        row(
            "write, next version: PKCS#11 calls",
            next,
            theirs.write,
            replaced,
            goal,
        ),
    ]
}

/// The raw loop is counted in a process of its own: this one has SoftHSM itself.
fn raw(stage: &Stage) -> Counted {
    let shim = shim(&stage.file(RAW));
    let mut program = stage.program(Role::Count);
    program.envs(shim.environment(Path::new(SOFTHSM)));
    let output = program.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Counts the calls of the raw loop, and prints them.
pub fn count_raw(stage: &Stage) {
    let shim = Shim::new(&stage.file(RAW)).unwrap();
    let raw = Raw::open(&library().unwrap());
    let counted = Counted {
        read: count(&shim, THEIRS, |number| drop(raw.read(&objects_of(number, FIRST)))),
        write: count(&shim, THEIRS, |number| {
            raw.replace(&objects_of(number, FIRST + 1));
        }),
    };
    println!("{}", serde_json::to_string(&counted).unwrap());
}

fn shim(folder: &Path) -> Shim {
    fs::create_dir(folder).unwrap();
    Shim::new(folder).unwrap()
}

/// The calls that each takes.
fn count(shim: &Shim, numbers: impl ExactSizeIterator<Item = usize>, work: impl FnMut(usize)) -> f64 {
    let many = numbers.len();
    shim.set(&Control::default()).unwrap();
    numbers.for_each(work);
    shim.calls().unwrap().len() as f64 / many as f64
}
