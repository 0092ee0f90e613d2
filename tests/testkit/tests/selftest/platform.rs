//! The platform of the tests, tried with a client made by hand.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream as Socket};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trustplane_testkit::DEADLINE;
use trustplane_testkit::platform::{Endpoint, Fault, Gate, Match, Platform, Rule, Settings, Snapshots};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// An answer: status, headers and body.
type Answer = (u16, HeaderMap, Value);

/// A client with a key of its own.
struct Client {
    url: String,
    ca_bundle: Option<String>,
    key: EncodingKey,
    token: String,
}

impl Client {
    /// A client that the platform knows, without a token.
    fn new(platform: &Platform) -> Result<Self> {
        let pair = KeyPair::generate()?;
        platform.register("client-1", &pair.public_key_pem())?;
        Ok(Self {
            url: platform.url(),
            ca_bundle: platform.ca_bundle().map(str::to_owned),
            key: EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes())?,
            token: String::new(),
        })
    }

    /// A client with a token.
    async fn signed_in(platform: &Platform) -> Result<Self> {
        let mut client = Self::new(platform)?;
        let (status, _, answer) = client
            .ask(&Header::new(Algorithm::ES256), &client.claims())
            .await?;
        ensure!(status == 200, "no token: {status} {answer}");
        client.token = answer["access_token"].as_str().unwrap_or_default().to_owned();
        Ok(client)
    }

    fn claims(&self) -> Value {
        let now = Timestamp::now().as_second();
        let (high, low) = (rand::random::<u32>(), rand::random::<u32>());
        json!({
            "iss": "client-1", "sub": "client-1", "aud": [self.url], "iat": now, "exp": now + 300,
            "jti": format!("{high:08x}-0000-4000-8000-0000{low:08x}"),
        })
    }

    /// Asks for a token with this assertion.
    async fn ask(&self, header: &Header, claims: &Value) -> Result<Answer> {
        let assertion = jsonwebtoken::encode(header, claims, &self.key)?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", GRANT)
            .append_pair("assertion", &assertion)
            .finish();
        let request = self
            .request(Method::POST, Endpoint::Token.path())
            .header("content-type", "application/x-www-form-urlencoded");
        self.exchange(request.body(Full::from(form))?).await
    }

    async fn send(&self, endpoint: Endpoint, payload: &Value) -> Result<Answer> {
        let request = self
            .request(Method::POST, endpoint.path())
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", self.token));
        self.exchange(request.body(Full::from(payload.to_string()))?)
            .await
    }

    async fn status(&self, endpoint: Endpoint, payload: &Value) -> Result<u16> {
        Ok(self.send(endpoint, payload).await?.0)
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(path);
        request
            .header("host", "platform")
            .header("user-agent", "obsyk-operator/1.0")
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer> {
        let (_, address) = self.url.split_once("://").context("a URL")?;
        let stream = TcpStream::connect(address).await?;
        let Some(pem) = &self.ca_bundle else {
            return exchange(stream, request).await;
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        exchange(stream, request).await
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok((parts.status.as_u16(), parts.headers, body))
}

fn snapshot(arrays: &Value) -> Value {
    let mut payload = json!({ "cluster_uid": "c", "cluster_name": "n", "agent_version": "1" });
    for (array, objects) in arrays.as_object().into_iter().flatten() {
        payload[array] = objects.clone();
    }
    payload
}

fn added(kind: &str, uid: &str) -> Value {
    json!({
        "cluster_uid": "c", "type": "added", "kind": kind, "uid": uid, "name": uid, "object": { "uid": uid },
    })
}

fn deleted(kind: &str, uid: &str) -> Value {
    json!({ "cluster_uid": "c", "type": "deleted", "kind": kind, "uid": uid, "name": uid })
}

/// Kind and uid of every object, in order.
fn known(platform: &Platform) -> Vec<String> {
    let projections = platform.state().projections();
    projections
        .keys()
        .map(|(kind, uid)| format!("{kind} {uid}"))
        .collect()
}

#[tokio::test]
async fn the_platform_keeps_what_it_is_sent_and_how_it_came() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let client = Client::signed_in(&platform).await?;
    let first = snapshot(&json!({ "pods": [{"uid": "p1"}, {"uid": "p2"}], "nodes": [{"uid": "n1"}] }));
    assert_eq!(client.status(Endpoint::Snapshot, &first).await?, 200);
    assert_eq!(client.status(Endpoint::Events, &added("Pod", "p3")).await?, 200);
    assert_eq!(client.status(Endpoint::Events, &deleted("Pod", "p1")).await?, 200);
    assert_eq!(
        client
            .status(Endpoint::Heartbeat, &json!({ "cluster_uid": "c" }))
            .await?,
        200
    );
    assert_eq!(known(&platform), ["Node n1", "Pod p2", "Pod p3"]);
    assert_eq!(platform.state().text("Pod", "p3"), Some(r#"{"uid":"p3"}"#));

    // An array replaces its kind, an empty one too; a kind without an array stays.
    let second = snapshot(&json!({ "pods": [] }));
    assert_eq!(client.status(Endpoint::Snapshot, &second).await?, 200);
    assert_eq!(known(&platform), ["Node n1"]);

    let state = platform.state();
    assert_eq!(state.clusters(), ["c"]);
    assert_eq!(
        (state.accepted(Endpoint::Token), state.accepted(Endpoint::Events)),
        (1, 2)
    );
    assert_eq!(state.most_at_once(Endpoint::Events), 1);
    let journal: Vec<_> = state
        .journal()
        .iter()
        .map(|entry| (entry.endpoint, entry.type_.as_deref()))
        .collect();
    assert_eq!(
        journal,
        [
            (Endpoint::Token, None),
            (Endpoint::Snapshot, None),
            (Endpoint::Events, Some("added")),
            (Endpoint::Events, Some("deleted")),
            (Endpoint::Heartbeat, None),
            (Endpoint::Snapshot, None),
        ]
    );
    let change = &state.journal()[2];
    assert_eq!(
        (change.kind.as_deref(), change.uid.as_deref()),
        (Some("Pod"), Some("p3"))
    );
    let sent = added("Pod", "p3").to_string();
    assert_eq!((change.status, &change.body[..]), (Some(200), sent.as_bytes()));
    assert_eq!(
        (change.length, change.content_length),
        (sent.len(), Some(sent.len() as u64))
    );
    Ok(())
}

#[tokio::test]
async fn a_merging_platform_forgets_nothing_by_a_snapshot() -> Result<()> {
    let settings = Settings {
        snapshots: Snapshots::Merge,
        ..Settings::default()
    };
    let platform = Platform::start(settings).await?;
    let client = Client::signed_in(&platform).await?;
    for uid in ["p1", "p2"] {
        let payload = snapshot(&json!({ "pods": [{ "uid": uid }] }));
        assert_eq!(client.status(Endpoint::Snapshot, &payload).await?, 200);
    }
    assert_eq!(known(&platform), ["Pod p1", "Pod p2"]);
    assert_eq!(client.status(Endpoint::Events, &deleted("Pod", "p1")).await?, 200);
    assert_eq!(known(&platform), ["Pod p2"]);
    Ok(())
}

#[tokio::test]
async fn whatever_the_seed_does_not_know_is_a_violation() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let client = Client::signed_in(&platform).await?;
    let empty = || Full::new(Bytes::new());
    let get = client
        .request(Method::GET, Endpoint::Events.path())
        .body(empty())?;
    let other = client
        .request(Method::POST, "/api/v2/agent/session")
        .body(empty())?;
    let query = client.request(Method::POST, "/oauth/token?a=b").body(empty())?;
    for request in [get, other, query] {
        assert_eq!(client.exchange(request).await?.0, 404);
    }
    assert_eq!(
        platform.take_violations(),
        [
            "GET /api/v1/agent/events: is no method of the seed",
            "POST /api/v2/agent/session: is no path of the seed",
            "POST /oauth/token?a=b: is no path of the seed",
        ]
    );

    let packed = client
        .request(Method::POST, Endpoint::Heartbeat.path())
        .header("content-type", "application/json")
        .header("content-encoding", "gzip")
        .body(empty())?;
    client.exchange(packed).await?;
    let violations = platform.take_violations();
    assert!(
        violations[0].contains("content-encoding is Some(\"gzip\")"),
        "{violations:?}"
    );

    assert_eq!(
        client.status(Endpoint::Snapshot, &json!({ "pods": [] })).await?,
        400
    );
    assert_eq!(
        platform.take_violations(),
        ["POST /api/v1/agent/snapshot: cluster_uid is missing"]
    );
    Ok(())
}

#[tokio::test]
#[should_panic(expected = "the contract of the platform was violated")]
async fn a_violation_fails_the_test_when_the_platform_is_dropped() {
    let platform = Platform::start(Settings::default()).await.unwrap();
    let client = Client::new(&platform).unwrap();
    let request = client
        .request(Method::POST, "/")
        .body(Full::new(Bytes::new()))
        .unwrap();
    client.exchange(request).await.unwrap();
}

#[tokio::test]
async fn a_token_is_given_for_an_assertion_of_the_contract_alone() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let client = Client::new(&platform)?;
    let header = Header::new(Algorithm::ES256);
    let claims = client.claims();
    let (status, _, answer) = client.ask(&header, &claims).await?;
    assert_eq!((status, &answer["expires_in"]), (200, &json!(3600)));

    assert_eq!(client.ask(&header, &claims).await?.0, 400);
    assert_eq!(
        platform.take_violations(),
        ["POST /oauth/token: client-1 used a jti twice"]
    );
    let named = Header {
        kid: Some("k".to_owned()),
        ..header.clone()
    };
    assert_eq!(client.ask(&named, &client.claims()).await?.0, 400);
    let violations = platform.take_violations();
    assert!(
        violations[0].contains("the header of the assertion is"),
        "{violations:?}"
    );

    // Refused and no violation: another key, an unknown client, a clock that is wrong.
    let (mut stranger, mut late) = (client.claims(), client.claims());
    (stranger["iss"], stranger["sub"]) = ("client-2".into(), "client-2".into());
    let past = Timestamp::now().as_second() - 600;
    (late["iat"], late["exp"]) = (past.into(), (past + 300).into());
    for claims in [stranger, late] {
        assert_eq!(client.ask(&header, &claims).await?.0, 401);
    }
    platform.register("client-1", &KeyPair::generate()?.public_key_pem())?;
    assert_eq!(client.ask(&header, &client.claims()).await?.0, 401);
    let state = platform.state();
    assert_eq!(state.refusals()[0], "client-2 is no client");
    assert!(
        state.refusals()[1].starts_with("the clock of client-1 is"),
        "{:?}",
        state.refusals()
    );
    assert_eq!(state.refusals()[2], "the signature of client-1 is wrong");
    Ok(())
}

#[tokio::test]
async fn a_token_is_good_until_it_ends_or_is_revoked() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let beat = json!({ "cluster_uid": "c" });
    let stranger = Client::new(&platform)?;
    assert_eq!(stranger.status(Endpoint::Heartbeat, &beat).await?, 401);

    platform.set_expires_in(None);
    let client = Client::signed_in(&platform).await?;
    assert_eq!(platform.tokens(), std::slice::from_ref(&client.token));
    assert_eq!(client.status(Endpoint::Heartbeat, &beat).await?, 200);
    platform.revoke_tokens();
    assert_eq!(client.status(Endpoint::Heartbeat, &beat).await?, 401);

    platform.set_expires_in(Some(0));
    let client = Client::signed_in(&platform).await?;
    assert_eq!(client.status(Endpoint::Heartbeat, &beat).await?, 401);
    Ok(())
}

