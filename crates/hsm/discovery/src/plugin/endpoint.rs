//! The socket of one resource: who serves it, and that kubelet knows of it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::stream::unfold;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Server};
use trustplane_api::deviceplugin::device_plugin_server::DevicePluginServer;
use trustplane_api::deviceplugin::registration_client::RegistrationClient;
use trustplane_api::deviceplugin::{KUBELET_SOCKET, RegisterRequest, VERSION};
use trustplane_hsm_core::resource::socket_name;
use trustplane_process::backoff::Backoff;

use super::claim::{Claim, Identity};
use super::service::{Service, options};
use super::wake::Woken;
use super::{Offer, Plugin, state_dir};
use crate::metrics::Counts;

/// How long kubelet may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long running calls may take to end.
const DRAIN: Duration = Duration::from_secs(2);

/// Why a resource is not offered.
#[derive(Debug, thiserror::Error)]
enum EndpointError {
    #[error("lock {}: {source}", .path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("listen at {}: {source}", .path.display())]
    Listen { path: PathBuf, source: io::Error },
    #[error("register with kubelet: {0}")]
    Register(String),
    #[error("serve: {0}")]
    Serve(String),
}

/// Offers one resource.
#[derive(Debug)]
pub(super) struct Endpoint {
    resource: String,
    dir: PathBuf,
    dev: String,
    state: PathBuf,
    check: Duration,
    backoff: Backoff,
    counts: Counts,
    offers: watch::Receiver<Vec<Offer>>,
    woken: watch::Receiver<Woken>,
}

/// What kubelet was told, by which socket of its own it was reached.
type Registered = (Identity, u64);

impl Endpoint {
    pub(super) fn new(
        plugin: &Plugin,
        resource: &str,
        offers: watch::Receiver<Vec<Offer>>,
        woken: watch::Receiver<Woken>,
    ) -> Self {
        Self {
            resource: resource.to_owned(),
            dir: plugin.dir.clone(),
            dev: plugin.dev.clone(),
            state: state_dir(&plugin.dir),
            check: plugin.check,
            backoff: plugin.backoff,
            counts: plugin.counts.clone(),
            offers,
            woken,
        }
    }

