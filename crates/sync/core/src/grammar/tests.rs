use std::time::Duration;

use proptest::prelude::*;
use trustplane_plan::{Class, MAX_NOTE};

use super::*;
use crate::reason::Retry;
use crate::request::{Format, Keys, OnMissing};

const PROVIDERS: [&str; 3] = ["aws-secretsmanager", "env", "mock"];

fn read(text: &str) -> Annotation {
    parse(text, &PROVIDERS).unwrap_or_else(|problem| panic!("{problem}"))
}

fn one(text: &str) -> Arc<Request> {
    let mut annotation = read(text);
    assert_eq!(
        (annotation.requests.len(), annotation.warnings.len()),
        (1, 0),
        "{annotation:?}"
    );
    annotation.requests.remove(0).unwrap()
}

/// What is wrong with a single request, or with the whole.
fn wrong(text: &str) -> String {
    let problem = match parse(text, &PROVIDERS) {
        Err(problem) => problem,
        Ok(mut annotation) => annotation.requests.remove(0).unwrap_err(),
    };
    assert_eq!(problem.reason, Reason::AnnotationInvalid, "{problem}");
    assert_eq!(
        (problem.retry, problem.retry.class()),
        (Retry::Never, Class::User)
    );
    problem.text
}

/// A request with one more line.
fn with(line: &str) -> String {
    format!("provider: mock\npath: a/b\nsecretName: s\n{line}")
}

#[test]
fn the_single_form_of_jasm_is_one_request() {
    let text = "provider: aws-secretsmanager\npath: /prod/codnod/config\nsecretName: app-credentials\n";
    let request = one(text);
    assert_eq!(request.source.provider.as_deref(), Some("aws-secretsmanager"));
    assert_eq!(request.source.path, "/prod/codnod/config");
    assert_eq!(request.secret_name.as_str(), "app-credentials");
    assert_eq!(request.shape.keys, Keys::All);
    assert_eq!(request.secret_type, "Opaque");
    assert_eq!(request.on_missing, OnMissing::Retain);
    let json = r#"{"provider": "aws-secretsmanager", "path": "/prod/codnod/config", "secretName": "app-credentials"}"#;
    assert_eq!(one(json), request);
    // Only the first document is read, and scalars are taken by their text.
    assert_eq!(one(&format!("{text}---\nprovider: [")), request);
    assert_eq!(
        one("provider: mock\npath: 0123\nsecretName: 42").source.path,
        "0123"
    );
}

#[test]
fn keys_are_a_map_from_new_to_old_or_a_list() {
    let map = one(&with("keys:\n  password: DB_PASSWORD\n  user: DB_USER"));
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        map.shape.keys,
        Keys::Map(vec![pair("password", "DB_PASSWORD"), pair("user", "DB_USER")])
    );
    let list = one(&with("keys: [DB_PASSWORD, API_KEY]"));
    assert_eq!(
        list.shape.keys,
        Keys::List(vec!["DB_PASSWORD".into(), "API_KEY".into()])
    );
    for empty in ["keys: []", "keys: {}", "keys:", "keys: ~"] {
        assert_eq!(one(&with(empty)).shape.keys, Keys::All, "{empty}");
    }
}

#[test]
fn many_requests_inherit_defaults() {
    let text = "defaults: {provider: mock, refreshInterval: 1h30m, keys: [a]}\nsecrets:\n\
                - {path: a, secretName: one}\n- {path: b, secretName: two, provider: env, keys: [b]}\n- {path: c}\n";
    let annotation = read(text);
    let [Ok(first), Ok(second), Err(third)] = annotation.requests.as_slice() else {
        panic!("{annotation:?}")
    };
    assert_eq!(first.source.provider.as_deref(), Some("mock"));
    assert_eq!(first.refresh, Some(Duration::from_secs(5400)));
    assert_eq!(second.source.provider.as_deref(), Some("env"));
    assert_eq!(second.shape.keys, Keys::List(vec!["b".into()]));
    assert_eq!(third.text, "secrets[2].secretName: is required");
}