#[tokio::test]
async fn rules_choose_requests_and_what_happens_to_them() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let client = Client::signed_in(&platform).await?;
    let busy = Rule::new(Match::on(Endpoint::Events).kind("Pod"), Fault::busy(429, 3));
    let busy = platform.add(busy.times(2));
    assert_eq!(client.status(Endpoint::Events, &added("Node", "n")).await?, 200);
    for _ in 0..2 {
        let (status, headers, _) = client.send(Endpoint::Events, &added("Pod", "p")).await?;
        assert_eq!((status, headers["retry-after"].to_str()?), (429, "3"));
    }
    assert_eq!(known(&platform), ["Node n"]);
    assert_eq!(client.status(Endpoint::Events, &added("Pod", "p")).await?, 200);
    busy.fired(2, DEADLINE).await?;

    let rule = |type_: &str, fault| Rule::new(Match::any().uid("q").type_(type_), fault).once();
    platform.add(rule("added", Fault::Cut));
    assert!(client.send(Endpoint::Events, &added("Pod", "q")).await.is_err());
    assert_eq!(platform.state().text("Pod", "q"), None);
    platform.add(rule("added", Fault::CutAnswer));
    assert!(client.send(Endpoint::Events, &added("Pod", "q")).await.is_err());
    assert!(platform.state().text("Pod", "q").is_some());
    assert_eq!(
        platform.state().journal().last().and_then(|entry| entry.status),
        None
    );
    Ok(())
}

