//! The modules that are tested, and in what they differ. Everything else they have in common.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::{Tool, Toolchain};

use crate::reader;

/// A module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bench {
    /// Debian's SoftHSM: tokens are folders.
    SoftHsm,
    /// Kryoptic: tokens are files of SQLite.
    Kryoptic,
    /// Debian's OpenSC: tokens are cards in readers.
    OpenSc,
}

/// Modules that make tokens by themselves pass over it in their folder of tokens.
const CONFIGURATION: &str = "module.conf";

/// The driver of the reader sends each message in two parts, and the second one waits for an answer to the first: at
/// once, or each takes 40 milliseconds.
const NAMESPACES: &str = r#"
mount -t tmpfs none /run
mkdir /run/pcscd
ip link set lo up
ip route change table local local 127.0.0.1 dev lo quickack 1
exec "$0" "$@"
"#;

impl Bench {
    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::SoftHsm, Self::Kryoptic, Self::OpenSc]
            .into_iter()
            .find(|bench| format!("{bench:?}") == name)
    }

    /// The shared object.
    pub fn library(self) -> PathBuf {
        match self {
            Self::SoftHsm => "/usr/lib/softhsm/libsofthsm2.so".into(),
            Self::Kryoptic => {
                let tools = Toolchain::new(&Cache::locate().unwrap());
                tools
                    .ensure(Tool::Kryoptic)
                    .unwrap()
                    .join("libkryoptic_pkcs11.so")
            }
            Self::OpenSc => format!("/usr/lib/{}-linux-gnu/opensc-pkcs11.so", env::consts::ARCH).into(),
        }
    }

    /// Starts this very binary as a process that may use the module.
    pub fn command(self) -> Command {
        let binary = env::current_exe().unwrap();
        if self != Self::OpenSc {
            return Command::new(binary);
        }
        // pcscd has its socket at one place and readers have ports: both are to be nobody else's, and to end with the test.
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]);
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            command.arg("--map-root-user");
        }
        command.args(["sh", "-ec"]).arg(NAMESPACES).arg(binary);
        command
    }

    /// What a process has to know to find the tokens in a folder.
    pub fn environment(self, tokens: &Path) -> [(&'static str, PathBuf); 1] {
        let variable = match self {
            Self::SoftHsm => "SOFTHSM2_CONF",
            Self::Kryoptic => "KRYOPTIC_CONF",
            Self::OpenSc => "OPENSC_CONF",
        };
        [(variable, tokens.join(CONFIGURATION))]
    }

    /// Makes a folder of tokens, with a blank one in it if tokens are made by the module.
    pub fn set_up(self, tokens: &Path) {
        fs::create_dir(tokens).unwrap();
        self.make_room(tokens, 0);
    }

    /// Has a blank token be there beside those that are used. The module has to be initialised again to see it.
    pub fn make_room(self, tokens: &Path, used: usize) {
        let configuration = match self {
            // It has one by itself.
            Self::SoftHsm => format!(
                "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
                tokens.display()
            ),
            Self::Kryoptic => (0..=used).map(|slot| kryoptic_slot(tokens, slot)).collect(),
            Self::OpenSc => reader::configuration(),
        };
        fs::write(tokens.join(CONFIGURATION), configuration).unwrap();
    }

    /// Manufacturer and model of its tokens.
    pub fn make(self) -> (&'static str, &'static str) {
        match self {
            Self::SoftHsm => ("SoftHSM project", "SoftHSM v2"),
            Self::Kryoptic => ("Kryoptic Project", "v1"),
            Self::OpenSc => ("www.CardContact.de", "PKCS#15 emulated"),
        }
    }

    /// After how many wrong PINs a token says that fewer tries are left. Those before it cost a try all the same, so
    /// that the flags alone do not keep anybody from locking a token.
    pub fn wrong_pins_until_it_tells(self) -> usize {
        match self {
            Self::SoftHsm | Self::OpenSc => 1,
            // Of ten tries it tells of the last three.
            Self::Kryoptic => 7,
        }
    }

    /// Whether a PIN can be too short.
    pub fn has_a_shortest_pin(self) -> bool {
        self != Self::Kryoptic
    }

    /// Whether the value of a data object can be changed where it is.
    pub fn changes_values(self) -> bool {
        self == Self::Kryoptic
    }

    /// Whether a label may be bytes that are not UTF-8. PKCS#11 wants that it is.
    pub fn takes_labels_of_any_bytes(self) -> bool {
        self != Self::Kryoptic
    }
}

/// The number in the end of a slot's description is as unique as that of SoftHSM's.
fn kryoptic_slot(tokens: &Path, slot: usize) -> String {
    let file = tokens.join(format!("{slot}.sql"));
    format!(
        "[[slots]]\nslot = {slot}\ndescription = \"slot 4b{slot:04x}\"\ndbtype = \"sqlite\"\ndbargs = \"{}\"\n\n",
        file.display()
    )
}
