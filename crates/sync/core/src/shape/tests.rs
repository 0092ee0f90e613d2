use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::grammar;
use crate::request::Request;

fn request(lines: &str) -> Arc<Request> {
    let text = format!("provider: mock\npath: a\nsecretName: s\n{lines}");
    grammar::parse(&text, &["mock"])
        .unwrap()
        .requests
        .remove(0)
        .unwrap()
}

fn bytes(text: impl AsRef<[u8]>) -> Payload {
    Payload::Bytes(Value::new(text.as_ref()))
}

fn made(text: impl AsRef<[u8]>, lines: &str) -> Vec<(String, String)> {
    let request = request(lines);
    let shaped = shape(&bytes(text), &request.shape, &request.secret_type).unwrap();
    let shown = |value: &Value| String::from_utf8_lossy(value.expose()).into_owned();
    shaped
        .data
        .iter()
        .map(|(key, value)| (key.clone(), shown(value)))
        .collect()
}

fn refused(text: impl AsRef<[u8]>, lines: &str) -> (Reason, String) {
    let request = request(lines);
    let problem = shape(&bytes(text), &request.shape, &request.secret_type).unwrap_err();
    assert_eq!(problem.retry, Retry::Slow);
    (problem.reason, problem.text)
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn json_keeps_digits_and_bytes() {
    let source = r#"{"s":"a\u00e9\n","i":1000000,"big":123456789012345678901234567890,"f":1.10,"e":1e6,"t":true,"n":null,
        "o":{"b": 1, "a":"<&>", "x":[1,2.50]},"l":[ 1 ]}"#;
    let expected = pairs(&[
        ("big", "123456789012345678901234567890"),
        ("e", "1e6"),
        ("f", "1.10"),
        ("i", "1000000"),
        ("l", "[ 1 ]"),
        ("n", ""),
        ("o", r#"{"b": 1, "a":"<&>", "x":[1,2.50]}"#),
        ("s", "aé\n"),
        ("t", "true"),
    ]);
    assert_eq!(made(source, ""), expected);
    let (reason, text) = refused(source, "strict: true");
    assert_eq!(
        (reason, text.as_str()),
        (
            Reason::SecretDataInvalid,
            "field 7 of the secret: its value is null"
        )
    );
}

#[test]
fn what_is_no_object_is_refused_or_taken_raw() {
    let (reason, text) = refused("hunter2", "");
    assert_eq!(reason, Reason::SecretDataInvalid);
    assert_eq!(text, "the secret is not JSON; format: raw takes it as it is");
    for list in ["[1]", "\"text\"", "12", "true", "null"] {
        assert_eq!(
            refused(list, "").1,
            "the secret is not a JSON object; format: raw takes it as it is"
        );
    }
    assert_eq!(refused("", "").1, "the secret is empty");
    assert_eq!(refused("", "format: raw").1, "the secret is empty");
    assert_eq!(refused("{}", "").1, "the secret has no keys");
    assert_eq!(
        made("hunter2", "format: raw\nkey: password"),
        pairs(&[("password", "hunter2")])
    );
    let binary = [0_u8, 255, 13, 10];
    let request = request("format: raw");
    let shaped = shape(&bytes(binary), &request.shape, "Opaque").unwrap();
    assert_eq!(shaped.data["value"].expose(), binary);
}

#[test]
fn a_nested_part_is_selected_before_anything_is_checked() {
    let source = r#"{"bad key!":1,"db":{"hosts":[{"name":"x"},{"name":"y"}]}}"#;
    assert_eq!(made(source, "select: db.hosts.1"), pairs(&[("name", "y")]));
    assert_eq!(made(source, "select: /db/hosts/0"), pairs(&[("name", "x")]));
    assert_eq!(
        made(source, "select: db"),
        pairs(&[("hosts", r#"[{"name":"x"},{"name":"y"}]"#)])
    );
    assert_eq!(
        refused(source, "select: db.nothing").1,
        "the secret has nothing at the place that select names"
    );
    assert_eq!(
        made(
            "db:\n  name: 007\n  list: [1.50, 'a\"b', {x: ~}]",
            "format: yaml\nselect: db"
        ),
        pairs(&[("list", r#"[1.50,"a\"b",{"x":null}]"#), ("name", "007")])
    );
}

#[test]
fn keys_are_chosen_and_renamed() {
    let source = r#"{"DB_USER":"u","DB_PASSWORD":"p","OTHER_OLD":"o"}"#;
    assert_eq!(
        made(source, "keys: {user: DB_USER, again: DB_USER}"),
        pairs(&[("again", "u"), ("user", "u")])
    );
    assert_eq!(made(source, "keys: [DB_USER]"), pairs(&[("DB_USER", "u")]));
    assert_eq!(
        made(
            source,
            "exclude: ['.*_OLD']\ninclude: ['DB_.*', 'OTHER.*']\nrename: {'DB_(.*)': 'db.$1'}"
        ),
        pairs(&[("db.PASSWORD", "p"), ("db.USER", "u")])
    );
    // A pattern matches the whole key.
    assert_eq!(made(source, "include: [DB_USER|x]"), pairs(&[("DB_USER", "u")]));
    assert_eq!(
        refused(source, "include: [DB]").1,
        "no key of the secret is left after keys, include and exclude"
    );
    assert_eq!(
        refused(source, "rename: {'DB_.*': same}").1,
        "field 2 of the secret and field 1 of the secret get the same name"
    );
    assert!(
        refused(source, "rename: {'DB_USER': 'a b'}")
            .1
            .starts_with("field 1 of the secret: its name as a key must be at most 253")
    );
}

#[test]
fn missing_keys_are_named_and_the_rest_is_written() {
    let request = request("keys: [a, b, c]");
    let shaped = shape(&bytes(r#"{"a":1}"#), &request.shape, "Opaque").unwrap();
    assert_eq!(
        (shaped.data.len(), shaped.missing.as_slice()),
        (1, ["b".to_owned(), "c".to_owned()].as_slice())
    );
    let told = (Reason::SecretKeyMissing, "the secret has no \"b\"".to_owned());
    assert_eq!(refused(r#"{"a":1}"#, "keys: [a, b]\nstrict: true"), told);
    assert_eq!(refused(r#"{"a":1}"#, "keys: [b]"), told, "nothing would be left");
}

#[test]
fn keys_and_size_are_those_of_the_api_server() {
    let (reason, text) = refused(r#"{"a/b":1}"#, "");
    assert_eq!(reason, Reason::SecretDataInvalid);
    assert!(
        text.starts_with("field 1 of the secret: its name as a key must be at most 253 letters"),
        "{text}"
    );
    // What the request names may be told, but not at any length.
    let odd = format!("keys: ['a b{}']", "x".repeat(300));
    let source = format!(r#"{{"a b{}":1}}"#, "x".repeat(300));
    let text = refused(source, &odd).1;
    assert!(
        text.starts_with("the key \"a bxxx") && text.contains("…\"") && text.len() < 300,
        "{text}"
    );
    let fits = "x".repeat(MOST_BYTES);
    assert_eq!(made(&fits, "format: raw").len(), 1);
    let (reason, text) = refused(format!("{fits}x"), "format: raw");
    assert_eq!(reason, Reason::SecretTooLarge);
    assert_eq!(
        text,
        "the values have 1048577 bytes together; a Secret takes at most 1048576"
    );
    // A field that is asked for under many names counts for each, before it is copied.
    let names: Vec<_> = (0..256).map(|index| format!("k{index}: a")).collect();
    let source = format!(r#"{{"a":"{fits}"}}"#);
    let (reason, text) = refused(source, &format!("keys: {{{}}}", names.join(", ")));
    assert_eq!(reason, Reason::SecretTooLarge);
    assert!(
        text.starts_with("the values have 268435456 bytes together"),
        "{text}"
    );
    // What is not chosen does not count.
    let source = format!(r#"{{"a":"1","b":"{fits}x","c d":""}}"#);
    assert_eq!(made(source, "keys: [a]"), pairs(&[("a", "1")]));
}

#[test]
fn dotenv_is_read_as_shells_write_it() {
    let source = "# comment\nA=1\n export B = two # more\nC=\"x\\ny # z\"\nD='l1\nl2\\n'\n\nE=\nF=a=b\r\n";
    let expected = pairs(&[
        ("A", "1"),
        ("B", "two"),
        ("C", "x\ny # z"),
        ("D", "l1\nl2\\n"),
        ("E", ""),
        ("F", "a=b"),
    ]);
    assert_eq!(made(source, "format: dotenv"), expected);
    assert_eq!(
        refused("A=1\nwords", "format: dotenv").1,
        "the secret has a line 2 that is not of the form NAME=value"
    );
    assert_eq!(
        refused("A='x", "format: dotenv").1,
        "the secret has a quote on line 1 that does not end"
    );
    assert_eq!(
        refused([0xff, b'=', b'1'], "format: dotenv").1,
        "the secret is not text; format: raw takes it as it is"
    );
}

#[test]
fn typed_secrets_are_checked_before_the_write() {
    let cases = [
        (
            "kubernetes.io/tls",
            r#"{"tls.crt":"x"}"#,
            "needs the key tls.crt with a PEM certificate",
        ),
        (
            "kubernetes.io/tls",
            r#"{"tls.crt":"-----BEGIN CERTIFICATE-----"}"#,
            "needs the key tls.key with a PEM private key",
        ),
        (
            "kubernetes.io/dockerconfigjson",
            r#"{".dockerconfigjson":"{}"}"#,
            "needs the key .dockerconfigjson with a JSON object that has auths",
        ),
        (
            "kubernetes.io/basic-auth",
            r#"{"user":"x"}"#,
            "needs the key username or password",
        ),
        (
            "kubernetes.io/ssh-auth",
            r#"{"ssh-privatekey":""}"#,
            "needs the key ssh-privatekey",
        ),
    ];
    for (kind, source, rule) in cases {
        let (reason, text) = refused(source, &format!("type: {kind}"));
        assert_eq!(reason, Reason::SecretDataInvalid);
        assert_eq!(text, format!("a Secret of type {kind} {rule}"));
    }
    let good = [
        (
            "kubernetes.io/tls",
            r#"{"tls.crt":"-----BEGIN CERTIFICATE-----\n","tls.key":"-----BEGIN EC PRIVATE KEY-----\n"}"#,
        ),
        (
            "kubernetes.io/dockerconfigjson",
            r#"{".dockerconfigjson":{"auths":{}}}"#,
        ),
        ("kubernetes.io/basic-auth", r#"{"password":"x"}"#),
        ("kubernetes.io/ssh-auth", r#"{"ssh-privatekey":"x"}"#),
        ("example.com/own", r#"{"a":"x"}"#),
    ];
    for (kind, source) in good {
        assert!(!made(source, &format!("type: {kind}")).is_empty());
    }
}

#[test]
fn a_map_of_keys_needs_no_format() {
    let map = Payload::Map([("a".to_owned(), Value::new("1"))].into());
    let whole = shape(&map, &request("").shape, "Opaque").unwrap();
    assert_eq!(whole.data["a"].expose(), b"1");
    let problem = shape(&map, &request("select: a").shape, "Opaque").unwrap_err();
    assert_eq!(
        problem.text,
        "the secret has no nested parts, so select has no meaning"
    );
}

#[test]
fn dotenv_tells_the_line_and_never_the_text() {
    let text = refused(
        "A=1\n\n# x\npostgres://u:p4ss@db/shop?sslmode=require\n",
        "format: dotenv",
    )
    .1;
    assert_eq!(
        text,
        format!("line 4 of the secret: its name as a key {KEY_RULE}")
    );
    let text = refused(
        "A B=1\nA='\n\n'\nA B C=1",
        "format: dotenv\nrename: {'A(.*)': 'a$1'}",
    )
    .1;
    assert!(text.starts_with("line 1 of the secret: "), "{text}");
    assert_eq!(
        refused("A=1\nB='\n\n'\nC=1", "format: dotenv\nrename: {'[AC]': same}").1,
        "line 1 of the secret and line 5 of the secret get the same name"
    );
}

#[test]
fn yaml_tells_the_rule_and_its_place() {
    assert_eq!(
        refused("a: 1\nhunter2: !x 1", "format: yaml").1,
        "the secret must not have YAML tags (line 2, column 13)"
    );
    assert_eq!(
        refused("a: 1\nb: 2\na: 1", "format: yaml").1,
        "the secret must not have the same key twice (line 3, column 1)"
    );
}

#[test]
fn a_secret_of_too_many_fields_is_refused() {
    let json = |count: usize| {
        let fields: Vec<_> = (0..count).map(|index| format!("\"k{index}\":1")).collect();
        format!("{{{}}}", fields.join(","))
    };
    assert_eq!(made(json(4096), "").len(), 4096);
    let told = "the secret has more than 4096 fields";
    assert_eq!(refused(json(4097), "").1, told);
    assert_eq!(refused(json(4097), "format: yaml").1, told);
    assert_eq!(refused("A=1\n".repeat(4097), "format: dotenv").1, told);
}

/// Text that no message has a piece of.
const CANARY: &str = "[XQZJKVW]{4,12}";

/// Contents with the canary in any place.
fn contents() -> impl Strategy<Value = (String, Vec<u8>)> {
    let frames = prop::sample::select(vec![
        "@",
        "{\"@\":1}",
        "{\"@ @\":1}",
        "{\"a\":\"@\"}",
        "{\"@ \":null,\"b\":[1,{\"@\":\"@\"}]}",
        "{\"a\":1,\"@/\":2",
        "{\"a\":@}",
        "@: @",
        "@ @: {@: [@, &@ @, *@]}",
        "? [@]\n: @",
        "!@ @: @",
        "@: 1\n@: 2",
        "a: *@",
        "%@ @\n---\n@: 1",
        "@=@",
        "A=1\n@://@:@/@?a=@\n",
        "export @ @=1",
        "A='@",
        "@\nB=1",
        "A=1\n@ B=\"@",
        "{\"a\":\"@\\ud800\"}",
        "{\"@\\ud800\":1}",
        "{\"x@\":1,\"y@\":2}",
        "x@: 1\ny@: 2",
        "x@=1\ny@=2",
    ]);
    (CANARY, frames, prop::option::of(any::<Vec<u8>>())).prop_map(|(canary, frame, more)| {
        let mut content = frame.replace('@', &canary).into_bytes();
        content.extend(more.unwrap_or_default());
        (canary, content)
    })
}

/// Lines of a request, none of which names the canary.
fn lines() -> impl Strategy<Value = String> {
    let format = prop::sample::select(vec!["json", "raw", "yaml", "dotenv"]);
    let more = prop::sample::select(vec![
        "",
        "strict: true",
        "keys: [a, A, B]",
        "keys: {n: a}\nstrict: true",
        "include: ['.*']\nexclude: [a]",
        "rename: {'(.*)': '$1 $1'}",
        "rename: {'[xy](.*)': '$1'}",
        "rename: {'.*': same}\nstrict: true",
    ]);
    let kind = prop::sample::select(vec![
        "Opaque",
        "kubernetes.io/tls",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/basic-auth",
    ]);
    (format, more, kind).prop_map(|(format, more, kind)| format!("format: {format}\n{more}\ntype: {kind}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_error_tells_a_piece_of_the_secret((canary, content) in contents(), lines in lines()) {
        let request = request(&lines);
        let shown = String::from_utf8_lossy(&content).into_owned();
        let map = Payload::Map([(shown.clone(), Value::new("1")), (format!("{canary} "), Value::new("2"))].into());
        for payload in [bytes(&content), map] {
            let problem = match shape(&payload, &request.shape, &request.secret_type) {
                Ok(shaped) => {
                    prop_assert!(shaped.data.keys().all(|key| is_data_key(key)));
                    continue;
                }
                Err(problem) => problem,
            };
            for at in 0..=canary.len() - 4 {
                prop_assert!(!problem.text.contains(&canary[at..at + 4]), "{}: {}", shown, problem.text);
            }
        }
    }
}