#[tokio::test]
async fn a_held_request_takes_effect_when_the_gate_opens() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let client = Client::signed_in(&platform).await?;
    let gate = Gate::default();
    let held = platform.add(Rule::new(Match::on(Endpoint::Events), Fault::Hold(gate.clone())));
    let open = async {
        held.fired(2, DEADLINE).await?;
        assert_eq!(platform.state().count("Pod"), 0);
        gate.open();
        platform.wait("two pods", |state| state.count("Pod") == 2).await
    };
    let (one, two) = (added("Pod", "p1"), added("Pod", "p2"));
    let (one, two, opened) = tokio::join!(
        client.status(Endpoint::Events, &one),
        client.status(Endpoint::Events, &two),
        open
    );
    opened?;
    assert_eq!((one?, two?), (200, 200));
    assert_eq!(platform.state().most_at_once(Endpoint::Events), 2);
    Ok(())
}

#[tokio::test]
async fn a_request_that_hangs_is_never_answered() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let client = Client::signed_in(&platform).await?;
    let hang = platform.add(Rule::new(Match::on(Endpoint::Events).uid("p1"), Fault::Hang));
    let after = platform.add(Rule::new(
        Match::on(Endpoint::Events).uid("p2"),
        Fault::HangAnswer,
    ));
    let (one, two) = (added("Pod", "p1"), added("Pod", "p2"));
    tokio::select! {
        answer = client.send(Endpoint::Events, &one) => panic!("{answer:?}"),
        answer = client.send(Endpoint::Events, &two) => panic!("{answer:?}"),
        both = async { tokio::try_join!(hang.fired(1, DEADLINE), after.fired(1, DEADLINE)) } => { both?; }
    }
    platform
        .wait("the second to take effect", |state| state.count("Pod") == 1)
        .await?;
    assert_eq!(known(&platform), ["Pod p2"]);
    Ok(())
}

