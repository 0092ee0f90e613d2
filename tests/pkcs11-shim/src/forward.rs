//! Every function of PKCS#11 2.40, each on its way through the relay.
#![allow(non_snake_case, reason = "the names of PKCS#11")]

use std::ffi::c_void;

use cryptoki_sys::*;

use crate::relay::{real, relay};
use crate::twist::{
    C_CreateObject, C_FindObjects, C_FindObjectsInit, C_GetAttributeValue, C_GetSlotInfo, C_GetTokenInfo,
};

type Bytes = *mut CK_BYTE;
type Len = CK_ULONG;
type LenOut = *mut CK_ULONG;
type Mechanism = *mut CK_MECHANISM;
type Object = CK_OBJECT_HANDLE;
type ObjectOut = *mut CK_OBJECT_HANDLE;
type Session = CK_SESSION_HANDLE;
type Template = *mut CK_ATTRIBUTE;

/// What a program that loads this module asks for first.
///
/// # Safety
///
/// As PKCS#11 says: `list` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetFunctionList(list: *mut *mut CK_FUNCTION_LIST) -> CK_RV {
    if real().is_none() {
        return CKR_LIBRARY_LOAD_FAILED;
    }
    if list.is_null() {
        return CKR_ARGUMENTS_BAD;
    }
    // SAFETY: the caller has a place for a pointer. Nobody writes to the list, PKCS#11 merely does not say so.
    unsafe { *list = (&raw const LIST).cast_mut() };
    CKR_OK
}

/// Defines functions that change nothing, and the list of all.
macro_rules! forward {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            unsafe extern "C" fn $name($($argument: $kind),*) -> CK_RV {
                relay(stringify!($name), |real, _| {
                    // SAFETY: the arguments are the caller's, who has promised them to this very function.
                    real.$name.map(|function| unsafe { function($($argument),*) })
                })
            }
        )*

        static LIST: CK_FUNCTION_LIST = CK_FUNCTION_LIST {
            version: CK_VERSION { major: 2, minor: 40 },
            C_GetFunctionList: Some(C_GetFunctionList),
            C_GetSlotInfo: Some(C_GetSlotInfo),
            C_GetTokenInfo: Some(C_GetTokenInfo),
            C_CreateObject: Some(C_CreateObject),
            C_FindObjectsInit: Some(C_FindObjectsInit),
            C_FindObjects: Some(C_FindObjects),
            C_GetAttributeValue: Some(C_GetAttributeValue),
            $($name: Some($name),)*
        };
    };
}

forward! {
    C_Initialize(a: *mut c_void);
    C_Finalize(a: *mut c_void);
    C_GetInfo(a: *mut CK_INFO);
    C_GetSlotList(a: CK_BBOOL, b: *mut CK_SLOT_ID, c: LenOut);
    C_GetMechanismList(a: CK_SLOT_ID, b: *mut CK_MECHANISM_TYPE, c: LenOut);
    C_GetMechanismInfo(a: CK_SLOT_ID, b: CK_MECHANISM_TYPE, c: *mut CK_MECHANISM_INFO);
    C_InitToken(a: CK_SLOT_ID, b: Bytes, c: Len, d: Bytes);
    C_InitPIN(a: Session, b: Bytes, c: Len);
    C_SetPIN(a: Session, b: Bytes, c: Len, d: Bytes, e: Len);
    C_OpenSession(a: CK_SLOT_ID, b: CK_FLAGS, c: *mut c_void, d: CK_NOTIFY, e: *mut CK_SESSION_HANDLE);
    C_CloseSession(a: Session);
    C_CloseAllSessions(a: CK_SLOT_ID);
    C_GetSessionInfo(a: Session, b: *mut CK_SESSION_INFO);
    C_GetOperationState(a: Session, b: Bytes, c: LenOut);
    C_SetOperationState(a: Session, b: Bytes, c: Len, d: Object, e: Object);
    C_Login(a: Session, b: CK_USER_TYPE, c: Bytes, d: Len);
    C_Logout(a: Session);
    C_CopyObject(a: Session, b: Object, c: Template, d: Len, e: ObjectOut);
    C_DestroyObject(a: Session, b: Object);
    C_GetObjectSize(a: Session, b: Object, c: LenOut);
    C_SetAttributeValue(a: Session, b: Object, c: Template, d: Len);
    C_FindObjectsFinal(a: Session);
    C_EncryptInit(a: Session, b: Mechanism, c: Object);
    C_Encrypt(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_EncryptUpdate(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_EncryptFinal(a: Session, b: Bytes, c: LenOut);
    C_DecryptInit(a: Session, b: Mechanism, c: Object);
    C_Decrypt(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_DecryptUpdate(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_DecryptFinal(a: Session, b: Bytes, c: LenOut);
    C_DigestInit(a: Session, b: Mechanism);
    C_Digest(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_DigestUpdate(a: Session, b: Bytes, c: Len);
    C_DigestKey(a: Session, b: Object);
    C_DigestFinal(a: Session, b: Bytes, c: LenOut);
    C_SignInit(a: Session, b: Mechanism, c: Object);
    C_Sign(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_SignUpdate(a: Session, b: Bytes, c: Len);
    C_SignFinal(a: Session, b: Bytes, c: LenOut);
    C_SignRecoverInit(a: Session, b: Mechanism, c: Object);
    C_SignRecover(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_VerifyInit(a: Session, b: Mechanism, c: Object);
    C_Verify(a: Session, b: Bytes, c: Len, d: Bytes, e: Len);
    C_VerifyUpdate(a: Session, b: Bytes, c: Len);
    C_VerifyFinal(a: Session, b: Bytes, c: Len);
    C_VerifyRecoverInit(a: Session, b: Mechanism, c: Object);
    C_VerifyRecover(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_DigestEncryptUpdate(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_DecryptDigestUpdate(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_SignEncryptUpdate(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_DecryptVerifyUpdate(a: Session, b: Bytes, c: Len, d: Bytes, e: LenOut);
    C_GenerateKey(a: Session, b: Mechanism, c: Template, d: Len, e: ObjectOut);
    C_GenerateKeyPair(
        a: Session, b: Mechanism, c: Template, d: Len, e: Template, f: Len, g: ObjectOut, h: ObjectOut
    );
    C_WrapKey(a: Session, b: Mechanism, c: Object, d: Object, e: Bytes, f: LenOut);
    C_UnwrapKey(a: Session, b: Mechanism, c: Object, d: Bytes, e: Len, f: Template, g: Len, h: ObjectOut);
    C_DeriveKey(a: Session, b: Mechanism, c: Object, d: Template, e: Len, f: ObjectOut);
    C_SeedRandom(a: Session, b: Bytes, c: Len);
    C_GenerateRandom(a: Session, b: Bytes, c: Len);
    C_GetFunctionStatus(a: Session);
    C_CancelFunction(a: Session);
    C_WaitForSlotEvent(a: CK_FLAGS, b: *mut CK_SLOT_ID, c: *mut c_void);
}
