//! What is known of a PKCS#11 module by the name of its file.

use std::path::Path;

use crate::limits::Profile;

/// Whether a module is one of OpenSC: it keeps what it has seen once, and has limits of its own whatever card is behind it.
///
/// ```
/// use std::path::Path;
/// use trustplane_hsm_core::module::is_opensc;
///
/// assert!(is_opensc(Path::new("/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so")));
/// assert!(!is_opensc(Path::new("/usr/lib/opensc/libsofthsm2.so")));
/// ```
pub fn is_opensc(module: &Path) -> bool {
    is_one_of(module, &["opensc"])
}

/// Whether a module may speak to readers of smart cards, so that it needs pcscd: every one that is not known to do without.
///
/// ```
/// use std::path::Path;
/// use trustplane_hsm_core::module::may_need_pcscd;
///
/// assert!(may_need_pcscd(Path::new("/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so")));
/// assert!(may_need_pcscd(Path::new("/opt/vendor/libcard.so")));
/// assert!(!may_need_pcscd(Path::new("/usr/lib/softhsm/libsofthsm2.so")));
/// assert!(!may_need_pcscd(Path::new("/usr/lib/libkryoptic_pkcs11.so")));
/// ```
pub fn may_need_pcscd(module: &Path) -> bool {
    !is_one_of(module, &["softhsm", "kryoptic"])
}

fn is_one_of(module: &Path, names: &[&str]) -> bool {
    let name = module
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase());
    name.is_some_and(|name| names.iter().any(|known| name.contains(known)))
}

/// The limits of a token of which nothing but the module is known.
///
/// ```
/// use std::path::Path;
/// use trustplane_hsm_core::limits::Profile;
/// use trustplane_hsm_core::module::profile;
///
/// assert_eq!(profile(Path::new("/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so")), Profile::Opensc);
/// assert_eq!(profile(Path::new("/usr/lib/softhsm/libsofthsm2.so")), Profile::Software);
/// ```
pub fn profile(module: &Path) -> Profile {
    match is_opensc(module) {
        true => Profile::Opensc,
        false => Profile::Software,
    }
}
