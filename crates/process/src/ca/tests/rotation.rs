//! The promise of the overlap, over many ways to walk through time.

use proptest::prelude::*;

use super::*;

/// With room for steps that come late.
const ROOMY: Policy = Policy {
    ca_life: SignedDuration::from_hours(72),
    ..POLICY
};
/// The longest time that a due step is left lying, beside the length of a move. A stopped process is another test's
/// matter.
const LATEST: SignedDuration = SignedDuration::from_hours(3);

/// One move in time: how far, whether the authority is stepped then, and how old the signer's knowledge is.
#[derive(Debug, Clone)]
struct Move {
    minutes: i64,
    step: bool,
    lag_minutes: i64,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let propagation = ROOMY.propagation.as_mins();
    let one = (1_i64..180, any::<bool>(), 0..propagation);
    let one = one.prop_map(|(minutes, step, lag_minutes)| Move {
        minutes,
        step,
        lag_minutes,
    });
    proptest::collection::vec(one, 40..160)
}

/// What everybody could know, and from when on.
struct History(Vec<(Timestamp, Authority)>);

impl History {
    fn at(&self, time: Timestamp) -> &Authority {
        let known = self.0.iter().rev().find(|(since, _)| *since <= time);
        known.map_or(&self.0[0].1, |(_, authority)| authority)
    }

    /// Every state that was the newest one at some moment of `[from, to]`.
    fn between(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = &Authority> {
        let inside = self
            .0
            .iter()
            .filter(move |(since, _)| *since > from && *since <= to);
        std::iter::once(self.at(from)).chain(inside.map(|(_, authority)| authority))
    }
}

fn walk(moves: &[Move]) -> (History, Vec<(Timestamp, Leaf)>) {
    let mut now = start();
    let mut history = History(vec![(now, Authority::create("test", ROOMY, now).unwrap())]);
    let mut leaves = Vec::new();
    for one in moves {
        now += SignedDuration::from_mins(one.minutes);
        let newest = history.at(now).clone();
        let step = newest.step(now).unwrap();
        let overdue = newest.step(now - LATEST).unwrap().next.is_some();
        if let Some(next) = step.next.filter(|_| one.step || overdue) {
            history.0.push((now, next));
        }
        let signer = history.at(now - SignedDuration::from_mins(one.lag_minutes));
        leaves.push((now, signer.issue(&request(), now).unwrap()));
    }
    (history, leaves)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A client with any bundle younger than the propagation time trusts any leaf that a server may show: signed by
    /// an authority whose knowledge is younger than the propagation time, and not expired.
    #[test]
    fn a_bundle_within_the_propagation_trusts_every_leaf_that_is_served(moves in moves()) {
        let (history, leaves) = walk(&moves);
        let second = SignedDuration::from_secs(1);
        for (issued, leaf) in &leaves {
            let changes = history.0.iter().map(|(since, _)| *since);
            let moments = changes.filter(|time| time >= issued && *time < leaf.expires());
            for moment in moments.chain([*issued, leaf.expires() - second]) {
                for bundle in history.between(moment - ROOMY.propagation + second, moment) {
                    prop_assert!(bundle.vouches_for(leaf), "leaf of {issued} is not trusted at {moment}");
                }
            }
        }
    }

    /// The bundle stays small: two authorities while a rotation runs, one otherwise.
    #[test]
    fn a_bundle_holds_at_most_two_authorities(moves in moves()) {
        let (history, _) = walk(&moves);
        for (_, authority) in &history.0 {
            let count = authority.state().certificates().count();
            prop_assert!(count <= 2, "{count}");
        }
    }
}