#[tokio::test]
async fn an_outage_refuses_connections_and_ends_at_the_same_port() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let client = Client::signed_in(&platform).await?;
    assert_eq!(client.status(Endpoint::Events, &added("Pod", "p")).await?, 200);
    let address: SocketAddr = client.url.trim_start_matches("http://").parse()?;
    for _ in 0..2 {
        let idle = Socket::connect_timeout(&address, DEADLINE)?;
        platform.close().await;
        assert!(client.send(Endpoint::Events, &added("Pod", "q")).await.is_err());
        // The end of the connection, or its reset: a timeout would be another error.
        idle.set_read_timeout(Some(DEADLINE))?;
        let read = tokio::task::spawn_blocking(move || (&idle).read(&mut [0])).await?;
        let ended = match &read {
            Ok(length) => *length == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        assert!(ended, "a connection outlived the outage: {read:?}");
        platform.open().await?;
        assert_eq!(
            client
                .status(Endpoint::Heartbeat, &json!({ "cluster_uid": "c" }))
                .await?,
            200
        );
    }
    assert_eq!(known(&platform), ["Pod p"]);
    assert!(platform.open().await.is_err(), "it is open already");
    Ok(())
}

#[tokio::test]
async fn a_platform_with_tls_is_trusted_by_its_authority() -> Result<()> {
    let settings = Settings {
        tls: true,
        ..Settings::default()
    };
    let (platform, other) = (Platform::start(settings).await?, Platform::start(settings).await?);
    assert!(platform.url().starts_with("https://127.0.0.1:"));
    let mut client = Client::signed_in(&platform).await?;
    client.ca_bundle = other.ca_bundle().map(str::to_owned);
    assert!(client.send(Endpoint::Events, &added("Pod", "p")).await.is_err());
    assert_eq!(platform.state().received(Endpoint::Events), 0);
    Ok(())
}

#[tokio::test]
async fn a_platform_url_with_a_slash_or_a_path_is_taken_as_it_is_written() -> Result<()> {
    let platform = Platform::start(Settings::default()).await?;
    let client = Client::new(&platform)?;
    for below in ["/", "/base"] {
        platform.set_platform_url(&format!("{}{below}", platform.url()));
        let path = format!("{below}{}", Endpoint::Heartbeat.path());
        let request = client
            .request(Method::POST, &path)
            .header("content-type", "application/json")
            .body(Full::from("{}"))?;
        assert_eq!(client.exchange(request).await?.0, 401);
    }
    Ok(())
}
