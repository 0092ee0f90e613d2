//! The agent as it ships, and a client that speaks to it as the manager does: gRPC over mutual TLS, one call at a time.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use tower::service_fn;
use trustplane_api::hsm::v1::expectation::Found;
use trustplane_api::hsm::v1::hsm_agent_client::HsmAgentClient;
use trustplane_api::hsm::v1::{
    Expectation, GetInfoRequest, HealthRequest, ListSecretsRequest, ListSecretsResponse, MANAGER,
    ReadSecretRequest, ReadSecretResponse, SecretData, SecretMetadata, WriteSecretRequest, agent_name,
};
use trustplane_process::ca::{Authority, Leaf, LeafRequest, Policy};
use trustplane_process::tls::{Material, ReloadingClientConfig};

use crate::cluster;
use crate::secrets::{DESCRIPTION, pairs, path};
use crate::stage::{LABEL, PROGRAM, Stage, flag};

const PATIENCE: Duration = Duration::from_secs(30);

/// An agent that serves until this is dropped.
pub struct Agent {
    process: Child,
    /// One thread, as a loop of raw calls has one.
    runtime: Runtime,
    client: HsmAgentClient<Channel>,
}

impl Agent {
    /// Starts one on this module that looks so often at what others have written, and waits until it serves and has listed the
    /// token once.
    pub fn start(
        stage: &Stage,
        module: &Path,
        passes: Duration,
        environment: impl IntoIterator<Item = (&'static str, PathBuf)>,
    ) -> Self {
        let authority = Authority::create("bench", Policy::default(), Timestamp::now()).unwrap();
        let name = agent_name("hsm-agent-bench", "bench");
        let leaf = issue(&authority, &name);
        fs::write(stage.file("tls.crt"), leaf.certificate_pem()).unwrap();
        fs::write(stage.file("tls.key"), leaf.key_pem().expose()).unwrap();
        fs::write(stage.file("ca.crt"), authority.bundle_pem()).unwrap();
        let [port, health] = ports();
        let process = Command::new(PROGRAM)
            .args(["serve", "--device-name=bench", "--log=warn"])
            .arg(format!("--pass-interval={}s", passes.as_secs()))
            .arg(format!("--token-label={LABEL}"))
            .arg(flag("pkcs11-library", module))
            .args(cluster::arguments(stage))
            .arg(flag("tls-cert-file", &stage.file("tls.crt")))
            .arg(flag("tls-key-file", &stage.file("tls.key")))
            .arg(flag("tls-client-ca-file", &stage.file("ca.crt")))
            .args([format!("--port={port}"), format!("--health-port={health}")])
            .envs(environment)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let material = Material {
            identity: Some(issue(&authority, MANAGER).certified_key().unwrap()),
            trust: authority.roots().unwrap(),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let client = runtime.block_on(async { HsmAgentClient::new(channel(address, name, material)) });
        let agent = Self {
            process,
            runtime,
            client,
        };
        agent.wait_until_it_serves();
        agent.list("");
        agent
    }

    fn wait_until_it_serves(&self) {
        wait("the agent does not serve", || {
            let answer = self
                .runtime
                .block_on(self.client.clone().health(HealthRequest {}));
            answer.is_ok_and(|answer| answer.into_inner().status == "healthy")
        });
    }

    /// Waits until a secret can be read, or cannot.
    pub fn wait_until_it_reads(&self, number: usize, reads: bool) {
        wait("the token is not what it is to be", || {
            self.try_read(number).is_ok() == reads
        });
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Reads a secret.
    pub fn read(&self, number: usize) -> ReadSecretResponse {
        self.try_read(number).unwrap()
    }

    fn try_read(&self, number: usize) -> Result<ReadSecretResponse, Status> {
        let request = ReadSecretRequest {
            path: path(number).as_str().to_owned(),
            ..ReadSecretRequest::default()
        };
        let answer = self.runtime.block_on(self.client.clone().read_secret(request));
        answer.map(Response::into_inner)
    }

    /// Replaces a secret. Without a condition it gets the next version, whatever there is.
    pub fn write(&self, number: usize, version: u64, conditional: bool) {
        let found = Some(Found::Version(version - 1));
        let request = WriteSecretRequest {
            version: conditional.then_some(version),
            expected: conditional.then_some(Expectation { found }),
            ..next_version(number, version)
        };
        let answer = self.runtime.block_on(self.client.clone().write_secret(request));
        assert_eq!(answer.unwrap().into_inner().version, version);
    }

    /// Lists all secrets, unless the list has this revision.
    pub fn list(&self, unless_revision: &str) -> ListSecretsResponse {
        let request = ListSecretsRequest {
            unless_revision: unless_revision.to_owned(),
            ..ListSecretsRequest::default()
        };
        let answer = self.runtime.block_on(self.client.clone().list_secrets(request));
        answer.unwrap().into_inner()
    }

    /// How often the token was changed, from what it says of itself.
    pub fn generation(&self) -> u64 {
        let answer = self
            .runtime
            .block_on(self.client.clone().get_info(GetInfoRequest {}));
        answer.unwrap().into_inner().generation.unwrap().counter
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // One that has ended already is what we want. The module's process ends with it.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Asks for a secret with the content of a version. It gets the next version, whatever there is.
pub fn next_version(number: usize, version: u64) -> WriteSecretRequest {
    let pairs = pairs(number, version).into_iter();
    WriteSecretRequest {
        path: path(number).as_str().to_owned(),
        secret_data: Some(SecretData {
            data: pairs
                .map(|(key, value)| (key.to_owned(), value.into_bytes()))
                .collect(),
        }),
        metadata: Some(SecretMetadata {
            description: DESCRIPTION.to_owned(),
            ..SecretMetadata::default()
        }),
        ..WriteSecretRequest::default()
    }
}

fn wait(in_vain: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{in_vain}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn issue(authority: &Authority, name: &str) -> Leaf {
    let request = LeafRequest {
        name: name.to_owned(),
        dns: vec![name.to_owned()],
        ..LeafRequest::default()
    };
    authority.issue(&request, Timestamp::now()).unwrap()
}

/// Two ports that nobody has now.
fn ports() -> [u16; 2] {
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    free.map(|listener| listener.local_addr().unwrap().port())
}

/// A connection that is made at the first call.
fn channel(address: SocketAddr, name: String, material: Material) -> Channel {
    let tls = ReloadingClientConfig::new(material, &["h2"]).unwrap().current();
    let connect = service_fn(move |_| {
        let (connector, name) = (TlsConnector::from(tls.clone()), name.clone());
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let stream = connector
                .connect(ServerName::try_from(name).unwrap(), stream)
                .await?;
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    Endpoint::from_static("http://agent").connect_with_connector_lazy(connect)
}
