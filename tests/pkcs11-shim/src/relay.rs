//! The way of a call through the shim: counted, judged, forwarded, written down.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use cryptoki_sys::{CK_FUNCTION_LIST, CK_RV, CKR_FUNCTION_NOT_SUPPORTED, CKR_GENERAL_ERROR, CKR_OK, Pkcs11};

use crate::control::{Action, Control, Duration, Fault, Moment};
use crate::shim::{self, CONTROL, Call, MODULE, Order};

/// The functions of the real module.
static REAL: OnceLock<Option<CK_FUNCTION_LIST>> = OnceLock::new();

static JUDGE: Mutex<Option<Judge>> = Mutex::new(None);

/// The functions of the real module; nothing if it cannot be loaded.
pub(crate) fn real() -> Option<&'static CK_FUNCTION_LIST> {
    REAL.get_or_init(|| load(Path::new(&std::env::var_os(MODULE)?)))
        .as_ref()
}

fn load(module: &Path) -> Option<CK_FUNCTION_LIST> {
    // SAFETY: the test names a PKCS#11 module, whose initialisers may run.
    let library = unsafe { Pkcs11::new(module) }.ok()?;
    library.C_GetFunctionList.as_ref().ok()?;
    let mut list = std::ptr::null_mut();
    // SAFETY: the symbol is there, and `list` is a place for one pointer.
    let code = unsafe { library.C_GetFunctionList(&mut list) };
    if code != CKR_OK || list.is_null() {
        return None;
    }
    // Its functions are used until the process ends.
    std::mem::forget(library);
    // SAFETY: the module has answered that its list is there, and it is never unloaded.
    Some(unsafe { *list })
}

/// Sends a call on its way. `forward` calls the real module; `None` if that has no such function.
pub(crate) fn relay(
    function: &'static str,
    forward: impl FnOnce(&CK_FUNCTION_LIST, &Control) -> Option<CK_RV>,
) -> CK_RV {
    let (Some(real), Some(path)) = (real(), std::env::var_os(CONTROL).map(PathBuf::from)) else {
        return CKR_GENERAL_ERROR;
    };
    let Ok(order) = shim::read(&path) else {
        return CKR_GENERAL_ERROR;
    };
    let control = order.control.clone();
    let (number, fault) = {
        let mut judge = JUDGE.lock().unwrap_or_else(PoisonError::into_inner);
        judge.get_or_insert_default().count(order, function)
    };
    let control = control.at(number);
    let note = |code: Option<CK_RV>| {
        let call = Call {
            number,
            function: function.to_owned(),
            code,
            fault: fault.is_some(),
        };
        // A test that finds no call in its log fails by itself.
        drop(shim::log(&path, &call));
    };
    let forward = || forward(real, &control).unwrap_or(CKR_FUNCTION_NOT_SUPPORTED);
    let code = match &fault {
        None => forward(),
        Some((Moment::Before, action)) => act(*action, &note),
        Some((Moment::After, action)) => {
            forward();
            act(*action, &note)
        }
    };
    note(Some(code));
    code
}

fn act(action: Action, note: &impl Fn(Option<CK_RV>)) -> CK_RV {
    match action {
        Action::Answer(code) => code,
        Action::Abort => {
            note(None);
            std::process::abort()
        }
        Action::Freeze => {
            note(None);
            loop {
                std::thread::park();
            }
        }
    }
}

/// Counts calls and says which of them fail.
#[derive(Default)]
struct Judge {
    /// The number of the order that the counts belong to.
    order: u64,
    total: u64,
    by_function: HashMap<&'static str, u64>,
    /// What goes on until the module is initialised again.
    unplugged: Option<Action>,
}

impl Judge {
    /// The number of this call, and what happens to it.
    fn count(&mut self, order: Order, function: &'static str) -> (u64, Option<(Moment, Action)>) {
        if order.number != self.order {
            *self = Self {
                order: order.number,
                ..Self::default()
            };
        }
        self.total += 1;
        let of_function = self.by_function.entry(function).or_default();
        *of_function += 1;
        if function == "C_Initialize" {
            self.unplugged = None;
        }
        let of_function = *of_function;
        (
            self.total,
            self.verdict(order.control.fault, function, of_function),
        )
    }

    fn verdict(
        &mut self,
        fault: Option<Fault>,
        function: &str,
        of_function: u64,
    ) -> Option<(Moment, Action)> {
        if let Some(action) = self.unplugged
            && function != "C_Finalize"
        {
            return Some((Moment::Before, action));
        }
        let fault = fault?;
        let count = match &fault.function {
            Some(named) if named != function => return None,
            Some(_) => of_function,
            None => self.total,
        };
        let happens = match fault.lasts {
            Duration::Once | Duration::UntilInitialised => count == fault.at,
            Duration::Always => count >= fault.at,
        };
        if happens && fault.lasts == Duration::UntilInitialised {
            self.unplugged = Some(fault.action);
        }
        happens.then_some((fault.moment, fault.action))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOVED: Action = Action::Answer(cryptoki_sys::CKR_DEVICE_REMOVED);

    /// Which of these calls fail.
    fn failing(fault: &Fault, calls: &[&'static str]) -> Vec<u64> {
        let mut judge = Judge::default();
        let order = Order {
            number: 1,
            control: Control::fault(fault.clone()),
        };
        let counted = calls.iter().map(|function| judge.count(order.clone(), function));
        counted
            .filter_map(|(number, fault)| fault.map(|_| number))
            .collect()
    }

    #[test]
    fn a_fault_happens_at_its_call_and_lasts_as_long_as_it_was_told() {
        let calls = [
            "C_Initialize",
            "C_Login",
            "C_CreateObject",
            "C_Login",
            "C_Finalize",
            "C_Initialize",
            "C_Login",
        ];
        let fault = Fault::before(2, REMOVED);
        assert_eq!(failing(&fault, &calls), [2]);
        assert_eq!(failing(&fault.clone().of("C_Login"), &calls), [4]);
        let unplugged = fault.clone().lasting(Duration::UntilInitialised);
        assert_eq!(failing(&unplugged, &calls), [2, 3, 4]);
        let full = fault.of("C_Login").lasting(Duration::Always);
        assert_eq!(failing(&full, &calls), [4, 7]);
    }

    #[test]
    fn what_holds_since_a_call_does_not_hold_before_it() {
        let control = Control {
            since: 3,
            view: Some(1),
            ..Control::default()
        };
        let views = [1, 2, 3, 4].map(|number| control.clone().at(number).view);
        assert_eq!(views, [None, None, Some(1), Some(1)]);
    }

    #[test]
    fn an_order_with_another_number_counts_anew() {
        let mut judge = Judge::default();
        let order = |number| Order {
            number,
            control: Control::fault(Fault::after(2, REMOVED)),
        };
        assert_eq!(judge.count(order(1), "C_Login"), (1, None));
        assert_eq!(judge.count(order(2), "C_Login"), (1, None));
        assert_eq!(
            judge.count(order(2), "C_Login"),
            (2, Some((Moment::After, REMOVED)))
        );
    }
}
