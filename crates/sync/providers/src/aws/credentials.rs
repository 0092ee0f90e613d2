//! Who we are to AWS: found in the places where the AWS tools look, in their order, and renewed before it expires.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::sync::Mutex;
use trustplane_process::clock::Clock;
use trustplane_process::secret::Secret;
use trustplane_process::web::{Answer, Web, WebError};

use super::environment::Environment;

/// Credentials are renewed this long before they expire.
const EARLY: SignedDuration = SignedDuration::from_mins(5);
/// The instance metadata service answers at once or is not there.
const METADATA_PATIENCE: Duration = Duration::from_secs(2);
const METADATA: &str = "http://169.254.169.254";
/// Where a container may be told to fetch credentials without TLS: the addresses that ECS and EKS use.
const CONTAINER_HOSTS: [&str; 5] = [
    "169.254.170.2",
    "169.254.170.23",
    "[fd00:ec2::23]",
    "localhost",
    "127.0.0.1",
];

/// Keys, and until when they are good.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    pub key_id: String,
    pub secret: Secret<String>,
    pub token: Option<Secret<String>>,
    expires: Option<Timestamp>,
}

impl Credentials {
    /// Keys that do not expire.
    pub fn fixed(key_id: &str, secret: &str, token: Option<&str>) -> Self {
        Self {
            key_id: key_id.to_owned(),
            secret: Secret::new(secret.to_owned()),
            token: token.map(|token| Secret::new(token.to_owned())),
            expires: None,
        }
    }

    fn is_good(&self, now: Timestamp) -> bool {
        self.expires
            .is_none_or(|expires| expires.duration_since(now) > EARLY)
    }
}

/// Why there are no credentials. No text in it holds a key.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum CredentialsError {
    /// No place has any.
    #[error(
        "no credentials were found in the environment, a profile, a web identity, a container or an instance"
    )]
    None,
    /// A place that was named cannot be read.
    #[error("failed to read the credentials of {place}: {what}")]
    Unreadable {
        /// The place.
        place: &'static str,
        /// What is wrong.
        what: String,
    },
    /// Who gives them does not answer, or refuses.
    #[error("failed to get credentials from {place}: {source}")]
    Refused {
        /// The place.
        place: &'static str,
        /// Why.
        source: WebError,
    },
}

/// Finds credentials and keeps them while they are good.
pub(super) struct Chain {
    environment: Environment,
    web: Web,
    clock: Arc<dyn Clock>,
    known: Mutex<Option<Arc<Credentials>>>,
}

/// As container and instance tell credentials.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    access_key_id: String,
    secret_access_key: Secret<String>,
    token: Option<Secret<String>>,
    expiration: Option<Timestamp>,
}

impl From<Told> for Credentials {
    fn from(told: Told) -> Self {
        Self {
            key_id: told.access_key_id,
            secret: told.secret_access_key,
            token: told.token,
            expires: told.expiration,
        }
    }
}

impl Chain {
    pub fn new(environment: Environment, web: Web, clock: Arc<dyn Clock>) -> Self {
        Self {
            environment,
            web,
            clock,
            known: Mutex::new(None),
        }
    }

    /// Credentials that are good now. Whoever asks while they are renewed waits for them.
    pub async fn get(&self) -> Result<Arc<Credentials>, CredentialsError> {
        let mut known = self.known.lock().await;
        if let Some(credentials) = known
            .as_ref()
            .filter(|credentials| credentials.is_good(self.clock.now()))
        {
            return Ok(credentials.clone());
        }
        let found = Arc::new(self.find().await?);
        *known = Some(found.clone());
        Ok(found)
    }

    /// Forgets credentials that AWS no longer takes.
    pub async fn forget(&self, refused: &Credentials) {
        let mut known = self.known.lock().await;
        if known.as_ref().is_some_and(|known| known.key_id == refused.key_id) {
            *known = None;
        }
    }

    async fn find(&self) -> Result<Credentials, CredentialsError> {
        let environment = &self.environment;
        if let Some(credentials) = environment.keys() {
            return Ok(credentials);
        }
        if let Some(credentials) = environment.profile_keys()? {
            return Ok(credentials);
        }
        if let Some(identity) = environment.web_identity() {
            return self.assume(&identity?).await;
        }
        if let Some(address) = environment.container_address() {
            return self.container(&address).await;
        }
        if environment.may_ask_instance() {
            return self.instance().await;
        }
        Err(CredentialsError::None)
    }

