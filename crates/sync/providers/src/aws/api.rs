//! The calls of Secrets Manager that we make, and what its answers mean.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use trustplane_process::clock::Clock;
use trustplane_process::outside::{Fault, FaultKind, Outside, OutsideError};
use trustplane_process::secret::Secret;
use trustplane_process::web::{Answer, Proxy, Web, WebError, WebOptions};
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::{FetchError, Fetched};

use super::credentials::{Chain, CredentialsError};
use super::environment::{Environment, host};
use super::sign::{Scope, Unsigned, sign};
use crate::Locator;
use crate::outage::{self, unavailable};

const SERVICE: &str = "secretsmanager";
/// How long a connection to AWS may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an exchange with AWS may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// No answer of AWS to one of our calls is larger: twenty secrets of 64 KiB, as text in JSON.
const LARGEST: usize = 16 << 20;

/// Secrets Manager, in any region.
pub(super) struct Api {
    web: Web,
    chain: Chain,
    environment: Environment,
    clock: Arc<dyn Clock>,
    outside: Outside,
}

/// The code of a refusal that tells nothing but that it is one.
const FORBIDDEN: &str = "Forbidden";

/// A refusal that another try would not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The name of the error, such as `ResourceNotFoundException`.
    pub code: String,
    /// Whether the words say that the secret is about to be deleted.
    pub is_deleted: bool,
}

/// A secret as Secrets Manager gives it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SecretValue {
    #[serde(rename = "ARN", default)]
    pub arn: String,
    #[serde(default)]
    pub name: String,
    version_id: Option<String>,
    secret_string: Option<Secret<String>>,
    secret_binary: Option<Secret<String>>,
}

/// The answer to a batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Batch {
    #[serde(default)]
    pub secret_values: Vec<SecretValue>,
    #[serde(default)]
    pub errors: Vec<BatchError>,
}

/// One that the batch could not give.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BatchError {
    pub secret_id: String,
    pub error_code: String,
    #[serde(default)]
    message: String,
}

impl BatchError {
    /// What it comes to.
    pub fn refusal(&self) -> Refusal {
        Refusal::new(&self.error_code, &self.message)
    }
}

/// What AWS calls a fault that may go better later.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Code(String);

/// Why a call gave nothing.
#[derive(Debug)]
pub(super) enum CallError {
    Refused(Refusal),
    /// The answer is not what AWS answers.
    Unreadable,
    Outside(OutsideError),
    Credentials(CredentialsError),
}

impl Api {
    pub fn new(
        environment: Environment,
        ca_bundle: Option<&str>,
        outside: Outside,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, WebError> {
        let web = Web::new(WebOptions {
            ca_bundle,
            proxy: Proxy::None,
            connect: CONNECT,
            total: PATIENCE,
            largest_answer: LARGEST,
        })?;
        Ok(Self {
            chain: Chain::new(environment.clone(), web.clone(), clock.clone()),
            web,
            environment,
            clock,
            outside,
        })
    }

    /// The region of paths that do not name one.
    pub fn region(&self) -> Option<String> {
        self.environment.region()
    }

    /// Who we are, as far as a refusal depends on it.
    pub async fn identity(&self) -> Result<String, CallError> {
        let credentials = self.chain.get().await.map_err(CallError::Credentials)?;
        Ok(credentials.key_id.clone())
    }

    /// One secret.
    pub async fn get(&self, region: &str, locator: &Locator) -> Result<SecretValue, CallError> {
        let mut body = json!({ "SecretId": locator.path });
        if let Some(version) = &locator.version {
            // Ids are long and have dashes in them; stages do not.
            let field = if is_version_id(version) {
                "VersionId"
            } else {
                "VersionStage"
            };
            body[field] = version.as_str().into();
        }
        self.call(region, "GetSecretValue", &body).await
    }

    /// Up to twenty secrets in their current version.
    pub async fn get_batch(&self, region: &str, paths: &[&str]) -> Result<Batch, CallError> {
        self.call(region, "BatchGetSecretValue", &json!({ "SecretIdList": paths }))
            .await
    }

    async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        region: &str,
        operation: &str,
        body: &Json,
    ) -> Result<T, CallError> {
        let endpoint = self
            .environment
            .endpoint("SECRETS_MANAGER")
            .unwrap_or_else(|| host(SERVICE, region));
        let body = body.to_string().into_bytes();
        let target = format!("secretsmanager.{operation}");
        let answer = self
            .outside
            .call_alone(|_| self.attempt(&endpoint, region, &target, &body))
            .await
            .map_err(CallError::Outside)?;
        let answer = answer?;
        serde_json::from_slice(answer.body.expose()).map_err(|_| CallError::Unreadable)
    }

