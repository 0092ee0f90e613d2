//! What holds whatever the server says.

use proptest::prelude::*;

use super::tests::Rig;
use super::*;

fn any_input() -> impl Strategy<Value = Input> {
    let version = || (1_u32..60).prop_map(|v| Arc::from(v.to_string()));
    let reason = prop_oneof![
        Just(Reason::Unauthorized),
        Just(Reason::Forbidden),
        Just(Reason::NotServed),
        Just(Reason::Throttled),
        Just(Reason::Rejected),
        Just(Reason::Expired),
        Just(Reason::Ahead),
        Just(Reason::Server),
        Just(Reason::Connection),
        Just(Reason::TimedOut),
        Just(Reason::Ended),
        Just(Reason::Malformed),
        Just(Reason::TooLarge),
        Just(Reason::Disorder),
    ];
    prop_oneof![
        Just(Input::Accepted),
        version().prop_map(|version| Input::Object { version }),
        (version(), any::<bool>())
            .prop_map(|(version, initial_end)| Input::Bookmark { version, initial_end }),
        (version(), proptest::option::of(Just(Arc::from("t"))))
            .prop_map(|(version, next)| Input::Page { version, next }),
        reason.prop_map(|reason| Input::Failed(Failure::new(reason, ""))),
        Just(Input::Relist),
    ]
}

proptest! {
    /// Whatever comes: no wait without an end, no watch from a version that nobody gave, no readiness without a reason;
    /// and a server that behaves brings every machine back.
    #[test]
    fn whatever_comes_it_recovers(inputs in proptest::collection::vec((any_input(), 0_u64..300, 0.0_f64..1.0), 0..60)) {
        let mut rig = Rig::new();
        let mut given = std::collections::BTreeSet::new();
        for (input, seconds, unit) in inputs {
            let fits = match (&input, rig.machine.is_open(), rig.machine.is_listing()) {
                (Input::Object { .. } | Input::Bookmark { .. }, open, _) => open,
                (Input::Accepted, open, _) => !open && !matches!(rig.ask(), Ask::Page { .. }),
                (Input::Page { .. }, open, listing) => !open && listing && matches!(rig.ask(), Ask::Page { .. }),
                _ => true,
            };
            if !fits { continue }
            rig.pass(seconds);
            let was_listing = rig.machine.is_listing();
            match &input {
                Input::Object { version } if !was_listing => { given.insert(version.clone()); }
                Input::Bookmark { version, .. } | Input::Page { version, .. } => { given.insert(version.clone()); }
                _ => {}
            }
            let effect = rig.machine.on(input, rig.now, unit);
            if let Effect::Commit(version) = &effect {
                prop_assert!(was_listing);
                prop_assert_eq!(rig.machine.version(), Some(version));
                prop_assert_eq!(rig.machine.standing(), Standing::BEST);
            }
            prop_assert!(rig.waits() <= MAX_RETRY_AFTER);
            if let Ask::Watch { from } = rig.ask() {
                prop_assert!(given.contains(&from), "a watch from {from} out of the blue");
            }
        }
        if !rig.machine.is_open() || rig.machine.is_listing() {
            rig.fail(Reason::Connection);
            for _ in 0..4 {
                let input = match rig.ask() {
                    Ask::Page { .. } => Input::Page { version: "1000".into(), next: None },
                    _ => Input::Accepted,
                };
                rig.on(input);
                if rig.machine.is_open() && rig.machine.is_listing() {
                    rig.bookmark("1000", true);
                }
            }
            prop_assert!(rig.machine.is_open());
            prop_assert_eq!(rig.machine.standing(), Standing::BEST);
        }
    }
}
