//! What every binary of ours does alike: version, exit codes, the log of a failed start.
//! That its memory is protected is shown where it serves.

use anyhow::Result;
use trustplane_testkit::Binary;

const BINARY: Binary = Binary {
    path: env!("CARGO_BIN_EXE_trustplane-agent"),
    name: "trustplane-agent",
    version: env!("CARGO_PKG_VERSION"),
};

#[test]
fn version_names_the_binary() -> Result<()> {
    BINARY.tells_its_version()
}

const TOKEN: [&str; 4] = [
    "serve",
    "--device-name=stick",
    "--pkcs11-library=/nonexistent/module.so",
    "--pin-file=/nonexistent/pin",
];

#[test]
fn a_wrong_flag_exits_2() -> Result<()> {
    BINARY.refuses_a_wrong_flag(&[])?;
    BINARY.refuses_a_wrong_flag(&["serve"])?;
    BINARY.refuses_a_wrong_flag(&["test-token"])?;
    BINARY.refuses_a_wrong_log_filter(&TOKEN)
}

#[test]
fn a_failed_start_is_logged_and_exits_1() -> Result<()> {
    // Nothing says which token is wanted: that is found out before anything is started.
    BINARY.logs_a_failed_start(&TOKEN, "--token-label")
}

#[test]
fn a_failed_tool_tells_why_in_plain_text() -> Result<()> {
    let (_, err) = BINARY.ends(&["test-token", "info"], 1)?;
    assert_eq!(err, "error: say which module: --module\n");
    Ok(())
}
