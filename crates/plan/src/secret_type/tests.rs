use super::*;

/// What `check` says of a Secret with these keys.
fn checked(secret_type: &str, data: &[(&str, &str)]) -> Result<(), String> {
    let data: BTreeMap<_, _> = data
        .iter()
        .map(|(key, value)| (*key, Value::new(*value)))
        .collect();
    check(secret_type, |key| data.get(key))
}

#[test]
fn credentials_and_releases_are_reserved() {
    for reserved in [
        "kubernetes.io/service-account-token",
        "bootstrap.kubernetes.io/token",
        "helm.sh/release.v1",
    ] {
        assert!(is_reserved(reserved), "{reserved}");
    }
    for free in ["Opaque", "kubernetes.io/tls", "example.com/helm.sh/", ""] {
        assert!(!is_reserved(free), "{free}");
    }
}

#[test]
fn a_secret_is_refused_when_its_type_wants_more() {
    let certificate = "-----BEGIN CERTIFICATE-----\n";
    let key = "-----BEGIN EC PRIVATE KEY-----\n";
    type Pairs<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(&str, Pairs<'_>, &str)] = &[
        (
            "kubernetes.io/tls",
            &[("tls.crt", "x"), ("tls.key", key)],
            "needs the key tls.crt with a PEM certificate",
        ),
        (
            "kubernetes.io/tls",
            &[("tls.crt", certificate)],
            "needs the key tls.key with a PEM private key",
        ),
        (
            "kubernetes.io/dockerconfigjson",
            &[(".dockerconfigjson", "{}")],
            "needs the key .dockerconfigjson with a JSON object that has auths",
        ),
        (
            "kubernetes.io/dockercfg",
            &[(".dockercfg", "[]")],
            "needs the key .dockercfg with a JSON object",
        ),
        (
            "kubernetes.io/basic-auth",
            &[("user", "x")],
            "needs the key username or password",
        ),
        (
            "kubernetes.io/ssh-auth",
            &[("ssh-privatekey", "")],
            "needs the key ssh-privatekey",
        ),
    ];
    for (secret_type, data, rule) in cases {
        let told = checked(secret_type, data).unwrap_err();
        assert_eq!(told, format!("a Secret of type {secret_type} {rule}"));
    }
}

#[test]
fn a_secret_is_accepted_when_it_has_what_its_type_wants() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        (
            "kubernetes.io/tls",
            &[
                ("tls.crt", "-----BEGIN CERTIFICATE-----\n"),
                ("tls.key", "-----BEGIN EC PRIVATE KEY-----\n"),
            ],
        ),
        (
            "kubernetes.io/dockerconfigjson",
            &[(".dockerconfigjson", r#"{"auths":{}}"#)],
        ),
        ("kubernetes.io/dockercfg", &[(".dockercfg", "{}")]),
        ("kubernetes.io/basic-auth", &[("username", "x")]),
        ("kubernetes.io/basic-auth", &[("password", "")]),
        ("kubernetes.io/ssh-auth", &[("ssh-privatekey", "x")]),
        ("example.com/own", &[]),
    ];
    for (secret_type, data) in cases {
        assert_eq!(checked(secret_type, data), Ok(()), "{secret_type}");
    }
}

#[test]
fn docker_objects_are_recognised() {
    assert!(has_field(br#" {"auths":{}}"#, "auths") && has_field(b"{}", ""));
    for bad in [
        &b"{}"[..],
        b"[\"auths\"]",
        b"{\"auths\":",
        b"\xff",
        b"{\"auths\":\"\xff\"}",
        b"\"auths\"",
    ] {
        assert!(!has_field(bad, "auths"));
    }
    assert!(!has_field(b"[]", "") && !has_field(b"{} {}", ""));
    let deep = format!("{{\"auths\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(has_field(deep.as_bytes(), "auths"));
}
