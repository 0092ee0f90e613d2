//! PINs out of other namespaces: the Secret itself says which.
//!
//! We make the right by which an agent reads its PIN. Without a word of the Secret, whoever may create HSMDevices in one namespace
//! that is served could have any Secret of another one read.

use std::time::Duration;

use trustplane_api::hsm::names::PIN_FOR_ANNOTATION;
use trustplane_plan::{Meta, ObjectRef, Plan};

use crate::decide::DeviceView;

/// How soon it is asked again: nobody tells when an annotation changes.
const AGAIN: Duration = Duration::from_secs(60);

/// Whether the agents of an HSMDevice may read their PIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Nobody has to be asked: the PIN is beside the HSMDevice, or there is none.
    Needless,
    /// The Secret names the namespace of the HSMDevice.
    Given,
    /// It does not, or there is no such Secret: whoever asks is not told which.
    Denied,
}

/// The Secret that has to be asked for an HSMDevice: that of its PIN, if it is in another namespace.
pub fn asked(device: &DeviceView) -> Option<ObjectRef> {
    let device = device.read.as_ref().ok()?;
    let pin = &device.opening.as_ref()?.pin;
    (pin.namespace != device.namespace).then(|| ObjectRef::new(Some(&pin.namespace), &pin.name))
}

impl Consent {
    /// What a Secret answers an HSMDevice of this namespace; `None` if there is no such Secret.
    pub fn of(secret: Option<&Meta>, namespace: &str) -> Self {
        let named = secret.and_then(|secret| secret.annotations.get(PIN_FOR_ANNOTATION));
        let given = named.is_some_and(|named| named.split(',').any(|name| name.trim() == namespace));
        match given {
            true => Self::Given,
            false => Self::Denied,
        }
    }

    /// Has the plan look again, where somebody was asked.
    pub(crate) fn ask_again<A>(self, plan: &mut Plan<A>) {
        if self != Self::Needless {
            plan.look_again_in(AGAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decide::world::{meta, pico, view};

    fn answer(annotation: &str) -> Consent {
        let secret = meta(json!({
            "name": "pin", "namespace": "pins", "annotations": { PIN_FOR_ANNOTATION: annotation },
        }));
        Consent::of(Some(&secret), "hsm")
    }

    #[test]
    fn a_secret_consents_for_the_namespaces_that_it_names_and_for_no_others() {
        for named in ["hsm", "other,hsm", " hsm , other", "hsm,"] {
            assert_eq!(answer(named), Consent::Given, "{named:?}");
        }
        for named in ["", "*", "hsm-2", "hs", "HSM", "hsm other", "other"] {
            assert_eq!(answer(named), Consent::Denied, "{named:?}");
        }
        let bare = meta(json!({ "name": "pin", "namespace": "pins" }));
        assert_eq!(Consent::of(Some(&bare), "hsm"), Consent::Denied);
        assert_eq!(Consent::of(None, "hsm"), Consent::Denied);
    }

    #[test]
    fn only_a_secret_of_another_namespace_is_asked() {
        let mut spec = pico();
        assert_eq!(asked(&view("hsm", "pico", &spec)), None);
        let pin = spec.pkcs11.as_mut().unwrap().pin_secret.as_mut().unwrap();
        pin.namespace = Some("hsm".to_owned());
        assert_eq!(asked(&view("hsm", "pico", &spec)), None);
        let pin = spec.pkcs11.as_mut().unwrap().pin_secret.as_mut().unwrap();
        pin.namespace = Some("pins".to_owned());
        let asked = asked(&view("hsm", "pico", &spec));
        assert_eq!(asked, Some(ObjectRef::new(Some("pins"), "pin")));
    }
}
