//! The schedule against a model that keeps a plain list of everything that was asked for.
//!
//! The dice of the schedule are unknown to the model, so it knows for each key when it *may* come and when it *must*.

use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;

use super::*;

const QUIET: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_millis(1000);
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Debug, Clone)]
enum Op {
    Add(usize, Lane),
    AddAfter(usize, Lane, Duration),
    Take,
    Finish(usize, Outcome),
    Forget(usize),
    Advance(Duration),
}

/// All wishes for the next run of one key.
#[derive(Debug, Default)]
struct Wishes {
    lane: Option<Lane>,
    /// The earliest and the latest moment of each timer.
    timers: Vec<(Instant, Instant)>,
    events: Vec<Instant>,
    may: bool,
    must: bool,
}

#[derive(Debug, Default)]
struct Model {
    debounce: bool,
    wishes: BTreeMap<usize, Wishes>,
    running: BTreeMap<usize, Lane>,
    trouble: BTreeMap<usize, (Class, u32, (Instant, Instant))>,
}

impl Model {
    fn latch(&mut self, now: Instant) {
        for (name, wish) in &mut self.wishes {
            let first = wish.events.first().map(|first| *first + LONGEST);
            let closes = first
                .zip(wish.events.last())
                .map(|(end, last)| end.min(*last + QUIET));
            let earliest = wish
                .timers
                .iter()
                .map(|(from, _)| *from)
                .chain(closes)
                .min()
                .unwrap();
            let latest = wish.timers.iter().map(|(_, to)| *to).chain(closes).min().unwrap();
            let hold = self.trouble.get(name).map_or((now, now), |(_, _, hold)| *hold);
            let free = !self.running.contains_key(name);
            wish.may |= free && earliest.max(hold.0) <= now;
            wish.must |= free && latest.max(hold.1) <= now;
        }
    }

    fn ask(&mut self, name: usize, lane: Lane) -> &mut Wishes {
        let wish = self.wishes.entry(name).or_default();
        wish.lane = Some(wish.lane.map_or(lane, |other| other.min(lane)));
        wish
    }

    fn event(&mut self, name: usize, lane: Lane, now: Instant) {
        let debounce = self.debounce;
        let wish = self.ask(name, lane);
        if debounce && wish.lane != Some(Lane::Urgent) {
            wish.events.push(now);
        } else {
            wish.timers.push((now, now));
        }
    }

    fn finish(&mut self, name: usize, outcome: Outcome, now: Instant) {
        self.running.remove(&name).unwrap();
        match outcome {
            Outcome::Success { look_again } => {
                self.trouble.remove(&name);
                if let Some((wait, lane)) = look_again {
                    self.ask(name, lane).timers.push((now + wait, now + wait));
                }
            }
            Outcome::Failed {
                class,
                retry_after,
                retry_in,
            } => {
                let last = self.trouble.get(&name);
                let same = last.filter(|last| (last.0 == Class::User) == (class == Class::User));
                let earlier = same.map_or(0, |last| last.1);
                let wait = |unit| Retry::default().wait(class, earlier, retry_after, unit);
                let (soon, late) = (wait(0.0), wait(1.0));
                self.trouble
                    .insert(name, (class, earlier + 1, (now + soon.hold, now + late.hold)));
                let retry = retry_in.map_or((soon.retry, late.retry), |wait| (wait, wait));
                self.ask(name, Lane::Bulk)
                    .timers
                    .push((now + retry.0, now + retry.1));
            }
            Outcome::StillFailing { look_again } => match look_again {
                Some(wait) => self.ask(name, Lane::Bulk).timers.push((now + wait, now + wait)),
                // A key that nothing asks for is not kept.
                None if !self.wishes.contains_key(&name) => drop(self.trouble.remove(&name)),
                None => {}
            },
        }
    }

    fn took(&mut self, turn: Option<Turn<ObjectRef>>) -> Result<(), TestCaseError> {
        let Some(turn) = turn else {
            let missed = self.wishes.iter().find(|(_, wish)| wish.must);
            prop_assert!(missed.is_none(), "nothing was handed out, but {missed:?} is due");
            return Ok(());
        };
        let name = NAMES.iter().position(|name| *name == turn.key.name()).unwrap();
        prop_assert!(!self.running.contains_key(&name), "{name} is on two workers");
        let wish = self.wishes.remove(&name);
        prop_assert!(
            wish.as_ref().is_some_and(|wish| wish.may),
            "{name} came too early: {wish:?}"
        );
        prop_assert_eq!(Some(turn.lane), wish.unwrap().lane);
        prop_assert_eq!(
            turn.failures,
            self.trouble.get(&name).map_or(0, |trouble| trouble.1)
        );
        self.running.insert(name, turn.lane);
        Ok(())
    }
}

