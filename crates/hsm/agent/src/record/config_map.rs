//! A record in a ConfigMap: read it, and patch it in place of what was read. It needs no other right.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::runtime::Handle;
use trustplane_api::hsm::record::Record;

use super::ledger::{Answer, Change, Ledger, LedgerError, Loaded};

/// Who has written a field.
const MANAGER: &str = "trustplane-agent";

/// How long the API server may take.
const WITHIN: Duration = Duration::from_secs(5);

/// A record in a ConfigMap that somebody else makes.
#[derive(Clone)]
pub struct ConfigMapLedger {
    api: Api<ConfigMap>,
    name: String,
    /// A client belongs to the runtime that has made it.
    runtime: Handle,
}

impl fmt::Debug for ConfigMapLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigMapLedger({})", self.name)
    }
}

impl ConfigMapLedger {
    /// The record in this ConfigMap. Must be called on the runtime of the client.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            runtime: Handle::current(),
        }
    }

    /// Makes a call on the client's runtime, whoever waits for it.
    fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, kube::Error>> + Send + 'static,
    ) -> impl Future<Output = Result<T, LedgerError>> + Send + 'static {
        let task = self.runtime.spawn(tokio::time::timeout(WITHIN, call));
        async move {
            match task.await {
                Ok(Ok(answer)) => answer.map_err(|error| judged(&error)),
                Ok(Err(_)) => Err(LedgerError::Unreachable(format!("no answer within {WITHIN:?}"))),
                Err(_) => Err(LedgerError::Unreachable("this process ends".to_owned())),
            }
        }
    }
}

impl Ledger for ConfigMapLedger {
    fn load(&self) -> Answer<'_, Loaded> {
        let (api, name) = (self.api.clone(), self.name.clone());
        let loading = self.call(async move { api.get(&name).await });
        Box::pin(async move {
            let map = loading.await?;
            Ok(Loaded {
                record: Record::read(&map.data.unwrap_or_default())?,
                version: map.metadata.resource_version.unwrap_or_default(),
            })
        })
    }

    fn store(&self, change: Change) -> Answer<'_, ()> {
        let (api, name) = (self.api.clone(), self.name.clone());
        let mut patch = json!({ "data": change.data });
        if let Some(version) = change.version {
            patch["metadata"] = json!({ "resourceVersion": version });
        }
        let storing = self.call(async move {
            let parameters = PatchParams {
                field_manager: Some(MANAGER.to_owned()),
                ..PatchParams::default()
            };
            api.patch(&name, &parameters, &Patch::Merge(patch))
                .await
                .map(drop)
        });
        Box::pin(storing)
    }
}

fn judged(error: &kube::Error) -> LedgerError {
    match error {
        kube::Error::Api(status) => match status.code {
            404 => LedgerError::Missing,
            409 => LedgerError::Conflict,
            401 | 403 => LedgerError::Forbidden(status.message.clone()),
            code => LedgerError::Unreachable(format!("{code} {}", status.message)),
        },
        error => LedgerError::Unreachable(reason(error)),
    }
}

/// The last of the causes, which is the one that says something.
fn reason(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
