//! The Secret in which the CA is kept: read and written whole, with preconditions.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::Client;
use serde_json::{Map, Value};
use trustplane_plan::{Apply, Conflicts, Expect, Keep, Manifest, Meta, Target};
use trustplane_process::ca::{Authority, AuthorityState};

use super::AuthorityError;
use crate::apply::{WriteError, Writer, kept_secret, read_kept};
use crate::watch::{Metadata, WatchSpec};

/// The Secret, by name. The installation makes it, empty.
pub(super) struct KeptSecret {
    client: Client,
    target: Target,
}

/// What was found there.
pub(super) struct Found {
    /// Which version it was.
    pub seen: Expect,
    /// The CA; `None` while the Secret has none of ours.
    pub state: Option<AuthorityState>,
}

impl KeptSecret {
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            client,
            target: kept_secret(namespace, name),
        }
    }

    pub fn name(&self) -> &str {
        self.target.object.name()
    }

    /// A watch of the metadata of this one Secret.
    pub fn watched(&self) -> WatchSpec<Metadata> {
        let object = &self.target.object;
        WatchSpec::new(self.target.kind.clone(), Metadata(Keep::default()))
            .namespaces(object.namespace().map(str::to_owned))
            .fields(format!("metadata.name={}", object.name()))
    }

    /// Reads it live.
    pub async fn read(&self) -> Result<Found, AuthorityError> {
        let name = || self.name().to_owned();
        let kept = read_kept(&self.client, &self.target)
            .await
            .map_err(|source| AuthorityError::Read { name: name(), source })?;
        let data: BTreeMap<String, Vec<u8>> =
            kept.data.into_iter().map(|(key, value)| (key, value.0)).collect();
        // Entries of a system whose place we take stay, beside ours.
        let state = AuthorityState::is_in(&data).then(|| AuthorityState::from_data(&data));
        Ok(Found {
            seen: kept.metadata.into(),
            state: state
                .transpose()
                .map_err(|source| AuthorityError::Unusable { name: name(), source })?,
        })
    }

    /// Puts a CA into the version of the Secret that was seen, and says which version it is then; `None` if somebody else
    /// was faster.
    pub async fn write(
        &self,
        writer: &Writer,
        authority: &Authority,
        seen: &Expect,
    ) -> Result<Option<Expect>, AuthorityError> {
        let data = authority.state().to_data().into_iter();
        let data: Map<_, _> = data
            .map(|(key, value)| (key, Value::from(STANDARD.encode(value.expose()))))
            .collect();
        let object = &self.target.object;
        let wish = Apply {
            manifest: Manifest::new(self.target.kind.clone(), object.namespace(), object.name())
                .with("data", Value::Object(data)),
            expect: seen.clone(),
            conflicts: Conflicts::Force,
        };
        match writer.apply(&wish).await {
            Ok(Meta {
                uid,
                resource_version,
                ..
            }) => Ok(Some(Expect::Seen {
                uid,
                resource_version,
            })),
            Err(WriteError::Stale(_)) => Ok(None),
            Err(source) => Err(AuthorityError::Write {
                name: self.name().to_owned(),
                source,
            }),
        }
    }
}