#[test]
fn every_field_is_read() {
    let text = "store: main\npath: a\nsecretName: s\nversion: AWSPREVIOUS\nformat: yaml\nselect: db.hosts.0\n\
                include: ['DB_.*']\nexclude: .*_OLD\nrename: {'DB_(.*)': '$1'}\ntype: kubernetes.io/basic-auth\n\
                strict: true\nadopt: true\nmerge: true\noptional: true\nonMissing: delete\nrefreshInterval: 90s\n";
    let request = one(text);
    assert_eq!(request.source.provider, None);
    assert_eq!(request.source.store.as_deref(), Some("main"));
    assert_eq!(request.source.version.as_deref(), Some("AWSPREVIOUS"));
    assert_eq!(request.shape.format, Format::Yaml);
    assert_eq!(request.shape.select, ["db", "hosts", "0"]);
    assert_eq!(
        (
            request.shape.include.len(),
            request.shape.exclude.len(),
            request.shape.rename.len()
        ),
        (1, 1, 1)
    );
    assert!(request.shape.strict && request.adopt && request.merge && request.optional);
    assert_eq!(
        (request.on_missing, request.refresh),
        (OnMissing::Delete, Some(Duration::from_secs(90)))
    );
    assert_eq!(one(&with("select: /a~1b/0")).shape.select, ["a/b", "0"]);
    let raw = one(&with("format: raw\nkey: tls.key"));
    assert_eq!(
        (raw.shape.format, raw.shape.key.as_str()),
        (Format::Raw, "tls.key")
    );
    assert_eq!(one(&with("format: raw")).shape.key, "value");
}

#[test]
fn what_is_missing_is_told_in_the_order_of_jasm() {
    assert_eq!(wrong(""), "the annotation is empty");
    for nothing in [" \n ", "~", "{}", "# a comment"] {
        assert_eq!(wrong(nothing), "provider: is required", "{nothing:?}");
    }
    assert_eq!(wrong("secretName: s"), "provider: is required");
    assert_eq!(wrong("provider: mock\nsecretName: s"), "path: is required");
    assert_eq!(wrong("provider: mock\npath: a"), "secretName: is required");
    assert_eq!(wrong("store: x\nsecretName: s"), "path: is required");
}

#[test]
fn each_wrong_field_is_named_with_its_rule() {
    let cases = [
        (
            "provider: ''\npath: a\nsecretName: s",
            "provider: must not be empty",
        ),
        (
            "provider: mock\npath: '  '\nsecretName: s",
            "path: must not be empty",
        ),
        (
            "provider: mock\npath: [a]\nsecretName: s",
            "path: must be a string, and is a list",
        ),
        (
            "provider: mock\npath: a\nsecretName: {a: b}",
            "secretName: must be a string, and is a map",
        ),
        (
            "provider: mock\npath: \"a\\nb\"\nsecretName: s",
            "path: must not hold control characters",
        ),
        (
            "store: A\npath: a\nsecretName: s",
            "store: must be a DNS-1123 subdomain",
        ),
        (
            "provider: mock\npath: a\nsecretName: App_Secret",
            "secretName: must be a DNS-1123 subdomain",
        ),
        ("defaults: {path: a}", "defaults: must stand beside secrets"),
        ("secrets: []", "secrets: must have at least one item"),
        ("secrets: {}", "secrets: must be a list, and is a map"),
        ("secrets:", "secrets: must be a list, and is nothing"),
        ("secrets: [a]", "secrets[0]: must be a map, and is a scalar"),
        (
            "defaults: 1\nsecrets: [{}]",
            "defaults: must be a map, and is a scalar",
        ),
        (
            "provider: mock\nsecrets: [{}]",
            "provider: must not stand beside secrets",
        ),
        (
            "defaults: {secretName: A}\nsecrets: [{provider: mock, path: a}]",
            "defaults.secretName: must be a DNS-1123",
        ),
        ("- a", "the annotation must be a map, and is a list"),
        ("just words", "the annotation must be a map, and is a scalar"),
    ];
    for (text, told) in cases {
        assert!(wrong(text).starts_with(told), "{text}: {}", wrong(text));
    }
    let lines = [
        ("keys: a", "keys: must be a map"),
        (
            "keys: {'a b': c}",
            "keys: each name on the left must be at most 253",
        ),
        ("keys: {a: [b]}", "keys: each name on the right must be a string"),
        ("keys: [a, {}]", "keys[1]: must be a non-empty string"),
        ("format: xml", "format: must be one of json, raw, dotenv, yaml"),
        ("key: a", "key: needs format: raw"),
        ("format: raw\nkey: a/b", "key: must be at most 253"),
        ("format: raw\nselect: a", "select: needs format: json or yaml"),
        (
            "include: ['(']",
            "include: each pattern must be a regular expression",
        ),
        (
            "exclude: ['(a{1000}){1000}']",
            "exclude: each pattern must be a regular expression that is not too large",
        ),
        ("rename: [a]", "rename: must be a map"),
        ("rename: {'[': a}", "rename: each pattern"),
        ("type: a b", "type: must be the type of a Secret"),
        (
            "type: kubernetes.io/service-account-token",
            "type: must not be a type that is a credential",
        ),
        (
            "type: helm.sh/release.v1",
            "type: must not be a type that is a credential",
        ),
        (
            "type: bootstrap.kubernetes.io/token",
            "type: must not be a type that is a credential",
        ),
        ("strict: yes please", "strict: must be true or false"),
        ("adopt: 'true'", "adopt: must be true or false"),
        ("onMissing: explode", "onMissing: must be one of retain, delete"),
        (
            "refreshInterval: 1s",
            "refreshInterval: must be a duration such as 1h30m",
        ),
        ("refreshInterval: -1h", "refreshInterval: must be a duration"),
        ("refreshInterval: often", "refreshInterval: must be a duration"),
        ("refreshInterval: 100000h", "refreshInterval: must be a duration"),
    ];
    for (line, told) in lines {
        assert!(
            wrong(&with(line)).starts_with(told),
            "{line}: {}",
            wrong(&with(line))
        );
    }
}

