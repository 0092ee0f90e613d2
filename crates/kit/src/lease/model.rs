//! Electors in an arbitrary world: requests and answers are delayed, reordered and lost, processes are stopped,
//! restarted and killed, every machine has its own clock. Whatever happens, two never lead at once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::{Elector, Record, Step, Timing, View, Written};

const CANDIDATES: usize = 3;

#[derive(Debug, Clone)]
enum Act {
    /// Time passes for everybody.
    Pass(u16),
    /// A candidate does its next step, unless it waits for an answer.
    Step(usize),
    /// A request in the network reaches the server: any of them, in any order.
    Land(usize),
    /// A candidate gets the answer of its request.
    Answer(usize),
    /// A candidate stops waiting for its answer. The request may still land.
    GiveUp(usize),
    /// A candidate shuts down.
    Leave(usize),
    /// A candidate is killed, and a new process takes its place.
    Kill(usize),
    /// A stretch of normal life, so that leaders exist: everybody steps, all lands, all is answered.
    Live(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let who = 0..CANDIDATES;
    let act = prop_oneof![
        4 => prop_oneof![0_u16..300, 900_u16..1100, 1900_u16..2100, 9000_u16..16_000].prop_map(Act::Pass),
        6 => who.clone().prop_map(Act::Step),
        6 => (0_usize..8).prop_map(Act::Land),
        6 => who.clone().prop_map(Act::Answer),
        2 => who.clone().prop_map(Act::GiveUp),
        1 => who.clone().prop_map(Act::Leave),
        1 => who.prop_map(Act::Kill),
        2 => (1_u8..20).prop_map(Act::Live),
    ];
    prop::collection::vec(act, 1..120)
}

/// One process on one machine.
struct Candidate {
    elector: Elector,
    generation: u32,
    /// Its monotonic clock started at another moment, and its wall clock is wrong.
    offset: Duration,
    skew: SignedDuration,
    /// The request whose answer it waits for, and when it was started.
    waiting: Option<(usize, Duration)>,
}

struct Request {
    id: usize,
    step: Step,
}

struct World {
    now: Duration,
    lease: Option<(Record, u64)>,
    version: u64,
    candidates: Vec<Candidate>,
    network: Vec<Request>,
    answers: Vec<(usize, Reply)>,
    next_id: usize,
    terms: usize,
}

enum Reply {
    Read(View),
    Written(Written),
}

fn candidate(place: usize, generation: u32) -> Candidate {
    Candidate {
        elector: Elector::new(&format!("c{place}-{generation}"), Timing::default()),
        generation,
        offset: Duration::from_secs(977 * place as u64),
        skew: SignedDuration::from_secs(3600 * (place as i64 - 1)),
        waiting: None,
    }
}

impl World {
    fn new() -> Self {
        Self {
            now: Duration::from_secs(1),
            lease: None,
            version: 0,
            candidates: (0..CANDIDATES).map(|place| candidate(place, 0)).collect(),
            network: Vec::new(),
            answers: Vec::new(),
            next_id: 0,
            terms: 0,
        }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Pass(millis) => self.now += Duration::from_millis(millis.into()),
            Act::Step(who) => self.step(who),
            Act::Land(which) if !self.network.is_empty() => self.land(which % self.network.len()),
            Act::Land(_) => {}
            Act::Answer(who) => self.answer(who),
            Act::GiveUp(who) => {
                let local = self.local(who);
                let candidate = &mut self.candidates[who];
                if candidate.waiting.take().is_some() {
                    candidate.elector.unanswered(local);
                }
            }
            Act::Leave(who) => self.candidates[who].elector.leave(),
            Act::Kill(who) => self.candidates[who] = candidate(who, self.candidates[who].generation + 1),
            Act::Live(rounds) => {
                for _ in 0..rounds {
                    self.now += Duration::from_millis(500);
                    self.round();
                }
            }
        }
    }

    /// Every candidate that is up does what it has to do, at once.
    fn round(&mut self) {
        for who in 0..CANDIDATES {
            for _ in 0..3 {
                self.step(who);
                while !self.network.is_empty() {
                    self.land(0);
                }
                self.answer(who);
                self.check();
            }
        }
    }

    fn local(&self, who: usize) -> Duration {
        self.now + self.candidates[who].offset
    }

    fn step(&mut self, who: usize) {
        let local = self.local(who);
        let candidate = &mut self.candidates[who];
        if candidate.waiting.is_some() {
            return;
        }
        let wall = Timestamp::UNIX_EPOCH + SignedDuration::try_from(self.now).unwrap() + candidate.skew;
        let step = candidate.elector.step(local, wall);
        if matches!(step, Step::Read | Step::Create(_) | Step::Replace(..)) {
            candidate.waiting = Some((self.next_id, local));
            self.network.push(Request {
                id: self.next_id,
                step,
            });
            self.next_id += 1;
        }
    }

