//! The client against a small server that answers with fixed bytes and tells what it got.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use futures::stream;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ca::{Authority, LeafRequest, Policy};
use crate::serve::{Limits, serve};
use crate::tls::{CertifiedKeys, ServerTls, TlsListener};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const SECOND: Duration = Duration::from_secs(1);

/// A server that gives every request the same answer.
struct Stub {
    at: SocketAddr,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Stub {
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (told, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(one_request(stream, answer, told.clone()));
            }
        });
        Self { at, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/path", self.at)
    }

    /// The next request, head and body.
    async fn request(&mut self) -> String {
        self.requests.recv().await.unwrap()
    }
}

/// Reads a request until its announced length or the end of the connection, tells it, and answers.
async fn one_request(mut stream: TcpStream, answer: &str, told: mpsc::UnboundedSender<String>) {
    let (mut got, mut part) = (Vec::new(), [0; 4096]);
    while !is_whole(&got) {
        match stream.read(&mut part).await {
            Ok(read) if read > 0 => got.extend_from_slice(&part[..read]),
            _ => break,
        }
    }
    let _ = told.send(String::from_utf8(got).unwrap());
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    body.len() >= length
}

fn web(options: WebOptions<'_>) -> Web {
    Web::new(options).unwrap()
}

fn parts(texts: &[&'static str]) -> impl Stream<Item = Bytes> + Send + use<> {
    let parts: Vec<Bytes> = texts
        .iter()
        .map(|text| Bytes::from_static(text.as_bytes()))
        .collect();
    stream::iter(parts)
}

#[tokio::test]
async fn a_post_carries_its_headers_and_its_length() {
    let mut stub = Stub::start(OK).await;
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("authorization", "Bearer t".to_owned()),
    ];
    let answer = web(WebOptions::default())
        .post(&stub.url(), &headers, "{}")
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.text().unwrap().expose(), "ok");
    let request = stub.request().await;
    assert!(request.starts_with("POST /path HTTP/1.1\r\n"), "{request}");
    for line in [
        "authorization: Bearer t\r\n",
        "content-type: application/json\r\n",
        "content-length: 2\r\n",
    ] {
        assert!(request.contains(line), "{line} is missing in {request}");
    }
    assert!(request.ends_with("\r\n\r\n{}"), "{request}");
}

#[tokio::test]
async fn a_stream_is_sent_with_its_announced_length() {
    let mut stub = Stub::start(OK).await;
    let web = web(WebOptions::default());
    let body = parts(&["one,", "", "two"]);
    web.post_stream(&stub.url(), &[], 7, body).await.unwrap();
    let request = stub.request().await;
    assert!(request.contains("content-length: 7\r\n"), "{request}");
    assert!(!request.contains("transfer-encoding"), "{request}");
    assert!(request.ends_with("\r\n\r\none,two"), "{request}");
}

#[tokio::test]
async fn a_stream_of_another_length_breaks_off_and_says_so() {
    for (length, text, told) in [
        (
            9,
            "the body of the request ended before its announced length",
            "one,two",
        ),
        (5, "the body of the request is longer than announced", "one,"),
    ] {
        let mut stub = Stub::start(OK).await;
        let web = web(WebOptions::default());
        let body = parts(&["one,", "two"]);
        let sent = web.post_stream(&stub.url(), &[], length, body).await;
        assert_eq!(sent.unwrap_err(), WebError::Transport(text));
        let request = stub.request().await;
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        assert!(
            told.starts_with(body),
            "the peer has at most what was made: {request}"
        );
    }
}

#[tokio::test]
async fn a_form_is_escaped_and_its_answer_is_whole() {
    let mut stub = Stub::start("HTTP/1.1 400 Bad\r\nretry-after: 3\r\ncontent-length: 4\r\n\r\nbad!").await;
    let form = [("grant_type", "urn:x:y"), ("assertion", "a.b-c_d~é&=")];
    let headers = [("user-agent", "agent/1".to_owned())];
    let answer = web(WebOptions::default())
        .post_form(&stub.url(), &headers, &form)
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.headers["retry-after"], "3");
    assert_eq!(answer.body.expose(), b"bad!");
    assert_eq!(answer.text().unwrap_err(), WebError::Status(400));
    let request = stub.request().await;
    assert!(request.contains("user-agent: agent/1\r\n"), "{request}");
    assert!(request.contains("content-type: application/x-www-form-urlencoded\r\n"));
    assert!(request.ends_with("\r\n\r\ngrant_type=urn%3Ax%3Ay&assertion=a.b-c_d~%C3%A9%26%3D"));
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let stub =
        Stub::start("HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
    let answer = web(WebOptions::default()).get(&stub.url(), &[]).await.unwrap();
    assert_eq!(answer.status, StatusCode::TEMPORARY_REDIRECT);
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_an_error_with_its_status() {
    let stub = Stub::start(OK).await;
    let options = |largest_answer| WebOptions {
        largest_answer,
        ..WebOptions::default()
    };
    assert!(web(options(2)).get(&stub.url(), &[]).await.is_ok());
    let error = web(options(1)).get(&stub.url(), &[]).await.unwrap_err();
    assert_eq!(error, WebError::TooLarge { status: 200 });
}

#[tokio::test]
async fn faults_of_the_transport_are_told_apart() {
    let web = web(WebOptions::default());
    let cut = Stub::start("").await;
    let error = web.get(&cut.url(), &[]).await.unwrap_err();
    assert_eq!(error, WebError::Transport("the connection was cut"));
    assert_eq!(error.into_fault().kind(), FaultKind::Transport);

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    let error = web.get(&format!("http://{at}/"), &[]).await.unwrap_err();
    assert_eq!(error, WebError::Transport("the connection cannot be made"));

    // A listener that never accepts a connection.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let error = web
        .within(Duration::from_millis(50))
        .get(&url, &[])
        .await
        .unwrap_err();
    assert_eq!(error, WebError::Timeout);
    assert_eq!(error.into_fault().kind(), FaultKind::Timeout);
}

#[tokio::test]
async fn what_cannot_be_sent_is_named_without_its_value() {
    let web = web(WebOptions::default());
    for url in ["hub.example", "ftp://hub.example/", "https://", "/api", ""] {
        let error = web.get(url, &[]).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the URL must start with http:// or https:// and name a host",
            "{url}"
        );
    }
    let bad = [("authorization", "Bearer hunter2\n".to_owned())];
    let error = web.get("http://127.0.0.1:1/", &bad).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the authorization header holds characters that HTTP does not allow"
    );
    assert_eq!(error.into_fault().kind(), FaultKind::Rejected);
    let map = sensitive(&[("authorization", "Bearer hunter2".to_owned())]).unwrap();
    assert!(!format!("{map:?}").contains("hunter2"));
}

