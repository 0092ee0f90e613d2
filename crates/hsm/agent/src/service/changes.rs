//! What changes secrets. Every change has a version, and is made only on what was seen before it.

use jiff::Timestamp;
use trustplane_api::hsm::v1::{
    DeleteSecretRequest, DeleteSecretResponse, Expectation, PurgeSecretRequest, PurgeSecretResponse,
    WriteSecretRequest, WriteSecretResponse,
};
use trustplane_hsm_core::checksum::{DataDigest, checksum};
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_core::secret::Secret;
use trustplane_hsm_core::version::{Expected, HIGHEST, Stamp};

use super::reads::deleted;
use super::{Service, convert};
use crate::catalogue::{Catalogue, Change};
use crate::error::{AgentError, Effect};
use crate::wire::Entry;

/// How often a change is planned anew because another was faster.
const TRIES: usize = 3;

/// What the writer says of a change.
struct Terms {
    expected: Option<Expected>,
    epoch: Option<u64>,
    version: Option<u64>,
}

impl Terms {
    fn of(
        expected: Option<Expectation>,
        epoch: Option<u64>,
        version: Option<u64>,
    ) -> Result<Self, AgentError> {
        let number = |what, given: Option<u64>| given.map(|given| convert::number(what, given)).transpose();
        Ok(Self {
            expected: convert::expected(expected)?,
            epoch: number("the epoch", epoch)?,
            version: number("the version", version)?,
        })
    }
}

impl Service {
    pub(super) async fn write(&self, request: WriteSecretRequest) -> Result<WriteSecretResponse, AgentError> {
        let path = convert::path(&request.path)?;
        let data = convert::data(request.secret_data)?;
        let (mut metadata, versioned) = convert::metadata(request.metadata)?;
        let terms = Terms::of(request.expected, request.epoch, request.version)?;
        let stamp = &mut metadata.stamp;
        stamp.epoch = terms.epoch.or(stamp.epoch);
        stamp.timestamp = stamp.timestamp.or_else(now);
        let said = terms.version.or(versioned.then_some(stamp.version));
        let secret = Secret { data, metadata };
        let entry = match said {
            Some(version) => {
                let expected = terms.expected.unwrap_or(Expected::Any);
                self.put(&path, numbered(&secret, version), expected).await?
            }
            None => {
                self.put_next(&path, terms.expected, |_, version| Ok(numbered(&secret, version)))
                    .await?
            }
        };
        Ok(WriteSecretResponse {
            version: entry.stamp.version,
            checksum: entry.checksum,
        })
    }

    pub(super) async fn delete(
        &self,
        request: DeleteSecretRequest,
    ) -> Result<DeleteSecretResponse, AgentError> {
        let path = convert::path(&request.path)?;
        let terms = Terms::of(request.expected, request.epoch, request.version)?;
        let stamp = |version| Stamp {
            version,
            timestamp: now(),
            epoch: terms.epoch,
            ..Stamp::default()
        };
        let key = match request.key.as_str() {
            "" => None,
            key => Some(convert::key(key)?),
        };
        let entry = match (&key, terms.version) {
            // Also where there is nothing: a late copy must not come back.
            (None, Some(version)) => {
                let expected = terms.expected.unwrap_or(Expected::Any);
                self.put(&path, Secret::tombstone(stamp(version)), expected)
                    .await?
            }
            (None, None) => {
                let tombstone = |found: Option<Secret>, version| match found {
                    Some(found) if !found.is_deleted() => Ok(Secret::tombstone(stamp(version))),
                    Some(_) => Err(deleted(&path)),
                    None => Err(AgentError::NotFound(format!("{path}: there is no such secret"))),
                };
                self.put_next(&path, terms.expected, tombstone).await?
            }
            (Some(key), given) => {
                let without = |found: Option<Secret>, version| {
                    let missing = || AgentError::NotFound(format!("{path}: there is no key {key}"));
                    let mut secret = found.filter(|found| !found.is_deleted()).ok_or_else(missing)?;
                    secret.data.remove(key).ok_or_else(missing)?;
                    let stamp = stamp(given.unwrap_or(version));
                    // A secret has at least one key.
                    if secret.data.is_empty() {
                        return Ok(Secret::tombstone(stamp));
                    }
                    secret.metadata.stamp = stamp;
                    Ok(secret)
                };
                self.put_next(&path, terms.expected, without).await?
            }
        };
        let version = entry.stamp.version;
        Ok(DeleteSecretResponse { version })
    }

