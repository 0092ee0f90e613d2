//! Service accounts with real tokens: who a controller is while it is tested.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::USER_AGENT;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Rules;
use crate::proxy::Proxy;

/// A service account of a test, with the rights that were declared for it and no others.
#[derive(Debug, Clone)]
pub struct Account {
    pub(crate) admin: Config,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) rules: Rules,
}

impl Account {
    /// Its user name, as the audit log shows it.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The namespace it lives in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What it may do.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// One process that runs as this account. Every instance has a token and a user agent of its own, so that the audit
    /// log and the fault proxy can tell it from every other.
    pub async fn instance(&self, name: &str) -> Result<Instance> {
        let token = self.token().await?;
        Ok(Instance {
            name: name.to_owned(),
            account: self.clone(),
            agent: format!("{}/{name}", self.namespace),
            credential: credential(&token)?,
            token: Token(token),
            server: None,
        })
    }

    /// A fresh token from the API server.
    pub async fn token(&self) -> Result<String> {
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: Vec::new(),
                bound_object_ref: None,
                expiration_seconds: Some(3600),
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> =
            Api::namespaced(Client::try_from(self.admin.clone())?, &self.namespace);
        let answer = accounts
            .create_token_request(&self.name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("ask for a token of {}", self.user()))?;
        let status = answer.status.context("ask for a token: the answer holds none")?;
        Ok(status.token)
    }
}

/// A bearer token. It does not show in the output of a failed test.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// How the API server names a token in `user.extra` of the audit log.
fn credential(token: &str) -> Result<String> {
    let payload = token
        .split('.')
        .nth(1)
        .context("understand a token: it has no payload")?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload)?)?;
    let id = claims["jti"]
        .as_str()
        .context("understand a token: it has no id")?;
    Ok(format!("JTI={id}"))
}

/// One running copy of a controller: its own token, its own user agent.
#[derive(Debug, Clone)]
pub struct Instance {
    name: String,
    account: Account,
    agent: String,
    credential: String,
    token: Token,
    server: Option<http::Uri>,
}

impl Instance {
    /// Its name in the test.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The account it runs as.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Its user agent, for clients that are made here. A real binary has its own.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The id of its token, as the audit log shows it.
    pub fn credential(&self) -> &str {
        &self.credential
    }

    /// Its token.
    pub fn token(&self) -> &str {
        &self.token.0
    }

    /// The same instance behind a fault proxy.
    #[must_use]
    pub fn through(&self, proxy: &Proxy) -> Self {
        Self {
            server: Some(proxy.url()),
            ..self.clone()
        }
    }

    /// How a client of this instance reaches the API server.
    pub fn config(&self) -> Result<Config> {
        let admin = &self.account.admin;
        let mut config = Config::new(self.server.clone().unwrap_or_else(|| admin.cluster_url.clone()));
        if self.server.is_none() {
            config.root_cert.clone_from(&admin.root_cert);
        }
        config.default_namespace.clone_from(&self.account.namespace);
        config.auth_info = AuthInfo {
            token: Some(self.token.0.clone().into()),
            ..AuthInfo::default()
        };
        config.default_retry = false;
        config.headers = vec![(USER_AGENT, self.agent.parse().context("make a user agent")?)];
        Ok(config)
    }

    /// A client of this instance. It belongs to the runtime that makes it.
    pub fn client(&self) -> Result<Client> {
        Client::try_from(self.config()?).with_context(|| format!("make a client for {}", self.name))
    }

    /// Writes a kubeconfig and a token file for a real binary that runs as this instance.
    pub fn credentials(&self) -> Result<Credentials> {
        let dir = tempfile::Builder::new()
            .prefix("trustplane-instance-")
            .tempdir()
            .context("make a directory for credentials")?;
        let config = self.config()?;
        let authority = self.account.admin.root_cert.iter().flatten();
        let pem: String = authority
            .map(|der| {
                let body = STANDARD.encode(der);
                format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
            })
            .collect();
        let mut cluster = json!({ "server": config.cluster_url.to_string() });
        if self.server.is_none() {
            cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
        }
        let credentials = Credentials { dir };
        credentials.rotate(&self.token.0)?;
        let content = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": cluster }],
            "users": [{ "name": "test", "user": { "tokenFile": credentials.token_file() } }],
            "contexts": [{ "name": "test", "context": {
                "cluster": "test", "user": "test", "namespace": self.account.namespace,
            } }],
        });
        fs::write(credentials.kubeconfig(), content.to_string()).context("write a kubeconfig")?;
        Ok(credentials)
    }
}

/// The files by which a real binary becomes an instance. They vanish when this is dropped.
#[derive(Debug)]
pub struct Credentials {
    dir: TempDir,
}

impl Credentials {
    /// The kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// The file that the kubeconfig names as the source of the token.
    pub fn token_file(&self) -> PathBuf {
        self.dir.path().join("token")
    }

    /// A directory for other files of the instance.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Puts a new token in place of the old one, as a kubelet does.
    pub fn rotate(&self, token: &str) -> Result<()> {
        let next = self.dir.path().join("token.next");
        fs::write(&next, token).context("write a token")?;
        fs::rename(&next, self.token_file()).context("put a token in place")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credential_id_is_read_from_the_token() {
        let payload = URL_SAFE_NO_PAD.encode(r#"{"jti":"4a1f","sub":"x"}"#);
        assert_eq!(credential(&format!("h.{payload}.s")).unwrap(), "JTI=4a1f");
        assert!(credential("no-token").is_err());
    }
}
