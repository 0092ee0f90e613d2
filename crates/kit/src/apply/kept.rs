//! Secrets in which a process keeps something of its own. The installation makes them, empty, and removes them: so no
//! right to create Secrets is needed, and nothing stays behind.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use trustplane_plan::{Expect, Kind, ObjectRef, Scope, Target};

use super::call::{Call, JSON};
use super::error::{Attempt, WriteError};
use super::verdict::{is_absent, judge};

const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets", Scope::Namespaced);

/// What was found in one of them.
#[derive(Deserialize)]
pub(crate) struct Kept {
    /// Which version it was.
    pub metadata: Version,
    /// What it holds; nothing while it is new.
    #[serde(default)]
    pub data: BTreeMap<String, ByteString>,
}

/// One version of one object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    pub uid: Box<str>,
    pub resource_version: Box<str>,
}

impl From<Version> for Expect {
    fn from(version: Version) -> Self {
        Self::Seen {
            uid: version.uid.into(),
            resource_version: version.resource_version.into(),
        }
    }
}

/// The Secret of this name.
pub(crate) fn kept_secret(namespace: &str, name: &str) -> Target {
    Target {
        kind: SECRET,
        object: ObjectRef::new(Some(namespace), name),
    }
}

/// Reads it live. Not by a typed call of kube's: that logs an answer which it cannot parse, and this one holds keys.
pub(crate) async fn read_kept(client: &Client, target: &Target) -> Result<Kept, WriteError> {
    let attempt = Attempt::new("read", target);
    let answer = Call::get(super::path(&attempt)?, JSON).send(client).await;
    if answer.as_ref().is_ok_and(|answer| is_absent(&attempt, answer)) {
        return Err(WriteError::NotInstalled(attempt));
    }
    let text = judge(&attempt, answer)?;
    serde_json::from_str(&text).map_err(|_| WriteError::Invalid {
        attempt,
        problem: "the answer is no Secret".to_owned(),
    })
}
