//! The Secret in which the CA is kept: read and written whole, with preconditions.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value};
use trustplane_plan::{Apply, Conflicts, Expect, Kind, Manifest, Meta, ObjectRef, Scope, Target};
use trustplane_process::ca::{Authority, AuthorityState};

use super::AuthorityError;
use crate::apply::{Attempt, Call, JSON, WriteError, Writer, judge};

const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets", Scope::Namespaced);

/// The Secret, by name. The installation makes it, empty.
pub(super) struct KeptSecret {
    client: Client,
    target: Target,
}

/// What was found there.
pub(super) struct Found {
    /// Which version it was.
    pub seen: Expect,
    /// The CA; `None` while the Secret is empty.
    pub state: Option<AuthorityState>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    metadata: Version,
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    uid: Box<str>,
    resource_version: Box<str>,
}

impl KeptSecret {
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            client,
            target: Target {
                kind: SECRET,
                object: ObjectRef::new(Some(namespace), name),
            },
        }
    }

    pub fn name(&self) -> &str {
        self.target.object.name()
    }

    /// Reads it live. Not by a typed call of kube's: that logs an answer which it cannot parse, and this one holds keys.
    pub async fn read(&self) -> Result<Found, AuthorityError> {
        let attempt = Attempt::new("read", &self.target);
        let path = SECRET.object_path(&self.target.object);
        let answer = Call::get(path, JSON).send(&self.client).await;
        let text = judge(&attempt, answer).map_err(|error| match error {
            // The judge of writes takes "not there" for "no longer there".
            WriteError::Stale(_) => AuthorityError::Absent(self.name().to_owned()),
            source => AuthorityError::Read {
                name: self.name().to_owned(),
                source,
            },
        })?;
        let content: Content =
            serde_json::from_str(&text).map_err(|_| AuthorityError::Answer(self.name().to_owned()))?;
        let data: BTreeMap<String, Vec<u8>> = content
            .data
            .into_iter()
            .map(|(key, value)| (key, value.0))
            .collect();
        let state = (!data.is_empty()).then(|| AuthorityState::from_data(&data));
        Ok(Found {
            seen: Expect::Seen {
                uid: content.metadata.uid.into(),
                resource_version: content.metadata.resource_version.into(),
            },
            state: state.transpose().map_err(|source| AuthorityError::Unusable {
                name: self.name().to_owned(),
                source,
            })?,
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
            manifest: Manifest::new(SECRET, object.namespace(), object.name())
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