#[test]
fn an_unknown_provider_is_answered_with_those_that_exist() {
    let annotation = read("secrets: [{provider: vault, path: a, secretName: s}]");
    let problem = annotation.requests[0].clone().unwrap_err();
    assert_eq!(problem.reason, Reason::ProviderUnsupported);
    assert_eq!(
        problem.text,
        "secrets[0].provider: vault is not supported; supported are aws-secretsmanager, env, mock"
    );
}

#[test]
fn hostile_documents_are_refused_with_their_rule() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
                c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]";
    let tiny = format!("a: [{}]", "1,".repeat(5000));
    let text = with(&format!("x: {}", "y".repeat(16 * 1024 + 1)));
    let key = with(&format!("? {}\n: y", "x".repeat(513)));
    let deep = format!("a: {}{}", "[".repeat(9), "]".repeat(9));
    let very_deep = format!("a: {}", "[".repeat(60_000));
    let long = with(&format!("x: {}", "y".repeat(64 * 1024)));
    let many = format!(
        "secrets:\n{}",
        "- {provider: mock, path: a, secretName: s}\n".repeat(33)
    );
    let path = format!("provider: mock\npath: {}\nsecretName: s", "é".repeat(2049));
    let cases = [
        ("a: [", "is not valid YAML"),
        ("a: b: c", "is not valid YAML"),
        (
            "provider: mock\nprovider: env",
            "must not have the same key twice",
        ),
        ("provider: !!str mock", "must not have YAML tags"),
        ("provider: !include /etc/passwd", "must not have YAML tags"),
        ("? [a]\n: b", "must not use a collection as a key"),
        (
            "a: &a [*a]",
            "must not have YAML anchors or aliases (line 1, column 7)",
        ),
        ("a: &a b", "must not have YAML anchors or aliases"),
        (
            "a: *b",
            "must not have YAML anchors or aliases (line 1, column 4)",
        ),
        ("a: \"\\0\"", "must not hold control characters"),
        ("a: \u{1b}[31m", "must not hold control characters"),
        (bomb, "must not have YAML anchors or aliases (line 1, column 7)"),
        (&tiny, "must not hold more than 4096 values"),
        (&text, "must not have texts longer than 16384 bytes"),
        (&key, "must not have keys longer than 512 characters"),
        (
            "%TAG ! tag:x,2000:\n---\na: b",
            "must not have YAML tags (line 1, column 1)",
        ),
        (&deep, "must not nest deeper than 8"),
        (&very_deep, "(line 1, column"),
        (&long, "must not be longer than 65536 bytes"),
        (&many, "secrets: must not have more than 32 items"),
        (&path, "path: must not be longer than 2048 characters"),
    ];
    for (text, told) in cases {
        assert!(
            wrong(text).contains(told),
            "{}: {}",
            &text[..text.len().min(60)],
            wrong(text)
        );
    }
    // The longest path is in characters.
    assert_eq!(
        one(&format!(
            "provider: mock\npath: {}\nsecretName: s",
            "é".repeat(2048)
        ))
        .source
        .path
        .len(),
        4096
    );
}

#[test]
fn an_annotation_has_a_limited_number_of_patterns() {
    let patterns = |from: usize, to: usize| {
        let all: Vec<_> = (from..to).map(|index| format!("'K{index}'")).collect();
        all.join(",")
    };
    let text = format!("include: [{}]\nexclude: [{}]", patterns(0, 40), patterns(20, 64));
    let request = one(&with(&text));
    assert_eq!(
        (request.shape.include.len(), request.shape.exclude.len()),
        (40, 44)
    );
    let text = format!("include: [{}]\nrename: {{K64: x}}", patterns(0, 64));
    assert_eq!(
        wrong(&with(&text)),
        "rename: the annotation must not have more than 64 different patterns"
    );
    let items: String = (0..32)
        .map(|index| format!("- {{path: a, secretName: s{index}}}\n"))
        .collect();
    let shared = format!(
        "defaults: {{provider: mock, include: [{}]}}\nsecrets:\n{items}",
        patterns(0, 64)
    );
    assert!(
        read(&shared).requests.iter().all(Result::is_ok),
        "the same pattern counts once"
    );
    let classes: Vec<_> = (0..40).map(|index| format!("'\\w+K{index}'")).collect();
    let told = wrong(&with(&format!("include: [{}]", classes.join(","))));
    assert!(
        told.starts_with("include: the patterns of the annotation must not be so large together"),
        "{told}"
    );
}