    /// One try. The inner error is final; the outer one may go better later.
    async fn attempt(
        &self,
        endpoint: &str,
        region: &str,
        target: &str,
        body: &[u8],
    ) -> Result<Result<Answer, CallError>, Fault> {
        let credentials = match self.chain.get().await {
            Ok(credentials) => credentials,
            Err(CredentialsError::Refused {
                source: source @ (WebError::Transport(_) | WebError::Timeout),
                ..
            }) => return Err(Fault::transport(source)),
            Err(error) => return Ok(Err(CallError::Credentials(error))),
        };
        let request = Unsigned {
            method: "POST",
            host: endpoint.split_once("://").map_or(endpoint, |(_, host)| host),
            headers: vec![
                ("content-type", "application/x-amz-json-1.1".to_owned()),
                ("x-amz-target", target.to_owned()),
            ],
            body,
        };
        let scope = Scope {
            region,
            service: SERVICE,
        };
        let headers = sign(request, &credentials, scope, self.clock.now());
        let answer = self
            .web
            .post(&format!("{endpoint}/"), &headers, body.to_vec())
            .await;
        let answer = answer.map_err(Fault::transport)?;
        if answer.status.is_success() {
            return Ok(Ok(answer));
        }
        let refusal = Refusal::read(&answer);
        match refusal.code.as_str() {
            "ThrottlingException" | "TooManyRequestsException" | "RequestLimitExceeded" | "SlowDown" => {
                let after = trustplane_process::outside::retry_after(&answer.headers, self.clock.now());
                Err(Fault::throttled(after, Code(refusal.code)))
            }
            "InternalServiceError"
            | "InternalFailure"
            | "ServiceUnavailable"
            | "ServiceUnavailableException" => Err(Fault::new(FaultKind::Server5xx, Code(refusal.code))),
            "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => {
                self.chain.forget(&credentials).await;
                Ok(Err(CallError::Refused(refusal)))
            }
            _ => match Fault::from_answer(answer.status, &answer.headers, self.clock.now()) {
                Some(fault) if fault.kind().is_transient() => Err(fault),
                _ => Ok(Err(CallError::Refused(refusal))),
            },
        }
    }
}

impl Refusal {
    fn new(code: &str, message: &str) -> Self {
        Self {
            // As a URI or as a plain name, with or without what follows a colon.
            code: code
                .rsplit('#')
                .next()
                .unwrap_or(code)
                .split(':')
                .next()
                .unwrap_or(code)
                .to_owned(),
            is_deleted: message.contains("deleted") || message.contains("deletion"),
        }
    }

    fn read(answer: &Answer) -> Self {
        #[derive(Deserialize, Default)]
        struct Body {
            #[serde(rename = "__type", default)]
            kind: String,
            #[serde(alias = "Message", default)]
            message: String,
        }
        let body: Body = serde_json::from_slice(answer.body.expose()).unwrap_or_default();
        let header = answer
            .headers
            .get("x-amzn-errortype")
            .and_then(|value| value.to_str().ok());
        let named = [header.unwrap_or_default(), &body.kind];
        let code = named.into_iter().find(|code| !code.is_empty());
        Self::new(code.unwrap_or_else(|| nameless(answer.status)), &body.message)
    }
}

/// What stands in the way may not speak as AWS does: a gateway, or the policy of an endpoint.
fn nameless(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => FORBIDDEN,
        _ => "",
    }
}

impl CallError {
    /// What to tell: the provider's code, what would have to be allowed, and nothing that differs from call to call.
    pub fn into_fetch(self) -> FetchError {
        match self {
            Self::Refused(refusal) => refused(&refusal),
            Self::Unreadable => invalid("the provider's answer cannot be read"),
            Self::Credentials(error) => match error {
                CredentialsError::None => denied("credentials: none were found"),
                other => FetchError::Unavailable {
                    what: other.to_string(),
                },
            },
            Self::Outside(error) => {
                let fault = error.fault();
                let code = fault.and_then(|fault| fault.cause().downcast_ref::<Code>());
                outage::told(&error).with_code(code.map_or("", |code| &code.0))
            }
        }
    }
}

/// What a refusal means, with the code of AWS. The message of AWS is not passed on: it holds ids and names.
fn refused(refusal: &Refusal) -> FetchError {
    let error = meant(refusal);
    match refusal.code.as_str() {
        // Our own word.
        FORBIDDEN => error,
        code => error.with_code(code),
    }
}

