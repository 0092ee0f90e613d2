use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::store::identity::ClientKey;

const NOW: i64 = 1_800_000_000;
const URL: &str = "https://hub.example:8443";

struct Signer(EcdsaKeyPair);

impl Signer {
    fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn key(&self, kid: &str) -> ClientKey {
        ClientKey {
            kid: kid.to_owned(),
            point: self.0.public_key().as_ref().to_vec(),
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "JWT"})
}

fn claims() -> Value {
    json!({"iss": "c-1", "sub": "c-1", "aud": [URL], "iat": NOW, "exp": NOW + 300, "jti": "j-1"})
}

fn with(key: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[key] = value;
    claims
}

fn accept(assertion: &str, keys: &[ClientKey]) -> Result<Accepted, AssertionError> {
    let claimed = claimed(assertion).ok_or(AssertionError::Unproven)?;
    let claims = verify(assertion, &claimed, keys)?;
    check(claims, &[URL.to_owned()], NOW)
}

#[test]
fn the_assertion_of_the_original_is_accepted() {
    let signer = Signer::new();
    let accepted = accept(&signer.sign(&header(), &claims()), &[signer.key("k")]).unwrap();
    assert_eq!(accepted.client, "c-1");
    assert_eq!(accepted.remember_until, NOW + 300 + SKEW);
}

#[test]
fn each_claim_has_its_rule() {
    let signer = Signer::new();
    let keys = [signer.key("k")];
    let told = |claims: Value| match accept(&signer.sign(&header(), &claims), &keys) {
        Ok(_) => "accepted",
        Err(AssertionError::Claim(rule)) => rule,
        Err(AssertionError::Unproven) => "unproven",
    };
    assert_eq!(told(claims()), "accepted");
    assert_eq!(
        told(with("sub", json!("c-2"))),
        "iss and sub must be the same client"
    );
    assert_eq!(
        told(with("aud", json!("https://other"))),
        "aud must name a URL of this hub (--url)"
    );
    assert_eq!(
        told(with("aud", json!([]))),
        "aud must name a URL of this hub (--url)"
    );
    assert_eq!(told(with("aud", json!(URL))), "accepted");
    assert_eq!(
        told(with("aud", json!(["https://other", format!("{URL}/")]))),
        "accepted"
    );
    assert_eq!(told(with("iat", json!(NOW + SKEW))), "accepted");
    assert_eq!(told(with("iat", json!(NOW + SKEW + 1))), "iat is in the future");
    assert_eq!(told(with("exp", json!(NOW))), "exp must be after iat");
    assert_eq!(told(with("exp", json!(NOW + MAX_LIFE))), "accepted");
    assert_eq!(
        told(with("exp", json!(NOW + MAX_LIFE + 1))),
        "exp may be at most 600 s after iat"
    );
    assert_eq!(
        told(with("exp", json!(i64::MAX))),
        "exp may be at most 600 s after iat"
    );
    assert_eq!(told(with("nbf", json!(NOW + SKEW + 1))), "nbf is in the future");
    assert_eq!(told(with("jti", json!(""))), "jti must have 1 to 256 bytes");
    assert_eq!(
        told(with("jti", json!("j".repeat(MAX_JTI + 1)))),
        "jti must have 1 to 256 bytes"
    );
    for missing in ["sub", "aud", "iat", "exp", "jti"] {
        assert_eq!(told(with(missing, json!(null))), "unproven", "{missing}");
    }
    let late =
        json!({"iss": "c-1", "sub": "c-1", "aud": URL, "iat": NOW - 300, "exp": NOW - SKEW, "jti": "j"});
    assert_eq!(told(late), "exp has passed");
    let skewed =
        json!({"iss": "c-1", "sub": "c-1", "aud": URL, "iat": NOW - 300, "exp": NOW - SKEW + 1, "jti": "j"});
    assert_eq!(told(skewed), "accepted");
}

