use std::net::UdpSocket;

use clap::Parser;
use prometheus_client::metrics::counter::Counter;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::eventually::eventually;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

fn addresses(argv: &[&str]) -> AdminAddresses {
    let argv = std::iter::once("test").chain(argv.iter().copied());
    AdminAddresses::from(&Args::parse_from(argv).common)
}

async fn start(argv: &[&str], sources: &Sources) -> (Vec<SocketAddr>, CancellationToken) {
    let admin = Admin::bind(&addresses(argv), sources.clone()).await.unwrap();
    let (at, stop) = (admin.local_addresses(), CancellationToken::new());
    tokio::spawn(admin.serve(stop.clone()));
    (at, stop)
}

async fn request(at: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

const ANY: &str = "--admin-bind-address=127.0.0.1:0";

#[tokio::test]
async fn readyz_tells_what_is_missing_and_why() {
    let sources = Sources::default();
    let (at, _stop) = start(&[ANY], &sources).await;
    let (store, lease) = (
        sources.readiness.check("store pods"),
        sources.readiness.check("lease"),
    );
    lease.ready();
    store.not_ready("first list is not complete");
    let (status, body) = request(at[0], "GET /readyz").await;
    assert_eq!(
        (status, body.as_str()),
        (503, "[-] store pods: first list is not complete\n")
    );
    let (_, body) = request(at[0], "GET /readyz?verbose").await;
    assert_eq!(
        body,
        "[-] store pods: first list is not complete\n[+] lease: ok\n"
    );
    store.ready();
    assert_eq!(request(at[0], "GET /readyz").await, (200, "ok\n".to_owned()));
    // Readiness is no reason to restart the process.
    lease.not_ready("lost");
    assert_eq!(request(at[0], "GET /livez").await.0, 200);
}

#[tokio::test]
async fn livez_fails_with_a_lost_pulse() {
    let sources = Sources::default();
    let (at, _stop) = start(&[ANY], &sources).await;
    let _heartbeat = sources.liveness.heartbeat("queue", Duration::ZERO);
    for path in ["/livez", "/healthz"] {
        let (status, body) = request(at[0], &format!("GET {path}")).await;
        assert_eq!(status, 503);
        assert!(body.starts_with("[-] queue: last beat"), "{body}");
    }
}

#[tokio::test]
async fn metrics_and_state_are_served_to_get_alone() {
    let sources = Sources::default();
    let (at, _stop) = start(&[ANY], &sources).await;
    sources
        .metrics
        .register(|registry| registry.register("probe", "a probe", Counter::<u64>::default()));
    let _entry = sources.state.register("lease", || json!({"holder": "a"}));
    let (status, body) = request(at[0], "GET /metrics").await;
    assert_eq!(status, 200);
    assert!(body.contains("trustplane_probe_total 0"), "{body}");
    assert_eq!(
        request(at[0], "GET /debug/state.json").await,
        (200, json!({"lease": {"holder": "a"}}).to_string())
    );
    assert_eq!(request(at[0], "POST /metrics").await.0, 405);
    assert_eq!(request(at[0], "GET /").await.0, 404);
}

#[tokio::test]
async fn the_originals_flags_open_listeners_for_their_part_alone() {
    let flags = [
        ANY,
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
    ];
    let (at, _stop) = start(&flags, &Sources::default()).await;
    let [admin, metrics, health] = at[..] else {
        panic!("{at:?}")
    };
    for (address, path, status) in [
        (admin, "/metrics", 200),
        (admin, "/readyz", 200),
        (metrics, "/metrics", 200),
        (metrics, "/readyz", 404),
        (health, "/readyz", 200),
        (health, "/metrics", 404),
        (health, "/debug/state.json", 404),
    ] {
        assert_eq!(request(address, &format!("GET {path}")).await.0, status, "{path}");
    }
}

#[test]
fn one_port_has_one_listener() {
    let at = |text: &str| text.parse::<BindAddress>().unwrap();
    assert_eq!(
        addresses(&[
            "--metrics-bind-address=127.0.0.1:8080",
            "--health-probe-bind-address=:8081"
        ])
        .0,
        [(at("127.0.0.1:8080"), Routes::ALL), (at(":8081"), Routes::HEALTH)]
    );
    assert_eq!(
        addresses(&[
            "--admin-bind-address=0",
            "--metrics-bind-address=:9",
            "--health-probe-bind-address=:9"
        ])
        .0,
        [
            (at("0"), Routes::ALL),
            (at(":9"), Routes::METRICS.union(Routes::HEALTH))
        ]
    );
    assert_eq!(addresses(&["--metrics-bind-address=0"]).0.len(), 2);
}

#[tokio::test]
async fn a_request_head_that_is_too_large_is_refused() {
    let (at, _stop) = start(&[ANY], &Sources::default()).await;
    let mut stream = TcpStream::connect(at[0]).await.unwrap();
    let head = format!(
        "GET /livez HTTP/1.1\r\nx: {}\r\n\r\n",
        "a".repeat(2 * LIMITS.head_bytes)
    );
    // The server may hang up before it has read all of it.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 431") || answer.is_empty(),
        "{answer}"
    );
}

