//! What every binary of ours does alike: version and exit codes. Faults are told in plain text.

use anyhow::Result;
use trustplane_testkit::Binary;

const BINARY: Binary = Binary {
    path: env!("CARGO_BIN_EXE_kubectl-trustplane"),
    name: "kubectl-trustplane",
    version: env!("CARGO_PKG_VERSION"),
};

#[test]
fn version_names_the_binary() -> Result<()> {
    BINARY.tells_its_version()
}

#[test]
fn a_wrong_flag_exits_2() -> Result<()> {
    BINARY.refuses_a_wrong_flag(&[])?;
    BINARY.refuses_a_wrong_flag(&["check"])
}

#[test]
fn a_failed_command_exits_1_with_a_plain_text() -> Result<()> {
    let (out, err) = BINARY.ends(&["--kubeconfig=/nonexistent/config", "version"], 1)?;
    assert_eq!(out, "");
    assert!(
        err.starts_with("error: ") && err.contains("/nonexistent/config"),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");
    Ok(())
}
