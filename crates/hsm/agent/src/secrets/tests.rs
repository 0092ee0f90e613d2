use super::*;

const CANARY: &str = "canary-5e1f";

fn refusal(line: &str) -> Failure {
    let failure = parse(line.as_bytes()).unwrap_err();
    assert!(!format!("{failure:?} {failure}").contains(CANARY), "{failure:?}");
    failure
}

#[test]
fn a_request_that_is_not_understood_is_not_quoted() {
    for line in [
        "",
        "{",
        &format!(r#"{{"write": {{"path": "a", "mode": "{CANARY}", "data": {{}}}}}}"#),
        &format!(r#"{{"write": {{"path": "a", "mode": "create", "data": {{"k": "{CANARY}!"}}}}}}"#),
        &format!(r#"{{"{CANARY}": {{}}}}"#),
    ] {
        assert_eq!(refusal(line).error.kind, ErrorKind::Unsupported, "{line}");
    }
}

#[test]
fn paths_and_keys_are_checked_by_their_rules() {
    for (line, rule) in [
        (
            r#"{"read": {"path": "a//b", "values": true}}"#,
            "path: must not begin or end with '/' or hold '//'",
        ),
        (
            r#"{"write": {"path": "a", "mode": "merge", "data": {"_metadata": ""}}}"#,
            "key: must not be '_metadata'",
        ),
        (
            r#"{"delete": {"path": "a", "key": "b c"}}"#,
            "key: must be of letters, digits, '-', '_' and '.' only",
        ),
    ] {
        let failure = refusal(line);
        assert_eq!(failure.error.kind, ErrorKind::Invalid, "{line}");
        assert_eq!(failure.to_string(), rule);
    }
}

#[test]
fn a_request_is_answered_with_an_error_where_no_agent_serves() {
    let folder = tempfile::tempdir().unwrap();
    let args = SecretsArgs {
        runtime_dir: Some(folder.path().to_owned()),
    };
    let mut out = Vec::new();
    let code = run(&args, &mut &b"{\"list\": {}}\n"[..], &mut out).unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));
    let answer: Answer<Encoded> = serde_json::from_slice(&out).unwrap();
    match answer {
        Answer::Error(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
}
