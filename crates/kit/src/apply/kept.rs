//! Secrets in which a process keeps something of its own. The installation makes them, empty, and removes them: so no
//! right to create Secrets is needed, and nothing stays behind.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Expect, ObjectRef, Target};

use super::error::{Attempt, WriteError};
use crate::read::read_object;

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

/// Reads it live.
pub(crate) async fn read_kept(client: &Client, target: &Target) -> Result<Kept, WriteError> {
    let found = read_object(client, &target.kind, &target.object).await?;
    found.ok_or_else(|| WriteError::NotInstalled(Attempt::new("read", target)))
}
