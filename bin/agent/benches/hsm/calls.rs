//! How many PKCS#11 calls a read, a write and a pass take, counted by a module between us and SoftHSM; and, as the same module can
//! play a token that is pulled out, how long it takes until one that is back is served.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use trustplane_pkcs11_shim::pkcs11::CKR_DEVICE_REMOVED;
use trustplane_pkcs11_shim::{Action, Control, Duration as Lasting, Fault, Shim, library};

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
/// 0.8 of the raw rate, where each call takes its time.
const READS: f64 = 1.25;
/// Passes are counted of an agent that makes one so often, and reads and writes of one that makes none.
const OFTEN: Duration = Duration::from_secs(2);
pub const NEVER: Duration = Duration::from_secs(3600);
/// How often the token is pulled out.
const REPLUGS: u32 = 5;
const SERVED: f64 = 3.0;

#[derive(Serialize, Deserialize)]
struct Counted {
    read: f64,
    write: f64,
    pass: f64,
}

/// Counts on both sides.
pub fn compare(stage: &Stage) -> Vec<Row> {
    let theirs = raw(stage);
    let shim = shim(&stage.file(AGENT));
    let environment = shim.environment(Path::new(SOFTHSM));
    let module = library().unwrap();
    let agent = Agent::start(stage, &module, NEVER, environment.clone());
    // The first write also makes the object of the generation, which then is there for ever.
    agent.write(OURS.start, FIRST + 1, false);
    agent.write(OURS.start, FIRST + 2, false);
    let ours = OURS.skip(1);
    let read = count(&shim, ours.clone(), |number| drop(agent.read(number)));
    let next = count(&shim, ours.clone(), |number| {
        agent.write(number, FIRST + 1, false);
    });
    let given = count(&shim, ours, |number| agent.write(number, FIRST + 2, true));
    let replugged = replugged(&shim, &agent);
    drop(agent);
    let agent = Agent::start(stage, &module, OFTEN, environment);
    let pass = pass(&shim);
    drop(agent);
    let row = |what, ours, theirs, peer, goal| Row {
        what,
        ours,
        theirs: Some(theirs),
        unit: "calls",
        peer,
        goal,
    };
    let (found, replaced, all) = (
        "find by label and get, each object",
        "find, destroy and create, each object",
        "label and value of all 1,000 objects",
    );
    let goal = Some(Goal::AtMost(WRITES));
    vec![
        row(
            "read: PKCS#11 calls",
            read,
            theirs.read,
            found,
            Some(Goal::AtMost(READS)),
        ),
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
        row("pass over the token: PKCS#11 calls", pass, theirs.pass, all, None),
        Row {
            what: "replug in place, until served, at most",
            ours: replugged.as_secs_f64(),
            theirs: None,
            unit: "s",
            peer: "",
            goal: Some(Goal::Below(SERVED)),
        },
    ]
}

/// The longest that it took from the moment that a token is back until a secret of it was read.
fn replugged(shim: &Shim, agent: &Agent) -> Duration {
    let gone = Fault::before(1, Action::Answer(CKR_DEVICE_REMOVED)).lasting(Lasting::Always);
    let times = (0..REPLUGS).map(|_| {
        shim.set(&Control::fault(gone.clone())).unwrap();
        agent.wait_until_it_reads(OURS.start, false);
        shim.set(&Control::default()).unwrap();
        let back = Instant::now();
        agent.wait_until_it_reads(OURS.start, true);
        back.elapsed()
    });
    times.max().unwrap_or_default()
}

/// The calls from the beginning of a pass to that of the next one.
fn pass(shim: &Shim) -> f64 {
    shim.set(&Control::default()).unwrap();
    let begun = Instant::now();
    loop {
        let calls = shim.calls().unwrap();
        let mut searches = calls.iter().filter(|call| call.function == "C_FindObjectsInit");
        if let (Some(one), Some(next)) = (searches.next(), searches.next()) {
            return (next.number - one.number) as f64;
        }
        assert!(begun.elapsed() < OFTEN * 10, "the agent makes no pass");
        std::thread::sleep(OFTEN / 10);
    }
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
        pass: count(&shim, 0..1, |_| drop(raw.enumerate())),
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
