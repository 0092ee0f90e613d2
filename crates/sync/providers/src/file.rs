//! Secrets from files beneath a directory that the admin chose.
//!
//! A policy judges a path by its parts, so a part of a path must be what it says: symbolic links are not followed. The one
//! exception is the layout in which kubelet mounts Secrets and ConfigMaps, see [`tree`].

mod changes;
mod tree;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use rustix::fs::{CWD, Mode, OFlags, openat};
use trustplane_sync_core::data::Payload;
use trustplane_sync_core::fetch::{FetchError, Fetched};

use changes::Changes;

use crate::outage::unavailable;
use crate::{Locator, Provider};

/// A directory to start from.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Reads files beneath a directory: a file is the secret itself, a directory is a map of its files.
pub struct Files {
    root: Arc<File>,
    /// The folder beneath the root in which paths begin; empty for the root itself. It is found anew with each read, because
    /// kubelet may put another directory in its place.
    folder: Arc<str>,
    changes: Changes,
}

impl Files {
    /// Reads beneath this directory.
    pub fn beneath(root: &Path) -> std::io::Result<Self> {
        let root: File = openat(CWD, root, DIRECTORY, Mode::empty())?.into();
        Ok(Self {
            root: Arc::new(root),
            folder: "".into(),
            changes: Changes::new()?,
        })
    }

    /// Reads beneath a directory that is beneath this one. It must exist.
    pub fn within(&self, directory: &str) -> std::io::Result<Self> {
        let folder = join(&self.folder, directory);
        if !tree::is_directory(&self.root, &folder) {
            return Err(std::io::Error::from(std::io::ErrorKind::NotADirectory));
        }
        Ok(Self {
            root: self.root.clone(),
            folder: folder.into(),
            changes: Changes::new()?,
        })
    }
}

/// A path in a folder.
fn join(folder: &str, path: &str) -> String {
    match folder {
        "" => path.to_owned(),
        folder => format!("{folder}/{path}"),
    }
}

impl Provider for Files {
    fn name(&self) -> &'static str {
        "file"
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        let (root, folder, changes) = (self.root.clone(), self.folder.clone(), self.changes.clone());
        let paths = wanted.to_vec();
        Box::pin(async move {
            let answer = move |locator: &Locator| {
                let path = locator.path.strip_prefix('/').unwrap_or(&locator.path);
                // First, so that no change between the two is missed.
                changes.look_after(&root, &folder, path);
                answer(&root, &join(&folder, path), locator.version.is_some())
            };
            // A disk can keep us waiting.
            let read = move || paths.iter().map(answer).collect();
            let unavailable = |_| unavailable("the read was given up");
            let count = wanted.len();
            tokio::task::spawn_blocking(read)
                .await
                .map_err(unavailable)
                .unwrap_or_else(|error| vec![Err(error); count])
        })
    }

    fn changes(&self) -> Option<BoxStream<'static, String>> {
        self.changes.stream()
    }
}

fn answer(root: &File, path: &str, has_version: bool) -> Result<Fetched, FetchError> {
    if has_version {
        return Err(FetchError::Invalid {
            what: "files have no versions".to_owned(),
        });
    }
    let payload: Payload = tree::read(root, path)?;
    Ok(Fetched {
        provider: "file",
        payload,
        version: None,
        lease: None,
    })
}

#[cfg(test)]
mod tests;
