//! A foreign server at the address of the webhooks.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use trustplane_plan::kinds::{MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS};
use trustplane_process::ca::{Authority, LeafRequest, Policy, Usage};
use trustplane_process::serve::Limits;
use trustplane_process::tls::{CertifiedKeys, ServerTls, serve_tls};

use crate::stage::{MANAGER, Stage};

/// A server with a certificate of an authority of its own.
pub struct Impostor {
    pub address: SocketAddr,
    bundle: String,
    _stop: DropGuard,
}

impl Impostor {
    /// Its certificate was made then, and is valid for a minute.
    pub async fn start(then: Timestamp) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let authority = Authority::create("impostor", Policy::default(), then)?;
        let request = LeafRequest {
            name: MANAGER.to_owned(),
            addresses: vec![[127, 0, 0, 1].into()],
            usage: Usage::Server,
            life: Some(SignedDuration::from_mins(1)),
            ..LeafRequest::default()
        };
        let keys = CertifiedKeys::new();
        keys.swap(authority.issue(&request, then)?.certified_key()?);
        let (address, stop) = (listener.local_addr()?, CancellationToken::new());
        let config = ServerTls::new(keys).build()?;
        tokio::spawn(serve_tls(
            listener,
            config,
            Router::new(),
            Limits::default(),
            stop.clone(),
        ));
        Ok(Self {
            address,
            bundle: authority.bundle_pem(),
            _stop: stop.drop_guard(),
        })
    }
}

impl Stage {
    /// Has the API server trust the authority of the foreign server instead of ours.
    pub async fn trust(&self, impostor: &Impostor) -> Result<()> {
        let bundle = k8s_openapi::ByteString(impostor.bundle.clone().into_bytes());
        let bundle = serde_json::to_value(bundle)?;
        let edit = json!([{ "op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle }]);
        let edit: json_patch::Patch = serde_json::from_value(edit)?;
        for kind in [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS] {
            let edit = Patch::<()>::Json(edit.clone());
            self.api(&kind)
                .patch(MANAGER, &PatchParams::default(), &edit)
                .await?;
        }
        Ok(())
    }
}
