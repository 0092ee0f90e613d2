//! The service `hsm.v1.HSMAgent` over the token.

mod changes;
pub(crate) mod convert;
mod reads;
mod status;

use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};
use trustplane_api::hsm::v1::hsm_agent_server::HsmAgent;
use trustplane_api::hsm::v1::{
    ChangePinRequest, ChangePinResponse, DeleteSecretRequest, DeleteSecretResponse, GetChecksumRequest,
    GetChecksumResponse, GetInfoRequest, GetInfoResponse, HealthRequest, HealthResponse, IsConnectedRequest,
    IsConnectedResponse, ListSecretsRequest, ListSecretsResponse, PurgeSecretRequest, PurgeSecretResponse,
    ReadMetadataRequest, ReadMetadataResponse, ReadSecretRequest, ReadSecretResponse, WriteSecretRequest,
    WriteSecretResponse,
};
use trustplane_hsm_token::Attempt;
use trustplane_process::secret::Secret;

pub use status::REASON;

use crate::catalogue::Catalogue;
use crate::error::{AgentError, Effect};
use crate::host::Host;
use crate::meters::Meters;

/// The service. It keeps nothing but what the token says.
#[derive(Debug)]
pub struct Service {
    host: Arc<Host>,
    catalogue: Arc<Catalogue>,
    meters: Meters,
}

impl Service {
    /// The service of the token of this host.
    pub fn new(host: Arc<Host>, catalogue: Arc<Catalogue>, meters: Meters) -> Self {
        Self {
            host,
            catalogue,
            meters,
        }
    }

    /// Does what a call asks for, as long as its client waits, and counts it.
    async fn call<R>(
        &self,
        method: &'static str,
        patience: Option<Duration>,
        work: impl Future<Output = Result<R, AgentError>>,
    ) -> Result<Response<R>, Status> {
        let watched = self.meters.call(method);
        let outcome = match patience {
            None => work.await,
            Some(within) => match tokio::time::timeout(within, work).await {
                Ok(outcome) => outcome,
                Err(_) => Err(AgentError::Deadline {
                    within,
                    effect: match changes(method) {
                        true => Effect::Unknown,
                        false => Effect::None,
                    },
                }),
            },
        };
        let answer = outcome.map(Response::new).map_err(Status::from);
        let code = answer.as_ref().map_or_else(Status::code, |_| tonic::Code::Ok);
        watched.end(status::word(code));
        answer
    }

    async fn change_pin_of_token(&self, request: ChangePinRequest) -> Result<ChangePinResponse, AgentError> {
        let (old, new) = (Secret::new(request.old_pin), Secret::new(request.new_pin));
        let refusal = match () {
            () if old.expose().is_empty() || new.expose().is_empty() => Some("neither PIN may be empty"),
            () if old == new => Some("the new PIN is the old one"),
            () => None,
        };
        if let Some(refusal) = refusal {
            return Err(AgentError::InvalidArgument(refusal.to_owned()));
        }
        self.host.change_pin(&old, &new, Attempt::Automatic).await?;
        Ok(ChangePinResponse {})
    }
}

/// Whether a method may have changed something if nobody says how it ended.
fn changes(method: &str) -> bool {
    ["WriteSecret", "DeleteSecret", "PurgeSecret", "ChangePIN"].contains(&method)
}

/// One method: its name, what the client grants, and what is to be done.
macro_rules! call {
    ($self:ident, $request:ident, $name:literal, $work:ident) => {{
        let patience = status::patience($request.metadata());
        let message = $request.into_inner();
        $self.call($name, patience, $self.$work(message)).await
    }};
}

#[tonic::async_trait]
impl HsmAgent for Service {
    async fn get_info(&self, request: Request<GetInfoRequest>) -> Result<Response<GetInfoResponse>, Status> {
        call!(self, request, "GetInfo", info)
    }

    async fn read_secret(
        &self,
        request: Request<ReadSecretRequest>,
    ) -> Result<Response<ReadSecretResponse>, Status> {
        call!(self, request, "ReadSecret", read)
    }

    async fn write_secret(
        &self,
        request: Request<WriteSecretRequest>,
    ) -> Result<Response<WriteSecretResponse>, Status> {
        call!(self, request, "WriteSecret", write)
    }

    async fn read_metadata(
        &self,
        request: Request<ReadMetadataRequest>,
    ) -> Result<Response<ReadMetadataResponse>, Status> {
        call!(self, request, "ReadMetadata", metadata)
    }

    async fn delete_secret(
        &self,
        request: Request<DeleteSecretRequest>,
    ) -> Result<Response<DeleteSecretResponse>, Status> {
        call!(self, request, "DeleteSecret", delete)
    }

    async fn list_secrets(
        &self,
        request: Request<ListSecretsRequest>,
    ) -> Result<Response<ListSecretsResponse>, Status> {
        call!(self, request, "ListSecrets", list)
    }

    async fn get_checksum(
        &self,
        request: Request<GetChecksumRequest>,
    ) -> Result<Response<GetChecksumResponse>, Status> {
        call!(self, request, "GetChecksum", checksum)
    }

    async fn is_connected(
        &self,
        request: Request<IsConnectedRequest>,
    ) -> Result<Response<IsConnectedResponse>, Status> {
        call!(self, request, "IsConnected", connected)
    }

    async fn health(&self, request: Request<HealthRequest>) -> Result<Response<HealthResponse>, Status> {
        call!(self, request, "Health", condition)
    }

    async fn change_pin(
        &self,
        request: Request<ChangePinRequest>,
    ) -> Result<Response<ChangePinResponse>, Status> {
        call!(self, request, "ChangePIN", change_pin_of_token)
    }

    async fn purge_secret(
        &self,
        request: Request<PurgeSecretRequest>,
    ) -> Result<Response<PurgeSecretResponse>, Status> {
        call!(self, request, "PurgeSecret", purge)
    }
}
