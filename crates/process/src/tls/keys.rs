//! The certificate that a server shows, swapped while it serves.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{Material, Reload, TlsError};

/// The certificate and key of a server. Handshakes that begin after a swap use the new one; running connections keep
/// theirs.
#[derive(Debug, Default)]
pub struct CertifiedKeys(ArcSwapOption<CertifiedKey>);

impl CertifiedKeys {
    /// Without a certificate, so that handshakes fail until one is there.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Puts a certificate in place.
    pub fn swap(&self, key: Arc<CertifiedKey>) {
        self.0.store(Some(key));
    }

    /// The certificate in place.
    pub fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

impl ResolvesServerCert for CertifiedKeys {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

impl Reload for CertifiedKeys {
    fn reload(&self, material: &Material) -> Result<(), TlsError> {
        if let Some(identity) = &material.identity {
            self.swap(identity.clone());
        }
        Ok(())
    }
}
