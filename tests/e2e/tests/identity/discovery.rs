//! The OIDC discovery provider, as somebody asks it who knows the CA from the Secret and nothing else.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trustplane_process::clock::SystemClock;
use trustplane_process::tls::{Material, ReloadingClientConfig, roots};

use crate::stage::Stage;

/// The host of the issuer in the example.
const HOST: &str = "oidc-discovery.example.org";

/// It serves over TLS, with the certificate that the manager has made, the document of the issuer and the keys that it names.
pub fn names_the_issuer_and_has_keys(stage: &Stage<'_>) {
    let secret = stage.read(&["get", "secret", "oidc-serving-cert"]);
    let authority = secret["data"]["ca.crt"].as_str().unwrap();
    let authority = STANDARD.decode(authority).unwrap();
    let service = stage.read(&["get", "service", "spire-spiffe-oidc-discovery-provider"]);
    let address = format!("{}:443", service["spec"]["clusterIP"].as_str().unwrap());
    let document = get(stage, &address, &authority, "/.well-known/openid-configuration");
    let issuer = format!("https://{HOST}");
    assert_eq!(document["issuer"], issuer.as_str(), "{document}");
    assert_eq!(document["jwks_uri"], format!("{issuer}/keys"), "{document}");
    let keys = get(stage, &address, &authority, "/keys");
    assert!(
        keys["keys"].as_array().is_some_and(|keys| !keys.is_empty()),
        "{keys}"
    );
}

/// What it answers, as JSON.
fn get(stage: &Stage<'_>, address: &str, authority: &[u8], path: &str) -> Value {
    let material = Material {
        identity: None,
        trust: roots(authority).unwrap(),
    };
    let tls = ReloadingClientConfig::only_tls13(material, &["http/1.1"], Arc::new(SystemClock)).unwrap();
    let connector = TlsConnector::from(tls.current());
    let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let (cluster, address) = (stage.cluster.clone(), address.to_owned());
    // Only the network of the cluster has the addresses of Services.
    let asked = std::thread::spawn(move || {
        cluster.enter_network().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            let server = ServerName::try_from(HOST).unwrap();
            let mut stream = connector.connect(server, stream).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        })
    });
    let answer = asked.join().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
