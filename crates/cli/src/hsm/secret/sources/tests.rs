use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const CANARY: &str = "canary-77e0";

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, content: &[u8]) -> String {
        let path: PathBuf = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }
}

fn literals(texts: &[&str]) -> Sources {
    Sources {
        from_literal: texts.iter().map(|text| Secret::new((*text).to_owned())).collect(),
        ..Sources::default()
    }
}

fn read_with(sources: &Sources, stdin: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let data = sources.read(&mut stdin.as_bytes());
    let data = data.map_err(|error| format!("{error:#}"))?;
    let pairs = data.into_iter();
    Ok(pairs
        .map(|(key, value)| (key.to_string(), value.expose().to_vec()))
        .collect())
}

/// The error of sources that are refused. It never holds the value.
fn refusal(sources: &Sources) -> String {
    let told = read_with(sources, CANARY).unwrap_err();
    assert!(!told.contains(CANARY), "{told}");
    assert!(!format!("{sources:?}").contains(CANARY));
    told
}

fn pair(key: &str, value: &[u8]) -> (String, Vec<u8>) {
    (key.to_owned(), value.to_vec())
}

#[test]
fn sources_are_combined_and_binary_values_kept() {
    let files = Files::new();
    let sources = Sources {
        from_file: vec![files.put("tls.key", b"\0\xff\n"), "token=-".to_owned()],
        from_env_file: vec![files.put("env", b"\xef\xbb\xbf# all\r\n\r\n  HOST=a=b \r\nQUOTED=\"x\"")],
        from_json: vec![files.put("json", br#"{"user": "admin\n", "empty": ""}"#)],
        ..literals(&["password=a=b"])
    };
    let expected = [
        pair("HOST", b"a=b "),
        pair("QUOTED", b"\"x\""),
        pair("empty", b""),
        pair("password", b"a=b"),
        pair("tls.key", b"\0\xff\n"),
        pair("token", b"from stdin\n"),
        pair("user", b"admin\n"),
    ];
    assert_eq!(read_with(&sources, "from stdin\n").unwrap(), expected);
}

#[test]
fn a_key_that_is_given_twice_is_refused() {
    let files = Files::new();
    let sources = Sources {
        from_json: vec![files.put("json", format!(r#"{{"k": "{CANARY}"}}"#).as_bytes())],
        ..literals(&[&format!("k={CANARY}")])
    };
    assert_eq!(
        refusal(&sources),
        "key k is given twice: by --from-literal and by --from-json"
    );
    let twice = Sources {
        from_json: vec![files.put("twice", br#"{"k": "a", "k": "b"}"#)],
        ..Sources::default()
    };
    assert_eq!(
        refusal(&twice),
        "key k is given twice: by --from-json and by --from-json"
    );
}

#[test]
fn a_refusal_names_the_flag_and_the_rule_and_no_value() {
    let files = Files::new();
    let document = |name: &str, content: String| Sources {
        from_json: vec![files.put(name, content.as_bytes())],
        ..Sources::default()
    };
    let lines = |name: &str, content: String| Sources {
        from_env_file: vec![files.put(name, content.as_bytes())],
        ..Sources::default()
    };
    let from_file = |text: &str| Sources {
        from_file: vec![text.to_owned()],
        ..Sources::default()
    };
    for (sources, words) in [
        (
            literals(&[CANARY]),
            "--from-literal: want KEY=VALUE; the text has no =",
        ),
        (
            literals(&[&format!("a b={CANARY}")]),
            "--from-literal: \"a b\": key: must be of letters, digits, '-', '_' and '.' only",
        ),
        (
            literals(&[&format!("_metadata={CANARY}")]),
            "key: must not be '_metadata'",
        ),
        (
            lines("broken", format!("a=1\n{CANARY}\n")),
            "line 2: want KEY=VALUE",
        ),
        (
            lines("empty", "# nothing\n".to_owned()),
            "the sources have no key",
        ),
        (
            document("no-json", format!("{{\"k\": {CANARY}}}")),
            "the document is not JSON, line 1",
        ),
        (
            document("list", format!("[\"{CANARY}\"]")),
            "want an object of strings; the document is something else",
        ),
        (
            document("nested", format!("{{\"k\": [\"{CANARY}\"]}}")),
            "key \"k\": the value must be a string",
        ),
        (
            from_file("-"),
            "--from-file -: standard input has no name: want KEY=-",
        ),
        (from_file("/"), "the path has no file name"),
        (
            from_file("k=/nonexistent/file"),
            "--from-file: read /nonexistent/file: ",
        ),
    ] {
        let told = refusal(&sources);
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn standard_input_is_read_by_one_source_only() {
    let sources = Sources {
        from_file: vec!["a=-".to_owned(), "b=-".to_owned()],
        ..Sources::default()
    };
    let told = refusal(&sources);
    assert!(told.contains("can be read by one source only"), "{told}");
}

#[test]
fn a_secret_that_is_too_large_is_refused() {
    let large = "x".repeat(MOST_BYTES + 1);
    let told = read_with(&literals(&[&format!("k={large}")]), "").unwrap_err();
    assert_eq!(told, "the secret has 1048577 bytes; it may have 1048576");
}
