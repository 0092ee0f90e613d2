//! Material from files that somebody else renews.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use tokio_util::sync::CancellationToken;

use super::{Material, Reload, TlsError, certified_key, roots};
use crate::secret::Secret;

/// How often files are looked at. The kubelet swaps a symbolic link beside them, which a watch on a file misses.
pub const POLL: Duration = Duration::from_secs(30);

/// Where the material lies.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Our certificate chain and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The bundle of authorities we trust.
    pub trust: PathBuf,
}

impl TlsFiles {
    /// The names that a mounted `kubernetes.io/tls` Secret has: `tls.crt`, `tls.key` and `ca.crt`.
    pub fn in_directory(directory: &Path) -> Self {
        let identity = Some((directory.join("tls.crt"), directory.join("tls.key")));
        Self {
            identity,
            trust: directory.join("ca.crt"),
        }
    }

    async fn load(&self) -> Result<(Material, Fingerprint), TlsError> {
        let mut fingerprint = Context::new(&SHA256);
        let bundle = read(&self.trust, &mut fingerprint).await?;
        let trust = roots(bundle.expose())?;
        let identity = match &self.identity {
            Some((chain, key)) => {
                let chain = read(chain, &mut fingerprint).await?;
                let key = read(key, &mut fingerprint).await?;
                Some(certified_key(chain.expose(), &key)?)
            }
            None => None,
        };
        let fingerprint = Fingerprint(fingerprint.finish().as_ref().to_vec());
        Ok((Material { identity, trust }, fingerprint))
    }
}

/// Tells whether the files changed, without keeping what they hold.
#[derive(Debug, PartialEq, Eq)]
struct Fingerprint(Vec<u8>);

async fn read(file: &Path, fingerprint: &mut Context) -> Result<Secret<Vec<u8>>, TlsError> {
    let text = tokio::fs::read(file).await.map_err(|source| TlsError::Read {
        file: file.to_owned(),
        source,
    })?;
    fingerprint.update(&(text.len() as u64).to_le_bytes());
    fingerprint.update(&text);
    Ok(Secret::new(text))
}

/// Hands the material of files to whoever uses it, again when they change.
pub struct FileFollower {
    files: TlsFiles,
    sinks: Vec<Arc<dyn Reload>>,
    seen: Fingerprint,
}

impl FileFollower {
    /// Reads the files for the first time. Wrong files are an error here; later they only keep the old material.
    pub async fn start(files: TlsFiles, sinks: Vec<Arc<dyn Reload>>) -> Result<Self, TlsError> {
        let (material, seen) = files.load().await?;
        let follower = Self { files, sinks, seen };
        follower.hand_on(&material)?;
        Ok(follower)
    }

    /// Looks once; whether there was something new.
    ///
    /// A certificate read before a swap and a key read after it do not match: an error, and the next look finds both.
    pub async fn look(&mut self) -> Result<bool, TlsError> {
        let (material, fingerprint) = self.files.load().await?;
        if fingerprint == self.seen {
            return Ok(false);
        }
        self.hand_on(&material)?;
        self.seen = fingerprint;
        Ok(true)
    }

    /// Looks every `poll` until `stop`.
    pub async fn run(mut self, poll: Duration, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(poll) => {}
                () = stop.cancelled() => return,
            }
            match self.look().await {
                Ok(true) => tracing::info!(trust = %self.files.trust.display(), "certificates reloaded"),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "certificates not reloaded; the old ones stay"),
            }
        }
    }

    fn hand_on(&self, material: &Material) -> Result<(), TlsError> {
        self.sinks.iter().try_for_each(|sink| sink.reload(material))
    }
}

impl std::fmt::Debug for FileFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileFollower")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
