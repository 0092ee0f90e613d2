//! The rules of Kubernetes for Secrets: what a Secret of a type must hold, which types we never make, and how many bytes one Secret
//! takes.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

use crate::Value;

/// The most bytes of values that the API server takes in one Secret.
pub const MOST_BYTES: usize = 1_048_576;

/// Whether a type is reserved: its Secrets give power over the cluster, or are the memory of Helm. We neither make nor take over a
/// Secret of a reserved type. The chart's policy has the API server refuse it too (`secretguard.yaml`).
pub fn is_reserved(secret_type: &str) -> bool {
    secret_type == "kubernetes.io/service-account-token"
        || ["bootstrap.kubernetes.io/", "helm.sh/"]
            .iter()
            .any(|prefix| secret_type.starts_with(prefix))
}

/// Checks the content of a Secret of this type: `get` answers the value of a key.
///
/// **Errors.** A text that names the type and the rule, and holds nothing of the content.
pub fn check<'a>(secret_type: &str, get: impl Fn(&str) -> Option<&'a Value>) -> Result<(), String> {
    let rule = match secret_type {
        "kubernetes.io/tls" => tls(get),
        "kubernetes.io/dockerconfigjson" => docker(get(".dockerconfigjson"), "auths"),
        "kubernetes.io/dockercfg" => docker(get(".dockercfg"), ""),
        "kubernetes.io/basic-auth" => basic(get),
        "kubernetes.io/ssh-auth" => ssh(get),
        _ => Ok(()),
    };
    rule.map_err(|rule| format!("a Secret of type {secret_type} {rule}"))
}

fn tls<'a>(get: impl Fn(&str) -> Option<&'a Value>) -> Result<(), &'static str> {
    let pem = |key: &str, label: &[u8]| {
        get(key).is_some_and(|value| holds(value, b"-----BEGIN ") && holds(value, label))
    };
    if !pem("tls.crt", b"CERTIFICATE-----") {
        return Err("needs the key tls.crt with a PEM certificate");
    }
    if !pem("tls.key", b"PRIVATE KEY-----") {
        return Err("needs the key tls.key with a PEM private key");
    }
    Ok(())
}

fn docker(value: Option<&Value>, field: &str) -> Result<(), &'static str> {
    match value.is_some_and(|value| has_field(value.expose(), field)) {
        true => Ok(()),
        false if field.is_empty() => Err("needs the key .dockercfg with a JSON object"),
        false => Err("needs the key .dockerconfigjson with a JSON object that has auths"),
    }
}

fn basic<'a>(get: impl Fn(&str) -> Option<&'a Value>) -> Result<(), &'static str> {
    match get("username").or_else(|| get("password")) {
        Some(_) => Ok(()),
        None => Err("needs the key username or password"),
    }
}

fn ssh<'a>(get: impl Fn(&str) -> Option<&'a Value>) -> Result<(), &'static str> {
    match get("ssh-privatekey") {
        Some(key) if !key.is_empty() => Ok(()),
        _ => Err("needs the key ssh-privatekey"),
    }
}

fn holds(value: &Value, part: &[u8]) -> bool {
    value.expose().windows(part.len()).any(|window| window == part)
}

/// Whether the bytes are a JSON object that has this field; if the name is empty, any JSON object counts.
fn has_field(bytes: &[u8], name: &str) -> bool {
    // The text is checked first, because the parser skips the values of fields without a look at their bytes.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let fields = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(text);
    fields.is_ok_and(|fields| name.is_empty() || fields.contains_key(name))
}

#[cfg(test)]
mod tests;
