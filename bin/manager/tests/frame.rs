//! What every binary of ours does alike: version, exit codes, the log of a failed start, protected memory.

use anyhow::Result;
use trustplane_testkit::Binary;

const BINARY: Binary = Binary {
    path: env!("CARGO_BIN_EXE_trustplane-manager"),
    name: "trustplane-manager",
    version: env!("CARGO_PKG_VERSION"),
};

#[test]
fn version_names_the_binary() -> Result<()> {
    BINARY.tells_its_version()
}

#[test]
fn a_wrong_flag_exits_2() -> Result<()> {
    BINARY.refuses_a_wrong_flag(&[])?;
    BINARY.refuses_a_wrong_log_filter(&[])
}

#[test]
fn a_failed_start_is_logged_and_exits_1() -> Result<()> {
    let arguments = [
        "--admin-bind-address=127.0.0.1:0",
        "--kubeconfig=/nonexistent/config",
    ];
    BINARY.logs_a_failed_start(&arguments, "/nonexistent/config")?;
    // What is wrong before anything was started is logged, too.
    BINARY.logs_a_failed_start(&["--capabilities=sinc"], "\"sinc\" does not exist")
}

#[test]
fn a_started_manager_protects_its_memory() -> Result<()> {
    BINARY.protects_its_memory(&["--webhook-bind-address=0"])
}
