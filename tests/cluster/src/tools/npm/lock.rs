//! What a lock file of npm pins, and whether npm has kept to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The packages that a lock file names, or that npm says it has installed.
pub(super) struct LockFile {
    pins: BTreeMap<String, Pin>,
}

/// What exactly a package is.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Pin {
    #[serde(default)]
    version: String,
    #[serde(default)]
    integrity: String,
}

impl LockFile {
    /// Reads a lock file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no lock file of npm", path.display()))
    }

    /// How many packages there are, besides the project itself.
    pub(super) fn len(&self) -> usize {
        self.pins.len()
    }

    fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Content {
            packages: BTreeMap<String, Pin>,
        }
        let Content { mut packages } = serde_json::from_str(text)?;
        // The project itself.
        packages.remove("");
        Ok(Self { pins: packages })
    }

    /// Fails on a package that is not what the lock file says.
    pub(super) fn is_within(&self, lock: &Self) -> Result<()> {
        for (package, pin) in &self.pins {
            if pin.integrity.is_empty() || lock.pins.get(package) != Some(pin) {
                bail!("{package} was installed as {pin:?}, and the lock file does not say so");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_lock_file_says_may_be_installed() {
        let lock = |entries: &str| {
            let text = format!(r#"{{"lockfileVersion": 3, "packages": {{"": {{"name": "own"}}{entries}}}}}"#);
            LockFile::parse(&text).unwrap()
        };
        let (a, b) = (
            r#", "node_modules/a": {"version": "1.0.0", "integrity": "sha512-x"}"#,
            r#", "node_modules/b": {"version": "2.0.0", "integrity": "sha512-y"}"#,
        );
        let all = lock(&[a, b].concat());
        assert_eq!(all.len(), 2);
        // A package for another platform stays away.
        lock(a).is_within(&all).unwrap();
        for other in [
            a.replace("1.0.0", "1.0.1"),
            a.replace("sha512-x", "sha512-z"),
            a.replace("node_modules/a", "node_modules/c"),
        ] {
            assert!(lock(&other).is_within(&all).is_err(), "{other}");
        }
        let bare = a.replace(r#", "integrity": "sha512-x""#, "");
        assert!(lock(&bare).is_within(&lock(&bare)).is_err(), "nothing pins it");
        assert!(LockFile::parse("[]").is_err());
    }
}
