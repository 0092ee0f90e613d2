//! The CA of the capability: it signs the serving certificate of the OIDC discovery provider, and nothing else. SPIRE has a CA of its
//! own, which this one has nothing to do with.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use trustplane_identity_core::decide::{Certificate, ENDS, Issuing};
use trustplane_kit::admission::{AuthorityError, AuthorityOptions, SharedAuthority};
use trustplane_kit::manager::Workbench;
use trustplane_kit::rights::Rights;
use trustplane_plan::Apply;
use trustplane_process::ca::{Authority, CaError, LeafRequest, Policy, Usage};
use trustplane_process::clock::Clock;

/// The Secret with the CA. The installation makes it, empty.
pub(crate) const AUTHORITY: &str = "identity-oidc-ca";
/// How long a certificate lives, and how long before its end it is replaced.
const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(24 * 90);
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 30);
const CA_LIFE: SignedDuration = SignedDuration::from_hours(24 * 365 * 3);
/// Clients copy the CA by hand or by a controller of their own.
const PROPAGATION: SignedDuration = SignedDuration::from_hours(24);

/// The CA as it is now and as it changes, and what follows it.
pub(crate) struct Pki {
    /// Follows and rotates the CA; not in a dry run, which writes nothing.
    pub shared: Option<SharedAuthority>,
    pub authority: watch::Receiver<Arc<Authority>>,
}

impl Pki {
    /// What the CA needs on the API server.
    pub fn rights() -> Rights {
        SharedAuthority::rights(AUTHORITY)
    }

    /// Reads the CA, or makes it.
    pub async fn open(bench: &Workbench, clock: Arc<dyn Clock>) -> Result<Self, AuthorityError> {
        let options = AuthorityOptions {
            policy: Policy {
                ca_life: CA_LIFE,
                leaf_life: LEAF_LIFE,
                propagation: PROPAGATION,
            },
            clock,
        };
        let home = (&*bench.namespace, AUTHORITY);
        if bench.dry_run {
            let authority = SharedAuthority::rehearse(&bench.clients, home, options).await?;
            return Ok(Self {
                shared: None,
                authority: watch::Sender::new(Arc::new(authority)).subscribe(),
            });
        }
        let shared = SharedAuthority::open(&bench.clients, home, options, &bench.metrics).await?;
        Ok(Self {
            authority: shared.subscribe(),
            shared: Some(shared),
        })
    }
}

/// With what certificates are issued now.
pub(crate) fn issuing(authority: &Authority) -> Issuing {
    Issuing {
        bundle: authority.bundle_pem(),
        renew_before: RENEW_BEFORE,
    }
}

/// Puts a certificate in the place of the recipe. `None` if the CA has changed since the recipe was written: the change has asked for
/// another look, which makes another certificate.
pub(crate) fn issue(
    authority: &Authority,
    wanted: Certificate,
    now: Timestamp,
) -> Result<Option<Apply>, CaError> {
    let Certificate { names, write } = wanted;
    let bundle = authority.bundle_pem();
    if write.manifest.wish()["data"]["ca.crt"] != bundle {
        return Ok(None);
    }
    let request = LeafRequest {
        name: names.first().cloned().unwrap_or_default(),
        dns: names,
        usage: Usage::Server,
        life: Some(LEAF_LIFE),
        ..LeafRequest::default()
    };
    let leaf = authority.issue(&request, now)?;
    let encode = |bytes: &[u8]| Value::from(STANDARD.encode(bytes));
    let data = json!({
        "tls.crt": encode(leaf.certificate_pem().as_bytes()),
        "tls.key": encode(leaf.key_pem().expose()),
        "ca.crt": encode(bundle.as_bytes()),
    });
    let manifest = write
        .manifest
        .with("data", data)
        .stamp(ENDS, &leaf.expires().to_string());
    Ok(Some(Apply { manifest, ..write }))
}
