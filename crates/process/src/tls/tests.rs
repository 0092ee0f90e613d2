use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ca::{Authority, Leaf, LeafRequest, Policy};
use crate::clock::SystemClock;
use crate::eventually::eventually;
use crate::serve::{Limits, serve};

fn authority() -> Authority {
    Authority::create("test", Policy::default(), Timestamp::now()).unwrap()
}

fn leaf(authority: &Authority) -> Leaf {
    let request = LeafRequest {
        name: "test".into(),
        dns: vec!["localhost".into()],
        ..LeafRequest::default()
    };
    authority.issue(&request, Timestamp::now()).unwrap()
}

fn material(shows: &Authority, trusts: &Authority) -> Material {
    Material {
        identity: Some(leaf(shows).certified_key().unwrap()),
        trust: trusts.roots().unwrap(),
    }
}

fn client(material: Material) -> Arc<ReloadingClientConfig> {
    ReloadingClientConfig::new(material, &["http/1.1"]).unwrap()
}

/// Serves `/` with the number of certificates that the client showed.
pub(crate) async fn start(
    config: Arc<ServerConfig>,
    handshakes: Handshakes,
) -> (SocketAddr, CancellationToken) {
    let count = |Extension(peer): Extension<TlsPeer>| async move { peer.certificates.len().to_string() };
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, stop) = (tcp.local_addr().unwrap(), CancellationToken::new());
    let listener = TlsListener::with_limits(tcp, config, handshakes);
    tokio::spawn(serve(
        listener,
        Router::new().route("/", get(count)),
        Limits::default(),
        stop.clone(),
    ));
    (at, stop)
}

/// One request on a connection of its own; one that hangs is an error.
pub(crate) async fn call(at: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<String> {
    tokio::time::timeout(Duration::from_secs(30), request(at, config)).await?
}

async fn request(at: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<String> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(config)
        .connect(name, TcpStream::connect(at).await?)
        .await?;
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn silent_clients_do_not_keep_others_out() {
    let ca = authority();
    let keys = CertifiedKeys::new();
    keys.reload(&material(&ca, &ca)).unwrap();
    let config = ServerTls::new(keys).build().unwrap();
    let client = client(Material {
        identity: None,
        trust: ca.roots().unwrap(),
    });

    let patient = Handshakes {
        deadline: Duration::from_secs(3600),
        at_once: 64,
    };
    let (at, _stop) = start(config.clone(), patient).await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(at).await.unwrap());
    }
    assert_eq!(call(at, client.current()).await.unwrap(), "0");

    // Even when they take every place, the oldest loses its own.
    let (at, _stop) = start(
        config.clone(),
        Handshakes {
            deadline: Duration::from_secs(3600),
            at_once: 2,
        },
    )
    .await;
    for _ in 0..100 {
        silent.push(TcpStream::connect(at).await.unwrap());
    }
    assert_eq!(call(at, client.current()).await.unwrap(), "0");

    // And each of them at the deadline.
    let (at, _stop) = start(
        config,
        Handshakes {
            deadline: Duration::from_millis(50),
            at_once: 2,
        },
    )
    .await;
    for _ in 0..4 {
        silent.push(TcpStream::connect(at).await.unwrap());
    }
    assert_eq!(call(at, client.current()).await.unwrap(), "0");
}

#[tokio::test]
async fn a_swapped_certificate_serves_the_next_connection() {
    let (old, new) = (authority(), authority());
    let keys = CertifiedKeys::new();
    let (at, _stop) = start(
        ServerTls::new(keys.clone()).build().unwrap(),
        Handshakes::default(),
    )
    .await;
    let trusting = |ca: &Authority| {
        client(Material {
            identity: None,
            trust: ca.roots().unwrap(),
        })
        .current()
    };
    assert!(call(at, trusting(&old)).await.is_err(), "no certificate yet");
    keys.reload(&material(&old, &old)).unwrap();
    call(at, trusting(&old)).await.unwrap();
    keys.reload(&material(&new, &new)).unwrap();
    call(at, trusting(&new)).await.unwrap();
    assert!(call(at, trusting(&old)).await.is_err());
}

#[tokio::test]
async fn clients_are_judged_by_the_newest_bundle() {
    let (ours, theirs) = (authority(), authority());
    let keys = CertifiedKeys::new();
    keys.reload(&material(&ours, &ours)).unwrap();
    let trust = ClientTrust::new(ours.roots().unwrap()).unwrap();
    let config = ServerTls::new(keys)
        .require_clients(trust.clone())
        .build()
        .unwrap();
    let (at, _stop) = start(config, Handshakes::default()).await;

    let (known, unknown) = (client(material(&ours, &ours)), client(material(&theirs, &ours)));
    let nobody = client(Material {
        identity: None,
        trust: ours.roots().unwrap(),
    });
    assert_eq!(
        call(at, known.current()).await.unwrap(),
        "1",
        "the handler sees the client's certificate"
    );
    assert!(call(at, unknown.current()).await.is_err());
    assert!(call(at, nobody.current()).await.is_err());

    trust.reload(&material(&theirs, &theirs)).unwrap();
    call(at, unknown.current()).await.unwrap();
    assert!(
        call(at, known.current()).await.is_err(),
        "nor by a session resumed from before"
    );
}

#[tokio::test]
async fn a_client_changes_its_generation_only_with_its_material() {
    let (one, other) = (authority(), authority());
    let first = material(&one, &one);
    let client = client(first.clone());
    let mut changes = client.subscribe();
    client.reload(&first).unwrap();
    assert_eq!(client.generation(), 1);
    assert!(!changes.has_changed().unwrap());
    client
        .reload(&Material {
            trust: other.roots().unwrap(),
            ..first
        })
        .unwrap();
    assert_eq!((client.generation(), changes.borrow_and_update().number), (2, 2));
    client.reload(&material(&one, &other)).unwrap();
    assert_eq!(client.generation(), 3);
}

