//! A record in a ConfigMap: read it, and patch it in place of what was read. It needs no other right.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;
use trustplane_api::hsm::record::Record;
use trustplane_kit::apply::WriteError;
use trustplane_kit::read::read_object;
use trustplane_plan::ObjectRef;
use trustplane_plan::kinds::CONFIG_MAP;

use super::ledger::{Answer, Change, Ledger, LedgerError, Loaded};

/// Who has written a field.
const MANAGER: &str = "trustplane-agent";

/// How long the API server may take.
const WITHIN: Duration = Duration::from_secs(5);

/// A record in a ConfigMap that somebody else makes.
#[derive(Clone)]
pub struct ConfigMapLedger {
    client: Client,
    object: ObjectRef,
    /// A client belongs to the runtime that has made it.
    runtime: Handle,
}

impl fmt::Debug for ConfigMapLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigMapLedger({})", self.object)
    }
}

impl ConfigMapLedger {
    /// The record in this ConfigMap. Must be called on the runtime of the client.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            client,
            object: ObjectRef::new(Some(namespace), name),
            runtime: Handle::current(),
        }
    }

    /// Makes a call on the client's runtime, whoever waits for it.
    fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, LedgerError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, LedgerError>> + Send + 'static {
        let task = self.runtime.spawn(tokio::time::timeout(WITHIN, call));
        async move {
            match task.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(LedgerError::Unreachable(format!("no answer within {WITHIN:?}"))),
                Err(_) => Err(LedgerError::Unreachable("this process ends".to_owned())),
            }
        }
    }
}

impl Ledger for ConfigMapLedger {
    fn load(&self) -> Answer<'_, Loaded> {
        let (client, object) = (self.client.clone(), self.object.clone());
        let loading = self.call(async move {
            let found = read_object(&client, &CONFIG_MAP, &object).await;
            found.map_err(unread)?.ok_or(LedgerError::Missing)
        });
        Box::pin(async move {
            let map: Found = loading.await?;
            Ok(Loaded {
                record: Record::read(&map.data)?,
                version: map.metadata.resource_version,
            })
        })
    }

    fn store(&self, change: Change) -> Answer<'_, ()> {
        let namespace = self.object.namespace().unwrap_or_default();
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let object = self.object.clone();
        let mut patch = json!({ "data": change.data });
        if let Some(version) = change.version {
            patch["metadata"] = json!({ "resourceVersion": version });
        }
        let storing = self.call(async move {
            let parameters = PatchParams {
                field_manager: Some(MANAGER.to_owned()),
                ..PatchParams::default()
            };
            // The answer is metadata alone.
            api.patch_metadata(object.name(), &parameters, &Patch::Merge(patch))
                .await
                .map(drop)
                .map_err(|error| judged(&error))
        });
        Box::pin(storing)
    }
}

/// What is read of the ConfigMap.
#[derive(Deserialize)]
struct Found {
    metadata: Version,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    #[serde(default)]
    resource_version: String,
}

fn unread(error: WriteError) -> LedgerError {
    match error {
        WriteError::Forbidden { problem, .. } => LedgerError::Forbidden(problem),
        error => LedgerError::Unreachable(error.to_string()),
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
