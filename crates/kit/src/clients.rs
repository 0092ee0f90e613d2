//! The clients of a process: how it reaches the API server, as whom, and what holds its writes back.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::ServiceBuilder;

use crate::lease::{Fence, FenceLayer, FencedBody, Identity};

const CONNECT: Duration = Duration::from_secs(10);

/// How long the API server may keep us waiting for an answer to a plain call.
pub const CALL: Duration = Duration::from_secs(30);

/// The arguments by which every process of ours finds its cluster.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Kubernetes")]
pub struct KubeArgs {
    /// Kubeconfig file; without it a pod uses its service account, and a person ~/.kube/config
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be used.
    #[error("failed to read the kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// The service account of the pod cannot be used.
    #[error("failed to use the service account of this pod: {0}")]
    InCluster(#[from] kube::config::InClusterError),
    /// A proxy stands between us and the API server.
    #[error(
        "failed to reach the API server: the kubeconfig or HTTPS_PROXY names a proxy, which is not supported"
    )]
    Proxy,
    /// The configuration does not make a client.
    #[error("failed to make a client from the cluster configuration: {0}")]
    Build(#[from] kube::Error),
    /// The identity does not fit into a header.
    #[error("failed to make a user agent: {0}")]
    UserAgent(#[from] http::header::InvalidHeaderValue),
}

impl KubeArgs {
    /// The configuration that the arguments name.
    pub async fn config(&self) -> Result<Config, ClientError> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        match &self.kubeconfig {
            None if in_pod && self.context.is_none() => Ok(Config::incluster()?),
            None => Ok(Config::from_kubeconfig(&options).await?),
            Some(paths) => {
                // As everywhere, KUBECONFIG may be a list of files.
                let mut merged = Kubeconfig::default();
                for path in std::env::split_paths(paths) {
                    merged = merged.merge(Kubeconfig::read_from(path)?)?;
                }
                Ok(Config::from_custom_kubeconfig(merged, &options).await?)
            }
        }
    }
}

/// The clients of a process, all with the same identity. Cheap clones.
///
/// No client tries a call again by itself: the one retry layer is the controller's, which knows what is worth it.
#[derive(Clone)]
pub struct Clients {
    /// For watches: it waits for as long as the stream is silent. Writes pass the fence.
    pub watch: Client,
    /// For everything else: an answer comes within [`CALL`]. Writes pass the fence.
    pub call: Client,
    /// As `call`, but not held back by the fence: for the Lease, and for writes that any replica may do at any time
    /// because they create or fail.
    pub unfenced: Client,
    /// What holds the writes of `watch` and `call` back.
    pub fence: Fence,
    /// Who we are.
    pub identity: Identity,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("identity", &self.identity)
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

impl Clients {
    /// Makes the clients. It must be called within the runtime that will use them.
    pub fn new(config: Config, identity: Identity, fence: Fence) -> Result<Self, ClientError> {
        if config.proxy_url.is_some() {
            return Err(ClientError::Proxy);
        }
        trustplane_process::crypto::install();
        let mut watch = config;
        if !watch.headers.iter().any(|(name, _)| *name == USER_AGENT) {
            let agent = HeaderValue::from_str(&identity.user_agent())?;
            watch.headers.push((USER_AGENT, agent));
        }
        watch.connect_timeout = Some(CONNECT);
        watch.read_timeout = None;
        let mut call = watch.clone();
        call.read_timeout = Some(CALL);
        // Or the time that a connection lay idle in the pool would count.
        call.reset_reader_on_write = true;
        Ok(Self {
            watch: client(&watch, &fence)?,
            call: client(&call, &fence)?,
            unfenced: client(&call, &Fence::always())?,
            fence,
            identity,
        })
    }
}

/// kube's own stack, without its retry layer and with the fence next to the connection.
fn client(config: &Config, fence: &Fence) -> Result<Client, kube::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: legacy::Client<_, FencedBody> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(FenceLayer::new(fence.clone()))
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}