    pub(super) async fn purge(&self, request: PurgeSecretRequest) -> Result<PurgeSecretResponse, AgentError> {
        let path = convert::path(&request.path)?;
        let version = convert::number("the version", request.version)?;
        let doubt = Doubt::about(&self.catalogue);
        let generation = doubt.settle(self.host.purge(&path, version).await)?;
        self.catalogue.changed(generation, Change::Remove(path));
        Ok(PurgeSecretResponse {})
    }

    /// Writes what is made of what there is, one version higher. What another has written meanwhile is looked at again.
    async fn put_next(
        &self,
        path: &SecretPath,
        expected: Option<Expected>,
        make: impl Fn(Option<Secret>, u64) -> Result<Secret, AgentError>,
    ) -> Result<Entry, AgentError> {
        let mut tries = 0;
        loop {
            let found = self.found(path).await?;
            let stamp = found.as_ref().map(|found| found.metadata.stamp.clone());
            let before = stamp.as_ref().map_or(0, |stamp| stamp.version);
            if before >= HIGHEST {
                let text = format!("{path}: there is no higher version");
                return Err(AgentError::FailedPrecondition(text));
            }
            let seen = match &stamp {
                Some(stamp) => Expected::Version(stamp.version),
                None => Expected::Absent,
            };
            if let Some(expected) = expected.filter(|expected| !expected.is_met(stamp.as_ref())) {
                let text = format!("{path}: expected {expected}, found {seen}");
                return Err(AgentError::FailedPrecondition(text));
            }
            let written = self.put(path, make(found, before + 1)?, seen).await;
            tries += 1;
            match written {
                Err(AgentError::FailedPrecondition(_))
                    if tries < TRIES
                        && self.found(path).await?.map(|found| found.metadata.stamp) != stamp => {}
                outcome => return outcome,
            }
        }
    }

    /// What there is. Of what cannot be read nobody knows which version comes next.
    async fn found(&self, path: &SecretPath) -> Result<Option<Secret>, AgentError> {
        match self.secret(path).await {
            Ok(secret) => Ok(Some(secret)),
            Err(AgentError::NotFound(_)) => Ok(None),
            Err(AgentError::DataLoss(text)) => Err(AgentError::DataLoss(format!(
                "{text}; it can be written anew only with a version"
            ))),
            Err(error) => Err(error),
        }
    }

    async fn put(&self, path: &SecretPath, secret: Secret, expected: Expected) -> Result<Entry, AgentError> {
        let entry = Entry {
            stamp: secret.metadata.stamp.clone(),
            checksum: checksum(&secret.data),
            digest: DataDigest::of(&secret.data).to_hex(),
            keys: secret.data.len(),
        };
        let doubt = Doubt::about(&self.catalogue);
        let generation = doubt.settle(self.host.write(path, secret, expected).await)?;
        let change = Change::Put(path.clone(), Box::new(entry.clone()));
        self.catalogue.changed(generation, change);
        Ok(entry)
    }
}

fn numbered(secret: &Secret, version: u64) -> Secret {
    let mut secret = secret.clone();
    secret.metadata.stamp.version = version;
    secret
}

/// Whole seconds: a label has no more.
fn now() -> Option<Timestamp> {
    Timestamp::from_second(Timestamp::now().as_second()).ok()
}

/// A change that is under way. If nobody waits for its end, nobody knows what it has done.
struct Doubt<'a>(Option<&'a Catalogue>);

impl<'a> Doubt<'a> {
    fn about(catalogue: &'a Catalogue) -> Self {
        Self(Some(catalogue))
    }

    fn settle(mut self, outcome: Result<Generation, AgentError>) -> Result<Generation, AgentError> {
        let unknown = match &outcome {
            Err(AgentError::Unavailable { effect, .. } | AgentError::Deadline { effect, .. }) => {
                *effect == Effect::Unknown
            }
            _ => false,
        };
        if !unknown {
            self.0 = None;
        }
        outcome
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(catalogue) = self.0 {
            catalogue.doubt();
        }
    }
}
