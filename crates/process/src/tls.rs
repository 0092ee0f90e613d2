//! TLS whose certificates change while it runs.
//!
//! A server resolves its certificate at each handshake ([`CertifiedKeys`]), checks clients against the newest bundle
//! ([`ClientTrust`]), and shakes hands beside its accept loop ([`TlsListener`]). A client asks for the newest
//! configuration at each connection ([`ReloadingClientConfig`]). All of them take [`Material`], from files
//! ([`FileFollower`]) or from our own authority ([`crate::ca`]).
//!
//! ```
//! use trustplane_process::tls::{CertifiedKeys, ServerTls};
//!
//! let keys = CertifiedKeys::new(); // empty: handshakes fail until the first certificate is there
//! let config = ServerTls::new(keys.clone()).build()?;
//! # Ok::<(), trustplane_process::tls::TlsError>(())
//! ```

mod client;
mod files;
mod keys;
mod listener;
mod server;
#[cfg(test)]
pub(crate) mod tests;
mod time;

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::crypto;
use crate::secret::Secret;
pub use client::{Generation, ReloadingClientConfig};
pub use files::{FileFollower, POLL, TlsFiles};
pub use keys::CertifiedKeys;
pub use listener::{Handshakes, TlsListener, TlsPeer, serve_tls};
pub use server::{ClientTrust, ServerTls};

/// Certificates or keys that cannot be used. Never says what a key contains.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Text that should be PEM is not, or holds no such item.
    #[error("no {item} found in the PEM text")]
    Pem {
        /// What was looked for.
        item: &'static str,
    },
    /// The key does not belong to the certificate, or the other way round.
    #[error("the certificate and its key do not belong together")]
    Mismatch,
    /// rustls refused.
    #[error("cannot use the certificates: {0}")]
    Refused(#[from] rustls::Error),
    /// The certificates of client authorities cannot be used.
    #[error("cannot use the client trust bundle: {0}")]
    ClientTrust(#[from] rustls::server::VerifierBuilderError),
    /// A name that no certificate can have.
    #[error("{0:?} is no DNS name")]
    Name(String),
    /// A file cannot be read.
    #[error("cannot read {}", .file.display())]
    Read {
        /// The file.
        file: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// What a process shows and what it trusts, at one moment.
#[derive(Debug, Clone)]
pub struct Material {
    /// Who we are.
    pub identity: Option<Arc<CertifiedKey>>,
    /// Whom we trust.
    pub trust: Arc<RootCertStore>,
}

/// Something that takes new material while it runs.
pub trait Reload: Send + Sync {
    /// Takes the material; connections made from now on use it. On an error the old material stays.
    fn reload(&self, material: &Material) -> Result<(), TlsError>;
}

/// A certificate chain with its key, from PEM.
pub fn certified_key(chain: &[u8], key: &Secret<Vec<u8>>) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = certificates(chain)?;
    let key =
        PrivateKeyDer::from_pem_slice(key.expose()).map_err(|_| TlsError::Pem { item: "private key" })?;
    let pair = CertifiedKey::from_der(chain, key, &crypto::provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Mismatch,
        other => TlsError::Refused(other),
    })?;
    Ok(Arc::new(pair))
}

/// A trust bundle from PEM; one without a certificate is refused.
pub fn roots(bundle: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(bundle)? {
        roots.add(certificate)?;
    }
    Ok(Arc::new(roots))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let missing = || TlsError::Pem { item: "certificate" };
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| missing())?;
    if found.is_empty() {
        Err(missing())
    } else {
        Ok(found)
    }
}
