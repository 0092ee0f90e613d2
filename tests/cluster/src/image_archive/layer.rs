//! Layers: files as a compressed tar whose bytes depend on nothing but the files.

use std::collections::{BTreeMap, btree_map};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// One layer: files that change together.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    entries: Vec<Entry>,
}

/// One path in a layer. Parent directories need no entry of their own: they are made with mode 0755, owned by root.
#[derive(Clone, Debug)]
pub struct Entry {
    path: String,
    content: Content,
    mode: u32,
    uid: u64,
    gid: u64,
}

#[derive(Clone, Debug)]
enum Content {
    Copied(PathBuf),
    Inline(Vec<u8>),
    Directory,
    Symlink(String),
}

impl Layer {
    /// A layer of these entries, in whatever order they come.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self {
            entries: entries.into_iter().collect(),
        }
    }
}

impl Entry {
    /// A copy of a file of this machine, owned by root.
    pub fn file(path: impl Into<String>, source: impl Into<PathBuf>, mode: u32) -> Self {
        Self::new(path.into(), Content::Copied(source.into()), mode)
    }

    /// A file with these bytes, owned by root.
    pub fn bytes(path: impl Into<String>, bytes: impl Into<Vec<u8>>, mode: u32) -> Self {
        Self::new(path.into(), Content::Inline(bytes.into()), mode)
    }

    /// A directory that needs another mode or owner than a parent directory gets by itself.
    pub fn directory(path: impl Into<String>, mode: u32) -> Self {
        Self::new(path.into(), Content::Directory, mode)
    }

    /// A symbolic link.
    pub fn symlink(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self::new(path.into(), Content::Symlink(target.into()), 0o777)
    }

    /// The same entry with another owner.
    #[must_use]
    pub fn owned_by(self, uid: u64, gid: u64) -> Self {
        Self { uid, gid, ..self }
    }

    fn new(path: String, content: Content, mode: u32) -> Self {
        Self {
            path,
            content,
            mode,
            uid: 0,
            gid: 0,
        }
    }
}

/// A layer as it goes into the archive, in a file that has no name.
pub(super) struct Compressed {
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) digest: String,
    /// The digest of the tar before compression: what the image's configuration names.
    pub(super) diff_id: String,
}

/// Streams the layer through both digests: a large binary need not fit into memory.
pub(super) fn compress(layer: &Layer, directory: &Path) -> Result<Compressed> {
    let file = Hashing::new(BufWriter::new(tempfile::tempfile_in(directory)?));
    let gzip = GzBuilder::new().mtime(0).write(file, Compression::default());
    let mut tar = Builder::new(Hashing::new(gzip));
    for (path, entry) in complete(layer)? {
        append(&mut tar, path, &entry).with_context(|| format!("add {}", entry.path))?;
    }
    let (gzip, diff_id, _) = tar.into_inner()?.finish();
    let (file, digest, size) = gzip.finish()?.finish();
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(Compressed {
        file,
        size,
        digest,
        diff_id,
    })
}

/// The entries by path, parents included. The map's order is the archive's: a parent sorts before its children.
fn complete(layer: &Layer) -> Result<BTreeMap<&str, Entry>> {
    let mut entries = BTreeMap::new();
    for entry in &layer.entries {
        let known = entries.insert(relative(&entry.path)?, entry.clone());
        ensure!(known.is_none(), "{} stands in the layer twice", entry.path);
    }
    for entry in &layer.entries {
        let path = relative(&entry.path)?;
        for (slash, _) in path.match_indices('/') {
            let parent = &path[..slash];
            match entries.entry(parent) {
                btree_map::Entry::Vacant(free) => {
                    free.insert(Entry::directory(format!("/{parent}"), 0o755));
                }
                btree_map::Entry::Occupied(known) if matches!(known.get().content, Content::Directory) => {}
                btree_map::Entry::Occupied(_) => {
                    bail!("{} lies under /{parent}, which is no directory", entry.path)
                }
            }
        }
    }
    Ok(entries)
}

/// An absolute path as tar wants it: relative to the root, without `.` and `..`.
fn relative(path: &str) -> Result<&str> {
    let inner = path
        .strip_prefix('/')
        .with_context(|| format!("{path} is not absolute"))?;
    let parts: Vec<_> = Path::new(inner).components().collect();
    let plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    ensure!(
        plain && parts.len() == inner.split('/').count(),
        "{path} is not a plain path"
    );
    Ok(inner)
}

