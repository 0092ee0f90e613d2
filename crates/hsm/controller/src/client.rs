//! Calls to agents: each is found by its pod and known by its certificate.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use trustplane_api::hsm::v1::agent_name;
use trustplane_api::hsm::v1::hsm_agent_client::HsmAgentClient;
use trustplane_kit::watch::Store;
use trustplane_plan::ObjectRef;
use trustplane_process::tls::ReloadingClientConfig;

use crate::seen::SeenPod;

/// Where agents listen.
const PORT: u16 = 9090;
/// How long it may take to connect, handshake included.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a call may take, as in the original.
const CALL: Duration = Duration::from_secs(30);
/// How often an idle connection is tried.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A list of many thousand secrets, or a secret as large as a Secret can be, fits.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// An agent that cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It has no pod that runs.
    #[error("agent {0} has no running pod")]
    NoPod(ObjectRef),
    /// Its name is none for a certificate.
    #[error("agent {0} has a name that no certificate can have")]
    Name(ObjectRef),
    /// Nobody answers there, or somebody else.
    #[error("failed to reach agent {agent} at {address}: {source}")]
    Connect {
        /// The agent.
        agent: ObjectRef,
        /// The address of the pod.
        address: IpAddr,
        /// Why.
        source: tonic::transport::Error,
    },
}

/// The agents that can be called, by the names of their Deployments.
pub struct Agents {
    pods: Store<SeenPod>,
    lines: Lines,
}

impl Agents {
    pub(crate) fn new(pods: Store<SeenPod>, tls: Arc<ReloadingClientConfig>) -> Self {
        Self {
            pods,
            lines: Lines::new(tls, PORT),
        }
    }

    /// A client of one agent. Whoever answers has shown the certificate of that agent.
    pub async fn connect(&self, agent: &ObjectRef) -> Result<HsmAgentClient<Channel>, ClientError> {
        // An agent that has gone for good is never asked for again.
        self.lines.forget(|agent| self.pods.under(agent).is_empty());
        let addresses = self.addresses(agent);
        self.lines
            .connect(agent, &addresses)
            .await
            .map(|channel| HsmAgentClient::new(channel).max_decoding_message_size(LARGEST_ANSWER))
    }

    /// Where the pods of an agent are, the youngest first. Only those of its own namespace have its name.
    fn addresses(&self, agent: &ObjectRef) -> Vec<IpAddr> {
        let mut pods = self.pods.under(agent);
        pods.sort_by_key(|pod| Reverse(pod.meta.created));
        let running = pods.iter().filter(|pod| !pod.meta.is_terminating());
        running.filter_map(|pod| pod.value.address()).collect()
    }
}

/// Connections, one for each agent, made anew when the CA, our certificate or the pod has changed.
struct Lines {
    tls: Arc<ReloadingClientConfig>,
    port: u16,
    held: Mutex<HashMap<ObjectRef, Held>>,
}

struct Held {
    generation: u64,
    address: IpAddr,
    channel: Channel,
}

impl Lines {
    fn new(tls: Arc<ReloadingClientConfig>, port: u16) -> Self {
        Self {
            tls,
            port,
            held: Mutex::default(),
        }
    }

    async fn connect(&self, agent: &ObjectRef, addresses: &[IpAddr]) -> Result<Channel, ClientError> {
        let generation = self.tls.generation();
        if let Some(channel) = self.held(agent, generation, addresses) {
            return Ok(channel);
        }
        let mut failed = ClientError::NoPod(agent.clone());
        // While a pod is replaced there are two for a moment; and labels can be copied, certificates cannot.
        for address in addresses.iter().copied() {
            match self.open(agent, address).await {
                Ok(channel) => {
                    let held = Held {
                        generation,
                        address,
                        channel: channel.clone(),
                    };
                    self.lock().insert(agent.clone(), held);
                    return Ok(channel);
                }
                Err(error) => failed = error,
            }
        }
        self.lock().remove(agent);
        Err(failed)
    }

    /// Closes the connections to some agents.
    fn forget(&self, is_gone: impl Fn(&ObjectRef) -> bool) {
        self.lock().retain(|agent, _| !is_gone(agent));
    }

    fn held(&self, agent: &ObjectRef, generation: u64, addresses: &[IpAddr]) -> Option<Channel> {
        let held = self.lock();
        let held = held.get(agent)?;
        let current = held.generation == generation && addresses.contains(&held.address);
        current.then(|| held.channel.clone())
    }

    async fn open(&self, agent: &ObjectRef, address: IpAddr) -> Result<Channel, ClientError> {
        let no_name = || ClientError::Name(agent.clone());
        let name = agent_name(agent.name(), agent.namespace().unwrap_or_default());
        let server = ServerName::try_from(name.clone()).map_err(|_| no_name())?;
        let endpoint = Endpoint::from_shared(format!("http://{name}"))
            .map_err(|_| no_name())?
            .connect_timeout(CONNECT)
            .timeout(CALL)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_while_idle(true);
        let (connector, port) = (TlsConnector::from(self.tls.current()), self.port);
        let connect = service_fn(move |_: Uri| {
            let (connector, server) = (connector.clone(), server.clone());
            async move {
                let stream = TcpStream::connect((address, port)).await?;
                stream.set_nodelay(true)?;
                let stream = connector.connect(server, stream).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        let connected = endpoint.connect_with_connector(connect).await;
        connected.map_err(|source| ClientError::Connect {
            agent: agent.clone(),
            address,
            source,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectRef, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
