//! A token that can be used: by ourselves, or by the one who has it open.

use jiff::Timestamp;
use tokio::runtime::Runtime;
use tonic::{Response, Status};
use trustplane_api::hsm::v1::expectation::Found;
use trustplane_api::hsm::v1::{
    Capacity, DeleteSecretRequest, Expectation, GetInfoRequest, ListSecretsRequest, PurgeSecretRequest,
    ReadSecretRequest, ReadSecretResponse, SecretData, SecretEntry, SecretMetadata, WriteSecretRequest,
    WriteSecretResponse,
};
use trustplane_hsm_core::change::{Change, Terms};
use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Data, Secret};
use trustplane_hsm_core::version::{Expected, Stamp};
use trustplane_hsm_token::Store;

use super::TestTokenError;
use crate::error::Effect;
use crate::hold::{Hold, Place};
use crate::secrets::connection::{Client, connect};
use crate::service::convert;
use crate::wire::{Entry, Failure};

/// What is to be written.
pub(super) struct New {
    pub data: Data,
    pub description: String,
    /// Whether nothing may be there.
    pub only_if_absent: bool,
}

/// The little that the tool does with the secrets of a token, in the words of the agent's service.
pub(super) trait Opened {
    fn list(&mut self) -> Result<Vec<SecretEntry>, TestTokenError>;
    fn read(&mut self, path: &SecretPath) -> Result<ReadSecretResponse, TestTokenError>;
    /// In the next version.
    fn write(&mut self, path: &SecretPath, new: New) -> Result<WriteSecretResponse, TestTokenError>;
    /// The secret or one key of it; says the version of what is left.
    fn delete(&mut self, path: &SecretPath, key: Option<&KeyName>) -> Result<u64, TestTokenError>;
    fn purge(&mut self, path: &SecretPath, version: u64) -> Result<(), TestTokenError>;
    fn capacity(&mut self) -> Result<Capacity, TestTokenError>;
}

/// A token that we have opened, and hold.
pub(super) struct Own<'module> {
    pub store: Store<'module>,
    pub _hold: Hold,
}

impl Opened for Own<'_> {
    fn list(&mut self) -> Result<Vec<SecretEntry>, TestTokenError> {
        let listing = self.store.list()?.into_iter().map(|(path, described)| {
            let entry = described.map(Entry::from);
            let entry = entry.map_err(|error| Failure::from(error).error(Effect::None));
            convert::entry(&path, entry)
        });
        Ok(listing.collect())
    }

    fn read(&mut self, path: &SecretPath) -> Result<ReadSecretResponse, TestTokenError> {
        Ok(convert::secret(&self.store.read(path)?))
    }

    fn write(&mut self, path: &SecretPath, new: New) -> Result<WriteSecretResponse, TestTokenError> {
        let expected = match new.only_if_absent {
            true => Expected::Absent,
            false => Expected::Any,
        };
        let metadata = Metadata {
            stamp: stamp(),
            description: new.description,
            ..Metadata::default()
        };
        let secret = Secret {
            data: new.data,
            metadata,
        };
        let written = self.store.write(path, &secret, Terms::next(expected))?;
        Ok(WriteSecretResponse {
            version: written.metadata.stamp.version,
            checksum: written.checksum,
        })
    }

    fn delete(&mut self, path: &SecretPath, key: Option<&KeyName>) -> Result<u64, TestTokenError> {
        let change = match key {
            None => Change::Delete(stamp()),
            Some(key) => Change::DeleteKey(key, stamp()),
        };
        let left = self.store.change(path, &change, Terms::next(Expected::Any))?;
        Ok(left.metadata.stamp.version)
    }

    fn purge(&mut self, path: &SecretPath, version: u64) -> Result<(), TestTokenError> {
        Ok(self.store.purge(path, version, None)?)
    }

    fn capacity(&mut self) -> Result<Capacity, TestTokenError> {
        Ok(convert::capacity(&self.store.capacity()?))
    }
}

/// What is written now. The token counts.
fn stamp() -> Stamp {
    Stamp {
        timestamp: Some(Timestamp::now()),
        ..Stamp::default()
    }
}

/// A token that an agent serves.
pub(super) struct Served {
    runtime: Runtime,
    client: Client,
}

impl Served {
    /// The agent that holds a token; nothing if it cannot be spoken to.
    pub fn by(place: &Place) -> Result<Option<Self>, TestTokenError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(TestTokenError::Runtime)?;
        let client = runtime.block_on(connect(place.socket()));
        Ok(client.map(|client| Self { runtime, client }))
    }

    fn wait<R>(&self, call: impl Future<Output = Result<Response<R>, Status>>) -> Result<R, TestTokenError> {
        let answer = self.runtime.block_on(call);
        let refused = |status: Status| TestTokenError::Agent(status.message().to_owned());
        answer.map(Response::into_inner).map_err(refused)
    }
}

impl Opened for Served {
    fn list(&mut self) -> Result<Vec<SecretEntry>, TestTokenError> {
        let all = ListSecretsRequest {
            include_deleted: true,
            ..ListSecretsRequest::default()
        };
        Ok(self.wait(self.client.clone().list_secrets(all))?.entries)
    }

    fn read(&mut self, path: &SecretPath) -> Result<ReadSecretResponse, TestTokenError> {
        let request = ReadSecretRequest {
            path: path.to_string(),
            include_deleted: true,
        };
        self.wait(self.client.clone().read_secret(request))
    }

    fn write(&mut self, path: &SecretPath, new: New) -> Result<WriteSecretResponse, TestTokenError> {
        let found = Some(Found::Absent(true));
        let values = new.data.iter();
        let request = WriteSecretRequest {
            path: path.to_string(),
            secret_data: Some(SecretData {
                data: values
                    .map(|(key, value)| (key.to_string(), value.expose().to_vec()))
                    .collect(),
            }),
            metadata: Some(SecretMetadata {
                description: new.description,
                ..SecretMetadata::default()
            }),
            expected: new.only_if_absent.then_some(Expectation { found }),
            ..WriteSecretRequest::default()
        };
        self.wait(self.client.clone().write_secret(request))
    }

    fn delete(&mut self, path: &SecretPath, key: Option<&KeyName>) -> Result<u64, TestTokenError> {
        let request = DeleteSecretRequest {
            path: path.to_string(),
            key: key.map(KeyName::to_string).unwrap_or_default(),
            ..DeleteSecretRequest::default()
        };
        Ok(self.wait(self.client.clone().delete_secret(request))?.version)
    }

    fn purge(&mut self, path: &SecretPath, version: u64) -> Result<(), TestTokenError> {
        let request = PurgeSecretRequest {
            path: path.to_string(),
            version,
            ..PurgeSecretRequest::default()
        };
        self.wait(self.client.clone().purge_secret(request)).map(drop)
    }

    fn capacity(&mut self) -> Result<Capacity, TestTokenError> {
        let info = self.wait(self.client.clone().get_info(GetInfoRequest {}))?;
        Ok(info.capacity.unwrap_or_default())
    }
}