fn meant(refusal: &Refusal) -> FetchError {
    match refusal.code.as_str() {
        "ResourceNotFoundException" => FetchError::NotFound,
        "InvalidRequestException" | "InvalidParameterException" if refusal.is_deleted => {
            invalid("the secret is scheduled for deletion")
        }
        "AccessDeniedException" => denied("secretsmanager:GetSecretValue"),
        FORBIDDEN => denied("valid credentials and secretsmanager:GetSecretValue"),
        "DecryptionFailure" => denied("kms:Decrypt on the key of the secret"),
        "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => {
            unavailable("our credentials have expired")
        }
        "UnrecognizedClientException"
        | "InvalidClientTokenId"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch" => denied("valid credentials"),
        _ => invalid("the provider does not take the request"),
    }
}

fn invalid(what: &str) -> FetchError {
    FetchError::Invalid {
        what: what.to_owned(),
    }
}

fn denied(permission: &str) -> FetchError {
    FetchError::Denied {
        permission: permission.to_owned(),
    }
}

/// A version's id is 32 to 64 characters long, usually a UUID; a stage is a word such as AWSPREVIOUS.
fn is_version_id(version: &str) -> bool {
    (32..=64).contains(&version.len()) && version.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

impl SecretValue {
    /// Whether this is the secret that was asked for by name, by ARN, or by an ARN without its last six characters.
    pub fn answers(&self, path: &str) -> bool {
        let is_partial = || {
            let suffix = self
                .arn
                .strip_prefix(path)
                .and_then(|rest| rest.strip_prefix('-'));
            path.starts_with("arn:")
                && suffix.is_some_and(|suffix| suffix.len() == 6 && !suffix.contains('/'))
        };
        self.name == path || self.arn == path || is_partial()
    }

    /// The content.
    pub fn into_fetched(self) -> Result<Fetched, FetchError> {
        let bytes = match (&self.secret_string, &self.secret_binary) {
            (Some(text), _) => text.expose().clone().into_bytes(),
            (None, Some(encoded)) => STANDARD
                .decode(encoded.expose())
                .map_err(|_| invalid("the binary secret is not base64"))?,
            (None, None) => return Err(invalid("the secret has neither text nor bytes")),
        };
        Ok(Fetched {
            provider: super::NAME,
            payload: Payload::Bytes(Value::new(bytes)),
            version: self.version_id,
            lease: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(arn: &str, name: &str) -> SecretValue {
        serde_json::from_value(json!({ "ARN": arn, "Name": name, "SecretString": "x" })).unwrap()
    }

    #[test]
    fn an_answer_is_matched_with_its_question() {
        let arn = "arn:aws:secretsmanager:eu-west-1:1:secret:shop/db-AbCdEf";
        let found = value(arn, "shop/db");
        assert!(found.answers("shop/db") && found.answers(arn));
        assert!(found.answers("arn:aws:secretsmanager:eu-west-1:1:secret:shop/db"));
        for other in [
            "shop",
            "shop/db-AbCdEf",
            "arn:aws:secretsmanager:eu-west-1:1:secret:shop",
        ] {
            assert!(!found.answers(other), "{other}");
        }
    }

    #[test]
    fn errors_are_known_by_their_code_and_tell_it() {
        let refusal = |code: &str, message: &str| refused(&Refusal::new(code, message));
        assert_eq!(
            refusal("com.amazonaws#ResourceNotFoundException:http://x", "").to_string(),
            "it does not exist (ResourceNotFoundException)"
        );
        assert_eq!(
            refusal("AccessDeniedException", "id 123").to_string(),
            "access was denied; needed is secretsmanager:GetSecretValue (AccessDeniedException)"
        );
        let deleted = "You can't perform this operation on the secret because it was marked for deletion.";
        for code in ["InvalidRequestException", "InvalidParameterException"] {
            let told = format!("the secret is scheduled for deletion ({code})");
            assert_eq!(refusal(code, deleted).to_string(), told);
        }
        for (code, told) in [
            (
                "ValidationException",
                "the provider does not take the request (ValidationException)",
            ),
            ("<odd>", "the provider does not take the request"),
            (
                FORBIDDEN,
                "access was denied; needed is valid credentials and secretsmanager:GetSecretValue",
            ),
        ] {
            assert_eq!(refusal(code, "hunter2").to_string(), told);
        }
    }

    #[test]
    fn ids_and_stages_are_told_apart() {
        assert!(is_version_id(
            "a1b2c3d4-5678-90ab-cdef-EXAMPLE11111"
                .replace("EXAMPLE", "0000000")
                .as_str()
        ));
        assert!(!is_version_id("AWSPREVIOUS") && !is_version_id("my-own-stage"));
    }

    #[test]
    fn binary_secrets_are_decoded() {
        let value: SecretValue = serde_json::from_value(json!({ "SecretBinary": "AP8=" })).unwrap();
        let fetched = value.into_fetched().unwrap();
        assert_eq!(fetched.payload, Payload::Bytes(Value::new([0_u8, 255])));
    }
}
