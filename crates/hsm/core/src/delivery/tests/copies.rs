//! Several tokens: what counts does not depend on which of them are plugged in.

use super::*;
use crate::delivery::copies::{Verdict, verdict};

fn two(one: TokenView, other: TokenView) -> Stage {
    let mut stage = Stage::new();
    stage.situation.tokens = vec![one, other];
    stage
}

/// Two tokens with equal contents, delivered.
fn delivered() -> Stage {
    let mut stage = two(held("pico/a", "s3cr3t", 3), held("pico/b", "s3cr3t", 5));
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    stage
}

#[test]
fn newest_of_equal_copies_is_primary_and_stays_so() {
    let mut stage = delivered();
    assert_eq!(stage.situation.status.primary_device.as_deref(), Some("pico/b"));
    stage.situation.tokens[0] = held("pico/a", "s3cr3t", 9);
    stage.settle();
    assert_eq!(stage.situation.status.primary_device.as_deref(), Some("pico/b"));
    stage.situation.tokens[1] = token("pico/b", CopyState::Absent { deleted: false });
    stage.settle();
    assert_eq!(stage.situation.status.primary_device.as_deref(), Some("pico/a"));
}

#[test]
fn different_contents_are_a_conflict_that_names_the_tokens() {
    let mut stage = two(held("pico/a", "one", 7), held("pico/b", "two", 1));
    let steps = stage.settle();
    assert!(
        !steps.iter().any(|step| step.contains(" Secret shop/")),
        "{steps:?}"
    );
    assert_eq!(stage.situation.status.sync_conflict, Some(true));
    let error = stage.error();
    assert!(
        error.contains("pico/a has version 7") && error.contains("pico/b has version 1"),
        "{error}"
    );
    assert_eq!(
        stage.condition("Conflict"),
        ("True".into(), "CopiesDiffer".into())
    );
}

#[test]
fn conflict_is_not_decided_by_pulling_out_a_token() {
    let mut stage = delivered();
    stage.situation.tokens[1] = held("pico/b", "other", 6);
    stage.settle();
    assert_eq!(stage.sync_status(), "Error");
    for tokens in [
        vec![held("pico/a", "s3cr3t", 3), away("pico/b")],
        vec![away("pico/a"), held("pico/b", "other", 6)],
    ] {
        stage.situation.tokens = tokens;
        let steps = stage.settle();
        assert!(
            !steps.iter().any(|step| step.contains(" Secret shop/")),
            "{steps:?}"
        );
        assert_eq!(stage.situation.status.sync_conflict, Some(true));
    }
    stage.data = data(&[("password", "other")]);
    stage.situation.tokens = vec![held("pico/a", "other", 4), held("pico/b", "other", 6)];
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    assert_eq!(stage.situation.status.sync_conflict, None);
}

#[test]
fn edit_is_delivered_while_another_token_is_away() {
    let mut stage = delivered();
    stage.data = data(&[("password", "edited")]);
    stage.situation.tokens = vec![held("pico/a", "edited", 4), away("pico/b")];
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    assert_eq!(
        stage.condition("Degraded"),
        ("True".into(), "TokenUnreachable".into())
    );
    // The token that was away comes back alone, with the content from before the edit: that content is no edit.
    stage.situation.tokens = vec![away("pico/a"), held("pico/b", "s3cr3t", 5)];
    let steps = stage.settle();
    assert!(
        !steps.iter().any(|step| step.contains(" Secret shop/")),
        "{steps:?}"
    );
    assert_eq!(stage.situation.status.sync_conflict, Some(true));
}

#[test]
fn one_copy_serves_while_the_other_token_is_away() {
    let mut stage = delivered();
    stage.situation.tokens[1] = away("pico/b");
    let steps = stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    assert!(
        steps[0].contains("TokenUnreachable") && steps[0].contains("pico/b"),
        "{steps:?}"
    );
    // A token that never had a copy does not matter.
    stage.situation.tokens[1] = away("pico/c");
    stage.settle();
    assert_eq!(stage.condition("Degraded").0, "False");
}

#[test]
fn new_token_with_the_delivered_content_is_no_conflict_with_an_older_copy() {
    let mut stage = delivered();
    stage.data = data(&[("password", "edited")]);
    stage.situation.tokens = vec![held("pico/a", "edited", 4), away("pico/b")];
    stage.settle();
    stage.situation.tokens = vec![away("pico/b"), held("pico/c", "edited", 1)];
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    assert_eq!(stage.situation.status.sync_conflict, None);
}

#[test]
fn damaged_copy_beside_a_readable_one_is_degraded() {
    let damaged = CopyState::Damaged("two objects have one label".to_owned());
    let mut stage = two(held("pico/a", "s3cr3t", 3), token("pico/b", damaged));
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    assert_eq!(
        stage.condition("Degraded"),
        ("True".into(), "TokenUnreachable".into())
    );
}

#[test]
fn edit_that_could_not_be_written_is_still_an_edit() {
    let mut stage = delivered();
    stage.data = data(&[("password", "edited")]);
    stage.situation.tokens = vec![held("pico/a", "edited", 4), away("pico/b")];
    stage.situation.trouble = Some("quota".to_owned());
    let plan = stage.decide();
    for step in plan.steps {
        if matches!(step, Step::Status(_)) {
            stage.carry_out(step);
        }
    }
    assert_eq!(stage.sync_status(), "OutOfSync");
    stage.situation.trouble = None;
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
}

#[test]
fn verdict_waits_for_every_token() {
    let tokens = [held("pico/a", "x", 1), token("pico/b", CopyState::Unasked)];
    assert_eq!(verdict(&tokens, &HsmSecretStatus::default()), Verdict::Unsettled);
}

#[test]
fn verdict_of_checksums_that_collide_is_by_digest() {
    let collide = |pairs: &[(&str, &str)]| {
        let copy = copy_of(&data(pairs), 1);
        CopyState::Held(Box::new(copy))
    };
    let tokens = [
        token("pico/a", collide(&[("ab", "c")])),
        token("pico/b", collide(&[("a", "bc")])),
    ];
    assert!(matches!(
        verdict(&tokens, &HsmSecretStatus::default()),
        Verdict::Differ(_)
    ));
}

#[test]
fn conflict_has_to_be_confirmed_until_the_status_tells_of_it() {
    let mut stage = delivered();
    let to_confirm = |stage: &Stage| {
        let assessment = assess(&stage.situation, &fingerprinter());
        assessment.to_confirm(&stage.situation)
    };
    assert_eq!(to_confirm(&stage), None);
    stage.situation.tokens[0] = held("pico/a", "other", 4);
    assert_eq!(to_confirm(&stage), Some("CopiesDiffer"));
    stage.settle();
    assert_eq!(to_confirm(&stage), None);
    // It has become another question: the spec or the problem is new.
    stage.situation.object.generation += 1;
    assert_eq!(to_confirm(&stage), Some("CopiesDiffer"));
    let absent = |name: &str| token(name, CopyState::Absent { deleted: false });
    stage.situation.tokens = vec![absent("pico/a"), absent("pico/b")];
    assert_eq!(to_confirm(&stage), Some("NotOnToken"));
    // No list tells whose a Secret is.
    stage.situation.live = foreign(json!({}), json!([]));
    assert_eq!(to_confirm(&stage), None);
}