    async fn assume(&self, identity: &WebIdentity) -> Result<Credentials, CredentialsError> {
        let place = "the web identity";
        let form = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", &identity.role),
            ("RoleSessionName", &identity.session),
            ("WebIdentityToken", identity.token.expose()),
        ];
        let answer = self.web.post_form(&identity.endpoint, &[], &form).await;
        let answer = answer.and_then(Answer::text);
        let answer = answer.map_err(|source| CredentialsError::Refused { place, source })?;
        let field = |name: &str| element(answer.expose(), name);
        let (Some(key_id), Some(secret), Some(token)) = (
            field("AccessKeyId"),
            field("SecretAccessKey"),
            field("SessionToken"),
        ) else {
            return Err(CredentialsError::Unreadable {
                place,
                what: "the answer has no credentials".to_owned(),
            });
        };
        Ok(Credentials {
            expires: field("Expiration").and_then(|text| text.parse().ok()),
            ..Credentials::fixed(key_id, secret, Some(token))
        })
    }

    async fn container(&self, address: &ContainerAddress) -> Result<Credentials, CredentialsError> {
        let place = "the container";
        let unreadable = |what: &str| CredentialsError::Unreadable {
            place,
            what: what.to_owned(),
        };
        if !is_trusted(&address.url) {
            return Err(unreadable(
                "the address must be https, or one that ECS or EKS uses",
            ));
        }
        let token = match &address.token_file {
            // Read each time: it is renewed.
            Some(file) => {
                Some(Secret::new(std::fs::read_to_string(file).map_err(|error| {
                    unreadable(&format!("its token: {}", error.kind()))
                })?))
            }
            None => address.token.clone(),
        };
        let header = token
            .as_ref()
            .map(|token| ("authorization", token.expose().trim().to_owned()));
        let web = self.web.within(METADATA_PATIENCE);
        let answer = web.get(&address.url, header.as_slice()).await;
        let answer = answer.and_then(Answer::text);
        let answer = answer.map_err(|source| CredentialsError::Refused { place, source })?;
        let told: Told =
            serde_json::from_str(answer.expose()).map_err(|_| unreadable("the answer has no credentials"))?;
        Ok(told.into())
    }

    /// The second version of the instance's metadata service: first a token, then the role, then its credentials.
    async fn instance(&self) -> Result<Credentials, CredentialsError> {
        let place = "the instance";
        let base = self
            .environment
            .instance_address()
            .unwrap_or_else(|| METADATA.to_owned());
        let refused = |source| CredentialsError::Refused { place, source };
        let web = self.web.within(METADATA_PATIENCE);
        let life = [("x-aws-ec2-metadata-token-ttl-seconds", "300".to_owned())];
        let token = web.put(&format!("{base}/latest/api/token"), &life).await;
        // Not on an instance at all: that is no fault of the instance.
        let token = token.and_then(Answer::text).map_err(|_| CredentialsError::None)?;
        let headers = [("x-aws-ec2-metadata-token", token.expose().trim().to_owned())];
        let roles = format!("{base}/latest/meta-data/iam/security-credentials/");
        let role = web.get(&roles, &headers).await;
        let role = role.and_then(Answer::text).map_err(refused)?;
        let role = role.expose().lines().next().unwrap_or_default().trim().to_owned();
        let answer = web.get(&format!("{roles}{role}"), &headers).await;
        let answer = answer.and_then(Answer::text).map_err(refused)?;
        let told: Told = serde_json::from_str(answer.expose()).map_err(|_| CredentialsError::Unreadable {
            place,
            what: "the answer has no credentials".to_owned(),
        })?;
        Ok(told.into())
    }
}

/// A role that a token of somebody else's lets us take.
pub(super) struct WebIdentity {
    pub role: String,
    pub session: String,
    pub token: Secret<String>,
    pub endpoint: String,
}

/// Where a container gets its credentials.
pub(super) struct ContainerAddress {
    pub url: String,
    pub token: Option<Secret<String>>,
    pub token_file: Option<String>,
}

/// A token must not go over an open wire to anywhere but the node itself.
fn is_trusted(url: &str) -> bool {
    if url.starts_with("https://") {
        return true;
    }
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    CONTAINER_HOSTS.iter().any(|host| {
        let port = authority.strip_prefix(host);
        port.is_some_and(|port| {
            port.is_empty()
                || port
                    .strip_prefix(':')
                    .is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()))
        })
    })
}

/// The text of the first element of this name. Enough for an answer whose values need no escapes.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_only_where_it_is_safe() {
        for good in [
            "https://example.com/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1",
            "http://localhost:8080/",
        ] {
            assert!(is_trusted(good), "{good}");
        }
        for bad in [
            "http://example.com",
            "http://169.254.170.23.evil.example/",
            "http://localhost@evil.example/",
            "ftp://localhost",
            "http://localhost:80@evil",
        ] {
            assert!(!is_trusted(bad), "{bad}");
        }
    }

    #[test]
    fn an_answer_of_sts_is_read() {
        let xml = "<A><Credentials><AccessKeyId>AK</AccessKeyId> <Expiration>2026-01-01T00:00:00Z</Expiration></Credentials></A>";
        assert_eq!(element(xml, "AccessKeyId"), Some("AK"));
        assert_eq!(element(xml, "Secret"), None);
    }
}
