//! The service over real mutual TLS.

mod codes;
mod counting;
mod leaks;
mod methods;
mod mutual;
mod original;
mod passes;
mod probes;
mod rotation;
mod weaknesses;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;
use trustplane_api::hsm::v1::hsm_agent_client::HsmAgentClient;
use trustplane_api::hsm::v1::{MANAGER, ReadSecretRequest, SecretData, WriteSecretRequest, agent_name};
use trustplane_hsm_agent::catalogue::{Catalogue, Passes, Renewal};
use trustplane_hsm_agent::meters::Meters;
use trustplane_hsm_agent::server::{Certificates, Port, serve_local};
use trustplane_hsm_agent::service::Service;
use trustplane_hsm_agent::{Host, Settings};
use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::object::NewObject;
use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::{Attempt, Module, Pin, Selector, Token};
use trustplane_process::ca::{Authority, Leaf, LeafRequest, Policy};
use trustplane_process::metrics::Metrics;
use trustplane_process::tls::{Material, ReloadingClientConfig, TlsFiles};

use crate::stage::{LABEL, OBJECT, PIN, SOFTHSM, Stage, open};

/// The service as a client sees it.
pub type Client = HsmAgentClient<Channel>;

/// How often certificates are looked at here.
const POLL: Duration = Duration::from_millis(10);

/// Passes that do not happen by themselves.
pub const NO_PASSES: Passes = Passes {
    every: Duration::from_secs(3600),
    renewal: Renewal::Never,
    exclusive: false,
};

/// An agent that serves.
pub struct Agent {
    pub stage: Stage,
    pub ca: Authority,
    pub host: Arc<Host>,
    pub catalogue: Arc<Catalogue>,
    pub meters: Meters,
    pub metrics: Metrics,
    pub address: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A new authority.
pub fn authority() -> Authority {
    Authority::create("test", Policy::default(), Timestamp::now()).unwrap()
}

/// A leaf for this name.
pub fn leaf(ca: &Authority, name: &str) -> Leaf {
    let request = LeafRequest {
        name: name.to_owned(),
        dns: vec![name.to_owned()],
        ..LeafRequest::default()
    };
    ca.issue(&request, Timestamp::now()).unwrap()
}

/// The name in the agent's certificate.
pub fn name() -> String {
    agent_name("hsm-agent-stick", "vault")
}

impl Agent {
    /// The agent of a new token.
    pub async fn start() -> Self {
        Self::with(|_| {}, NO_PASSES).await
    }

    /// The same, with other settings and passes.
    pub async fn with(change: impl FnOnce(&mut Settings), passes: Passes) -> Self {
        let stage = Stage::new();
        let mut settings = stage.settings();
        change(&mut settings);
        let host = Arc::new(open(settings).await);
        let ca = authority();
        let (catalogue, metrics) = (Arc::new(Catalogue::new(passes)), Metrics::new());
        let meters = Meters::new(&metrics);
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (tcp.local_addr().unwrap(), CancellationToken::new());
        let agent = Self {
            stage,
            ca,
            host,
            catalogue,
            meters,
            metrics,
            address,
            stop,
        };
        agent.show(&leaf(&agent.ca, &name()));
        agent.trust(&[&agent.ca]);
        let certificates = Certificates {
            files: TlsFiles::in_directory(&agent.folder()),
            poll: POLL,
        };
        let port = Port::open(tcp, certificates).await.unwrap();
        let service = Service::new(agent.host.clone(), agent.catalogue.clone(), agent.meters.clone());
        let (service, runtime) = (Arc::new(service), agent.stage.runtime());
        tokio::spawn(serve_local(
            service.clone(),
            agent.host.health(),
            runtime,
            agent.stop.clone(),
        ));
        tokio::spawn(port.serve(service, agent.stop.clone()));
        let run = agent
            .catalogue
            .clone()
            .run(agent.host.clone(), agent.stop.clone());
        tokio::spawn(run);
        agent
    }