    fn land(&mut self, which: usize) {
        let Request { id, step } = self.network.remove(which);
        let reply = match step {
            Step::Read => Reply::Read(match &self.lease {
                Some((record, version)) => View::Present(record.clone(), version.to_string()),
                None => View::Absent,
            }),
            Step::Create(record) if self.lease.is_none() => self.store(record),
            Step::Replace(record, version)
                if self
                    .lease
                    .as_ref()
                    .is_some_and(|(_, current)| current.to_string() == version) =>
            {
                self.store(record)
            }
            _ => Reply::Written(Written::Conflict),
        };
        self.answers.push((id, reply));
    }

    fn store(&mut self, record: Record) -> Reply {
        self.version += 1;
        self.lease = Some((record.clone(), self.version));
        Reply::Written(Written::Stored(record, self.version.to_string()))
    }

    fn answer(&mut self, who: usize) {
        let local = self.local(who);
        let candidate = &mut self.candidates[who];
        let Some((id, started)) = candidate.waiting else {
            return;
        };
        let Some(place) = self.answers.iter().position(|(of, _)| *of == id) else {
            return;
        };
        candidate.waiting = None;
        let led = candidate.elector.leads_until(local).is_some();
        match self.answers.swap_remove(place).1 {
            Reply::Read(view) => candidate.elector.read(local, view),
            Reply::Written(written) => candidate.elector.written(started, local, written),
        }
        self.terms += usize::from(!led && candidate.elector.leads_until(local).is_some());
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |who: &usize| {
            self.candidates[*who]
                .elector
                .leads_until(self.local(*who))
                .is_some()
        };
        (0..CANDIDATES).filter(leads).collect()
    }

    fn check(&self) {
        let leaders = self.leaders();
        assert!(
            leaders.len() <= 1,
            "{leaders:?} lead at once at {:?}; the lease is {:?}",
            self.now,
            self.lease
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn two_never_lead_at_once(acts in acts()) {
        let mut world = World::new();
        for act in &acts {
            world.act(act);
            world.check();
        }
    }

    /// Safety alone would be kept by candidates that never lead.
    #[test]
    fn after_any_trouble_a_fresh_candidate_leads_in_time(acts in acts()) {
        let mut world = World::new();
        for act in &acts {
            world.act(act);
        }
        world.network.clear();
        for who in 0..CANDIDATES {
            world.act(&Act::Kill(who));
        }
        let start = world.now;
        while world.leaders().is_empty() {
            world.now += Duration::from_millis(100);
            world.round();
            prop_assert!(world.now - start < Duration::from_secs(17), "nobody leads: {:?}", world.lease);
        }
    }
}

#[test]
fn a_lease_that_is_given_back_is_taken_within_one_poll() {
    let mut world = World::new();
    world.act(&Act::Live(10));
    let [leader] = world.leaders()[..] else {
        panic!("nobody leads")
    };
    world.act(&Act::Leave(leader));
    assert!(world.leaders().is_empty(), "who leaves must stop at once");
    let start = world.now;
    while world.leaders().is_empty() {
        world.now += Duration::from_millis(50);
        world.round();
    }
    assert!(
        world.now - start <= Duration::from_millis(1100),
        "took {:?}",
        world.now - start
    );
    assert_ne!(world.leaders(), [leader]);
    assert_eq!(world.lease.unwrap().0.transitions, 1);
}

#[test]
fn a_leader_renews_and_stays() {
    let mut world = World::new();
    world.act(&Act::Live(1));
    let leaders = world.leaders();
    world.act(&Act::Live(240));
    assert_eq!(world.leaders(), leaders);
    assert_eq!(world.terms, 1);
}

#[test]
fn a_leader_that_cannot_renew_stops_before_a_rival_may_start() {
    let mut world = World::new();
    world.act(&Act::Live(10));
    let [leader] = world.leaders()[..] else {
        panic!("nobody leads")
    };
    // The leader is cut off; the others live on.
    let start = world.now;
    let (mut stopped, mut taken) = (None, None);
    while taken.is_none() {
        world.now += Duration::from_millis(100);
        for who in (0..CANDIDATES).filter(|who| *who != leader) {
            for _ in 0..3 {
                world.step(who);
                while !world.network.is_empty() {
                    world.land(0);
                }
                world.answer(who);
            }
        }
        match world.leaders()[..] {
            [] => stopped = stopped.or(Some(world.now - start)),
            [who] if who != leader => taken = Some(world.now - start),
            _ => {}
        }
    }
    let (stopped, taken) = (stopped.unwrap(), taken.unwrap());
    assert!(
        stopped <= Duration::from_millis(10_100),
        "stopped after {stopped:?}"
    );
    assert!(
        taken >= Duration::from_secs(13) && taken <= Duration::from_secs(17),
        "taken after {taken:?}"
    );
}

#[test]
fn a_lease_that_somebody_deletes_makes_no_second_leader() {
    let mut world = World::new();
    world.act(&Act::Live(10));
    let leaders = world.leaders();
    world.lease = None;
    for _ in 0..40 {
        world.act(&Act::Live(1));
        assert_eq!(world.leaders(), leaders);
    }
}
