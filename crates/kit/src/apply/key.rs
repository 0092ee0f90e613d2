//! The key of the installation, with which fingerprints are made.

use std::collections::BTreeMap;

use aws_lc_rs::rand;
use http::Method;
use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use trustplane_plan::{Fingerprinter, Kind, ObjectRef, Scope, Target};

use super::call::{Call, JSON, MERGE_PATCH};
use super::error::{Attempt, WriteError};
use super::verdict::{is_absent, judge};
use crate::rights::Rights;

/// The Secret that holds the key. The installation makes it, empty, and removes it: so no right to create Secrets is
/// needed, and nothing stays behind.
pub const INSTALLATION_KEY: &str = "trustplane-fingerprint";

const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets", Scope::Namespaced);
const FIELD: &str = "key";
const LENGTH: usize = 32;

/// What [`installation_key`] needs on the API server.
pub fn installation_key_rights() -> Rights {
    Rights::none().on_objects_at_home("", &["secrets"], &["get", "patch"], &[INSTALLATION_KEY])
}

/// The fingerprinter of this installation: its key is read from a Secret in our own namespace, or put there by whichever
/// replica is first. Any replica may do this, so the client is the unfenced one: the write fills what is empty or fails.
pub async fn installation_key(client: &Client, namespace: &str) -> Result<Fingerprinter, WriteError> {
    let target = target(namespace);
    let empty = match read(client, &target).await? {
        Content { data, .. } if !data.is_empty() => return fingerprinter(&target, data),
        empty => empty,
    };
    let attempt = Attempt::new("fill", &target);
    let key = random(&attempt)?;
    let body = json!({
        "metadata": { "uid": empty.metadata["uid"], "resourceVersion": empty.metadata["resourceVersion"] },
        "data": { FIELD: ByteString(key.to_vec()) },
    });
    let call = Call::write(Method::PATCH, super::path(&attempt)?, MERGE_PATCH, &body);
    match judge(&attempt, call.send(client).await) {
        Ok(_) => Ok(Fingerprinter::new(&key)),
        // Another replica was faster: its key is the key.
        Err(WriteError::Stale(_)) => fingerprinter(&target, read(client, &target).await?.data),
        Err(error) => Err(error),
    }
}

/// The fingerprinter of a dry run, which writes nothing: where nobody has filled the Secret yet, it has a key of its own.
/// No object bears a fingerprint then, so the plan is the same with any key.
pub async fn rehearsal_key(client: &Client, namespace: &str) -> Result<Fingerprinter, WriteError> {
    let target = target(namespace);
    match read(client, &target).await? {
        Content { data, .. } if !data.is_empty() => fingerprinter(&target, data),
        _ => Ok(Fingerprinter::new(&random(&Attempt::new("read", &target))?)),
    }
}

fn target(namespace: &str) -> Target {
    Target {
        kind: SECRET,
        object: ObjectRef::new(Some(namespace), INSTALLATION_KEY),
    }
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

#[derive(Deserialize)]
struct Content {
    metadata: Value,
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

async fn read(client: &Client, target: &Target) -> Result<Content, WriteError> {
    let attempt = Attempt::new("read", target);
    let unusable = |problem: &str| WriteError::Invalid {
        attempt: attempt.clone(),
        problem: problem.into(),
    };
    let answer = Call::get(super::path(&attempt)?, JSON).send(client).await;
    if answer.as_ref().is_ok_and(|answer| is_absent(&attempt, answer)) {
        return Err(unusable("it does not exist; the installation makes it, empty"));
    }
    serde_json::from_str(&judge(&attempt, answer)?).map_err(|_| unusable("the answer is no Secret"))
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