    fn folder(&self) -> PathBuf {
        let folder = self.stage.folder().join("tls");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Gives the agent another certificate. Between the two files they do not match, which it has to bear.
    pub fn show(&self, leaf: &Leaf) {
        put(&self.folder().join("tls.crt"), leaf.certificate_pem().as_bytes());
        put(&self.folder().join("tls.key"), leaf.key_pem().expose());
    }

    /// Has the agent trust these.
    pub fn trust(&self, authorities: &[&Authority]) {
        let bundle: String = authorities.iter().map(|ca| ca.bundle_pem()).collect();
        put(&self.folder().join("ca.crt"), bundle.as_bytes());
    }

    /// What a manager shows and trusts.
    pub fn material(&self) -> Material {
        Material {
            identity: Some(leaf(&self.ca, MANAGER).certified_key().unwrap()),
            trust: self.ca.roots().unwrap(),
        }
    }

    /// The manager.
    pub fn client(&self) -> Client {
        let config = ReloadingClientConfig::new(self.material(), &["h2"])
            .unwrap()
            .current();
        client(self.address, config)
    }

    /// The labels on the token, as another process sees them.
    pub fn labels(&self) -> Vec<String> {
        let output = self
            .stage
            .command("labels")
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix(LABEL_LINE));
        lines.map(str::to_owned).collect()
    }

    /// Writes an object as another tool does, from another process.
    pub fn stranger(&self, label: &str, value: &str) {
        let mut command = self.stage.command("stranger");
        let status = command.env(OBJECT, format!("{label}={value}")).status().unwrap();
        assert!(status.success(), "{status}");
    }
}

fn put(file: &Path, content: &[u8]) {
    let beside = file.with_extension("new");
    fs::write(&beside, content).unwrap();
    fs::rename(beside, file).unwrap();
}

/// A client with this configuration. It connects at its first call.
pub fn client(address: SocketAddr, config: Arc<ClientConfig>) -> Client {
    HsmAgentClient::new(channel(address, config)).max_encoding_message_size(usize::MAX)
}

/// A connection with this configuration, made at the first call.
pub fn channel(address: SocketAddr, config: Arc<ClientConfig>) -> Channel {
    let connect = service_fn(move |_| {
        let connector = TlsConnector::from(config.clone());
        async move {
            let tcp = TcpStream::connect(address).await?;
            let name = ServerName::try_from(name()).unwrap();
            let stream = connector.connect(name, tcp).await?;
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    let endpoint = Endpoint::from_static("http://agent").connect_timeout(Duration::from_secs(10));
    endpoint.connect_with_connector_lazy(connect)
}

/// A write of one key.
pub fn write(path: &str, key: &str, value: &[u8]) -> WriteSecretRequest {
    WriteSecretRequest {
        path: path.to_owned(),
        secret_data: Some(SecretData {
            data: [(key.to_owned(), value.to_vec())].into(),
        }),
        ..WriteSecretRequest::default()
    }
}

/// A read.
pub fn read(path: &str) -> ReadSecretRequest {
    ReadSecretRequest {
        path: path.to_owned(),
        ..ReadSecretRequest::default()
    }
}

/// What begins a line with a label.
const LABEL_LINE: &str = "label: ";

/// What the process of another tool does that looks at all objects.
pub fn tell_labels() {
    let module = Module::load(Path::new(SOFTHSM)).unwrap();
    let mut out = std::io::stdout().lock();
    for object in logged_in(&module).objects().unwrap().found {
        writeln!(out, "\n{LABEL_LINE}{}", object.label).unwrap();
    }
}

fn logged_in(module: &Module) -> Token<'_> {
    let inventory = module.inventory().unwrap();
    let token = inventory.choose(&Selector::label(LABEL).unwrap()).unwrap();
    let token = module.open(token).unwrap();
    token.log_in(&Pin::new(PIN), Attempt::Automatic).unwrap();
    token
}

/// What the process of another tool does.
pub fn strange(object: &str) {
    let (label, value) = object.split_once('=').unwrap();
    let module = Module::load(Path::new(SOFTHSM)).unwrap();
    logged_in(&module)
        .create(&NewObject {
            label: Label::new(label),
            value: Value::new(value),
        })
        .unwrap();
}
