//! The configuration of a TLS client, renewed while it runs.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, DEFAULT_VERSIONS, RootCertStore, SupportedProtocolVersion};
use tokio::sync::watch;

use super::time::ClockTime;
use super::{Material, Reload, TlsError};
use crate::clock::{Clock, SystemClock};
use crate::crypto;

static NEWEST: &[&SupportedProtocolVersion] = &[&TLS13];

/// The newest client configuration, and a number that grows with each.
///
/// A connection takes [`ReloadingClientConfig::current`] when it is made. What keeps connections of its own, such as a
/// gRPC channel or an HTTP client with a pool, is made anew when [`ReloadingClientConfig::subscribe`] reports a new
/// generation. Each generation has its own session cache, so nothing is resumed under trust that is gone.
#[derive(Debug)]
pub struct ReloadingClientConfig {
    alpn: Vec<Vec<u8>>,
    versions: &'static [&'static SupportedProtocolVersion],
    clock: Arc<dyn Clock>,
    material: Mutex<Material>,
    current: watch::Sender<Generation>,
}

/// One client configuration.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Grows by one with each change.
    pub number: u64,
    /// What new connections use.
    pub config: Arc<ClientConfig>,
}

impl ReloadingClientConfig {
    /// A client with this material, which speaks `alpn` (for instance `h2`).
    pub fn new(material: Material, alpn: &[&str]) -> Result<Arc<Self>, TlsError> {
        Self::with_clock(material, alpn, Arc::new(SystemClock))
    }

    /// [`ReloadingClientConfig::new`] that judges certificates by another clock.
    pub fn with_clock(
        material: Material,
        alpn: &[&str],
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, TlsError> {
        Self::speaking(DEFAULT_VERSIONS, material, alpn, clock)
    }

    /// A client that speaks TLS 1.3 and nothing older: for peers that are all our own.
    pub fn only_tls13(
        material: Material,
        alpn: &[&str],
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, TlsError> {
        Self::speaking(NEWEST, material, alpn, clock)
    }

    fn speaking(
        versions: &'static [&'static SupportedProtocolVersion],
        material: Material,
        alpn: &[&str],
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, TlsError> {
        let alpn: Vec<_> = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let config = build(&material, &alpn, versions, &clock)?;
        let (current, _) = watch::channel(Generation { number: 1, config });
        Ok(Arc::new(Self {
            alpn,
            versions,
            clock,
            material: Mutex::new(material),
            current,
        }))
    }

    /// What a new connection uses.
    pub fn current(&self) -> Arc<ClientConfig> {
        self.current.borrow().config.clone()
    }

    /// The number of the newest configuration.
    pub fn generation(&self) -> u64 {
        self.current.borrow().number
    }

    /// Reports each new generation; slow readers see only the newest.
    pub fn subscribe(&self) -> watch::Receiver<Generation> {
        self.current.subscribe()
    }
}

impl Reload for ReloadingClientConfig {
    fn reload(&self, new: &Material) -> Result<(), TlsError> {
        let mut material = self.material.lock().unwrap_or_else(PoisonError::into_inner);
        if same_trust(&material.trust, &new.trust) && same_identity(&material.identity, &new.identity) {
            return Ok(());
        }
        let config = build(new, &self.alpn, self.versions, &self.clock)?;
        *material = new.clone();
        // Under the lock, so that generations come in the order of their material.
        self.current.send_modify(|generation| {
            *generation = Generation {
                number: generation.number + 1,
                config,
            };
        });
        Ok(())
    }
}

fn build(
    material: &Material,
    alpn: &[Vec<u8>],
    versions: &[&'static SupportedProtocolVersion],
    clock: &Arc<dyn Clock>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let time = Arc::new(ClockTime(clock.clone()));
    let builder = ClientConfig::builder_with_details(crypto::provider(), time)
        .with_protocol_versions(versions)?
        .with_root_certificates(material.trust.clone());
    let mut config = match &material.identity {
        Some(identity) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.clone())))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.to_vec();
    Ok(Arc::new(config))
}

fn same_trust(one: &RootCertStore, other: &RootCertStore) -> bool {
    one.roots == other.roots
}

fn same_identity(one: &Option<Arc<CertifiedKey>>, other: &Option<Arc<CertifiedKey>>) -> bool {
    // A certificate names its key, so equal chains have equal keys.
    one.as_ref().map(|key| &key.cert) == other.as_ref().map(|key| &key.cert)
}
