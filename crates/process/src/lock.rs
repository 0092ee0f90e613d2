//! Who of several processes does something: the one that has the lock of a file.
//!
//! The kernel lets go of a lock when its process ends, however that happens.
//!
//! ```
//! use trustplane_process::lock::{Lock, take};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("lock");
//! let Lock::Ours(first) = take(&path)? else { panic!() };
//! assert!(matches!(take(&path)?, Lock::Theirs(_)));
//! drop(first);
//! assert!(matches!(take(&path)?, Lock::Ours(_)));
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The file of a lock, open to be read and written.
#[derive(Debug)]
pub enum Lock {
    /// We have the lock until the file is closed.
    Ours(File),
    /// Another process has it.
    Theirs(File),
}

/// Takes the lock of a file, which is made for this user alone if there is none. Where others may write, they may have put a link
/// there: it is not followed.
pub fn take(path: &Path) -> io::Result<Lock> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock::Ours(file)),
        Err(TryLockError::WouldBlock) => Ok(Lock::Theirs(file)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_file_is_this_users_and_keeps_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        take(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "who").unwrap();
        take(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "who");
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("lock"), folder.path().join("other"));
        symlink(&other, &path).unwrap();
        take(&path).unwrap_err();
        assert!(!other.exists());
    }
}
