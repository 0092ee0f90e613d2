//! What every binary of ours does alike: version, exit codes, the log of a failed start, protected memory.

use anyhow::Result;
use trustplane_testkit::Binary;

const BINARY: Binary = Binary {
    path: super::HUB,
    name: "trustplane-hub",
    version: env!("CARGO_PKG_VERSION"),
};

#[test]
fn version_names_the_binary() -> Result<()> {
    BINARY.tells_its_version()
}

#[test]
fn a_wrong_flag_exits_2() -> Result<()> {
    BINARY.refuses_a_wrong_flag(&[])?;
    BINARY.refuses_a_wrong_flag(&["sign-in"])?;
    BINARY.refuses_a_wrong_flag(&["client", "add"])?;
    BINARY.refuses_a_wrong_log_filter(&[])?;
    let (_, err) = BINARY.ends(&["--console-bind-address=0.0.0.0:8480"], 2)?;
    assert!(err.contains("must be on loopback"), "{err}");
    Ok(())
}

#[test]
fn a_failed_start_is_logged_and_exits_1() -> Result<()> {
    let arguments = ["--admin-bind-address=127.0.0.1:0", "--data-dir=/proc/hub"];
    BINARY.logs_a_failed_start(&arguments, "/proc/hub")
}

#[test]
fn without_a_data_directory_the_start_says_what_to_do() -> Result<()> {
    BINARY.logs_a_failed_start(&["--admin-bind-address=127.0.0.1:0"], "name one with --data-dir")
}
