use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaSigningAlgorithm, KeyPair,
    UnparsedPublicKey,
};
use serde_json::Value;

use super::*;

fn pem(label: &str, der: &[u8]) -> String {
    let body = BASE64_STANDARD.encode(der);
    let lines: Vec<_> = body
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// A key in both forms.
fn keys(algorithm: &'static EcdsaSigningAlgorithm) -> (EcdsaKeyPair, String, String) {
    let pair = EcdsaKeyPair::generate(algorithm).unwrap();
    let pkcs8 = pair.to_pkcs8v1().unwrap();
    let private = pair.private_key();
    let sec1 = AsDer::<EcPrivateKeyRfc5915Der<'_>>::as_der(&private).unwrap();
    let (pkcs8, sec1) = (
        pem("PRIVATE KEY", pkcs8.as_ref()),
        pem("EC PRIVATE KEY", sec1.as_ref()),
    );
    (pair, pkcs8, sec1)
}

fn secret(id: (&str, &str), key: (&str, &str)) -> BTreeMap<String, ByteString> {
    [id, key]
        .map(|(name, value)| (name.to_owned(), ByteString(value.as_bytes().to_vec())))
        .into()
}

#[test]
fn both_spellings_and_both_forms_are_read_and_sign() {
    let (pair, pkcs8, sec1) = keys(&ECDSA_P256_SHA256_FIXED_SIGNING);
    let parameters = pem("EC PARAMETERS", &[6, 8, 42, 134, 72, 206, 61, 3, 1, 7]);
    for (id, name, key) in [
        ("client_id", "private_key", pkcs8),
        ("clientId", "privateKey", sec1.clone()),
        ("client_id", "private_key", format!("{parameters}{sec1}")),
    ] {
        let credentials = Credentials::read(&secret((id, " agent \n"), (name, &key))).unwrap();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let assertion = credentials.assertion("https://hub/", now).unwrap();
        let parts: Vec<&str> = assertion.expose().split('.').collect();
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
        assert_eq!(decode(parts[0]), br#"{"alg":"ES256","typ":"JWT"}"#);
        let claims: Value = serde_json::from_slice(&decode(parts[1])).unwrap();
        assert_eq!(
            (claims["iss"].as_str(), claims["sub"].as_str()),
            (Some("agent"), Some("agent"))
        );
        assert_eq!(claims["aud"], serde_json::json!(["https://hub/"]));
        assert_eq!(
            claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(),
            300
        );
        assert_eq!(claims["jti"].as_str().unwrap().len(), 36);
        assert_eq!(claims.as_object().unwrap().len(), 6);
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
        let signed = format!("{}.{}", parts[0], parts[1]);
        public.verify(signed.as_bytes(), &decode(parts[2])).unwrap();
    }
}

#[test]
fn what_cannot_be_used_names_the_key_and_the_rule() {
    let (_, pkcs8, _) = keys(&ECDSA_P256_SHA256_FIXED_SIGNING);
    let (_, other_curve, other_sec1) = keys(&ECDSA_P384_SHA384_FIXED_SIGNING);
    let read = |id: &str, key: &str| {
        Credentials::read(&secret(("client_id", id), ("private_key", key))).unwrap_err()
    };
    assert_eq!(read(" ", &pkcs8), CredentialsError::ClientId);
    for key in [
        "",
        "nonsense",
        "-----BEGIN PRIVATE KEY-----\n%%\n-----END PRIVATE KEY-----",
    ] {
        assert_eq!(read("a", key), CredentialsError::Pem, "{key}");
    }
    for key in [other_curve, other_sec1, pem("PRIVATE KEY", b"garbage")] {
        assert_eq!(read("a", &key), CredentialsError::Curve);
    }
    let missing = Credentials::read(&secret(("client_id", "a"), ("other", ""))).unwrap_err();
    assert_eq!(missing.to_string(), "private_key is missing");
}

#[test]
fn debug_shows_no_key() {
    let (_, pkcs8, _) = keys(&ECDSA_P256_SHA256_FIXED_SIGNING);
    let credentials = Credentials::read(&secret(("client_id", "a"), ("private_key", &pkcs8))).unwrap();
    assert_eq!(
        format!("{credentials:?}"),
        r#"Credentials { client_id: "a", .. }"#
    );
}
