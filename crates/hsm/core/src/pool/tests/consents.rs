//! PINs that are not shared.

use trustplane_api::hsm::conditions::{self, reason};
use trustplane_plan::condition::reason::RESOLVED;

use super::*;
use crate::consent::Consent;

#[test]
fn a_pin_that_is_not_shared_is_told_and_asked_for_again() {
    let mut spec = pico();
    let pin = spec.pkcs11.as_mut().unwrap().pin_secret.as_mut().unwrap();
    pin.namespace = Some("pins".to_owned());
    let mut input = one();
    input.devices[0].device = view("hsm", "pico", &spec);
    input.consents = [("pico".to_owned(), Consent::Denied)].into();
    let plan = settle(&mut input, at(1));
    assert_eq!(plan.look_again, Some(Duration::from_secs(60)));
    let text = "the Secret pins/pin is not there, or its annotation trustplane.io/pin-for does not name hsm, so its PIN is not \
                read";
    let [_, Step::Tell(note)] = &plan.steps[..] else {
        panic!("{plan}")
    };
    assert_eq!(
        (note.reason, note.text()),
        (conditions::PIN_SECRET_NOT_SHARED, text)
    );
    let condition = |input: &PoolInput| {
        let conditions = status(input).conditions;
        let mut found = conditions
            .into_iter()
            .filter(|c| c.type_ == conditions::PIN_SECRET_NOT_SHARED);
        found
            .next()
            .map(|found| (found.status.to_string(), found.reason, found.message))
    };
    let said = |status: &str, reason: &str, text: &str| Some((status.into(), reason.into(), text.into()));
    assert_eq!(condition(&input), said("True", reason::NOT_SHARED, text));
    // The token is there all the same.
    assert_eq!(status(&input).available_devices, 1);
    assert!(settle(&mut input, at(2)).is_empty());
    input.consents = [("pico".to_owned(), Consent::Given)].into();
    settle(&mut input, at(3));
    assert_eq!(condition(&input), said("False", RESOLVED, ""));
}
