//! What every binary of ours does alike: version, exit codes, the log of a failed start, protected memory.

use anyhow::Result;
use trustplane_testkit::Binary;

const BINARY: Binary = Binary {
    path: env!("CARGO_BIN_EXE_trustplane-discovery"),
    name: "trustplane-discovery",
    version: env!("CARGO_PKG_VERSION"),
};

const WHO: [&str; 6] = [
    "--device-name=pico",
    "--type-resource=hsm.j5t.io/picohsm",
    "--node-name=n1",
    "--pod-name=pico-discovery-x",
    "--pod-namespace=tokens",
    "--pod-uid=1-2-3",
];

#[test]
fn version_names_the_binary() -> Result<()> {
    BINARY.tells_its_version()
}

#[test]
fn a_wrong_flag_exits_2() -> Result<()> {
    BINARY.refuses_a_wrong_flag(&[])?;
    BINARY.refuses_a_wrong_log_filter(&WHO)
}

#[test]
fn a_failed_start_is_logged_and_exits_1() -> Result<()> {
    let arguments = [
        "--admin-bind-address=127.0.0.1:0",
        "--kubeconfig=/nonexistent/config",
    ];
    BINARY.logs_a_failed_start(&[&WHO[..], &arguments].concat(), "/nonexistent/config")
}

#[test]
fn a_started_discovery_protects_its_memory() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let plugins = format!("--plugin-dir={}", folder.path().display());
    BINARY.protects_its_memory(&[&WHO[..], &[plugins.as_str()]].concat())
}