    /// Offers the resource until it is told to stop, whenever no other process does.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut failures = 0;
        while !stop.is_cancelled() {
            let wait = match self.offer(&stop).await {
                Ok(()) => {
                    failures = 0;
                    self.check
                }
                Err(error) => {
                    tracing::warn!(%error, resource = self.resource, "a resource is not offered");
                    failures += 1;
                    self.backoff.jittered(failures)
                }
            };
            self.pause(wait, &stop).await;
        }
    }

    /// Offers the resource for as long as all is well; at once done if another process does it.
    async fn offer(&mut self, stop: &CancellationToken) -> Result<(), EndpointError> {
        let Some(claim) = self.claim()? else {
            return Ok(());
        };
        let ended = loop {
            match self.serve(&claim, stop).await {
                Ok(true) => {}
                ended => break ended,
            }
        };
        // A node would keep one for each token that it has ever seen. Whoever waits for the lock finds that its file is gone, and
        // makes a new one.
        claim.remove();
        ended.map(|_| ())
    }

    fn claim(&self) -> Result<Option<Claim>, EndpointError> {
        let path = self
            .state
            .join(format!("{}.lock", self.resource.replace('/', "_")));
        let made = std::fs::create_dir_all(&self.state);
        let taken = made.and_then(|()| Claim::take(&path));
        taken.map_err(|source| EndpointError::Lock { path, source })
    }

    /// Serves a socket until it is no longer the one that kubelet would find. Answers whether to make a new one.
    async fn serve(&mut self, claim: &Claim, stop: &CancellationToken) -> Result<bool, EndpointError> {
        let path = self.dir.join(socket_name(&self.resource));
        let listen = |source| EndpointError::Listen {
            path: path.clone(),
            source,
        };
        // We have the lock: whatever is there is left over.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(listen)?;
        let own = Identity::of(&path);
        let serving = CancellationToken::new();
        let mut server = JoinSet::new();
        server.spawn(answer(listener, self.service(&serving), serving.clone()));
        tracing::info!(resource = self.resource, "offered");
        let mut registered: Option<Registered> = None;
        let mut failures = 0;
        let ended = loop {
            if stop.is_cancelled() || !claim.holds() {
                break Ok(false);
            }
            if own.is_none() || Identity::of(&path) != own {
                break Ok(true);
            }
            let wait = self.keep_registered(&mut registered, &mut failures).await;
            tokio::select! {
                () = self.pause(wait, stop) => {}
                ended = server.join_next() => break Err(EndpointError::Serve(why(ended))),
            }
        };
        serving.cancel();
        let _ = timeout(DRAIN, server.join_next()).await;
        if own.is_some() && Identity::of(&path) == own {
            let _ = std::fs::remove_file(&path);
        }
        ended
    }

    fn service(&self, stop: &CancellationToken) -> Service {
        Service {
            dev: self.dev.clone(),
            offers: self.offers.clone(),
            counts: self.counts.clone(),
            stop: stop.clone(),
        }
    }

    /// Tells kubelet of us, unless this kubelet knows. Answers when to look again.
    async fn keep_registered(&mut self, registered: &mut Option<Registered>, failures: &mut u32) -> Duration {
        let kubelet = self.dir.join(KUBELET_SOCKET);
        let made = self.woken.borrow_and_update().kubelet;
        let Some(now) = Identity::of(&kubelet).map(|identity| (identity, made)) else {
            // It will make its socket when it starts.
            *registered = None;
            return self.check;
        };
        if *registered == Some(now) {
            return self.check;
        }
        match register(&kubelet, &self.resource).await {
            Ok(()) => {
                self.counts.registration("done");
                tracing::info!(resource = self.resource, "registered with kubelet");
                (*registered, *failures) = (Some(now), 0);
                self.check
            }
            Err(error) => {
                self.counts.registration("failed");
                tracing::warn!(%error, resource = self.resource, failures, "kubelet does not know of a resource");
                *failures += 1;
                self.backoff.jittered(*failures)
            }
        }
    }

    /// Waits, but not when something happens in kubelet's directory.
    async fn pause(&mut self, wait: Duration, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            Ok(()) = self.woken.changed() => {}
        }
    }
}

fn why(ended: Option<Result<Result<(), tonic::transport::Error>, tokio::task::JoinError>>) -> String {
    match ended {
        Some(Ok(Err(error))) => error.to_string(),
        Some(Err(error)) => error.to_string(),
        Some(Ok(Ok(()))) | None => "it ended without being asked to".to_owned(),
    }
}

async fn answer(
    listener: UnixListener,
    service: Service,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let streams = unfold(listener, |listener| async move {
        let stream = listener.accept().await.map(|(stream, _)| stream);
        Some((stream, listener))
    });
    Server::builder()
        .add_service(DevicePluginServer::new(service))
        .serve_with_incoming_shutdown(streams, stop.cancelled_owned())
        .await
}

/// Tells kubelet where we are. It calls us before it answers.
async fn register(kubelet: &Path, resource: &str) -> Result<(), EndpointError> {
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: socket_name(resource),
        resource_name: resource.to_owned(),
        options: Some(options()),
    };
    let told = async {
        let mut client = RegistrationClient::new(connect(kubelet).await?);
        client
            .register(request)
            .await
            .map_err(|status| status.to_string())
    };
    let told = timeout(ANSWER, told).await;
    let told = told.unwrap_or_else(|_| Err("no answer".to_owned()));
    told.map(|_| ()).map_err(EndpointError::Register)
}

async fn connect(socket: &Path) -> Result<Channel, String> {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_: tonic::transport::Uri| {
        let socket = socket.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    });
    // The name is for the request's head only: the connector knows where to go.
    let endpoint = Channel::from_static("http://kubelet.local");
    let connected = endpoint.connect_with_connector(connector).await;
    connected.map_err(|error| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}