#[test]
fn only_es256_by_a_key_of_the_client_is_proof() {
    let (signer, other) = (Signer::new(), Signer::new());
    let keys = [other.key("old"), signer.key("new")];
    assert!(
        accept(&signer.sign(&header(), &claims()), &keys).is_ok(),
        "each key is tried"
    );
    assert_eq!(
        accept(&signer.sign(&header(), &claims()), &keys[..1]),
        Err(AssertionError::Unproven)
    );
    assert_eq!(
        accept(&signer.sign(&header(), &claims()), &[]),
        Err(AssertionError::Unproven)
    );
    let kid = |kid: &str| json!({"alg": "ES256", "kid": kid});
    assert!(accept(&signer.sign(&kid("new"), &claims()), &keys).is_ok());
    assert_eq!(
        accept(&signer.sign(&kid("old"), &claims()), &keys),
        Err(AssertionError::Unproven)
    );
    assert_eq!(
        accept(&signer.sign(&kid("none"), &claims()), &keys),
        Err(AssertionError::Unproven)
    );
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "HS256"}),
        json!({"alg": "ES384"}),
        json!({"alg": "ES256", "crit": ["exp"]}),
        json!({"alg": "ES256", "typ": "at+jwt"}),
        json!({"typ": "JWT"}),
    ] {
        let refused = accept(&signer.sign(&header, &claims()), &keys);
        assert_eq!(refused, Err(AssertionError::Unproven), "{header}");
    }
}

#[test]
fn garbage_around_an_assertion_is_refused() {
    let signer = Signer::new();
    let keys = [signer.key("k")];
    let good = signer.sign(&header(), &claims());
    let unsigned = &good[..=good.rfind('.').unwrap()];
    for bad in [
        format!("{good}."),
        format!("{good}="),
        format!("{good}AA"),
        format!(" {good}"),
        format!("{good}\n"),
        unsigned.to_owned(),
        good.replace('.', ".."),
        String::new(),
        "..".to_owned(),
        "a".repeat(MAX_ASSERTION + 1),
    ] {
        assert_eq!(accept(&bad, &keys), Err(AssertionError::Unproven), "{bad}");
    }
}

proptest! {
    #[test]
    fn a_mutated_assertion_is_never_accepted(at in 0_usize..400, to in any::<u8>()) {
        let signer = Signer::new();
        let good = signer.sign(&header(), &claims());
        let mut bytes = good.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(bad) = String::from_utf8(bytes) && bad != good {
            prop_assert!(accept(&bad, &[signer.key("k")]).is_err(), "{}", bad);
        }
    }

    #[test]
    fn garbage_is_never_accepted(text in "[a-zA-Z0-9_.=-]{0,300}") {
        prop_assert!(accept(&text, &[Signer::new().key("k")]).is_err());
    }

    #[test]
    fn claims_of_any_times_are_judged_without_overflow(iat in any::<i64>(), exp in any::<i64>(), nbf in any::<i64>()) {
        let text = json!({"iss": "c", "sub": "c", "aud": URL, "iat": iat, "exp": exp, "nbf": nbf, "jti": "j"});
        let claims: Claims = serde_json::from_value(text).unwrap();
        if check(claims, &[URL.to_owned()], NOW).is_ok() {
            prop_assert!(exp > NOW - SKEW && exp <= NOW + SKEW + MAX_LIFE);
        }
    }
}

#[test]
fn signature_is_checked_equally_often_for_any_client() {
    let keys: Vec<ClientKey> = (0..MAX_KEYS).map(|n| Signer::new().key(&n.to_string())).collect();
    let real = |kid: Option<&str>, keys: &[ClientKey]| {
        let claimed = Claimed {
            client: "c-1".to_owned(),
            kid: kid.map(str::to_owned),
        };
        let candidates = candidates(&claimed, keys);
        assert_eq!(candidates.len(), MAX_KEYS);
        candidates.iter().flatten().count()
    };
    assert_eq!(real(None, &[]), 0, "an unknown client");
    assert_eq!(real(None, &keys[..1]), 1);
    assert_eq!(real(None, &keys), MAX_KEYS);
    assert_eq!(real(Some("3"), &keys), 1);
    assert_eq!(real(Some("other"), &keys), 0);
}

#[test]
fn signature_of_the_stand_in_key_proves_nothing() {
    let mut one = [0; 32];
    one[31] = 1;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(&ECDSA_P256_SHA256_FIXED_SIGNING, &one, &NO_KEY);
    let forger = Signer(pair.unwrap());
    let forged = forger.sign(&header(), &claims());
    assert!(
        accept(&forged, &[forger.key("k")]).is_ok(),
        "the signature is valid"
    );
    assert_eq!(accept(&forged, &[]), Err(AssertionError::Unproven));
    assert_eq!(
        accept(&forged, &[Signer::new().key("k")]),
        Err(AssertionError::Unproven)
    );
}
