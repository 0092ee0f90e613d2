//! Readers of cards that are made of software: pcscd with the driver of `vsmartcard-vpcd`, for one test alone.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use trustplane_cluster::wait;
use trustplane_hsm_token::{Module, StoreError};

use crate::card::{Card, Inserted};

/// The first reader waits for a card on this port, the second on the next. They are of the test's own network.
const PORT: u16 = 35963;
const SOCKET: &str = "/run/pcscd/pcscd.comm";
const LIMIT: Duration = Duration::from_secs(20);

/// What OpenSC reads in place of the machine's own settings.
pub fn configuration() -> String {
    "app default {\n}\n".to_owned()
}

/// Two readers. They go when this is dropped.
pub struct Readers {
    daemon: Child,
}

impl Readers {
    /// Starts pcscd in this process's own namespaces.
    pub fn start() -> Self {
        let folder = Path::new("/run/readers");
        fs::create_dir_all(folder).unwrap();
        let driver = "/usr/lib/pcsc/drivers/serial/libifdvpcd.so";
        fs::write(
            folder.join("vpcd"),
            format!("FRIENDLYNAME \"Virtual\"\nDEVICENAME /dev/null:{PORT:#x}\nLIBPATH {driver}\nCHANNELID {PORT:#x}\n"),
        )
        .unwrap();
        let daemon = Command::new("/usr/sbin/pcscd")
            .args(["--foreground", "--critical", "--config"])
            .arg(folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait::until("pcscd", LIMIT, || Ok(Path::new(SOCKET).exists().then_some(()))).unwrap();
        Self { daemon }
    }

    /// Puts a card into the first reader. It takes pcscd a moment to notice.
    pub fn insert(&self, card: &Card) -> Inserted {
        card.insert(PORT)
    }

    /// Puts a card into the second reader.
    pub fn insert_beside(&self, card: &Card) -> Inserted {
        card.insert(PORT + 1)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        match fs::remove_file(SOCKET) {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
}

/// Waits until something fails that needs the card, and gives the error. pcscd looks a few times in a second.
pub fn wait_until_gone(mut attempt: impl FnMut() -> Result<(), StoreError>) -> StoreError {
    wait::until("the card to be missed", LIMIT, || Ok(attempt().err())).unwrap()
}

/// Waits until the module sees so many tokens.
pub fn wait_for_tokens(module: &mut Module, count: usize) {
    wait::until("the tokens", LIMIT, || {
        module.initialise_again()?;
        Ok((module.inventory()?.tokens.len() == count).then_some(()))
    })
    .unwrap();
}
