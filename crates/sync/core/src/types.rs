//! Types of Secrets to which Kubernetes gives a meaning: what they must hold.

use crate::data::{Data, Value};
use crate::formats::has_field;

/// Whether Secrets of this type give power over the cluster, or are the memory of Helm: no request makes one, and none is ever
/// taken over. The chart has the API server say the same (`secretguard.yaml`).
pub fn is_reserved(secret_type: &str) -> bool {
    secret_type == "kubernetes.io/service-account-token"
        || ["bootstrap.kubernetes.io/", "helm.sh/"]
            .iter()
            .any(|prefix| secret_type.starts_with(prefix))
}

/// Checks the content of a Secret of this type. The text follows "a Secret of type …".
pub fn check(data: &Data, secret_type: &str) -> Result<(), String> {
    let rule = match secret_type {
        "kubernetes.io/tls" => tls(data),
        "kubernetes.io/dockerconfigjson" => docker(data, ".dockerconfigjson", "auths"),
        "kubernetes.io/dockercfg" => docker(data, ".dockercfg", ""),
        "kubernetes.io/basic-auth" => basic(data),
        "kubernetes.io/ssh-auth" => ssh(data),
        _ => Ok(()),
    };
    rule.map_err(|rule| format!("a Secret of type {secret_type} {rule}"))
}

fn tls(data: &Data) -> Result<(), &'static str> {
    let pem = |key: &str, label: &[u8]| {
        data.get(key)
            .is_some_and(|value| holds(value, b"-----BEGIN ") && holds(value, label))
    };
    if !pem("tls.crt", b"CERTIFICATE-----") {
        return Err("needs the key tls.crt with a PEM certificate");
    }
    if !pem("tls.key", b"PRIVATE KEY-----") {
        return Err("needs the key tls.key with a PEM private key");
    }
    Ok(())
}

fn docker(data: &Data, key: &str, field: &str) -> Result<(), &'static str> {
    let is_there = data
        .get(key)
        .is_some_and(|value| has_field(value.expose(), field));
    match is_there {
        true => Ok(()),
        false if field.is_empty() => Err("needs the key .dockercfg with a JSON object"),
        false => Err("needs the key .dockerconfigjson with a JSON object that has auths"),
    }
}

fn basic(data: &Data) -> Result<(), &'static str> {
    if data.contains_key("username") || data.contains_key("password") {
        return Ok(());
    }
    Err("needs the key username or password")
}

fn ssh(data: &Data) -> Result<(), &'static str> {
    match data.get("ssh-privatekey") {
        Some(key) if !key.is_empty() => Ok(()),
        _ => Err("needs the key ssh-privatekey"),
    }
}

fn holds(value: &Value, part: &[u8]) -> bool {
    value.expose().windows(part.len()).any(|window| window == part)
}
