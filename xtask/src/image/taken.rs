//! The parts of Debian packages that a recipe names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use trustplane_cluster::image_archive::Entry;

use super::ccid;
use super::debian::Package;
use super::objects::{self, Object};
use super::recipe::{Reader, Taken};

/// Files and links, by path in the image.
#[derive(Debug, Default)]
pub struct Parts(BTreeMap<String, Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    File { source: PathBuf, package: String },
    Link { target: String },
}

impl Parts {
    /// Takes what the recipe names from an unpacked package.
    pub fn take(&mut self, taken: &Taken, package: &Package) -> Result<()> {
        for path in taken.paths {
            let path = path.replace("{triplet}", &objects::triplet());
            self.add(&path, package)
                .with_context(|| format!("take {path} from Debian package {}", package.name))?;
        }
        Ok(())
    }

    fn add(&mut self, path: &str, package: &Package) -> Result<()> {
        if self.0.contains_key(path) {
            return Ok(());
        }
        let source = package.root.join(path.trim_start_matches('/'));
        let kind = fs::symlink_metadata(&source).context("it is not there")?;
        if kind.is_symlink() {
            let link = fs::read_link(&source)?;
            let link = link.to_str().context("understand a link")?;
            let target = link.to_owned();
            self.0.insert(path.to_owned(), Part::Link { target });
            self.add(&meant(path, link)?, package)
        } else if kind.is_dir() {
            for entry in fs::read_dir(&source)? {
                let name = entry?.file_name();
                self.add(
                    &format!("{path}/{}", name.to_str().context("understand a name")?),
                    package,
                )?;
            }
            Ok(())
        } else {
            let package = package.name.clone();
            self.0.insert(path.to_owned(), Part::File { source, package });
            Ok(())
        }
    }

    /// Whether something is there under this path.
    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// The programs and shared objects among the files.
    pub fn objects(&self) -> Result<Vec<Object>> {
        let mut found = Vec::new();
        for part in self.0.values() {
            if let Part::File { source, package } = part
                && objects::is_object(source)?
            {
                found.push(Object {
                    source: source.clone(),
                    package: Some(package.clone()),
                });
            }
        }
        Ok(found)
    }

    /// All of it for a layer. The driver's list is written with the recipe's readers.
    pub fn entries(self, readers: &[Reader]) -> Result<Vec<Entry>> {
        ensure!(
            readers.is_empty() || self.has(ccid::LIST),
            "the recipe names readers and takes no driver for them"
        );
        let entry = |(path, part): (String, Part)| match part {
            Part::Link { target } => Ok(Entry::symlink(path, target)),
            Part::File { source, .. } if path == ccid::LIST => {
                let list =
                    fs::read_to_string(&source).with_context(|| format!("read {}", source.display()))?;
                Ok(Entry::bytes(path, ccid::with_readers(&list, readers)?, 0o644))
            }
            Part::File { source, .. } => file(path, source),
        };
        self.0.into_iter().map(entry).collect()
    }
}

/// A file of a package as an image has it: for everybody to read, and to run if it is a program. What the umask of whoever
/// unpacked it took away is no property of the image.
pub fn file(path: String, source: PathBuf) -> Result<Entry> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::metadata(&source)
        .with_context(|| format!("look at {}", source.display()))?
        .permissions();
    let mode = if permissions.mode() & 0o100 == 0 {
        0o644
    } else {
        0o755
    };
    Ok(Entry::file(path, source, mode))
}

/// The path that a link means, without leaving the root.
fn meant(path: &str, target: &str) -> Result<String> {
    let directory = Path::new(path).parent().context("a link has a directory")?;
    let joined = directory.join(target);
    let mut parts: Vec<&str> = Vec::new();
    for component in joined.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir => {
                parts.pop();
            }
            Component::Normal(part) => parts.push(part.to_str().context("understand a link")?),
            Component::Prefix(_) => bail!("{target} is not a path"),
        }
    }
    Ok(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn package(root: &Path) -> Package {
        Package {
            name: "some".into(),
            version: "1".into(),
            root: root.to_owned(),
        }
    }

    fn taken(paths: &'static [&'static str]) -> Taken {
        Taken {
            package: "some",
            paths,
        }
    }

    #[test]
    fn a_directory_brings_its_files_and_a_link_what_it_means() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("usr/lib/drivers/linux")).unwrap();
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(root.join("etc/list"), "").unwrap();
        fs::write(root.join("etc/other"), "").unwrap();
        fs::write(root.join("usr/lib/drivers/linux/d.so"), "").unwrap();
        symlink("/etc/list", root.join("usr/lib/drivers/absolute")).unwrap();
        symlink("../drivers/linux/d.so", root.join("usr/lib/drivers/relative")).unwrap();

        let mut parts = Parts::default();
        parts.take(&taken(&["/usr/lib/drivers"]), &package(root)).unwrap();
        let file = |path: &str| Part::File {
            source: root.join(path),
            package: "some".into(),
        };
        let link = |target: &str| Part::Link {
            target: target.into(),
        };
        let expected = [
            ("/etc/list", file("etc/list")),
            ("/usr/lib/drivers/absolute", link("/etc/list")),
            ("/usr/lib/drivers/linux/d.so", file("usr/lib/drivers/linux/d.so")),
            ("/usr/lib/drivers/relative", link("../drivers/linux/d.so")),
        ];
        assert_eq!(
            parts.0,
            expected.map(|(path, part)| (path.to_owned(), part)).into()
        );
    }

    #[test]
    fn what_a_package_does_not_have_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        symlink("../../../etc/hostname", root.join("out")).unwrap();
        let refused = |paths| {
            let error = Parts::default().take(&taken(paths), &package(root)).unwrap_err();
            format!("{error:#}")
        };
        let error = refused(&["/usr/{triplet}/absent.so"]);
        let path = format!("/usr/{}/absent.so", objects::triplet());
        assert!(
            error.contains(&format!("take {path} from Debian package some")),
            "{error}"
        );
        assert!(refused(&["/out"]).contains("it is not there"));
    }

    #[test]
    fn a_file_is_for_everybody_whatever_the_umask_was() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("file");
        fs::write(&source, "").unwrap();
        for (unpacked, kept) in [(0o600, 0o644), (0o700, 0o755), (0o4755, 0o755)] {
            fs::set_permissions(&source, fs::Permissions::from_mode(unpacked)).unwrap();
            let entry = file("/file".into(), source.clone()).unwrap();
            let expected = Entry::file("/file", source.clone(), kept);
            assert_eq!(format!("{entry:?}"), format!("{expected:?}"));
        }
    }
}
