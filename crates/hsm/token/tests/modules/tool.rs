//! What an admin has at hand: OpenSC's `pkcs11-tool`, a process of its own.

use std::path::PathBuf;
use std::process::Command;

use trustplane_hsm_core::version::Expected;

use crate::secrets::{data, path, secret, store};
use crate::stage::{PIN, Stage};

suite! {
    on every module:
        what_pkcs11_tool_writes_is_read_and_what_we_write_is_read_by_it;
}

/// Does something with the data objects of a token, and gives what it prints.
pub fn pkcs11_tool(stage: &Stage, token: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("pkcs11-tool")
        .arg("--module")
        .arg(stage.bench.library())
        .args(["--token-label", token, "--login", "--pin", PIN, "--type", "data"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "pkcs11-tool {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// A file that it writes from.
pub fn file(stage: &Stage, content: &str) -> PathBuf {
    let file = stage.folder.join("value");
    std::fs::write(&file, content).unwrap();
    file
}

fn what_pkcs11_tool_writes_is_read_and_what_we_write_is_read_by_it(stage: &Stage) {
    let mut module = stage.module();
    stage.provision(&mut module, "shared");
    let mut store = store(&module, "shared");
    let value = file(stage, "theirs");
    let write = ["--write-object", value.to_str().unwrap(), "--private"];
    let application = ["--application-label", "hsm-secrets-operator"];
    pkcs11_tool(
        stage,
        "shared",
        &[&write[..], &application, &["--label", "a/k"]].concat(),
    );
    // As a seed of the original does it.
    pkcs11_tool(stage, "shared", &[&write[..], &["--label", "b"]].concat());
    assert_eq!(store.read(&path("a")).unwrap().data, data(&[("k", b"theirs")]));
    assert_eq!(store.read(&path("b")).unwrap().data, data(&[("data", b"theirs")]));

    store
        .write(&path("c"), &secret(1, &[("k", b"ours")]), Expected::Absent)
        .unwrap();
    let listed = String::from_utf8(pkcs11_tool(stage, "shared", &["--list-objects"])).unwrap();
    assert!(listed.contains("'c/_metadata'"), "{listed}");
    let read = pkcs11_tool(stage, "shared", &["--read-object", "--label", "c/k"]);
    assert_eq!(read, b"ours");
    pkcs11_tool(stage, "shared", &["--delete-object", "--label", "a/k"]);
    store.read(&path("a")).unwrap_err();
    assert_eq!(store.read(&path("c")).unwrap(), secret(1, &[("k", b"ours")]));
}
