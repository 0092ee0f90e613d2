//! Whatever happens, in whichever order: no wrong PIN is tried twice, and a right one opens the token.

use proptest::prelude::*;

use super::model::{Event, Token, World};
use super::*;

fn token(right: u8, tells: bool, locks_after: u32) -> Token {
    Token {
        right,
        tells,
        wrong_in_a_row: 0,
        locks_after,
        wrong: Default::default(),
    }
}

/// Steps mostly, so that much happens between two accidents.
fn event(agents: usize) -> impl Strategy<Value = Event> {
    let agent = 0..agents;
    prop_oneof![
        24 => agent.clone().prop_map(Event::Step),
        2 => agent.clone().prop_map(Event::Unheard),
        4 => (agent.clone(), any::<bool>()).prop_map(|(agent, elsewhere)| Event::Restart(agent, elsewhere)),
        2 => agent.clone().prop_map(Event::Replug),
        4 => prop_oneof![Just(1), Just(11), Just(45)].prop_map(Event::Pass),
        2 => (0_u8..4).prop_map(Event::Write),
        2 => (agent, 0_u8..4).prop_map(|(agent, pin)| Event::ChangePin(agent, pin)),
        1 => Just(Event::Recreate),
        1 => Just(Event::Again),
        1 => Just(Event::LoseKey),
    ]
}

fn story(agents: usize) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(agents), 1..120)
}

/// What people do to the token and to the record as well.
fn eventful(agents: usize) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        20 => event(agents),
        1 => Just(Event::LoseRecord),
        1 => (0_u8..4).prop_map(Event::Change),
    ];
    prop::collection::vec(event, 1..120)
}

/// As long as nobody changes the PIN, allows another try or takes the key away.
fn silent() -> impl Strategy<Value = Vec<Event>> {
    let agent = 0_usize..3;
    let event = prop_oneof![
        24 => agent.clone().prop_map(Event::Step),
        2 => agent.clone().prop_map(Event::Unheard),
        4 => (agent.clone(), any::<bool>()).prop_map(|(agent, elsewhere)| Event::Restart(agent, elsewhere)),
        2 => agent.prop_map(Event::Replug),
        4 => prop_oneof![Just(1), Just(11), Just(45)].prop_map(Event::Pass),
        2 => (0_u8..4).prop_map(Event::Write),
        1 => Just(Event::Recreate),
        1 => Just(Event::LoseRecord),
    ];
    prop::collection::vec(event, 1..120)
}

/// What may be in a record that is almost full.
fn record() -> impl Strategy<Value = Vec<Try>> {
    let kept = vec![
        Outcome::Pending,
        Outcome::Rejected,
        Outcome::Locked,
        Outcome::Expired,
        Outcome::Form,
        Outcome::Unanswered,
        Outcome::Changing,
    ];
    let forgotten = vec![Outcome::Accepted, Outcome::Withdrawn, Outcome::Replaced];
    // Mostly what is to be kept, so that there is not always something else.
    let outcome = prop_oneof![40 => prop::sample::select(kept), 1 => prop::sample::select(forgotten)];
    let secret = prop::sample::select(vec!["s", "s2", OFFICER]);
    let token = prop_oneof![40 => Just("t"), 1 => Just("u")];
    let tries = prop::collection::vec((outcome, secret, token), MOST - 3..=MOST);
    tries.prop_map(|tries| {
        let made = |(number, (outcome, secret, token)): (usize, (Outcome, &str, &str))| Try {
            secret: secret.to_owned(),
            token: token.to_owned(),
            ..tried(&format!("d{number}"), "pod/0", outcome)
        };
        tries.into_iter().enumerate().map(made).collect()
    })
}

