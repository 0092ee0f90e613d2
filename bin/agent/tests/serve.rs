//! The program itself: a token is made and filled by `test-token`, and served by `serve`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use trustplane_cluster::wait;
use trustplane_process::ca::{Authority, LeafRequest, Policy};
use trustplane_testkit::metrics::are_documented;

const PROGRAM: &str = env!("CARGO_BIN_EXE_trustplane-agent");
const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PIN: &str = "648219";
const PATIENCE: Duration = Duration::from_secs(30);

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.file("tokens")).unwrap();
        let tokens = place.file("tokens").display().to_string();
        let conf =
            format!("directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n");
        fs::write(place.file("softhsm2.conf"), conf).unwrap();
        fs::write(place.file("pin"), format!("{PIN}\n")).unwrap();
        fs::write(place.file("so-pin"), "12345678\n").unwrap();
        let ca = Authority::create("test", Policy::default(), Timestamp::now()).unwrap();
        let request = LeafRequest {
            dns: vec!["a.b.hsm-agent".to_owned()],
            ..LeafRequest::default()
        };
        let leaf = ca.issue(&request, Timestamp::now()).unwrap();
        fs::write(place.file("tls.crt"), leaf.certificate_pem()).unwrap();
        fs::write(place.file("tls.key"), leaf.key_pem().expose()).unwrap();
        fs::write(place.file("ca.crt"), ca.bundle_pem()).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.env("SOFTHSM2_CONF", self.file("softhsm2.conf"));
        command
    }

    fn test_token(&self, words: &[&str]) -> String {
        let mut command = self.program();
        command
            .args(["test-token", "--module", SOFTHSM, "--pin-file"])
            .arg(self.file("pin"))
            .arg(named("runtime-dir", &self.file("run")));
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Begins the tool of the plugin with a request. Nothing but the request has values.
    fn begin_secrets(&self, request: &Value) -> Child {
        let mut command = self.program();
        command
            .arg("secrets")
            .arg(named("runtime-dir", &self.file("run")));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(format!("{request}\n").as_bytes()).unwrap();
        child
    }

    /// What the tool answers. Its input stays open: an exec stream cannot close it in every version of the protocol.
    fn secrets(&self, request: Value) -> Value {
        answer(self.begin_secrets(&request))
    }

    fn serve(&self) -> Served {
        let log = self.file("log");
        let mut command = self.program();
        command.stderr(File::create(&log).unwrap());
        command
            .args([
                "serve",
                "--device-name=stick",
                "--token-label=dev-a",
                "--slot-id=0",
            ])
            .arg(named("pkcs11-library", Path::new(SOFTHSM)))
            .arg(named("pin-file", &self.file("pin")))
            .arg(named("tls-cert-file", &self.file("tls.crt")))
            .arg(named("tls-key-file", &self.file("tls.key")))
            .arg(named("tls-client-ca-file", &self.file("ca.crt")))
            .arg(named("runtime-dir", &self.file("run")))
            .args(["--port=0", "--health-port=0", "--log-format=json"])
            .arg("--admin-bind-address=127.0.0.1:0");
        let process = command.spawn().unwrap();
        Served { process, log }
    }
}

/// The answer of the tool. An error is told by the exit code too, and nothing is on standard error.
fn answer(tool: Child) -> Value {
    let output = tool.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.success(), answer.get("error").is_none(), "{answer}");
    answer
}

fn named(flag: &str, path: &Path) -> String {
    format!("--{flag}={}", path.display())
}

/// An agent that runs. It ends also if the test fails.
struct Served {
    process: Child,
    log: PathBuf,
}

