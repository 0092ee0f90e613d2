//! Functions whose arguments or results are changed on their way: what real modules get wrong.
#![allow(non_snake_case, reason = "the names of PKCS#11")]

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use cryptoki_sys::*;

use crate::control::{Control, PinTries};
use crate::relay::relay;

/// How many objects each session's search has shown.
static SHOWN: Mutex<Option<HashMap<CK_SESSION_HANDLE, usize>>> = Mutex::new(None);

fn shown<T>(session: CK_SESSION_HANDLE, use_it: impl FnOnce(&mut usize) -> T) -> T {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    use_it(shown.get_or_insert_default().entry(session).or_default())
}

pub(crate) unsafe extern "C" fn C_GetSlotInfo(slot: CK_SLOT_ID, info: *mut CK_SLOT_INFO) -> CK_RV {
    relay("C_GetSlotInfo", |real, control| {
        // SAFETY: the arguments are the caller's, who has promised them to this very function.
        let code = unsafe { real.C_GetSlotInfo?(slot, info) };
        if let (CKR_OK, Some(reader)) = (code, &control.reader) {
            let mut name = [b' '; 64];
            for (to, from) in name.iter_mut().zip(reader.bytes()) {
                *to = from;
            }
            // SAFETY: the real module has just filled it.
            unsafe { (*info).slotDescription = name };
        }
        Some(code)
    })
}

pub(crate) unsafe extern "C" fn C_GetTokenInfo(slot: CK_SLOT_ID, info: *mut CK_TOKEN_INFO) -> CK_RV {
    relay("C_GetTokenInfo", |real, control| {
        // SAFETY: the arguments are the caller's, who has promised them to this very function.
        let code = unsafe { real.C_GetTokenInfo?(slot, info) };
        if code == CKR_OK {
            let flags = match control.pin_tries {
                None => 0,
                Some(PinTries::Low) => CKF_USER_PIN_COUNT_LOW,
                Some(PinTries::Final) => CKF_USER_PIN_COUNT_LOW | CKF_USER_PIN_FINAL_TRY,
                Some(PinTries::Locked) => CKF_USER_PIN_LOCKED,
            };
            // SAFETY: the real module has just filled it.
            unsafe { (*info).flags |= flags };
        }
        Some(code)
    })
}

pub(crate) unsafe extern "C" fn C_FindObjectsInit(
    session: CK_SESSION_HANDLE,
    template: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    relay("C_FindObjectsInit", |real, _| {
        shown(session, |shown| *shown = 0);
        // SAFETY: the arguments are the caller's, who has promised them to this very function.
        Some(unsafe { real.C_FindObjectsInit?(session, template, count) })
    })
}

pub(crate) unsafe extern "C" fn C_FindObjects(
    session: CK_SESSION_HANDLE,
    objects: *mut CK_OBJECT_HANDLE,
    most: CK_ULONG,
    found: *mut CK_ULONG,
) -> CK_RV {
    relay("C_FindObjects", |real, control| {
        let left = control
            .view
            .map(|view| view.saturating_sub(shown(session, |shown| *shown)));
        if left == Some(0) {
            // SAFETY: the caller has a place for a count.
            unsafe { *found = 0 };
            return Some(CKR_OK);
        }
        let most = [left, control.batch]
            .into_iter()
            .flatten()
            .fold(most, |most, limit| most.min(limit as CK_ULONG));
        // SAFETY: the arguments are the caller's, but for a smaller limit.
        let code = unsafe { real.C_FindObjects?(session, objects, most, found) };
        if code == CKR_OK {
            // SAFETY: the real module has just filled it.
            let found = unsafe { *found };
            shown(session, |shown| *shown += found as usize);
        }
        Some(code)
    })
}

pub(crate) unsafe extern "C" fn C_CreateObject(
    session: CK_SESSION_HANDLE,
    template: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    object: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    relay("C_CreateObject", |real, control| {
        let given: &[CK_ATTRIBUTE] = match template.is_null() {
            true => &[],
            // SAFETY: the caller has promised so many attributes.
            false => unsafe { std::slice::from_raw_parts(template, count as usize) },
        };
        let mut template = given.to_vec();
        for attribute in &mut template {
            // SAFETY: the attribute is one of the caller's.
            if let Err(code) = unsafe { change(attribute, control) } {
                return Some(code);
            }
        }
        // SAFETY: the arguments are the caller's, but for shorter values.
        Some(unsafe { real.C_CreateObject?(session, template.as_mut_ptr(), count, object) })
    })
}

/// Changes an attribute of a new object as the control says, or refuses it.
///
/// # Safety
///
/// The attribute describes memory that can be read, which ends with NUL if it is an application read as a C string.
unsafe fn change(attribute: &mut CK_ATTRIBUTE, control: &Control) -> Result<(), CK_RV> {
    let length = attribute.ulValueLen as usize;
    match attribute.type_ {
        CKA_LABEL => {
            let longest = control.longest_label.unwrap_or(length);
            attribute.ulValueLen = length.min(longest) as CK_ULONG;
        }
        CKA_VALUE if control.largest_value.is_some_and(|largest| length > largest) => {
            return Err(CKR_DEVICE_MEMORY);
        }
        CKA_APPLICATION if control.application_as_c_string => {
            // SAFETY: the caller of this function has promised the NUL.
            let text = unsafe { CStr::from_ptr(attribute.pValue.cast()) };
            attribute.ulValueLen = text.count_bytes() as CK_ULONG;
        }
        _ => (),
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn C_GetAttributeValue(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    template: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    relay("C_GetAttributeValue", |real, control| {
        let get = real.C_GetAttributeValue?;
        let wanted: &[CK_ATTRIBUTE] = match template.is_null() {
            true => &[],
            // SAFETY: the caller has promised so many attributes.
            false => unsafe { std::slice::from_raw_parts(template, count as usize) },
        };
        let wants_value = wanted.iter().any(|attribute| attribute.type_ == CKA_VALUE);
        if let Some(unreadable) = control.unreadable.as_ref().filter(|_| wants_value) {
            let mut label = [0_u8; 1024];
            let mut attribute = CK_ATTRIBUTE {
                type_: CKA_LABEL,
                pValue: label.as_mut_ptr().cast(),
                ulValueLen: label.len() as CK_ULONG,
            };
            // SAFETY: the attribute describes the array, which lives longer.
            let code = unsafe { get(session, object, &mut attribute, 1) };
            if code == CKR_OK && label[..attribute.ulValueLen as usize] == *unreadable.as_bytes() {
                return Some(CKR_FUNCTION_FAILED);
            }
        }
        // SAFETY: the arguments are the caller's, who has promised them to this very function.
        Some(unsafe { get(session, object, template, count) })
    })
}
