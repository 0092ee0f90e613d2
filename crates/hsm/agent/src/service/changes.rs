//! What changes secrets. Every change has a version; the token's process counts where the writer does not.

use jiff::Timestamp;
use trustplane_api::hsm::v1::{
    DeleteSecretRequest, DeleteSecretResponse, Expectation, PurgeSecretRequest, PurgeSecretResponse,
    WriteSecretRequest, WriteSecretResponse,
};
use trustplane_hsm_core::change::Terms;
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_core::secret::Secret;
use trustplane_hsm_core::version::{Expected, Stamp};

use super::{Service, convert};
use crate::catalogue::{Catalogue, Change};
use crate::error::{AgentError, Effect};
use crate::host::Changed;
use crate::wire::Entry;

/// What the writer says of a change.
struct Wishes {
    expected: Expected,
    epoch: Option<u64>,
    version: Option<u64>,
}

impl Wishes {
    fn of(
        expected: Option<Expectation>,
        epoch: Option<u64>,
        version: Option<u64>,
    ) -> Result<Self, AgentError> {
        let number = |what, given: Option<u64>| given.map(|given| convert::number(what, given)).transpose();
        Ok(Self {
            expected: convert::expected(expected)?.unwrap_or(Expected::Any),
            epoch: number("the epoch", epoch)?,
            version: number("the version", version)?,
        })
    }

    /// Who gives no version gets the next one.
    fn terms(&self) -> Terms {
        match self.version {
            Some(_) => self.expected.into(),
            None => Terms::next(self.expected),
        }
    }
}

impl Service {
    pub(super) async fn write(&self, request: WriteSecretRequest) -> Result<WriteSecretResponse, AgentError> {
        let path = convert::path(&request.path)?;
        let data = convert::data(request.secret_data)?;
        let (mut metadata, versioned) = convert::metadata(request.metadata)?;
        let mut wishes = Wishes::of(request.expected, request.epoch, request.version)?;
        let stamp = &mut metadata.stamp;
        wishes.version = wishes.version.or(versioned.then_some(stamp.version));
        stamp.version = wishes.version.unwrap_or_default();
        stamp.epoch = wishes.epoch.or(stamp.epoch);
        stamp.timestamp = stamp.timestamp.or_else(now);
        let secret = Secret { data, metadata };
        let entry = self
            .change(&path, self.host.write(&path, secret, wishes.terms()))
            .await?;
        Ok(WriteSecretResponse {
            version: entry.metadata.stamp.version,
            checksum: entry.checksum,
        })
    }

    pub(super) async fn delete(
        &self,
        request: DeleteSecretRequest,
    ) -> Result<DeleteSecretResponse, AgentError> {
        let path = convert::path(&request.path)?;
        let wishes = Wishes::of(request.expected, request.epoch, request.version)?;
        let stamp = Stamp {
            version: wishes.version.unwrap_or_default(),
            timestamp: now(),
            epoch: wishes.epoch,
            ..Stamp::default()
        };
        let key = match request.key.as_str() {
            "" => None,
            key => Some(convert::key(key)?),
        };
        let work = self.host.delete(&path, key.as_ref(), stamp, wishes.terms());
        let version = self.change(&path, work).await?.metadata.stamp.version;
        Ok(DeleteSecretResponse { version })
    }

    pub(super) async fn purge(&self, request: PurgeSecretRequest) -> Result<PurgeSecretResponse, AgentError> {
        let path = convert::path(&request.path)?;
        let version = convert::number("the version", request.version)?;
        let epoch = request.epoch.map(|epoch| convert::number("the epoch", epoch));
        let doubt = Doubt::about(&self.catalogue);
        let purged = self.host.purge(&path, version, epoch.transpose()?).await;
        self.catalogue
            .changed(doubt.settle(purged)?, Change::Remove(path));
        Ok(PurgeSecretResponse {})
    }

    /// Waits for a change of a path, and keeps in mind what it has left.
    async fn change(
        &self,
        path: &SecretPath,
        work: impl Future<Output = Result<Changed, AgentError>>,
    ) -> Result<Entry, AgentError> {
        let doubt = Doubt::about(&self.catalogue);
        let Changed { entry, left } = doubt.settle(work.await)?;
        let change = Change::Put(path.clone(), Box::new(entry.clone()));
        self.catalogue.changed(left, change);
        Ok(entry)
    }
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

    fn settle<R>(mut self, outcome: Result<R, AgentError>) -> Result<R, AgentError> {
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
