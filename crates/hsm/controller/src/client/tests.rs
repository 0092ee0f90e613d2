use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::{Request, Response, Status, async_trait};
use trustplane_api::hsm::v1::hsm_agent_server::{HsmAgent, HsmAgentServer};
use trustplane_api::hsm::v1::{self, MANAGER};
use trustplane_process::ca::{Authority, LeafRequest, Policy, Usage};
use trustplane_process::clock::SystemClock;
use trustplane_process::tls::{CertifiedKeys, ClientTrust, Material, Reload, ServerTls};

use super::*;

/// An agent that knows nothing but its name.
struct Named(&'static str);

macro_rules! unimplemented_calls {
    ($($call:ident: $request:ident -> $response:ident),* $(,)?) => {
        #[async_trait]
        impl HsmAgent for Named {
            async fn health(&self, _: Request<v1::HealthRequest>) -> Result<Response<v1::HealthResponse>, Status> {
                let message = self.0.to_owned();
                Ok(Response::new(v1::HealthResponse { message, ..Default::default() }))
            }
            $(async fn $call(&self, _: Request<v1::$request>) -> Result<Response<v1::$response>, Status> {
                Err(Status::unimplemented("not here"))
            })*
        }
    };
}

unimplemented_calls! {
    get_info: GetInfoRequest -> GetInfoResponse,
    read_secret: ReadSecretRequest -> ReadSecretResponse,
    write_secret: WriteSecretRequest -> WriteSecretResponse,
    read_metadata: ReadMetadataRequest -> ReadMetadataResponse,
    delete_secret: DeleteSecretRequest -> DeleteSecretResponse,
    list_secrets: ListSecretsRequest -> ListSecretsResponse,
    get_checksum: GetChecksumRequest -> GetChecksumResponse,
    is_connected: IsConnectedRequest -> IsConnectedResponse,
    change_pin: ChangePinRequest -> ChangePinResponse,
    purge_secret: PurgeSecretRequest -> PurgeSecretResponse,
}

fn authority() -> Authority {
    Authority::create("test", Policy::default(), Timestamp::now()).unwrap()
}

fn shown(authority: &Authority, name: &str, usage: Usage) -> Material {
    let request = LeafRequest {
        dns: vec![name.to_owned()],
        usage,
        ..LeafRequest::default()
    };
    let leaf = authority.issue(&request, Timestamp::now()).unwrap();
    Material {
        identity: Some(leaf.certified_key().unwrap()),
        trust: authority.roots().unwrap(),
    }
}

async fn listen() -> TcpListener {
    TcpListener::bind((ONE, 0)).await.unwrap()
}

/// Two agents with one port, as all agents have: a port that somebody else has at the other address is not taken.
async fn listen_twice() -> [TcpListener; 2] {
    loop {
        let one = listen().await;
        let port = one.local_addr().unwrap().port();
        if let Ok(other) = TcpListener::bind((OTHER, port)).await {
            return [one, other];
        }
    }
}

/// Serves as an agent: with which certificate, and under which name.
async fn serve(
    authority: &Authority,
    listener: TcpListener,
    dns: &str,
    name: &'static str,
) -> (u16, Arc<AtomicUsize>) {
    let keys = CertifiedKeys::new();
    keys.reload(&shown(authority, dns, Usage::Server)).unwrap();
    let config = ServerTls::new(keys)
        .require_clients(ClientTrust::named(authority.roots().unwrap(), MANAGER).unwrap())
        .only_tls13()
        .alpn(&["h2"])
        .build()
        .unwrap();
    let acceptor = TlsAcceptor::from(config);
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let incoming = stream::unfold((listener, acceptor), move |(listener, acceptor)| {
        let count = count.clone();
        async move {
            loop {
                let (stream, _) = listener.accept().await.ok()?;
                count.fetch_add(1, Ordering::SeqCst);
                if let Ok(stream) = acceptor.accept(stream).await {
                    return Some((Ok::<_, std::io::Error>(stream), (listener, acceptor)));
                }
            }
        }
    });
    let server = tonic::transport::Server::builder().add_service(HsmAgentServer::new(Named(name)));
    tokio::spawn(server.serve_with_incoming(incoming));
    (port, connections)
}

fn lines(material: Material, port: u16) -> Lines {
    let tls = ReloadingClientConfig::only_tls13(material, &["h2"], Arc::new(SystemClock)).unwrap();
    Lines::new(tls, port)
}

async fn who(channel: Channel) -> Result<String, Status> {
    let answer = HsmAgentClient::new(channel).health(v1::HealthRequest {}).await?;
    Ok(answer.into_inner().message)
}

fn agent(name: &str) -> ObjectRef {
    ObjectRef::new(Some("vault"), name)
}

const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

#[tokio::test]
async fn another_agent_at_the_address_is_not_taken_for_this_one() {
    let ca = authority();
    let (port, _) = serve(&ca, listen().await, "b.vault.hsm-agent", "b").await;
    let lines = lines(shown(&ca, MANAGER, Usage::Client), port);
    let refused = lines.connect(&agent("a"), &[ONE]).await.unwrap_err();
    assert!(matches!(refused, ClientError::Connect { .. }), "{refused}");
    // Nor one of the same name in another namespace.
    let elsewhere = ObjectRef::new(Some("other"), "b");
    lines.connect(&elsewhere, &[ONE]).await.unwrap_err();
    let channel = lines.connect(&agent("b"), &[ONE]).await.unwrap();
    assert_eq!(who(channel).await.unwrap(), "b");
}

#[tokio::test]
async fn whoever_copies_the_labels_of_an_agent_is_passed_over() {
    let ca = authority();
    let [one, other] = listen_twice().await;
    let (port, _) = serve(&authority(), one, "a.vault.hsm-agent", "impostor").await;
    serve(&ca, other, "a.vault.hsm-agent", "a").await;
    let lines = lines(shown(&ca, MANAGER, Usage::Client), port);
    let channel = lines.connect(&agent("a"), &[ONE, OTHER]).await.unwrap();
    assert_eq!(who(channel).await.unwrap(), "a");
}

#[tokio::test]
async fn an_agent_answers_nobody_but_the_manager() {
    let ca = authority();
    let (port, _) = serve(&ca, listen().await, "a.vault.hsm-agent", "a").await;
    let lines = lines(shown(&ca, "b.vault.hsm-agent", Usage::Both), port);
    // In TLS 1.3 a client hears of its refusal with the first answer.
    let answer = match lines.connect(&agent("a"), &[ONE]).await {
        Ok(channel) => who(channel).await.map_err(|_| ()),
        Err(_) => Err(()),
    };
    assert_eq!(answer, Err(()));
}

#[tokio::test]
async fn a_connection_is_kept_until_certificate_or_pod_change() {
    let ca = authority();
    let [one, other] = listen_twice().await;
    let (port, connections) = serve(&ca, one, "a.vault.hsm-agent", "a").await;
    serve(&ca, other, "a.vault.hsm-agent", "a, elsewhere").await;
    let lines = lines(shown(&ca, MANAGER, Usage::Client), port);
    for _ in 0..3 {
        let channel = lines.connect(&agent("a"), &[ONE]).await.unwrap();
        assert_eq!(who(channel).await.unwrap(), "a");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    lines.tls.reload(&shown(&ca, MANAGER, Usage::Client)).unwrap();
    let channel = lines.connect(&agent("a"), &[ONE]).await.unwrap();
    assert_eq!(who(channel).await.unwrap(), "a");
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    let channel = lines.connect(&agent("a"), &[OTHER]).await.unwrap();
    assert_eq!(who(channel).await.unwrap(), "a, elsewhere");
}

#[tokio::test]
async fn the_connection_to_an_agent_that_is_gone_is_closed() {
    let ca = authority();
    let (port, connections) = serve(&ca, listen().await, "a.vault.hsm-agent", "a").await;
    let lines = lines(shown(&ca, MANAGER, Usage::Client), port);
    lines.connect(&agent("a"), &[ONE]).await.unwrap();
    lines.forget(|gone| *gone == agent("b"));
    assert_eq!(lines.lock().len(), 1);
    lines.forget(|gone| *gone == agent("a"));
    assert!(lines.lock().is_empty());
    lines.connect(&agent("a"), &[ONE]).await.unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_agent_without_a_pod_is_told_as_such() {
    let ca = authority();
    let lines = lines(shown(&ca, MANAGER, Usage::Client), 1);
    let told = lines.connect(&agent("a"), &[]).await.unwrap_err().to_string();
    assert_eq!(told, "agent vault/a has no running pod");
}
