//! Signature Version 4: how a request proves to AWS who makes it.

use aws_lc_rs::{digest, hmac};
use jiff::Timestamp;

use super::credentials::Credentials;

/// What is signed.
pub(super) struct Unsigned<'a> {
    pub method: &'a str,
    /// The host, with its port if that is not the usual one.
    pub host: &'a str,
    /// Further headers, with lower-case names.
    pub headers: Vec<(&'static str, String)>,
    pub body: &'a [u8],
}

/// Where a signature is valid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub region: &'a str,
    pub service: &'a str,
}

/// The headers that a request to the root path needs: those that it has, and those that prove who sends it.
pub(super) fn sign(
    request: Unsigned<'_>,
    credentials: &Credentials,
    scope: Scope<'_>,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = now.strftime("%Y%m%d").to_string();
    let mut headers = request.headers;
    headers.push(("x-amz-date", time.clone()));
    if let Some(token) = &credentials.token {
        headers.push(("x-amz-security-token", token.expose().clone()));
    }
    let mut signed: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (*name, value.trim()))
        .collect();
    signed.push(("host", request.host));
    signed.sort_unstable();
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = signed
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();
    let canonical = format!(
        "{}\n/\n\n{lines}\n{names}\n{}",
        request.method,
        hash(request.body)
    );
    let place = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let text = format!(
        "AWS4-HMAC-SHA256\n{time}\n{place}\n{}",
        hash(canonical.as_bytes())
    );
    let secret = format!("AWS4{}", credentials.secret.expose());
    let parts = [day.as_str(), scope.region, scope.service, "aws4_request"];
    let key = parts.iter().fold(
        hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        |key, part| hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref()),
    );
    let signature = hex(hmac::sign(&key, text.as_bytes()).as_ref());
    let proof = format!(
        "AWS4-HMAC-SHA256 Credential={}/{place}, SignedHeaders={names}, Signature={signature}",
        credentials.key_id
    );
    headers.push(("authorization", proof));
    headers
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples that AWS publishes.
    fn signature(method: &str, token: Option<&str>) -> String {
        let credentials =
            Credentials::fixed("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token);
        let request = Unsigned {
            method,
            host: "example.amazonaws.com",
            headers: Vec::new(),
            body: b"",
        };
        let scope = Scope {
            region: "us-east-1",
            service: "service",
        };
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        let headers = sign(request, &credentials, scope, now);
        let (name, proof) = headers.last().unwrap();
        assert_eq!(*name, "authorization");
        proof.clone()
    }

    #[test]
    fn the_published_examples_come_out() {
        assert_eq!(
            signature("GET", None),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
        assert!(
            signature("POST", None)
                .ends_with("5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b")
        );
    }

    #[test]
    fn a_session_token_is_signed_too() {
        let proof = signature("GET", Some("token"));
        assert!(
            proof.contains("SignedHeaders=host;x-amz-date;x-amz-security-token,"),
            "{proof}"
        );
    }
}
