//! What kubelet asks a plugin.

use std::pin::Pin;

use futures::Stream;
use futures::stream::unfold;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use trustplane_api::deviceplugin::device_plugin_server::DevicePlugin;
use trustplane_api::deviceplugin::{
    AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, DevicePluginOptions, Empty,
    ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse,
};

use super::Offer;
use super::offer::{Refusal, allocated};
use crate::metrics::Counts;

/// Answers kubelet for one resource.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub(super) dev: String,
    pub(super) offers: watch::Receiver<Vec<Offer>>,
    pub(super) counts: Counts,
    pub(super) stop: CancellationToken,
}

/// What kubelet need not ask: any device of a resource is as good as any other.
pub(super) fn options() -> DevicePluginOptions {
    DevicePluginOptions {
        pre_start_required: false,
        get_preferred_allocation_available: false,
    }
}

fn listed(offers: &[Offer]) -> ListAndWatchResponse {
    ListAndWatchResponse {
        devices: offers.iter().map(Offer::listed).collect(),
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown(_) => Self::not_found(refusal.to_string()),
            Refusal::Unhealthy(_) => Self::failed_precondition(refusal.to_string()),
        }
    }
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(options()))
    }

    /// The list at once, and again with each change, until we end.
    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let mut offers = self.offers.clone();
        offers.mark_changed();
        let lists = unfold((offers, self.stop.clone()), |(mut offers, stop)| async move {
            tokio::select! {
                () = stop.cancelled() => return None,
                changed = offers.changed() => changed.ok()?,
            }
            let list = listed(&offers.borrow_and_update());
            Some((Ok(list), (offers, stop)))
        });
        Ok(Response::new(Box::pin(lists)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let containers = request
            .into_inner()
            .container_requests
            .into_iter()
            .map(|container| {
                let size = usize::try_from(container.allocation_size).unwrap_or_default();
                let mut ids = container.must_include_device_i_ds;
                let free = container.available_device_i_ds;
                let more: Vec<_> = free.into_iter().filter(|id| !ids.contains(id)).collect();
                ids.extend(more);
                ids.truncate(size);
                ContainerPreferredAllocationResponse { device_i_ds: ids }
            });
        Ok(Response::new(PreferredAllocationResponse {
            container_responses: containers.collect(),
        }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let offers = self.offers.borrow().clone();
        let requests = request.into_inner().container_requests;
        let responses: Result<Vec<_>, Refusal> = requests
            .iter()
            .map(|container| allocated(&offers, &container.devices_ids, &self.dev))
            .collect();
        self.counts
            .allocation(if responses.is_ok() { "given" } else { "refused" });
        if let Err(refusal) = &responses {
            tracing::warn!(%refusal, "an allocation was refused");
        }
        Ok(Response::new(AllocateResponse {
            container_responses: responses?,
        }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse::default()))
    }
}
