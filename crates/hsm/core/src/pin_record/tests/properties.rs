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
        12 => agent.clone().prop_map(Event::Step),
        2 => (agent.clone(), any::<bool>()).prop_map(|(agent, elsewhere)| Event::Restart(agent, elsewhere)),
        1 => agent.prop_map(Event::Replug),
        2 => prop_oneof![Just(1), Just(11), Just(45)].prop_map(Event::Pass),
        1 => (0_u8..4).prop_map(Event::Write),
    ]
}

fn story(agents: usize) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(agents), 1..120)
}

/// What people do to the token and to the Secret as well.
fn eventful(agents: usize) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        20 => event(agents),
        1 => Just(Event::Recreate),
        1 => (0_u8..4).prop_map(Event::Change),
    ];
    prop::collection::vec(event, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn no_wrong_pin_is_tried_twice(agents in 1_usize..4, story in story(3), pin in 0_u8..4) {
        let mut world = World::new(token(0, true, 100), agents, pin);
        for event in story {
            if matches!(event, Event::Step(at) | Event::Restart(at, _) | Event::Replug(at) if at >= agents) {
                continue;
            }
            world.happen(event);
            let most = world.token.wrong.values().max().copied().unwrap_or_default();
            prop_assert!(most <= 1, "{event:?}: {:?} {:?}", world.token.wrong, world.tries);
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
    fn on_a_token_that_does_not_tell_a_wrong_pin_is_tried_twice_at_most(story in story(3), pin in 0_u8..4) {
        let mut world = World::new(token(0, false, 100), 3, pin);
        for event in story {
            world.happen(event);
            let most = world.token.wrong.values().max().copied().unwrap_or_default();
            prop_assert!(most <= 2, "{event:?}: {:?} {:?}", world.token.wrong, world.tries);
        }
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