fn append(tar: &mut Builder<impl Write>, path: &str, entry: &Entry) -> Result<()> {
    let mut header = header(entry.mode, 0);
    header.set_uid(entry.uid);
    header.set_gid(entry.gid);
    match &entry.content {
        Content::Copied(source) => {
            let file = File::open(source).with_context(|| format!("open {}", source.display()))?;
            let metadata = file.metadata()?;
            ensure!(metadata.is_file(), "{} is not a file", source.display());
            header.set_size(metadata.len());
            // A file that grows while it is read must not spoil the archive; one that shrinks is an error of tar's.
            tar.append_data(&mut header, path, file.take(metadata.len()))?;
        }
        Content::Inline(bytes) => {
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, path, &bytes[..])?;
        }
        Content::Directory => {
            header.set_entry_type(EntryType::Directory);
            tar.append_data(&mut header, format!("{path}/"), io::empty())?;
        }
        Content::Symlink(target) => {
            header.set_entry_type(EntryType::Symlink);
            tar.append_link(&mut header, path, target)?;
        }
    }
    Ok(())
}

pub(super) fn append_bytes(tar: &mut Builder<impl Write>, path: &str, bytes: &[u8]) -> Result<()> {
    append_reader(tar, path, bytes.len() as u64, bytes)
}

pub(super) fn append_reader(
    tar: &mut Builder<impl Write>,
    path: &str,
    size: u64,
    reader: impl Read,
) -> Result<()> {
    Ok(tar.append_data(&mut header(0o644, size), path, reader)?)
}

/// A regular file of root's at time zero.
fn header(mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// `sha256:…` of some bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    name(&Sha256::digest(bytes))
}

fn name(hash: &[u8]) -> String {
    hash.iter().fold(String::from("sha256:"), |mut name, byte| {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// Passes bytes on, and knows their digest and number.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W> Hashing<W> {
    fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            size: 0,
        }
    }

    fn finish(self) -> (W, String, u64) {
        (self.inner, name(&self.hash.finalize()), self.size)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(layer: &Layer) -> Vec<(String, u32, u64, u64, EntryType)> {
        let directory = tempfile::tempdir().unwrap();
        let mut compressed = compress(layer, directory.path()).unwrap();
        io::Seek::rewind(&mut compressed.file).unwrap();
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(compressed.file));
        tar.entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!(header.mtime().unwrap(), 0);
                (
                    entry.path().unwrap().to_string_lossy().into_owned(),
                    header.mode().unwrap(),
                    header.uid().unwrap(),
                    header.size().unwrap(),
                    header.entry_type(),
                )
            })
            .collect()
    }

    #[test]
    fn parents_are_made_once_before_their_children_and_keep_what_was_said_of_them() {
        let layer = Layer::new([
            Entry::bytes("/var/lib/x/y", "abc", 0o600).owned_by(7, 8),
            Entry::directory("/var/lib", 0o700).owned_by(9, 9),
            Entry::symlink("/var/link", "lib/x"),
        ]);
        let expected = [
            ("var/", 0o755, 0, 0, EntryType::Directory),
            ("var/lib/", 0o700, 9, 0, EntryType::Directory),
            ("var/lib/x/", 0o755, 0, 0, EntryType::Directory),
            ("var/lib/x/y", 0o600, 7, 3, EntryType::Regular),
            ("var/link", 0o777, 0, 0, EntryType::Symlink),
        ];
        assert_eq!(
            listing(&layer),
            expected.map(|(path, m, u, s, t)| (path.to_string(), m, u, s, t))
        );
    }

    #[test]
    fn a_path_longer_than_a_tar_header_survives() {
        let path = format!("/{}/file", "directory/".repeat(20).trim_end_matches('/'));
        let layer = Layer::new([Entry::bytes(path.clone(), "x", 0o644)]);
        assert_eq!(
            listing(&layer).last().map(|entry| format!("/{}", entry.0)),
            Some(path)
        );
    }

    #[test]
    fn layers_that_contradict_themselves_are_refused() {
        let refused = |entries: Vec<Entry>| complete(&Layer::new(entries)).unwrap_err().to_string();
        let file = |path: &str| Entry::bytes(path, "", 0o644);
        assert_eq!(
            refused(vec![file("/a"), file("/a")]),
            "/a stands in the layer twice"
        );
        assert_eq!(
            refused(vec![file("/a/b"), file("/a")]),
            "/a/b lies under /a, which is no directory"
        );
        for path in ["a", "/", "/a/", "/a/../b", "/./a", "//a"] {
            assert!(complete(&Layer::new([file(path)])).is_err(), "{path}");
        }
    }
}
