//! The program itself: a token is made and filled by `test-token`, and served by `serve`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;
use trustplane_cluster::wait;
use trustplane_process::ca::{Authority, LeafRequest, Policy};

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
        command.args(["test-token", "--module", SOFTHSM, "--pin-file"]);
        let output = command.arg(self.file("pin")).args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn serve(&self, port: u16, health: u16) -> Child {
        let named = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        let mut command = self.program();
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
            .args([format!("--port={port}"), format!("--health-port={health}")]);
        command.spawn().unwrap()
    }
}

/// Ends the process also if the test fails.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended, as it should have.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Two ports that nobody has now.
fn ports() -> (u16, u16) {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (one, other) = (free(), free());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    (port(&one), port(&other))
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
    let (port, health) = ports();
    let mut served = Served(place.serve(port, health));
    until(health, "/readyz", r#"{"status":"ready"}"#);
    until(health, "/livez", "ok");
    until(health, "/healthz", r#""hsmConnected":true"#);
    until(
        health,
        "/metrics",
        r#"trustplane_hsm_agent_token_objects{state="used"} 3"#,
    );
    TcpStream::connect(("127.0.0.1", port)).unwrap();

    let terminated = Command::new("kill")
        .arg(served.0.id().to_string())
        .status()
        .unwrap();
    assert!(terminated.success());
    let status = wait::until("the agent to end", PATIENCE, || Ok(served.0.try_wait()?)).unwrap();
    assert!(status.success(), "{status}");
    assert!(
        place
            .test_token(&["list", "--token-label=dev-a"])
            .contains("shop/db  version 1")
    );
}

#[test]
fn what_is_wrong_at_the_start_is_told_before_the_token_is_touched() {
    let place = Place::new();
    fs::remove_file(place.file("ca.crt")).unwrap();
    let (port, health) = ports();
    let mut served = Served(place.serve(port, health));
    assert_eq!(served.0.wait().unwrap().code(), Some(1));
    let output = place
        .program()
        .args(["serve", "--device-name=x"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("--pkcs11-library"), "{complaint}");
}