#[tokio::test]
async fn a_stop_ends_the_listeners() {
    let (at, stop) = start(&[ANY], &Sources::default()).await;
    stop.cancel();
    eventually(async || TcpStream::connect(at[0]).await.is_err()).await;
}

/// How long kubelet waits for an answer at least.
const PROBE: Duration = Duration::from_secs(1);

/// Opens `size` connections. Every second one sends the beginning of a request and never its end.
async fn crowd(at: SocketAddr, size: usize) -> Vec<TcpStream> {
    let mut crowd = Vec::new();
    for number in 0..size {
        let mut stream = TcpStream::connect(at).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET /livez HTTP/1.1\r\nx: ").await.unwrap();
        }
        crowd.push(stream);
    }
    crowd
}

/// Sends one more byte on each connection that is still open, as a slow client does.
async fn drip(crowd: &mut [TcpStream]) {
    for stream in crowd.iter_mut().step_by(2) {
        // The server may have closed it.
        let _ = stream.write_all(b"x").await;
    }
}

async fn is_answered_among(size: usize) {
    let (at, _stop) = start(&[ANY], &Sources::default()).await;
    let mut crowd = crowd(at[0], size).await;
    for path in ["/livez", "/readyz", "/metrics", "/livez"] {
        let answered = tokio::time::timeout(PROBE, request(at[0], &format!("GET {path}"))).await;
        let (status, _) = answered.unwrap_or_else(|_| panic!("{path} starves among {size} connections"));
        assert_eq!(status, 200, "{path}");
        drip(&mut crowd).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_answered_among_128_idle_and_slow_connections() {
    is_answered_among(128).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_answered_among_1000_idle_and_slow_connections() {
    // Both ends of each connection are files of this process.
    let most = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, all).unwrap();
    is_answered_among(1000).await;
}

#[tokio::test]
async fn a_debug_request_from_another_address_is_refused() {
    let sources = Sources::default();
    let (at, _stop) = start(&["--admin-bind-address=:0"], &sources).await;
    let port = at[0].port();
    assert_eq!(
        request(([127, 0, 0, 1], port).into(), "GET /debug/state.json")
            .await
            .0,
        200
    );
    // Which address of this machine would be used to reach another one; nothing is sent.
    let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
    let Some(own) = probe
        .connect("192.0.2.1:9")
        .and_then(|()| probe.local_addr())
        .ok()
        .filter(|own| !own.ip().is_loopback())
    else {
        // A machine without a network has no other address: the rule itself is tested beside it.
        return;
    };
    let (status, body) = request((own.ip(), port).into(), "GET /debug/state.json").await;
    assert_eq!(status, 403);
    assert!(body.contains("kubectl port-forward"), "{body}");
    assert_eq!(request((own.ip(), port).into(), "GET /livez").await.0, 200);
}
