use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use clap::Parser;

use super::*;
use crate::args::{BindAddress, CommonArgs, LogFormat};

#[derive(Debug, Parser)]
#[command(name = "probe", version)]
struct Probe {
    #[command(flatten)]
    common: CommonArgs,
    /// Act only while holding the lease.
    #[arg(long)]
    leader_elect: bool,
    /// Write.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    write: bool,
    /// What runs.
    #[arg(long, value_delimiter = ',')]
    capabilities: Vec<String>,
    /// Who we are.
    #[arg(long)]
    name: Option<String>,
    /// Where we are.
    #[arg(long, env = "POD_NAMESPACE")]
    namespace: Option<String>,
}

fn probe(argv: &[&str], env: &[(&str, &str)]) -> Result<Probe, ArgsError> {
    let env: HashMap<_, _> = env.iter().copied().collect();
    let argv = std::iter::once("probe").chain(argv.iter().copied());
    parse_from(argv, |name| env.get(name).map(|value| (*value).to_owned()))
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn flag_wins_over_environment_over_file_over_default() {
    let file = file("log: from-file\nname: from-file\nlog-format: json\nshutdown-deadline: 1m30s\n");
    let config = file.path().to_str().unwrap();
    let args = probe(
        &["--log", "from-flag"],
        &[
            ("TRUSTPLANE_CONFIG", config),
            ("TRUSTPLANE_LOG", "x"),
            ("TRUSTPLANE_NAME", "env"),
        ],
    )
    .unwrap();
    assert_eq!(args.common.log, "from-flag");
    assert_eq!(args.name.as_deref(), Some("env"));
    assert_eq!(args.common.log_format, LogFormat::Json);
    assert_eq!(args.common.shutdown_deadline, Duration::from_secs(90));
    assert_eq!(args.common.admin_bind_address, BindAddress::Every { port: 8080 });
}

#[test]
fn booleans_are_spelt_as_go_spells_them() {
    let given = |argv: &[&str]| {
        let args = probe(argv, &[]).unwrap();
        (args.leader_elect, args.write)
    };
    assert_eq!(given(&[]), (false, true));
    assert_eq!(given(&["--leader-elect"]), (true, true));
    assert_eq!(given(&["-leader-elect=true", "-write=0"]), (true, false));
    assert_eq!(given(&["--leader-elect=false", "--write=F"]), (false, false));
    assert!(
        probe(&["--leader-elect=maybe"], &[])
            .unwrap_err()
            .to_string()
            .contains("--leader-elect")
    );
    assert!(
        probe(&[], &[("TRUSTPLANE_LEADER_ELECT", "true")])
            .unwrap()
            .leader_elect
    );
    assert!(
        !probe(&["--leader-elect=false"], &[("TRUSTPLANE_LEADER_ELECT", "true")])
            .unwrap()
            .leader_elect
    );
}

#[test]
fn a_list_comes_from_any_layer() {
    let listed = file("capabilities: [sync, hsm]\nwrite: false\n");
    let config = listed.path().to_str().unwrap();
    let args = probe(&["-config", config], &[]).unwrap();
    assert_eq!(args.capabilities, ["sync", "hsm"]);
    assert!(!args.write);
    let args = probe(
        &["--config", config],
        &[("TRUSTPLANE_CAPABILITIES", "hsm,identity")],
    )
    .unwrap();
    assert_eq!(args.capabilities, ["hsm", "identity"]);
}

#[test]
fn an_unknown_key_is_named_with_the_valid_ones() {
    let file = file("log-fromat: json\n");
    let error = probe(&["--config", file.path().to_str().unwrap()], &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("unknown key `log-fromat`"), "{error}");
    assert!(error.contains("log-format, log, admin-bind-address"), "{error}");
    assert!(error.contains("leader-elect"), "{error}");
}

#[test]
fn a_bad_value_is_traced_to_where_it_stands() {
    let error = probe(&[], &[("TRUSTPLANE_LOG_FORMAT", "xml")])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("environment variable TRUSTPLANE_LOG_FORMAT"),
        "{error}"
    );
    assert!(error.contains("pretty, json"), "{error}");

    let file = file("shutdown-deadline: soon\n");
    let error = probe(&["--config", file.path().to_str().unwrap()], &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("key `shutdown-deadline` of {}", file.path().display())),
        "{error}"
    );

    let error = probe(&["--log-format=xml"], &[]).unwrap_err().to_string();
    assert!(
        error.contains("--log-format") && error.contains("json"),
        "{error}"
    );
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let error = probe(&["--config=/nowhere/x.yaml"], &[]).unwrap_err().to_string();
    assert_eq!(error, "cannot read the configuration file /nowhere/x.yaml");
    let list = file("- a\n");
    let error = probe(&["--config", list.path().to_str().unwrap()], &[]).unwrap_err();
    assert!(matches!(error, ArgsError::Syntax { .. }), "{error}");
    let nested = file("log: {level: info}\n");
    let error = probe(&["--config", nested.path().to_str().unwrap()], &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("key `log`"), "{error}");
    let empty = file("# nothing yet\n");
    assert!(probe(&["--config", empty.path().to_str().unwrap()], &[]).is_ok());
}

#[test]
fn an_empty_variable_counts_as_unset_and_a_foreign_one_is_ignored() {
    let args = probe(
        &[],
        &[("TRUSTPLANE_LOG", ""), ("TRUSTPLANE_PORT", "tcp://10.0.0.1:443")],
    )
    .unwrap();
    assert_eq!(args.common.log, "info");
}

#[test]
fn a_name_that_others_gave_a_variable_works_beside_ours_which_wins() {
    let theirs = ("POD_NAMESPACE", "theirs");
    let args = probe(&[], &[theirs]).unwrap();
    assert_eq!(args.namespace.as_deref(), Some("theirs"));
    let args = probe(&[], &[theirs, ("TRUSTPLANE_NAMESPACE", "ours")]).unwrap();
    assert_eq!(args.namespace.as_deref(), Some("ours"));
    let file = file("namespace: from-file\n");
    let config = ["--config", file.path().to_str().unwrap()];
    let args = probe(&config, &[theirs]).unwrap();
    assert_eq!(args.namespace.as_deref(), Some("theirs"));
}

#[test]
fn the_help_tells_flags_and_variables_together() {
    let help = probe(&["--help"], &[]).unwrap_err().to_string();
    for text in [
        "--metrics-bind-address",
        "[env: TRUSTPLANE_METRICS_BIND_ADDRESS]",
        "[env: TRUSTPLANE_LEADER_ELECT]",
        "[env: TRUSTPLANE_NAMESPACE, POD_NAMESPACE]",
    ] {
        assert!(help.contains(text), "{text} is missing in:\n{help}");
    }
    assert!(!help.contains("POD_NAMESPACE="), "told twice:\n{help}");
}
