//! Calls to agents as the manager makes them: each side shows a certificate of the CA.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use trustplane_api::hsm::v1::hsm_agent_client::HsmAgentClient;
use trustplane_api::hsm::v1::{
    HealthRequest, MANAGER, ReadSecretRequest, SecretData, WriteSecretRequest, agent_name,
};
use trustplane_cluster::node::Cluster;
use trustplane_process::ca::{Authority, LeafRequest, Usage};
use trustplane_process::clock::SystemClock;
use trustplane_process::tls::{Material, ReloadingClientConfig, roots};

use crate::devices::TOKENS;

const PORT: u16 = 9090;
const PATH: &str = "demo/rotation";
const VALUE: &[u8] = b"steady";
/// Longer than a loaded machine needs.
const WITHIN: Duration = Duration::from_secs(20);

/// An agent, and where its pod is.
#[derive(Debug, Clone)]
pub struct Agent {
    pub name: String,
    pub address: IpAddr,
}

impl Agent {
    /// A connection for which `signer` vouches, and which takes no certificate but of `trust`.
    pub async fn connect(&self, signer: &Authority, trust: &str) -> Result<Line> {
        let request = LeafRequest {
            name: MANAGER.to_owned(),
            dns: vec![MANAGER.to_owned()],
            usage: Usage::Client,
            ..LeafRequest::default()
        };
        let material = Material {
            identity: Some(signer.issue(&request, Timestamp::now())?.certified_key()?),
            trust: roots(trust.as_bytes())?,
        };
        let tls = ReloadingClientConfig::only_tls13(material, &["h2"], Arc::new(SystemClock))?;
        let connector = TlsConnector::from(tls.current());
        let name = agent_name(&self.name, TOKENS);
        let server = ServerName::try_from(name.clone())?;
        let address = self.address;
        let connect = service_fn(move |_: Uri| {
            let (connector, server) = (connector.clone(), server.clone());
            async move {
                let stream = TcpStream::connect((address, PORT)).await?;
                let stream = connector.connect(server, stream).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        let endpoint = Endpoint::from_shared(format!("http://{name}"))?.timeout(WITHIN);
        let channel = endpoint.connect_with_connector(connect).await?;
        Ok(Line(HsmAgentClient::new(channel)))
    }
}

/// A connection to an agent.
#[derive(Debug, Clone)]
pub struct Line(HsmAgentClient<Channel>);

impl Line {
    /// Stores what [`Line::read`] reads.
    pub async fn write(&mut self) -> Result<()> {
        let request = WriteSecretRequest {
            path: PATH.to_owned(),
            secret_data: Some(SecretData {
                data: [("state".to_owned(), VALUE.to_vec())].into(),
            }),
            ..WriteSecretRequest::default()
        };
        self.0.write_secret(request).await?;
        Ok(())
    }

    pub async fn read(&mut self) -> Result<()> {
        let request = ReadSecretRequest {
            path: PATH.to_owned(),
            ..ReadSecretRequest::default()
        };
        let read = self.0.read_secret(request).await?.into_inner();
        let data = read.secret_data.context("no data")?.data;
        ensure!(
            data.get("state").is_some_and(|value| value == VALUE),
            "another value"
        );
        Ok(())
    }

    /// Any answer will do: then both sides have taken each other's certificate.
    pub async fn ask(&mut self) -> Result<()> {
        self.0.health(HealthRequest {}).await?;
        Ok(())
    }
}

/// Does something in the network of a cluster, which has the addresses of pods.
pub fn inside<T: Send + 'static>(
    cluster: &Cluster,
    work: impl Future<Output = T> + Send + 'static,
) -> thread::JoinHandle<T> {
    let cluster = cluster.clone();
    thread::spawn(move || {
        cluster.enter_network().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(work)
    })
}
