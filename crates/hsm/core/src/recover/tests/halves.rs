//! Objects of which only the label is left, and journals that cannot be read.

use super::crashes::cases;
use super::*;
use crate::code::Code;
use crate::label::{Label, Meaning};
use crate::model::Fault;

fn is_journal(found: &Found<u64>) -> bool {
    matches!(found.label.meaning(), Meaning::Journal(_))
}

/// A journal that cannot be read may be one that was being destroyed, or one that will be readable again. Whichever it is, what
/// is served is the old value, the new one, or nothing; and nothing but the journal goes.
#[test]
fn a_journal_that_cannot_be_read_never_leads_to_a_mixture() {
    let (mut over, mut lost) = (0, 0);
    for case in cases() {
        let ops = (case.plan)(&case.before);
        let mut after = case.before.clone();
        after.run(&ops, None).unwrap();
        let whole = [case.before.snapshot(), after.snapshot()];
        for steps in 1..ops.len() {
            let mut token = case.before.clone();
            assert_eq!(token.run(&ops, Some(steps)), Err(Fault::Crash));
            // Of several journals the newest is the one that was made by this change.
            let journal = token.objects.iter_mut().rfind(|found| is_journal(found)).unwrap();
            journal.value = None;
            let dark = token.snapshot();
            let ends = token.recover().unwrap();
            let at = format!("{}, {steps} of {} steps", case.name, ops.len());
            assert_eq!(ends.len(), 1, "{at}");
            match ends[0] {
                End::Finished | End::Undone => {
                    over += 1;
                    assert!(whole.contains(&token.snapshot()), "{at}");
                }
                _ => {
                    lost += 1;
                    // The new journal may go where there is an older one.
                    let left = token.snapshot();
                    assert!(left == dark || left == whole[0], "{at}");
                }
            }
        }
    }
    assert!(over > 10 && lost > 10, "{over} {lost}");
}

#[test]
fn the_last_half_of_a_journal_is_dropped_and_its_secret_served() {
    for case in cases() {
        let before = Token {
            halves: true,
            ..case.before.clone()
        };
        let mut after = before.clone();
        let ops = (case.plan)(&before);
        after.run(&ops, None).unwrap();
        let mut token = before.clone();
        token.run(&ops[..ops.len() - 1], None).unwrap();
        let journal = token.objects.iter_mut().rfind(|found| is_journal(found)).unwrap();
        // Not every change tells its end by its labels: a crash there costs the secret its service until it is written anew.
        let tells = journal.label.turn().is_some();
        journal.value = None;
        let ends = token.recover().unwrap();
        match tells {
            true => assert!(
                ends == [End::Finished] && token.snapshot() == after.snapshot(),
                "{}",
                case.name
            ),
            false => assert_eq!(
                ends,
                [End::Lost(Loss::Journal(JournalError::Unreadable))],
                "{}",
                case.name
            ),
        }
    }
}

#[test]
fn nothing_is_judged_by_half_of_it_but_what_was_to_go() {
    let expected = |secret: &Secret| Token::default().with("a", secret).with("ab", &secret_of_ab());
    for steps in 1..=8 {
        let whole = interrupted(&before(), "a", &wish(), steps);
        let mut ended = whole.clone();
        let end = ended.recover().unwrap();
        let of_a = |found: &Found<u64>| found.label.as_bytes().starts_with(b"a/");
        let new = crate::layout::objects(&path("a"), &wish());
        for at in (0..whole.len()).filter(|at| of_a(&whole.objects[*at])) {
            let is_new = new.iter().any(|object| whole.objects[at].is(object));
            let mut token = whole.clone();
            let value = token.objects[at].value.take();
            let dark = token.snapshot();
            let ends = token.recover().unwrap();
            match is_new {
                // All that is new is there, and this was to go; or all that is old is.
                false if steps >= ALL_NEW => {
                    assert_eq!(ends, [End::Finished], "{steps} {at}");
                    assert_eq!(token.snapshot(), expected(&wish()).snapshot(), "{steps} {at}");
                }
                true if steps <= ALL_NEW => {
                    assert_eq!(ends, [End::Undone], "{steps} {at}");
                    assert_eq!(token.snapshot(), before().snapshot(), "{steps} {at}");
                }
                _ => {
                    assert_eq!(ends, [End::Lost(Loss::Unreadable)], "{steps} {at}");
                    assert_eq!(token.snapshot(), dark, "{steps} {at}");
                    assert_eq!(token.read("a").unwrap_err().code(), Code::DataLoss);
                    assert_eq!(token.read("ab"), Ok(secret_of_ab()));
                    // It can be read again, and comes to the same end.
                    token.objects[at].value = value;
                    assert_eq!(token.recover(), Ok(end.clone()), "{steps} {at}");
                    assert_eq!(token.snapshot(), ended.snapshot(), "{steps} {at}");
                }
            }
        }
    }
}

fn secret_of_ab() -> Secret {
    secret(1, &[("x", "1")])
}

#[test]
fn what_the_change_does_not_touch_and_cannot_be_read_is_waited_for() {
    let wish = secret(2, &[("x", "7"), ("y", "2")]);
    for steps in 1..=6 {
        let mut token = interrupted(&before(), "a", &wish, steps);
        let kept = token
            .objects
            .iter_mut()
            .find(|found| found.label == Label::new("a/y"))
            .unwrap();
        let value = kept.value.take();
        let dark = token.snapshot();
        assert_eq!(token.recover(), Ok(vec![End::Lost(Loss::Unreadable)]), "{steps}");
        assert_eq!(token.snapshot(), dark, "{steps}");
        let kept = token
            .objects
            .iter_mut()
            .find(|found| found.label == Label::new("a/y"))
            .unwrap();
        kept.value = value;
        token.recover().unwrap();
        let found = token.read("a").unwrap();
        assert!(found == wish || Ok(found) == before().read("a"), "{steps}");
    }
}

/// A journal of the first format knows no labels, and so no halves.
#[test]
fn a_journal_of_the_first_format_is_followed_as_it_was() {
    for steps in 1..=8 {
        let mut token = interrupted(&before(), "a", &wish(), steps);
        let mut expected = token.clone();
        let ends = expected.recover().unwrap();
        let (label, value) = token.journals().remove(0);
        token.remove(&label.to_string());
        token.add_object(&first_format(value.expose()));
        let mut dark = token.clone();
        assert_eq!(token.recover(), Ok(ends), "{steps}");
        assert_eq!(token.snapshot(), expected.snapshot(), "{steps}");
        let half = dark
            .objects
            .iter_mut()
            .find(|found| found.label.as_bytes().starts_with(b"a/"));
        half.unwrap().value = None;
        assert_eq!(dark.recover(), Ok(vec![End::Lost(Loss::Unreadable)]), "{steps}");
    }
}

/// The same journal as the first format has it.
fn first_format(bytes: &[u8]) -> crate::object::NewObject {
    let counts = 14 + usize::from(bytes[13]);
    let labels = usize::from(bytes[counts + 7]) * 2;
    let mut body = bytes[..counts + 6].to_vec();
    body[3] = 1;
    body.extend(&bytes[counts + 8..bytes.len() - 4 - labels]);
    body.extend(crate::generation::seal(&body));
    crate::object::NewObject {
        label: Label::of_journal(PathMark::of(&path("a")), None),
        value: crate::secret::Value::new(body),
    }
}
