//! Webhooks on a real node: the API server reaches the process through its Service, and trusts it by the bundle that the
//! process wrote.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::fs;

use serde_json::json;
use trustplane_cluster::wait;
use trustplane_e2e::chart::Chart;
use trustplane_e2e::scenario::PATIENCE;
use trustplane_e2e::{Arena, Release, Said, try_say};

/// Asks for a mirror in a namespace, without making it.
fn ask(arena: &Arena, namespace: &str, targets: &[&str]) -> Said {
    let mirror = json!({
        "apiVersion": "test.trustplane.io/v1", "kind": "Mirror",
        "metadata": {"name": "asked", "namespace": namespace},
        "spec": {"source": "source", "targets": targets},
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), mirror.to_string()).unwrap();
    let path = file.path().to_string_lossy().into_owned();
    let create = ["create", "--dry-run=server", "--output=json", "--filename", &path];
    try_say(&mut arena.kubectl(&create)).unwrap()
}

#[test]
fn the_api_server_asks_the_process_through_its_service() {
    let arena = Arena::enter().unwrap();
    let release = Release::named(&arena, "gate").unwrap();
    release.install(&Chart::of_the_sample().unwrap(), &[]).unwrap();

    // It fails open at home, so until the bundle is there a mirror passes as it is.
    let mut last = String::new();
    wait::until("targets to be put in order", PATIENCE, || {
        let said = ask(&arena, release.name(), &["b", "a", "b"]);
        last = format!("{}{}", said.out, said.err);
        let made = serde_json::from_str::<serde_json::Value>(&said.out).unwrap_or_default();
        Ok((made["spec"]["targets"] == json!(["a", "b"])).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}; last: {last}"));
    let refused = ask(&arena, release.name(), &["source"]);
    assert!(
        refused.err.contains("spec.targets: must not contain the source"),
        "{}",
        refused.err
    );

    // Elsewhere it fails closed.
    let refused = ask(&arena, "default", &["a"]);
    let told =
        "admission webhook \"placement.mirrors.test.trustplane.io\" denied the request: metadata.namespace";
    assert!(
        !refused.status.success() && refused.err.contains(told),
        "{}",
        refused.err
    );
}