fn lane() -> impl Strategy<Value = Lane> {
    prop_oneof![Just(Lane::Urgent), Just(Lane::Normal), Just(Lane::Bulk)]
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let class = prop_oneof![Just(Class::Transient), Just(Class::User), Just(Class::Bug)];
    let wait = || proptest::option::of(millis(0..9000));
    let failed = (class, wait(), wait());
    prop_oneof![
        proptest::option::of((millis(0..3000), lane()))
            .prop_map(|look_again| Outcome::Success { look_again }),
        failed.prop_map(|(class, retry_after, retry_in)| Outcome::Failed {
            class,
            retry_after,
            retry_in
        }),
        wait().prop_map(|look_again| Outcome::StillFailing { look_again }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let name = || 0..NAMES.len();
    prop_oneof![
        6 => (name(), lane()).prop_map(|(name, lane)| Op::Add(name, lane)),
        2 => (name(), lane(), millis(0..3000)).prop_map(|(name, lane, wait)| Op::AddAfter(name, lane, wait)),
        6 => Just(Op::Take),
        6 => (name(), outcome()).prop_map(|(name, outcome)| Op::Finish(name, outcome)),
        1 => name().prop_map(Op::Forget),
        5 => millis(0..1500).prop_map(Op::Advance),
        1 => Just(Op::Advance(Duration::from_secs(1200))),
    ]
}

fn object(name: usize) -> ObjectRef {
    ObjectRef::new(Some(["even", "odd"][name % 2]), NAMES[name])
}

fn step(
    op: Op,
    schedule: &mut Schedule<ObjectRef>,
    model: &mut Model,
    now: &mut Instant,
) -> Result<(), TestCaseError> {
    model.latch(*now);
    match op {
        Op::Add(name, lane) => {
            schedule.add(object(name), lane, *now);
            model.event(name, lane, *now);
        }
        Op::AddAfter(name, lane, wait) => {
            schedule.add_after(object(name), lane, wait, *now);
            model.ask(name, lane).timers.push((*now + wait, *now + wait));
        }
        Op::Take => model.took(schedule.take(*now))?,
        Op::Finish(name, outcome) if model.running.contains_key(&name) => {
            schedule.finish(&object(name), outcome, *now);
            model.finish(name, outcome, *now);
        }
        Op::Finish(name, outcome) => schedule.finish(&object(name), outcome, *now),
        Op::Forget(name) => {
            schedule.forget(&object(name));
            model.wishes.remove(&name);
            model.trouble.remove(&name);
        }
        Op::Advance(time) => *now += time,
    }
    let depths = schedule.depths(*now);
    prop_assert_eq!(depths.running, model.running.len());
    prop_assert_eq!(depths.failing, model.trouble.len());
    let due = depths.urgent + depths.normal + depths.bulk;
    prop_assert_eq!(depths.keys, due + depths.delayed + depths.running);
    Ok(())
}

proptest! {
    #[test]
    fn the_schedule_does_what_the_list_says(
        debounce: bool, seed: u64, ops in proptest::collection::vec(op(), 1..200)
    ) {
        let window = debounce.then_some(Debounce { quiet: QUIET, longest: LONGEST });
        let policy = Policy { debounce: window, ..Policy::default() };
        let (mut schedule, mut now) = (Schedule::new(policy, seed), Instant::now());
        let mut model = Model { debounce, ..Model::default() };
        for op in ops {
            step(op, &mut schedule, &mut model, &mut now)?;
        }
        // However it went, everything that was asked for is handed out in the end, and nothing stays behind.
        for _ in 0..3 * NAMES.len() {
            for name in 0..NAMES.len() {
                step(Op::Finish(name, DONE), &mut schedule, &mut model, &mut now)?;
            }
            step(Op::Advance(Duration::from_secs(7200)), &mut schedule, &mut model, &mut now)?;
            step(Op::Take, &mut schedule, &mut model, &mut now)?;
        }
        prop_assert!(model.wishes.is_empty() && model.running.is_empty());
        prop_assert_eq!(schedule.depths(now), Depths::default());
    }

    #[test]
    fn no_tenant_waits_for_more_than_one_key_of_each_other(
        sizes in proptest::collection::vec(1_usize..40, 2..6)
    ) {
        let (mut schedule, now) = (Schedule::new(Policy::default(), 0), Instant::now());
        for (tenant, size) in sizes.iter().enumerate() {
            for name in 0..*size {
                let object = ObjectRef::new(Some(&tenant.to_string()), &name.to_string());
                schedule.add(object, Lane::Normal, now);
            }
        }
        let mut left = sizes.clone();
        let mut last_turn = vec![0; sizes.len()];
        for turn in 1..=sizes.iter().sum() {
            let key = schedule.take(now).unwrap().key;
            let tenant: usize = key.tenant().parse().unwrap();
            prop_assert!(turn - last_turn[tenant] <= sizes.len(), "{} waited too long", tenant);
            last_turn[tenant] = turn;
            left[tenant] -= 1;
        }
        prop_assert!(left.iter().all(|left| *left == 0));
    }
}