#[test]
fn defaults_that_would_grow_too_large_in_the_items_are_refused() {
    let keys: Vec<_> = (0..200)
        .map(|index| format!("{index}{}", "k".repeat(200)))
        .collect();
    let items: String = (0..32)
        .map(|index| format!("- {{path: a, secretName: s{index}}}\n"))
        .collect();
    let text = format!(
        "defaults: {{provider: mock, keys: [{}]}}\nsecrets:\n{items}",
        keys.join(",")
    );
    assert_eq!(
        wrong(&text),
        "defaults.keys: is too large for 32 items; all defaults together must not need more than 262144 bytes in all items"
    );
    let few = text
        .replace("- {path: a", "- {keys: [x], path: a")
        .replacen("keys: [x], ", "", 1);
    assert!(read(&few).requests.iter().all(Result::is_ok));
}

#[test]
fn unknown_fields_give_one_warning_and_change_nothing() {
    let text = with("secretname: oops\n'hunter2 !': x\nkeys: [a]");
    let annotation = read(&text);
    assert_eq!(annotation.requests[0], Ok(one(&with("keys: [a]"))));
    let [warning] = annotation.warnings.as_slice() else {
        panic!("{annotation:?}")
    };
    assert_eq!(
        warning.text,
        "unknown fields are ignored: secretname, (a name that is none)"
    );
    let annotation =
        read("x: 1\ndefaults: {y: 1}\nsecrets: [{provider: mock, path: a, secretName: s, z: 1}]");
    assert_eq!(
        annotation.warnings[0].text,
        "unknown fields are ignored: x, defaults.y, secrets[0].z"
    );
    let many: String = (0..20).map(|index| format!("f{index}: x\n")).collect();
    assert_eq!(
        read(&with(&many)).warnings[0].text,
        "unknown fields are ignored: f0, f1, f2, f3, f4, f5, f6, f7, and 12 more"
    );
    let annotation = read(&with("restart: true"));
    assert!(annotation.requests[0].is_ok());
    assert!(
        annotation.warnings[0]
            .text
            .starts_with("restart: has no effect yet")
    );
}

#[test]
fn one_name_twice_needs_merge_on_both() {
    let text = "defaults: {provider: mock, secretName: s}\nsecrets: [{path: a}, {path: b}, {path: c, secretName: t}]";
    let annotation = read(text);
    let told = "secrets[1].secretName: is also that of secrets[0]; merge: true on both puts them together";
    assert_eq!(annotation.requests[1].clone().unwrap_err().text, told);
    assert!(
        annotation.requests[0].is_ok() && annotation.requests[2].is_ok(),
        "neighbours go on"
    );
    let merged = text.replace("secretName: s}", "secretName: s, merge: true}");
    assert!(read(&merged).requests.iter().all(Result::is_ok));
}

/// Texts that look like annotations more often than chance would have it.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("provider: mock\n".to_owned()),
        Just("path: a/b\n".to_owned()),
        Just("secretName: CANARY Name\n".to_owned()),
        Just("secrets:\n- ".to_owned()),
        Just("keys: {CANARY a: CANARY}\n".to_owned()),
        Just("&a [*a, !x CANARY]\n".to_owned()),
        Just("CANARY\u{0}: |\n  CANARY\n".to_owned()),
        "[a-z:\\-{}\\[\\]&*!|>'\"#%@ \n]{0,12}",
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser_or_is_repeated_by_it(text in texts()) {
        let problems: Vec<Problem> = match parse(&text, &PROVIDERS) {
            Err(problem) => vec![problem],
            Ok(annotation) => {
                prop_assert!(annotation.requests.len() <= MOST_REQUESTS);
                annotation.requests.into_iter().filter_map(Result::err).chain(annotation.warnings).collect()
            }
        };
        for problem in problems {
            prop_assert!(!problem.text.contains("CANARY"), "{}", problem.text);
            prop_assert!(problem.text.len() <= MAX_NOTE);
            prop_assert!(!problem.text.chars().any(char::is_control));
        }
    }
}