#[test]
fn options_that_cannot_be_used_are_named() {
    let refused = |ca_bundle: Option<&'static str>, proxy: &str| {
        let options = WebOptions {
            ca_bundle,
            proxy: Proxy::Url(proxy.to_owned().into()),
            ..WebOptions::default()
        };
        Web::new(options).unwrap_err().to_string()
    };
    let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    assert_eq!(
        refused(Some(broken), "http://p:1"),
        "the CA bundle cannot be read"
    );
    assert_eq!(
        refused(Some("no PEM"), "http://p:1"),
        "the CA bundle holds no certificate in PEM form"
    );
    for proxy in ["p:3128", "socks5://p:1080", "http://", "", "user:hunter2@p"] {
        assert_eq!(
            refused(Some(" \n"), proxy),
            "the proxy URL must start with http:// or https:// and name a host",
            "{proxy}"
        );
    }
    let shown = format!("{:?}", Proxy::Url("http://user:hunter2@p".to_owned().into()));
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn requests_go_through_the_proxy_with_its_password() {
    let mut proxy = Stub::start(OK).await;
    let through = web(WebOptions {
        proxy: Proxy::Url(format!("http://user:pass@{}", proxy.at).into()),
        ..WebOptions::default()
    });
    let answer = through.post("http://hub.example/api", &[], "{}").await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    let request = proxy.request().await;
    assert!(
        request.starts_with("POST http://hub.example/api HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("proxy-authorization: Basic dXNlcjpwYXNz\r\n"),
        "{request}"
    );

    // The stub's answer is no TLS: what counts is what the proxy was asked for.
    let error = through
        .post("https://hub.example/api", &[], "hunter2")
        .await
        .unwrap_err();
    assert_eq!(error, WebError::Transport("the connection cannot be made"));
    let request = proxy.request().await;
    assert!(
        request.starts_with("CONNECT hub.example:443 HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(!request.contains("hunter2"), "{request}");
}

#[tokio::test]
async fn the_environment_chooses_a_proxy_only_if_asked_to() {
    let (mut proxy, direct) = (Stub::start(OK).await, Stub::start("").await);
    let at = proxy.at.to_string();
    let variables = |name| match name {
        "HTTP_PROXY" => Some(at.clone()),
        "NO_PROXY" => Some("spared.example,127.0.0.1".to_owned()),
        _ => None,
    };
    let web = Web {
        inner: Arc::new(Inner {
            certificates: Vec::new(),
            proxies: proxy::from_variables(variables).unwrap(),
            connect: SECOND,
            largest_answer: 1024,
            client: OnceLock::new(),
        }),
        total: 30 * SECOND,
    };
    web.get("http://hub.example/", &[]).await.unwrap();
    let request = proxy.request().await;
    assert!(request.starts_with("GET http://hub.example/ "), "{request}");
    let error = web.get(&direct.url(), &[]).await.unwrap_err();
    assert_eq!(error, WebError::Transport("the connection was cut"));
    assert!(proxy.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_certificate_is_trusted_through_the_ca_bundle_alone() {
    let authority = Authority::create("test", Policy::default(), Timestamp::now()).unwrap();
    let request = LeafRequest {
        name: "hub".into(),
        dns: vec!["localhost".into()],
        ..LeafRequest::default()
    };
    let leaf = authority.issue(&request, Timestamp::now()).unwrap();
    let keys = CertifiedKeys::new();
    keys.swap(leaf.certified_key().unwrap());
    let config = ServerTls::new(keys).build().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", tcp.local_addr().unwrap().port());
    let routes = Router::new().route("/", get(|| async { "hello" }));
    let stop = CancellationToken::new();
    tokio::spawn(serve(
        TlsListener::new(tcp, config),
        routes,
        Limits::default(),
        stop.clone(),
    ));
    let pem = authority.bundle_pem();
    let trusting = web(WebOptions {
        ca_bundle: Some(&pem),
        ..WebOptions::default()
    });
    let answer = trusting.within(30 * SECOND).get(&url, &[]).await.unwrap();
    assert_eq!(answer.text().unwrap().expose(), "hello");
    let error = web(WebOptions::default()).get(&url, &[]).await.unwrap_err();
    assert_eq!(error, WebError::Transport("the connection cannot be made"));
    stop.cancel();
}
