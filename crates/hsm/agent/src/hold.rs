//! Who holds a token: one process of ours at a time.
//!
//! Whoever opens a token ends the changes of others that look interrupted, so nobody may open one while another process is in the
//! middle of a change. The lock is the kernel's: it ends with its holder, however that ends. The file stays, because one that is
//! removed could be locked by two, each under the same name.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use trustplane_hsm_token::TokenInfo;
use trustplane_process::lock::{self, Lock};

/// The most bytes of what a holder says of itself.
const LONGEST: u64 = 200;

/// Where the processes of one user meet over a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    folder: PathBuf,
    name: String,
}

/// Why a token cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Somebody else does.
    #[error("another process holds the token: {by}")]
    Held {
        /// Who, by what it says of itself.
        by: String,
    },
    /// The lock belongs to another user, who could do with it as they like.
    #[error("lock the token: {} belongs to another user", .file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The lock cannot be used.
    #[error("lock the token by {}: {source}", .file.display())]
    Lock {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The right to open a token, until it is dropped: the lock is that of the open file.
#[derive(Debug)]
pub(crate) struct Hold {
    _file: File,
}

impl Place {
    /// The place of a token, by what it is, whichever slot it is in.
    pub fn of(folder: &Path, token: &TokenInfo) -> Self {
        let mut digest = Context::new(&SHA256);
        for text in [&token.serial, &token.label, &token.model] {
            digest.update(&(text.len() as u64).to_be_bytes());
            digest.update(text.as_bytes());
        }
        let digest = digest.finish();
        let hex: String = digest.as_ref()[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            folder: folder.to_owned(),
            name: format!("trustplane-token-{hex}"),
        }
    }

    /// Where the one who holds the token can be spoken to.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.name))
    }

    fn lock_file(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    /// Holds the token, and says by whom.
    pub fn take(&self, who: &str) -> Result<Hold, HoldError> {
        let unusable = |source| HoldError::Lock {
            file: self.lock_file(),
            source,
        };
        let mut file = self.lock()?;
        let introduce = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(who.as_bytes())
        };
        introduce(&mut file).map_err(unusable)?;
        Ok(Hold { _file: file })
    }

    /// Who holds the token, if anybody does. To look is to hold it for a moment.
    pub fn holder(&self) -> Result<Option<String>, HoldError> {
        match self.lock() {
            Ok(_) => Ok(None),
            Err(HoldError::Held { by }) => Ok(Some(by)),
            Err(error) => Err(error),
        }
    }

    fn lock(&self) -> Result<File, HoldError> {
        let path = self.lock_file();
        let unusable = |source| HoldError::Lock {
            file: path.clone(),
            source,
        };
        let mut folder = DirBuilder::new();
        folder.recursive(true).mode(0o700);
        folder.create(&self.folder).map_err(unusable)?;
        let lock = lock::take(&path).map_err(unusable)?;
        let (Lock::Ours(file) | Lock::Theirs(file)) = &lock;
        // In a directory for all, another user may have put it there.
        let owner = file.metadata().map_err(unusable)?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(HoldError::Foreign { file: path });
        }
        match lock {
            Lock::Ours(file) => Ok(file),
            Lock::Theirs(mut file) => Err(HoldError::Held { by: said(&mut file) }),
        }
    }
}

/// What the holder says of itself: nothing, if it has only just begun to hold.
fn said(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(LONGEST).read_to_string(&mut text) {
        Ok(0) | Err(_) => "it has not said who it is".to_owned(),
        Ok(_) => text,
    }
}

/// Where processes meet if nobody says where.
pub(crate) fn usual_folder() -> PathBuf {
    std::env::temp_dir()
}

/// Removes a file that need not be there.
pub(crate) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use trustplane_hsm_token::{Memory, PinTries};

    use super::*;

    pub fn token(serial: &str, label: &str) -> TokenInfo {
        TokenInfo {
            slot: 0,
            reader: String::new(),
            label: label.to_owned(),
            serial: serial.to_owned(),
            manufacturer: String::new(),
            model: "m".to_owned(),
            firmware: String::new(),
            pin_tries: PinTries::Unknown,
            initialised: true,
            has_user_pin: true,
            write_protected: false,
            memory: Memory::default(),
        }
    }

    #[test]
    fn one_holds_a_token_and_the_next_is_told_who_until_it_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(&folder.path().join("new"), &token("1", "a"));
        let hold = place.take("the first one").unwrap();
        let refused = place.take("the second").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "another process holds the token: the first one"
        );
        assert_eq!(place.holder().unwrap().unwrap(), "the first one");
        drop(hold);
        assert_eq!(place.holder().unwrap(), None);
        let _hold = place.take("2nd").unwrap();
        assert_eq!(place.holder().unwrap().unwrap(), "2nd");
        let mode = fs::metadata(place.lock_file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_token_is_itself_in_any_slot_and_no_other_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |serial, label| Place::of(folder.path(), &token(serial, label));
        let elsewhere = TokenInfo {
            slot: 7,
            reader: "another".to_owned(),
            pin_tries: PinTries::Low,
            ..token("1", "a")
        };
        assert_eq!(at("1", "a"), Place::of(folder.path(), &elsewhere));
        let _hold = at("1", "a").take("x").unwrap();
        for (serial, label) in [("1", "b"), ("2", "a"), ("1a", ""), ("", "1a")] {
            at(serial, label).take("y").unwrap();
        }
    }

    #[test]
    fn what_another_one_has_put_in_the_way_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path(), &token("1", "a"));
        let other = folder.path().join("other");
        fs::write(&other, "precious").unwrap();
        symlink(&other, place.lock_file()).unwrap();
        assert!(matches!(place.take("x"), Err(HoldError::Lock { .. })));
        assert_eq!(fs::read_to_string(other).unwrap(), "precious");
    }
}
