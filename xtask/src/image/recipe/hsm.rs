//! What the HSM agent loads and starts: PKCS#11 modules, and the smart card daemon with its driver.

use super::{Extras, Reader, Taken};

/// OpenSC for cards and USB tokens, with pcscd under it; SoftHSM for tokens that are files.
pub const MODULES: Extras = Extras {
    debian: &[
        Taken {
            package: "opensc-pkcs11",
            paths: &[
                "/usr/lib/{triplet}/opensc-pkcs11.so",
                "/usr/lib/{triplet}/pkcs11/opensc-pkcs11.so",
            ],
        },
        Taken {
            // How OpenSC lays out objects on each kind of card: it can read without, but not write.
            package: "opensc",
            paths: &["/usr/share/opensc"],
        },
        Taken {
            // OpenSC loads it by name, for cards that still speak with DES.
            package: "libssl3",
            paths: &["/usr/lib/{triplet}/ossl-modules/legacy.so"],
        },
        Taken {
            package: "libpcsclite1",
            paths: &["/usr/lib/{triplet}/libpcsclite.so.1"],
        },
        Taken {
            package: "pcscd",
            paths: &["/usr/sbin/pcscd"],
        },
        Taken {
            package: "libccid",
            paths: &["/usr/lib/pcsc/drivers/ifd-ccid.bundle"],
        },
        Taken {
            package: "libsofthsm2",
            paths: &["/usr/lib/softhsm/libsofthsm2.so"],
        },
        Taken {
            package: "softhsm2",
            paths: &["/usr/bin/softhsm2-util"],
        },
    ],
    files: &[
        ("/etc/opensc/opensc.conf", OPENSC),
        ("/etc/softhsm/softhsm2.conf", SOFTHSM),
    ],
    directories: &["/run/pcscd", "/var/lib/softhsm/tokens"],
    readers: &[Reader {
        vendor: 0x2e8a,
        product: 0x10fd,
        name: "Pico HSM",
    }],
};

/// OpenSC can take a Pico HSM for a reader with a PIN pad; it would then wait for keys that nobody can press.
const OPENSC: &str = "\
app default {
	reader_driver pcsc {
		enable_pinpad = false;
	}
}
";

const SOFTHSM: &str = "\
directories.tokendir = /var/lib/softhsm/tokens/
objectstore.backend = file
log.level = ERROR
slots.removable = false
slots.mechanisms = ALL
library.reset_on_fork = false
";
