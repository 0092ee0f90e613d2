//! What only looks.

use std::time::Duration;

use trustplane_api::hsm::v1::{
    GetChecksumRequest, GetChecksumResponse, GetInfoRequest, GetInfoResponse, HealthRequest, HealthResponse,
    IsConnectedRequest, IsConnectedResponse, ListSecretsRequest, ListSecretsResponse, ReadMetadataRequest,
    ReadMetadataResponse, ReadSecretRequest, ReadSecretResponse,
};
use trustplane_hsm_core::checksum::checksum;
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_core::secret::Secret;

use super::{Service, convert};
use crate::catalogue::Query;
use crate::error::AgentError;

/// The most entries of a page.
const MOST: usize = 10_000;

impl Service {
    pub(super) async fn info(&self, _: GetInfoRequest) -> Result<GetInfoResponse, AgentError> {
        let info = self.host.info().await?;
        let (capacity, generation) = self.catalogue.figures(&self.host).await?;
        Ok(GetInfoResponse {
            hsm_info: Some(convert::info(info)),
            capacity: Some(convert::capacity(&capacity)),
            generation: Some(convert::generation(generation)),
        })
    }

    pub(super) async fn read(&self, request: ReadSecretRequest) -> Result<ReadSecretResponse, AgentError> {
        let path = convert::path(&request.path)?;
        let secret = self.secret(&path).await?;
        if secret.is_deleted() && !request.include_deleted {
            return Err(deleted(&path));
        }
        Ok(convert::secret(&secret))
    }

    pub(super) async fn metadata(
        &self,
        request: ReadMetadataRequest,
    ) -> Result<ReadMetadataResponse, AgentError> {
        let secret = self.secret(&convert::path(&request.path)?).await?;
        Ok(ReadMetadataResponse {
            metadata: Some(convert::metadata_message(&secret.metadata)),
        })
    }

    pub(super) async fn checksum(
        &self,
        request: GetChecksumRequest,
    ) -> Result<GetChecksumResponse, AgentError> {
        let path = convert::path(&request.path)?;
        let secret = self.secret(&path).await?;
        if secret.is_deleted() {
            return Err(deleted(&path));
        }
        Ok(GetChecksumResponse {
            checksum: checksum(&secret.data),
            version: secret.metadata.stamp.version,
        })
    }

    pub(super) async fn list(&self, request: ListSecretsRequest) -> Result<ListSecretsResponse, AgentError> {
        // Of a token that is gone nothing is told from memory.
        self.host.info().await?;
        let size = usize::try_from(request.page_size).unwrap_or(MOST);
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let query = Query {
            prefix: request.prefix,
            after: given(request.page_token),
            most: (size > 0).then_some(size.min(MOST)),
            deleted: request.include_deleted,
            unless: given(request.unless_revision),
        };
        let max_age = request.max_age_seconds.map(|age| Duration::from_secs(age.into()));
        let page = self.catalogue.list(&self.host, &query, max_age).await?;
        let unchanged = page.entries.is_none();
        let mut answer = ListSecretsResponse {
            generation: Some(convert::generation(page.generation)),
            revision: page.revision,
            unchanged,
            as_of: convert::time(page.as_of),
            ..ListSecretsResponse::default()
        };
        let entries = page.entries.unwrap_or_default();
        if let Some((last, _)) = entries.last().filter(|_| page.more) {
            answer.next_page_token = last.as_str().to_owned();
        }
        for (path, entry) in entries {
            if !entry.as_ref().is_ok_and(|entry| entry.metadata.stamp.deleted) {
                answer.paths.push(path.as_str().to_owned());
            }
            answer.entries.push(convert::entry(&path, entry));
        }
        Ok(answer)
    }

    pub(super) async fn connected(&self, _: IsConnectedRequest) -> Result<IsConnectedResponse, AgentError> {
        let connected = self.host.fault().await.is_none();
        Ok(IsConnectedResponse { connected })
    }

    pub(super) async fn condition(&self, _: HealthRequest) -> Result<HealthResponse, AgentError> {
        let (status, message) = match self.host.fault().await {
            None => ("healthy", "the token is served".to_owned()),
            Some(fault) => ("degraded", fault.to_string()),
        };
        let phase = self.host.health().borrow().phase;
        Ok(HealthResponse {
            status: status.to_owned(),
            message,
            phase: phase.word().to_owned(),
        })
    }

    /// All that the token has at a path, which may be what is left of it.
    pub(super) async fn secret(&self, path: &SecretPath) -> Result<Secret, AgentError> {
        self.host.read(path).await
    }
}

pub(super) fn deleted(path: &SecretPath) -> AgentError {
    AgentError::NotFound(format!("{path}: it was deleted"))
}