impl Served {
    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A port that it has got, once it says so.
    fn port(&self, name: &str) -> u16 {
        let field = format!("\"{name}\":\"");
        let told = || {
            let log = self.log();
            let address = log.split(&field).nth(1).and_then(|rest| rest.split('"').next());
            let port =
                address.and_then(|address| address.rsplit(':').next()?.trim_end_matches(']').parse().ok());
            Ok(port)
        };
        wait::until(name, PATIENCE, told).unwrap_or_else(|error| panic!("{error}: {}", self.log()))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended, as it should have.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn until(port: u16, path: &str, wanted: &str) {
    let asked = || Ok(get(port, path).filter(|answer| answer.contains(wanted)).map(drop));
    wait::until(path, PATIENCE, asked).unwrap();
}

#[test]
fn a_token_is_made_filled_served_and_given_back() {
    let place = Place::new();
    let officer = format!("--so-pin-file={}", place.file("so-pin").display());
    place.test_token(&["init", "--label=dev-a", &officer]);
    place.test_token(&[
        "write",
        "shop/db",
        "--from-literal=user=admin",
        "--token-label=dev-a",
    ]);
    let mut served = place.serve();
    let (port, health) = (served.port("grpc"), served.port("health"));
    until(health, "/readyz", r#"{"status":"ready"}"#);
    until(health, "/livez", "ok");
    until(health, "/healthz", r#""hsmConnected":true"#);
    until(
        health,
        "/metrics",
        r#"trustplane_hsm_agent_token_objects{state="used"} 3"#,
    );
    let scrape = get(health, "/metrics").unwrap();
    are_documented(scrape.split_once("\r\n\r\n").unwrap().1).unwrap();
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    // It has the PIN and every value: nobody reads its memory, and it leaves no core.
    let of_process = |file: &str| format!("/proc/{}/{file}", served.process.id());
    let limits = fs::read_to_string(of_process("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    assert_eq!(core.unwrap().split_whitespace().nth(4), Some("0"), "{core:?}");
    until(
        served.port("admin"),
        "/debug/state.json",
        r#""memoryProtected":true"#,
    );
    // The tool goes through it, and both see what it writes.
    place.test_token(&[
        "write",
        "shop/web",
        "--from-literal=user=admin",
        "--token-label=dev-a",
    ]);
    until(
        health,
        "/metrics",
        r#"trustplane_hsm_agent_token_objects{state="used"} 5"#,
    );

    let terminated = Command::new("kill")
        .arg(served.process.id().to_string())
        .status()
        .unwrap();
    assert!(terminated.success());
    let status = wait::until("the agent to end", PATIENCE, || Ok(served.process.try_wait()?)).unwrap();
    assert!(status.success(), "{status}");
    let list = place.test_token(&["list", "--token-label=dev-a"]);
    assert!(
        list.contains("shop/db  version 1") && list.contains("shop/web  version 1"),
        "{list}"
    );
}

#[test]
fn what_is_wrong_at_the_start_is_told_before_the_token_is_touched() {
    let place = Place::new();
    fs::remove_file(place.file("ca.crt")).unwrap();
    let mut served = place.serve();
    assert_eq!(served.process.wait().unwrap().code(), Some(1));
    let output = place
        .program()
        .args(["serve", "--device-name=x"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("--pkcs11-library"), "{complaint}");
}

/// Words that are in values only, and the base64 of binary values with them.
const CANARIES: [&str; 3] = ["canary-1c0d", "canary-2e9f", "canary-3a7b"];

fn write(mode: &str, data: &Value) -> Value {
    json!({"write": {"path": "shop/db", "mode": mode, "data": data}})
}

fn changed(answer: &Value) -> (u64, bool) {
    let changed = &answer["changed"];
    (
        changed["version"].as_u64().unwrap_or_else(|| panic!("{answer}")),
        changed["written"].as_bool().unwrap(),
    )
}

fn served_token(place: &Place) -> Served {
    let officer = format!("--so-pin-file={}", place.file("so-pin").display());
    place.test_token(&["init", "--label=dev-a", &officer]);
    let served = place.serve();
    until(served.port("health"), "/readyz", r#"{"status":"ready"}"#);
    served
}

#[test]
fn secrets_are_created_merged_replaced_and_deleted_through_the_agent() {
    let place = Place::new();
    let unserved = place.secrets(json!({"list": {}}));
    assert_eq!(unserved["error"]["kind"], "unavailable", "{unserved}");
    let served = served_token(&place);
    // A canary, and bytes that are no text: 00 ff 0a 22.
    let (user, password) = ("Y2FuYXJ5LTFjMGQ=", "AP8KIg==");
    let data = json!({"user": user, "password": password});
    assert_eq!(changed(&place.secrets(write("create", &data))), (1, true));
    assert_eq!(changed(&place.secrets(write("create", &data))), (1, false));
    let (other, third) = ("Y2FuYXJ5LTJlOWY=", "Y2FuYXJ5LTNhN2I=");
    let exists = place.secrets(write("create", &json!({"user": other})));
    assert_eq!(exists["error"]["kind"], "exists");
    assert_eq!(
        changed(&place.secrets(write("merge", &json!({"user": other})))),
        (2, true)
    );
    assert_eq!(
        changed(&place.secrets(write("merge", &json!({"user": other})))),
        (2, false)
    );
    let read = place.secrets(json!({"read": {"path": "shop/db", "values": true}}));
    assert_eq!(
        read["secret"]["data"],
        json!({"user": other, "password": password})
    );
    assert_eq!(
        changed(&place.secrets(write("replace", &json!({"token": third})))),
        (3, true)
    );
    let sizes = place.secrets(json!({"read": {"path": "shop/db", "values": false}}));
    assert_eq!(sizes["secret"]["sizes"], json!({"token": 11}));
    assert_eq!(sizes["secret"].get("data"), None);
    let list = place.secrets(json!({"list": {}}));
    let listed = &list["list"]["secrets"][0];
    assert_eq!(
        (&listed["path"], &listed["version"]),
        (&json!("shop/db"), &json!(3))
    );
    assert_eq!(listed["digest"], sizes["secret"]["digest"]);
    let both = json!({"user": user, "token": third});
    assert_eq!(changed(&place.secrets(write("merge", &both))), (4, true));
    let one = place.secrets(json!({"delete": {"path": "shop/db", "key": "user"}}));
    assert_eq!(changed(&one), (5, true));
    assert_eq!(one["changed"]["checksum"], sizes["secret"]["checksum"]);
    let deleted = place.secrets(json!({"delete": {"path": "shop/db", "key": "token"}}));
    assert_eq!(changed(&deleted), (6, true), "the last key");
    assert_eq!(deleted["changed"].get("checksum"), None);
    for request in [
        json!({"read": {"path": "shop/db", "values": true}}),
        write("merge", &json!({"user": user})),
        json!({"delete": {"path": "shop/db"}}),
    ] {
        assert_eq!(
            place.secrets(request.clone())["error"]["kind"],
            "not-found",
            "{request}"
        );
    }
    assert_eq!(changed(&place.secrets(write("create", &data))), (7, true));
    let deleted = place.secrets(json!({"delete": {"path": "shop/db"}}));
    assert_eq!(changed(&deleted), (8, true));
    let told = format!("{unserved}{exists}{sizes}{list}{one}{deleted}{}", served.log());
    for hidden in CANARIES.into_iter().chain([user, password, other, third]) {
        assert!(!told.contains(hidden), "{hidden} in {told}");
    }
}

#[test]
fn merges_at_the_same_time_lose_no_key() {
    let place = Place::new();
    let _served = served_token(&place);
    assert_eq!(
        changed(&place.secrets(write("create", &json!({"k": ""})))),
        (1, true)
    );
    let keys = ["a", "b", "c", "d"];
    let request = |key: &str| write("merge", &json!({ key: "Y2FuYXJ5LTFjMGQ=" }));
    let tools: Vec<Child> = keys
        .iter()
        .map(|key| place.begin_secrets(&request(key)))
        .collect();
    for tool in &tools {
        // The process may have ended already.
        let argv = fs::read_to_string(format!("/proc/{}/cmdline", tool.id())).unwrap_or_default();
        assert!(!argv.contains("Y2FuYXJ5"), "{argv}");
    }
    let mut versions: Vec<_> = tools.into_iter().map(|tool| changed(&answer(tool))).collect();
    versions.sort_unstable();
    assert_eq!(versions, [(2, true), (3, true), (4, true), (5, true)]);
    let read = place.secrets(json!({"read": {"path": "shop/db", "values": false}}));
    let sizes = json!({"a": 11, "b": 11, "c": 11, "d": 11, "k": 0});
    assert_eq!(read["secret"]["sizes"], sizes);
}
