//! The key of the installation, with which fingerprints are made.

use std::collections::BTreeMap;

use aws_lc_rs::rand;
use http::Method;
use k8s_openapi::ByteString;
use kube::Client;
use serde_json::json;
use trustplane_plan::{Fingerprinter, Target};

use super::call::{Call, JSON, MERGE_PATCH};
use super::error::{Attempt, WriteError};
use super::kept::{kept_secret, read_kept};
use super::verdict::judge;
use crate::rights::{Place, Rights};

/// The Secret that holds the key. The installation makes it, empty.
pub const INSTALLATION_KEY: &str = "trustplane-fingerprint";

const FIELD: &str = "key";
const LENGTH: usize = 32;

/// What [`installation_key`] needs on the API server.
pub fn installation_key_rights() -> Rights {
    Rights::none().on_objects(
        Place::Home,
        "",
        &["secrets"],
        &["get", "patch"],
        &[INSTALLATION_KEY],
    )
}

/// The fingerprinter of this installation: its key is read from a Secret in our own namespace, or put there by whichever
/// replica is first. Any replica may do this, so the client is the unfenced one: the write fills what is empty or fails.
pub async fn installation_key(client: &Client, namespace: &str) -> Result<Fingerprinter, WriteError> {
    let target = kept_secret(namespace, INSTALLATION_KEY);
    let found = match read_kept(client, &target).await {
        Err(WriteError::NotInstalled(attempt)) => return make(client, &target, attempt).await,
        found => found?,
    };
    if !found.data.is_empty() {
        return fingerprinter(&target, found.data);
    }
    let attempt = Attempt::new("fill", &target);
    let key = random(&attempt)?;
    let body = json!({
        "metadata": { "uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version },
        "data": { FIELD: ByteString(key.to_vec()) },
    });
    let call = Call::write(Method::PATCH, super::path(&attempt)?, MERGE_PATCH, &body);
    match judge(&attempt, call.send(client).await) {
        Ok(_) => Ok(Fingerprinter::new(&key)),
        // Another replica was faster: its key is the key.
        Err(WriteError::Stale(_)) => fingerprinter(&target, read_kept(client, &target).await?.data),
        Err(error) => Err(error),
    }
}

/// Makes the Secret where no installation of ours has: in the place of another system, whose rights may allow it.
async fn make(client: &Client, target: &Target, missing: Attempt) -> Result<Fingerprinter, WriteError> {
    let attempt = Attempt::new("create", target);
    let key = random(&attempt)?;
    let body = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": target.object.name() },
        "data": { FIELD: ByteString(key.to_vec()) },
    });
    let path = target.kind.collection_path(target.object.namespace());
    let call = Call::write(Method::POST, path, JSON, &body);
    match judge(&attempt, call.send(client).await) {
        Ok(_) => Ok(Fingerprinter::new(&key)),
        // Another replica was faster: its key is the key.
        Err(WriteError::Stale(_)) => fingerprinter(target, read_kept(client, target).await?.data),
        Err(WriteError::Forbidden { .. }) => Err(WriteError::NotInstalled(missing)),
        Err(error) => Err(error),
    }
}

/// The fingerprinter of a dry run, which writes nothing: where nobody has filled the Secret yet, it has a key of its own.
/// No object bears a fingerprint then, so the plan is the same with any key.
pub async fn rehearsal_key(client: &Client, namespace: &str) -> Result<Fingerprinter, WriteError> {
    let target = kept_secret(namespace, INSTALLATION_KEY);
    let found = match read_kept(client, &target).await {
        Err(WriteError::NotInstalled(_)) => BTreeMap::new(),
        found => found?.data,
    };
    if found.is_empty() {
        return Ok(Fingerprinter::new(&random(&Attempt::new("read", &target))?));
    }
    fingerprinter(&target, found)
}

fn random(attempt: &Attempt) -> Result<[u8; LENGTH], WriteError> {
    let mut key = [0; LENGTH];
    rand::fill(&mut key).map_err(|_| WriteError::Unavailable {
        attempt: attempt.clone(),
        problem: "the system has no random numbers".into(),
        retry_after: None,
    })?;
    Ok(key)
}

fn fingerprinter(
    target: &Target,
    mut data: BTreeMap<String, ByteString>,
) -> Result<Fingerprinter, WriteError> {
    match data.remove(FIELD) {
        Some(ByteString(key)) if key.len() == LENGTH => Ok(Fingerprinter::new(&key)),
        // A new key would be harmless, but the Secret is not ours to overwrite.
        _ => Err(WriteError::Foreign {
            attempt: Attempt::new("use", target),
            holder: None,
        }),
    }
}