/// The PINs that this token has refused, or may have.
fn refusals(tries: &[Try]) -> Vec<&str> {
    let refused =
        |tried: &&Try| tried.token == "t" && (tried.outcome.is_refused() || tried.outcome.is_open());
    tries
        .iter()
        .filter(refused)
        .map(|tried| tried.digest.as_str())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn no_wrong_pin_is_tried_twice_but_by_a_persons_word(
        agents in 1_usize..4, story in story(3), pin in 0_u8..4,
    ) {
        let mut world = World::new(token(0, true, 100), agents, pin);
        for event in story {
            world.happen(event);
            let most = world.token.most();
            prop_assert!(most <= 1 + world.allowed, "{event:?}: {:?} {:?}", world.token.wrong, world.tries);
            prop_assert!(world.tries.len() <= MOST);
        }
    }

    #[test]
    fn no_token_is_locked_by_us(story in eventful(3), pin in 0_u8..4) {
        let mut world = World::new(token(0, true, 3), 3, pin);
        for event in story {
            world.happen(event);
            prop_assert!(world.token.wrong_in_a_row < 3, "{event:?}: {:?}", world.tries);
        }
    }

    #[test]
    fn on_a_token_that_does_not_tell_a_wrong_pin_is_tried_twice_at_most_for_each_record(
        story in silent(), pin in 0_u8..4,
    ) {
        let mut world = World::new(token(0, false, 100), 3, pin);
        let mut records = 1;
        for event in story {
            records += u32::from(matches!(event, Event::LoseRecord));
            world.happen(event);
            let most = world.token.most();
            prop_assert!(most <= 2 * records, "{event:?}: {:?} {:?}", world.token.wrong, world.tries);
        }
    }

    #[test]
    fn nothing_that_the_token_has_refused_is_forgotten_for_something_new(
        tries in record(), account in prop::sample::select(vec![Account::Automatic, Account::Ordered]),
    ) {
        let mut known = refusals(&tries);
        if let Verdict::Try { tries: after, .. } = ask(&tries, Case { account, ..case("new") }) {
            prop_assert!(after.len() <= MOST);
            known.push("new");
            prop_assert_eq!(refusals(&after), known.clone());
        }
        let change = Exchange { old: key("new"), new: key("newer") };
        if let Some(begun) = begin_change(&tries, &change, "pod/1", now()) {
            prop_assert!(begun.len() <= MOST);
            let done = end_change(&begun, &change, "pod/1", Exchanged::Done, now()).unwrap_or(begun);
            prop_assert!(done.len() <= MOST);
            let left = refusals(&done);
            let lost = |tried: &&Try| tried.outcome != Outcome::Changing && !left.contains(&tried.digest.as_str());
            let refused = tries.iter().filter(|tried| refusals(&tries).contains(&tried.digest.as_str()));
            prop_assert_eq!(refused.filter(lost).count(), 0);
        }
    }

    #[test]
    fn a_pin_that_has_opened_the_token_opens_it_after_any_crashes(
        story in prop::collection::vec((0_usize..2, 0_u8..4, any::<bool>()), 1..60),
    ) {
        let mut world = World::new(token(0, true, 3), 2, 0);
        let opens = |world: &mut World| {
            for _ in 0..20 {
                world.happen(Event::Step(0));
                world.happen(Event::Step(1));
                world.happen(Event::Pass(9));
            }
            world.is_open(0) && world.is_open(1)
        };
        prop_assert!(opens(&mut world));
        for (agent, steps, elsewhere) in story {
            world.happen(Event::Restart(agent, elsewhere));
            for _ in 0..steps {
                world.happen(Event::Step(agent));
                world.happen(Event::Pass(9));
            }
        }
        prop_assert!(opens(&mut world), "{:?}", world.tries);
    }

    #[test]
    fn a_right_pin_opens_the_token_after_one_crash_wherever_it_was(
        agents in 1_usize..4,
        story in prop::collection::vec((0_usize..3, any::<bool>(), any::<bool>()), 1..60),
    ) {
        let mut world = World::new(token(0, true, 3), agents, 0);
        let mut crashes = 0;
        for (agent, restarts, elsewhere) in story {
            let agent = agent % agents;
            if restarts && crashes == 0 {
                crashes += usize::from(world.is_at_it(agent));
                world.happen(Event::Restart(agent, elsewhere));
            } else {
                world.happen(Event::Step(agent));
            }
            world.happen(Event::Pass(1));
        }
        // Those that were stopped in the middle go on, and then everybody has time.
        for _ in 0..20 {
            for agent in 0..agents {
                world.happen(Event::Step(agent));
            }
            world.happen(Event::Pass(9));
        }
        for agent in 0..agents {
            prop_assert!(world.is_open(agent), "{agent}: {:?}", world.tries);
        }
    }

    #[test]
    fn a_pin_that_is_mended_opens_the_token(wrong in 1_u8..4, story in prop::collection::vec(0_usize..2, 0..20)) {
        let mut world = World::new(token(0, true, 5), 2, wrong);
        for agent in story {
            world.happen(Event::Step(agent));
            world.happen(Event::Pass(1));
        }
        world.happen(Event::Write(0));
        for _ in 0..20 {
            world.happen(Event::Step(0));
            world.happen(Event::Step(1));
            world.happen(Event::Pass(9));
        }
        prop_assert!(world.is_open(0) && world.is_open(1), "{:?}", world.tries);
    }
}