/// As the kubelet does it: files are links through `..data`, which is swapped for a new directory.
fn project(volume: &Path, version: &str, leaf: &Leaf, key: &Leaf, bundle: &str) {
    let directory = volume.join(version);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("tls.crt"), leaf.certificate_pem()).unwrap();
    std::fs::write(directory.join("tls.key"), key.key_pem().expose()).unwrap();
    std::fs::write(directory.join("ca.crt"), bundle).unwrap();
    symlink(version, volume.join("..data_tmp")).unwrap();
    std::fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        if !volume.join(name).exists() {
            symlink(Path::new("..data").join(name), volume.join(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn files_are_reloaded_when_the_kubelet_swaps_them() {
    let volume = tempfile::tempdir().unwrap();
    let ca = authority();
    let (first, second) = (leaf(&ca), leaf(&ca));
    let shown = |keys: &CertifiedKeys| keys.current().unwrap().cert.clone();
    let expected = |leaf: &Leaf| leaf.certified_key().unwrap().cert.clone();

    project(volume.path(), "v1", &first, &first, &ca.bundle_pem());
    let keys = CertifiedKeys::new();
    let files = TlsFiles::in_directory(volume.path());
    let mut follower = FileFollower::start(files, vec![keys.clone()]).await.unwrap();
    assert_eq!(shown(&keys), expected(&first));
    assert!(!follower.look().await.unwrap());

    project(volume.path(), "v2", &second, &first, &ca.bundle_pem());
    assert!(matches!(follower.look().await, Err(TlsError::Mismatch)));
    assert_eq!(shown(&keys), expected(&first), "a torn pair is not taken");

    project(volume.path(), "v3", &second, &second, &ca.bundle_pem());
    assert!(follower.look().await.unwrap());
    assert_eq!(shown(&keys), expected(&second));

    std::fs::remove_file(volume.path().join("ca.crt")).unwrap();
    let error = follower.look().await.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read ") && error.ends_with("ca.crt"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_follower_polls_until_it_is_stopped() {
    let volume = tempfile::tempdir().unwrap();
    let ca = authority();
    let (first, second) = (leaf(&ca), leaf(&ca));
    project(volume.path(), "v1", &first, &first, &ca.bundle_pem());
    let client = client(material(&ca, &ca));
    let mut changes = client.subscribe();
    let follower = FileFollower::start(TlsFiles::in_directory(volume.path()), vec![client.clone()])
        .await
        .unwrap();
    changes.mark_unchanged();
    project(volume.path(), "v2", &second, &second, &ca.bundle_pem());
    let stop = CancellationToken::new();
    let task = tokio::spawn(follower.run(POLL, stop.clone()));
    changes.changed().await.unwrap();
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_running_request_is_finished_after_the_stop() {
    let ca = authority();
    let keys = CertifiedKeys::new();
    keys.reload(&material(&ca, &ca)).unwrap();
    let (entered, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (inside, wait) = (entered.clone(), release.clone());
    let handler = move || async move {
        inside.notify_one();
        wait.notified().await;
        "done"
    };
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, stop) = (tcp.local_addr().unwrap(), CancellationToken::new());
    let config = ServerTls::new(keys).build().unwrap();
    let router = Router::new().route("/", get(handler));
    let server = tokio::spawn(serve_tls(tcp, config, router, Limits::default(), stop.clone()));

    let client = client(Material {
        identity: None,
        trust: ca.roots().unwrap(),
    });
    let running = tokio::spawn(call(at, client.current()));
    entered.notified().await;
    stop.cancel();
    eventually(async || TcpStream::connect(at).await.is_err()).await;
    release.notify_one();
    assert_eq!(running.await.unwrap().unwrap(), "done");
    server.await.unwrap();
}

#[test]
fn what_is_not_pem_is_refused_without_saying_what_it_was() {
    let ca = authority();
    let pem = leaf(&ca);
    let garbage = Secret::new(b"hunter2".to_vec());
    let error = certified_key(pem.certificate_pem().as_bytes(), &garbage).unwrap_err();
    assert_eq!(error.to_string(), "no private key found in the PEM text");
    assert_eq!(
        roots(b"").unwrap_err().to_string(),
        "no certificate found in the PEM text"
    );
    let other = leaf(&ca);
    let mismatch = certified_key(pem.certificate_pem().as_bytes(), other.key_pem()).unwrap_err();
    assert!(matches!(mismatch, TlsError::Mismatch));
}

#[tokio::test]
async fn a_client_of_the_newest_version_does_not_speak_to_an_older_server() {
    let ca = authority();
    let (keys, trust) = (CertifiedKeys::new(), ca.roots().unwrap());
    keys.reload(&material(&ca, &ca)).unwrap();
    let identity = None;
    let strict =
        ReloadingClientConfig::only_tls13(Material { identity, trust }, &["http/1.1"], Arc::new(SystemClock))
            .unwrap();
    let older = ServerConfig::builder_with_provider(crypto::provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(keys.clone());
    let (old, _stop) = start(Arc::new(older), Handshakes::default()).await;
    let (new, _stop) = start(ServerTls::new(keys).build().unwrap(), Handshakes::default()).await;
    call(old, strict.current()).await.unwrap_err();
    assert_eq!(call(new, strict.current()).await.unwrap(), "0");
    // A new certificate does not change what it speaks.
    strict.reload(&material(&ca, &ca)).unwrap();
    call(old, strict.current()).await.unwrap_err();
}
