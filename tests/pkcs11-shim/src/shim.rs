//! The side of the test: where the shared object is, what goes wrong, what was called.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cryptoki_sys::CK_RV;
use serde::{Deserialize, Serialize};

use crate::control::Control;

/// Names the real module. An HSMDevice may give its agent neither if they began as variables of ours do.
pub(crate) const MODULE: &str = "PKCS11_SHIM_MODULE";
/// Names the file with the [`Order`].
pub(crate) const CONTROL: &str = "PKCS11_SHIM_CONTROL";

const LIBRARY: &str = "libtrustplane_pkcs11_shim.so";

/// The shared object. Cargo builds it with the library, into the folder of the test binaries that depend on it.
pub fn library() -> io::Result<PathBuf> {
    let binary = std::env::current_exe()?;
    let folder = binary.parent().unwrap_or(Path::new("/"));
    let library = folder.join(LIBRARY);
    match library.exists() {
        true => Ok(library),
        false => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "{} is not there: cargo makes it for packages that depend on trustplane-pkcs11-shim",
                library.display()
            ),
        )),
    }
}

/// What the control file holds: numbered, so that the same control set twice counts anew.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Order {
    pub number: u64,
    pub control: Control,
}

/// One call of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its number since the control was set; the first is 1.
    pub number: u64,
    /// The function, such as `C_Login`.
    pub function: String,
    /// What was answered; nothing if the call froze or ended the process.
    pub code: Option<CK_RV>,
    /// Whether the fault happened at this call.
    pub fault: bool,
}

/// A shim that is controlled by a file.
#[derive(Debug, Clone)]
pub struct Shim {
    control: PathBuf,
}

impl Shim {
    /// One whose files lie in a folder. It has no faults until they are set; what another handle has set stays.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let shim = Self {
            control: folder.join("shim.json"),
        };
        if !shim.control.exists() {
            shim.set(&Control::default())?;
        }
        Ok(shim)
    }

    /// What a process that loads the shim must have in its environment.
    pub fn environment(&self, module: &Path) -> [(&'static str, PathBuf); 2] {
        [(MODULE, module.to_owned()), (CONTROL, self.control.clone())]
    }

    /// Says what goes wrong from now on, and forgets the calls so far.
    pub fn set(&self, control: &Control) -> io::Result<()> {
        let number = match fs::read(&self.control) {
            Ok(before) => serde_json::from_slice::<Order>(&before)?.number + 1,
            Err(_) => 1,
        };
        fs::write(log_of(&self.control), "")?;
        let order = Order {
            number,
            control: control.clone(),
        };
        // In one step: a call must not find half of it.
        let partial = self.control.with_extension("partial");
        fs::write(&partial, serde_json::to_vec(&order)?)?;
        fs::rename(partial, &self.control)
    }

    /// The calls since the control was set.
    pub fn calls(&self) -> io::Result<Vec<Call>> {
        let log = fs::read_to_string(log_of(&self.control))?;
        log.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Whether the fault has happened since the control was set.
    pub fn has_failed(&self) -> io::Result<bool> {
        Ok(self.calls()?.iter().any(|call| call.fault))
    }
}

pub(crate) fn read(control: &Path) -> io::Result<Order> {
    Ok(serde_json::from_slice(&fs::read(control)?)?)
}

pub(crate) fn log(control: &Path, call: &Call) -> io::Result<()> {
    let mut line = serde_json::to_vec(call)?;
    line.push(b'\n');
    let mut log = OpenOptions::new().append(true).open(log_of(control))?;
    // One write for one line, so that a process that ends leaves whole lines.
    log.write_all(&line)
}

fn log_of(control: &Path) -> PathBuf {
    control.with_extension("calls")
}
