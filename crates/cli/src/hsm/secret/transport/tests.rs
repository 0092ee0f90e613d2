use trustplane_hsm_core::secret::Value;

use super::super::tokens::tests::token;
use super::*;
use crate::hsm::agent::{Agent, tests::pod};

fn said(out: &str, err: &str, reason: &str) -> ExecOutput {
    ExecOutput {
        out: out.as_bytes().to_vec(),
        err: err.as_bytes().to_vec(),
        is_success: reason.is_empty(),
        reason: reason.to_owned(),
    }
}

fn write() -> Request {
    Request::Write {
        path: "shop/db".to_owned(),
        mode: secrets_tool::WriteMode::Create,
        data: [("k".to_owned(), Encoded(Value::new("hunter2")))].into(),
        description: None,
    }
}

#[test]
fn command_has_no_value_and_the_agents_directory() {
    assert_eq!(command(&token("a")), ["/usr/bin/trustplane-agent", "secrets"]);
    let elsewhere = Token {
        agent: Agent::of(&pod("a", "Running", &["--runtime-dir=/run/x"])).unwrap(),
        obstacle: None,
    };
    assert_eq!(command(&elsewhere)[2], "--runtime-dir=/run/x");
    let line = line(&write()).unwrap();
    assert_eq!(
        line.expose().as_slice(),
        b"{\"write\":{\"path\":\"shop/db\",\"mode\":\"create\",\"data\":{\"k\":\"aHVudGVyMg==\"}}}\n"
    );
    assert!(!format!("{:?}", write()).contains("hunter2"));
}

#[test]
fn answer_is_read_whatever_the_exit_code() {
    let changed = r#"{"changed": {"version": 3, "written": true}}"#;
    let answer = parse("p", &write(), said(changed, "", "")).unwrap();
    assert!(matches!(answer, Answer::Changed { version: 3, .. }), "{answer:?}");
    let error = r#"{"error": {"kind": "exists", "message": "m"}}"#;
    let answer = parse("p", &write(), said(error, "", "exit code 1")).unwrap();
    assert_eq!(answer, Answer::Error(ToolError::new(ErrorKind::Exists, "m")));
}

#[test]
fn agent_without_the_tool_is_told_from_one_that_failed() {
    let cases = [
        (
            said("", "error: unrecognized subcommand 'secrets'\n", "exit code 2"),
            ErrorKind::Unsupported,
            "is older than this plugin",
        ),
        (
            said(
                "",
                "",
                "exec: \"/usr/bin/trustplane-agent\": no such file or directory",
            ),
            ErrorKind::Unsupported,
            "no agent of Trustplane",
        ),
        (
            said("", "error: start the tool: no threads", "exit code 1"),
            ErrorKind::EffectUnknown,
            "failed: error: start the tool: no threads",
        ),
        (
            said("{\"k\": \"hunter2\"", "", ""),
            ErrorKind::EffectUnknown,
            "is not understood",
        ),
    ];
    for (said, kind, words) in cases {
        let error = parse("p", &write(), said).unwrap_err();
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(
            error.message.contains(words) && !error.message.contains("hunter2"),
            "{error:?}"
        );
    }
}

#[test]
fn only_a_change_leaves_an_unknown_effect() {
    let read = Request::Read {
        path: "a".to_owned(),
        values: true,
    };
    assert_eq!(lost_kind(&read), ErrorKind::Unavailable);
    assert_eq!(lost_kind(&write()), ErrorKind::EffectUnknown);
}
