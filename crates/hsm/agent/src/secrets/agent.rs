//! The calls of the tool to the agent of the token.

use std::time::Duration;

use tonic::{Request, Response, Status};
use trustplane_api::hsm::secrets_tool::{Answer, ErrorKind, ListedSecret, TokenSecret};
use trustplane_api::hsm::v1::{
    DeleteSecretRequest, HealthRequest, ListSecretsRequest, ReadSecretRequest, SecretEntry,
    WriteSecretRequest, WriteSecretResponse,
};
use trustplane_hsm_core::encoded::Encoded;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Data, Value};

use super::connection::Client;
use super::failure::Failure;
use super::write::{Current, SecretStore};

/// How long the agent may take for one call. A token behind OpenSC takes many seconds for a large secret.
const CALL: Duration = Duration::from_secs(120);
/// How long the agent may take to say how it is doing.
const HEALTH: Duration = Duration::from_secs(5);
/// How old a list may be, in seconds. The list has all changes of other programs that are older than this.
const LIST_AGE: u32 = 60;

/// The agent that serves the token.
pub(super) struct Agent {
    client: Client,
}

impl Agent {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Lists every secret, without values.
    pub async fn list(&mut self) -> Result<Vec<ListedSecret>, Failure> {
        let all = ListSecretsRequest {
            include_deleted: true,
            max_age_seconds: Some(LIST_AGE),
            ..ListSecretsRequest::default()
        };
        let answer = self.client.list_secrets(within(all, CALL)).await;
        let entries = inner(answer).map_err(|status| Failure::of_read(&status))?.entries;
        Ok(entries.into_iter().map(listed).collect())
    }

    /// Reads a secret. A deleted secret is an error, as a missing one is.
    pub async fn secret(&mut self, path: &SecretPath, values: bool) -> Result<TokenSecret<Encoded>, Failure> {
        let current = self.read(path).await?.filter(|current| !current.deleted);
        let message = || format!("{path}: there is no such secret");
        let current = current.ok_or_else(|| Failure::new(ErrorKind::NotFound, message()))?;
        let sizes = current.data.iter();
        Ok(TokenSecret {
            version: current.version,
            checksum: current.checksum,
            digest: current.digest,
            description: current.metadata.description,
            sizes: sizes.map(|(key, value)| (key.to_string(), value.len())).collect(),
            data: values.then(|| {
                let pairs = current.data.into_iter();
                pairs
                    .map(|(key, value)| (key.to_string(), Encoded(value)))
                    .collect()
            }),
        })
    }

    /// Deletes a secret or one key of it. With its last key the secret is deleted.
    pub async fn delete(
        &mut self,
        path: &SecretPath,
        key: Option<&KeyName>,
    ) -> Result<Answer<Encoded>, Failure> {
        let request = DeleteSecretRequest {
            path: path.to_string(),
            key: key.map(KeyName::to_string).unwrap_or_default(),
            ..DeleteSecretRequest::default()
        };
        let answer = self.client.delete_secret(within(request, CALL)).await;
        let version = inner(answer)
            .map_err(|status| Failure::of_change(&status))?
            .version;
        // The deletion is done, even if the read for the checksum of the other keys fails.
        let rest = match key {
            Some(_) => self.read(path).await.ok().flatten(),
            None => None,
        };
        let rest = rest.filter(|rest| rest.version == version && !rest.deleted);
        Ok(Answer::Changed {
            version,
            checksum: rest.map(|rest| rest.checksum),
            written: true,
        })
    }

    /// How the agent says that it is doing: its phase and a message. `None` if it does not answer.
    pub async fn condition(&mut self) -> Option<(String, String)> {
        let answer = self.client.health(within(HealthRequest {}, HEALTH)).await;
        let health = inner(answer).ok()?;
        Some((health.phase, health.message))
    }
}

impl SecretStore for Agent {
    async fn read(&mut self, path: &SecretPath) -> Result<Option<Current>, Failure> {
        let request = ReadSecretRequest {
            path: path.to_string(),
            include_deleted: true,
        };
        let answer = self.client.read_secret(within(request, CALL)).await;
        let secret = match inner(answer) {
            Ok(secret) => secret,
            Err(status) => {
                let failure = Failure::of_read(&status);
                return match failure.error.kind {
                    ErrorKind::NotFound => Ok(None),
                    _ => Err(failure),
                };
            }
        };
        let pairs = secret.secret_data.unwrap_or_default().data.into_iter();
        let values: Vec<_> = pairs.map(|(key, value)| (key, Value::new(value))).collect();
        let parsed = values
            .into_iter()
            .map(|(key, value)| Ok((KeyName::parse(&key)?, value)));
        let data = parsed.collect::<Result<Data, _>>();
        Ok(Some(Current {
            version: secret.version,
            deleted: secret.deleted,
            checksum: secret.checksum,
            digest: secret.digest,
            data: data.map_err(|error: trustplane_hsm_core::path::KeyError| {
                Failure::new(ErrorKind::Damaged, format!("{path}: {error}"))
            })?,
            metadata: secret.metadata.unwrap_or_default(),
        }))
    }

    async fn write(&mut self, request: WriteSecretRequest) -> Result<WriteSecretResponse, Failure> {
        let answer = self.client.write_secret(within(request, CALL)).await;
        inner(answer).map_err(|status| Failure::of_change(&status))
    }
}

fn within<T>(message: T, deadline: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}

fn inner<R>(answer: Result<Response<R>, Status>) -> Result<R, Status> {
    answer.map(Response::into_inner)
}

fn listed(entry: SecretEntry) -> ListedSecret {
    ListedSecret {
        path: entry.path,
        version: entry.version,
        checksum: entry.checksum,
        digest: entry.digest,
        keys: entry.keys,
        deleted: entry.deleted,
        timestamp: entry.timestamp,
        description: entry.metadata.unwrap_or_default().description,
        fault: entry.fault,
    }
}
