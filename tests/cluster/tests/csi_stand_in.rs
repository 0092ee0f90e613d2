//! The tests of the stand-in for SPIFFE's CSI driver, which is in Go. The tests of nodes have kubelet drive it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

#[test]
fn the_stand_in_passes_its_own_tests() {
    let mut test = Command::new("go");
    // The flags of the tools, so that no package is compiled twice.
    test.args(["test", "-gcflags=all=-dwarf=false", "./..."])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("csi"))
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env("GOFLAGS", "-buildvcs=false");
    let output = test.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
