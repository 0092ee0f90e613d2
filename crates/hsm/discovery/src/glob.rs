//! Device files that match a pattern.

use std::io;
use std::path::{Path, PathBuf};

use trustplane_hsm_core::usb::Pattern;

use crate::files::Root;

/// The most files that one pattern finds.
const MOST: usize = 1024;

/// A file that matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Match {
    /// As it was found, below `/dev`.
    pub(crate) path: PathBuf,
    /// Where that leads to, below `/dev`.
    pub(crate) node: PathBuf,
}

/// All device files that match, and nothing that leads out of the directory. Directories come and go, and some are nobody's
/// business: one that cannot be read is passed over, and only the first must be readable.
pub(crate) fn find(pattern: &Pattern, dev: &Root) -> io::Result<Vec<Match>> {
    let mut paths = vec![PathBuf::new()];
    for step in pattern.steps() {
        let mut next = Vec::new();
        for path in paths {
            let is_first = path.as_os_str().is_empty();
            if !is_first && !dev.is_dir(&path) {
                continue;
            }
            let names = match dev.names(&path) {
                Err(error) if is_first => return Err(error),
                names => names.unwrap_or_default(),
            };
            let names = names.iter().filter(|name| step.matches(name));
            next.extend(names.map(|name| path.join(name)).take(MOST - next.len()));
        }
        paths = next;
    }
    let nodes = paths.into_iter().filter_map(|path| {
        let node = dev.real(&path)?;
        dev.place(&node)?.is_node.then_some(Match { path, node })
    });
    Ok(nodes.collect())
}

/// A path below the directory of device files, as the node names it.
pub(crate) fn named(path: &Path) -> String {
    format!("/dev/{}", path.display())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_found_below_the_directory_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let dev = dir.path().join("dev");
        fs::create_dir_all(dev.join("serial/by-id")).unwrap();
        fs::create_dir(dev.join("ttyACM-directory")).unwrap();
        for name in ["dev/ttyACM0", "dev/ttyACM1", "dev/other", "outside"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        symlink("../../ttyACM1", dev.join("serial/by-id/usb-1")).unwrap();
        symlink("../outside", dev.join("ttyACM-out")).unwrap();
        symlink("../..", dev.join("serial/up")).unwrap();
        let root = Root::open(&dev).unwrap();
        let files = |text: &str| {
            let found = find(&Pattern::parse(text).unwrap(), &root).unwrap();
            let told = found.into_iter().map(|m| (named(&m.path), named(&m.node)));
            told.collect::<Vec<_>>()
        };
        let pair = |path: &str, node: &str| (path.to_owned(), node.to_owned());
        assert_eq!(
            files("/dev/ttyACM*"),
            [
                pair("/dev/ttyACM0", "/dev/ttyACM0"),
                pair("/dev/ttyACM1", "/dev/ttyACM1")
            ]
        );
        assert_eq!(
            files("/dev/serial/by-id/*"),
            [pair("/dev/serial/by-id/usb-1", "/dev/ttyACM1")]
        );
        assert_eq!(files("/dev/serial/up/*"), []);
        assert_eq!(files("/dev/absent/*"), []);
    }

    #[test]
    fn a_directory_that_cannot_be_read_hides_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for directory in ["a", "huge"] {
            fs::create_dir(dir.path().join(directory)).unwrap();
        }
        for file in ["a/token", "huge/1", "huge/2", "huge/3"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let root = Root::open(dir.path()).unwrap().with_at_most(2);
        let found = |text: &str| find(&Pattern::parse(text).unwrap(), &root);
        let wanted = Match {
            path: "a/token".into(),
            node: "a/token".into(),
        };
        assert_eq!(found("/dev/*/*").unwrap(), [wanted]);
        // Without the first directory nothing at all is known.
        fs::write(dir.path().join("third"), "").unwrap();
        assert!(found("/dev/*/*").is_err());
    }
}
