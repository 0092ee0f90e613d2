//! The certificate that agents see: of the hub's own CA, or from files.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_process::ca::{Authority, AuthorityState, CaError, LeafKeeper, LeafRequest, Policy, Usage};
use trustplane_process::clock::Clock;
use trustplane_process::metrics::Metrics;
use trustplane_process::tls::{CertifiedKeys, FileFollower, POLL, TlsError, TlsFiles};

use crate::folder::{Folder, FolderError};

/// Agents have the CA in their configuration, where people put it. So it lives for ten years, and a successor is announced half a year
/// before it signs.
pub const POLICY: Policy = Policy {
    ca_life: SignedDuration::from_hours(24 * 3650),
    leaf_life: SignedDuration::from_hours(24 * 7),
    propagation: SignedDuration::from_hours(24 * 180),
};
const NAME: &str = "trustplane-hub";
const FILE: &str = "authority.json";
/// How often the rotation of the CA is looked at.
const LOOK: Duration = Duration::from_secs(3600);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The CA.
    #[error(transparent)]
    Authority(#[from] CaError),
    /// The file of the CA.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file of the CA holds something else.
    #[error("{FILE} in the data directory is not what the hub writes")]
    Unreadable,
    /// The files that were named.
    #[error("cannot use --tls-cert-file and --tls-key-file")]
    Files(#[from] TlsError),
}

/// The CA of a data directory; it is made at the first call.
pub fn authority(folder: &Folder, now: Timestamp) -> Result<Authority, CertificateError> {
    if folder.read(FILE)?.is_none() {
        let fresh = Authority::create(NAME, POLICY, now)?;
        // Another process may be first; then its CA stays.
        folder.write(FILE, &encode(&fresh), false)?;
    }
    let bytes = folder.read(FILE)?.ok_or(CertificateError::Unreadable)?;
    let data: BTreeMap<String, String> =
        serde_json::from_slice(&bytes).map_err(|_| CertificateError::Unreadable)?;
    let stored = Authority::resume(NAME, POLICY, AuthorityState::from_data(&data)?)?;
    if stored.can_sign(now) {
        return Ok(stored);
    }
    let revived = stored.revive(now)?;
    folder.write(FILE, &encode(&revived), true)?;
    Ok(revived)
}

fn encode(authority: &Authority) -> Vec<u8> {
    let data = authority.state().to_data();
    let texts: BTreeMap<&str, std::borrow::Cow<'_, str>> = data
        .iter()
        .map(|(key, value)| (key.as_str(), String::from_utf8_lossy(value.expose())))
        .collect();
    // A map of texts always serialises.
    serde_json::to_vec(&texts).unwrap_or_default()
}

/// Steps the CA through its rotation and stores each step, until `stop`.
pub async fn rotate(
    folder: Folder,
    authority: watch::Sender<Arc<Authority>>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = stop.cancelled() => return,
        }
        let current = authority.borrow().clone();
        match step(&folder, &current, clock.now()) {
            Ok(Some(next)) => {
                tracing::warn!(
                    "the CA of the hub was rotated: give agents the new bundle (trustplane-hub client add prints it)"
                );
                authority.send_replace(Arc::new(next));
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "cannot rotate the CA of the hub"),
        }
    }
}

fn step(folder: &Folder, current: &Authority, now: Timestamp) -> Result<Option<Authority>, CertificateError> {
    let next = current.step(now)?.next;
    if let Some(next) = &next {
        folder.write(FILE, &encode(next), true)?;
    }
    Ok(next)
}

/// What the certificate names: this machine, the hosts of the URLs, and further ones.
pub fn leaf_request(urls: &[String], hosts: &[String]) -> LeafRequest {
    let of_urls = urls.iter().filter_map(|url| {
        let uri: Uri = url.parse().ok()?;
        Some(uri.host()?.trim_matches(['[', ']']).to_owned())
    });
    let fixed = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut names: Vec<String> = fixed
        .into_iter()
        .chain(of_urls)
        .chain(hosts.iter().cloned())
        .collect();
    names.sort();
    names.dedup();
    let mut request = LeafRequest {
        name: NAME.to_owned(),
        usage: Usage::Server,
        ..LeafRequest::default()
    };
    for name in names {
        match name.parse::<IpAddr>() {
            Ok(address) => request.addresses.push(address),
            Err(_) => request.dns.push(name),
        }
    }
    request
}

/// Keeps the certificate of the own CA fresh.
pub fn keeper(
    authority: watch::Receiver<Arc<Authority>>,
    request: LeafRequest,
    keys: Arc<CertifiedKeys>,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
) -> Result<LeafKeeper, CertificateError> {
    let mut keeper = LeafKeeper::new(authority, request, vec![keys])
        .clock(clock)
        .metrics(metrics);
    keeper.tick()?;
    Ok(keeper)
}

/// Follows the files that were named instead.
pub async fn follow(
    chain: PathBuf,
    key: PathBuf,
    keys: Arc<CertifiedKeys>,
) -> Result<FileFollower, CertificateError> {
    let files = TlsFiles {
        // The server asks its clients for no certificate, so this bundle is never used; it must not be empty.
        trust: chain.clone(),
        identity: Some((chain, key)),
    };
    Ok(FileFollower::start(files, vec![keys]).await?)
}

/// How often files are looked at.
pub const FILE_POLL: Duration = POLL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_leaves_room_for_a_rotation() {
        POLICY.validate().unwrap();
    }

    #[test]
    fn the_ca_of_a_directory_stays() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let now = Timestamp::now();
        let first = authority(&folder, now).unwrap();
        let second = authority(&folder, now).unwrap();
        assert_eq!(first.bundle_pem(), second.bundle_pem());
        let later = now + SignedDuration::from_hours(24 * 2500);
        let announced = step(&folder, &first, later).unwrap().unwrap();
        assert_ne!(announced.bundle_pem(), first.bundle_pem());
        assert_eq!(
            authority(&folder, later).unwrap().bundle_pem(),
            announced.bundle_pem()
        );
    }

    #[test]
    fn the_certificate_names_this_machine_and_the_urls() {
        let urls = [
            "https://hub.example:8443",
            "https://192.0.2.7",
            "https://[2001:db8::1]:1",
        ]
        .map(str::to_owned);
        let request = leaf_request(&urls, &["other.example".to_owned(), "localhost".to_owned()]);
        assert_eq!(request.dns, ["hub.example", "localhost", "other.example"]);
        let addresses: Vec<String> = request.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["127.0.0.1", "192.0.2.7", "2001:db8::1", "::1"]);
    }
}
