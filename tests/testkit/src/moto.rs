//! AWS for tests: Secrets Manager, IAM, STS and the metadata of an instance, as moto plays them.

use std::future::ready;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::{Tool, Toolchain};

use crate::plane::blocking;
use crate::{DEADLINE, until};

/// Where IAM is, which has no region.
const GLOBAL: &str = "us-east-1";

/// A policy of IAM: read access to secrets, without the right to ask for many at once.
pub const READER: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": "*"}
]}"#;

/// The keys of a user of AWS. They are made up, so they may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// Says who.
    pub id: String,
    /// Signs.
    pub secret: String,
}

/// The text of the first element of this name.
pub fn element(xml: &str, name: &str) -> Result<String> {
    let found = xml
        .split_once(&format!("<{name}>"))
        .and_then(|(_, rest)| rest.split_once('<'));
    let (text, _) = found.with_context(|| format!("find {name} in an answer of IAM"))?;
    Ok(text.to_owned())
}

/// A server of moto with nothing in it. It ends when this is dropped.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// use serde_json::json;
/// use trustplane_testkit::Moto;
///
/// let moto = Moto::start().await?;
/// let secret = json!({ "Name": "shop/db", "SecretString": "hunter2" });
/// moto.secrets_manager("eu-west-1", "CreateSecret", &secret).await?;
/// println!("export AWS_ENDPOINT_URL={}", moto.endpoint());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Moto {
    endpoint: String,
    http: Client<HttpConnector, Full<Bytes>>,
    _server: Child,
    _log: NamedTempFile,
}

impl Moto {
    /// Starts one that this machine alone can reach.
    pub async fn start() -> Result<Self> {
        Self::start_on(Ipv4Addr::LOCALHOST.into()).await
    }

    /// Starts one on this address, at a port that is free, and returns when it answers.
    pub async fn start_on(address: IpAddr) -> Result<Self> {
        ensure!(
            !address.is_unspecified(),
            "start moto on {address}: every network would reach it"
        );
        let tool = blocking(|| Toolchain::new(&Cache::locate()?).ensure(Tool::Moto)).await?;
        let log = NamedTempFile::new().context("make a log file")?;
        let mut server = Command::new(tool.join("moto_server"))
            .args(["--host", &address.to_string(), "--port", "0"])
            // Variables would change how it behaves.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.reopen().context("share a log file")?)
            .kill_on_drop(true)
            .spawn()
            .context("start moto")?;
        let endpoint = until("moto to listen", DEADLINE, || {
            ready(listening(&mut server, log.path()))
        })
        .await?;
        let moto = Self {
            endpoint,
            http: Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(0)
                .build_http(),
            _server: server,
            _log: log,
        };
        moto.send(moto.request("/moto-api/").method("GET"), "")
            .await
            .context("see whether moto answers")?;
        Ok(moto)
    }

    /// Its URL, for `AWS_ENDPOINT_URL` and the like.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// An operation of Secrets Manager, such as `CreateSecret`, with its parameters; gives the answer.
    pub async fn secrets_manager(&self, region: &str, operation: &str, parameters: &Value) -> Result<Value> {
        let request = self
            .signed(region, "secretsmanager")
            .header(CONTENT_TYPE, "application/x-amz-json-1.1")
            .header("x-amz-target", format!("secretsmanager.{operation}"));
        let answer = self
            .send(request, parameters.to_string())
            .await
            .with_context(|| format!("{operation} in {region}"))?;
        serde_json::from_slice(&answer).with_context(|| format!("understand the answer to {operation}"))
    }

    /// An action of IAM, such as `CreateUser`, with its parameters; gives the answer, which is XML.
    pub async fn iam(&self, action: &str, parameters: &[(&str, &str)]) -> Result<String> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("Action", action)
            .append_pair("Version", "2010-05-08")
            .extend_pairs(parameters)
            .finish();
        let request = self
            .signed(GLOBAL, "iam")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let answer = self
            .send(request, form)
            .await
            .with_context(|| action.to_owned())?;
        String::from_utf8(answer.into()).with_context(|| format!("understand the answer to {action}"))
    }

    /// Makes a user who may read secrets one by one, and gives its keys.
    pub async fn reader(&self) -> Result<AccessKey> {
        let user = ("UserName", "reader");
        self.iam("CreateUser", &[user]).await?;
        let policy = [user, ("PolicyName", "read"), ("PolicyDocument", READER)];
        self.iam("PutUserPolicy", &policy).await?;
        let keys = self.iam("CreateAccessKey", &[user]).await?;
        Ok(AccessKey {
            id: element(&keys, "AccessKeyId")?,
            secret: element(&keys, "SecretAccessKey")?,
        })
    }

    /// From here on it refuses what is not signed with keys that it gave, and what no policy of IAM allows: also the
    /// operations of this value, which are not signed.
    pub async fn enforce_rights(&self) -> Result<()> {
        let request = self.request("/moto-api/reset-auth");
        self.send(request, "0")
            .await
            .context("have moto enforce rights")?;
        Ok(())
    }

    fn request(&self, path: &str) -> request::Builder {
        Request::post(format!("{}{path}", self.endpoint))
    }

    /// Says which service is meant, as a signature does. Nobody looks at the signature itself.
    fn signed(&self, region: &str, service: &str) -> request::Builder {
        let scope = format!("TESTKIT/20260101/{region}/{service}/aws4_request");
        self.request("/").header(
            AUTHORIZATION,
            format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none"),
        )
    }

    async fn send(&self, request: request::Builder, body: impl Into<Bytes>) -> Result<Bytes> {
        let request = request
            .body(Full::new(body.into()))
            .context("put a request together")?;
        let exchange = async {
            let answer = self.http.request(request).await.context("ask moto")?;
            let status = answer.status();
            let body = answer.into_body().collect().await.context("ask moto")?.to_bytes();
            ensure!(
                status.is_success(),
                "moto answered {status}: {}",
                String::from_utf8_lossy(&body)
            );
            Ok(body)
        };
        timeout(DEADLINE, exchange)
            .await
            .with_context(|| format!("moto did not answer for {DEADLINE:?}"))?
    }
}

/// Its URL, as soon as it has one.
fn listening(server: &mut Child, log: &Path) -> Result<Option<String>> {
    let ended = server.try_wait().context("look after moto")?;
    let log = std::fs::read(log).context("read the log of moto")?;
    let log = String::from_utf8_lossy(&log);
    if let Some(status) = ended {
        bail!("moto ended with {status}:\n{log}");
    }
    Ok(announced(&log))
}

/// The system chose the port, so only the server knows it. It says so when it listens already.
fn announced(log: &str) -> Option<String> {
    let (_, rest) = log.split_once("Running on ")?;
    let (url, _) = rest.split_once('\n')?;
    Some(url.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_counts_when_its_line_is_whole() {
        assert_eq!(announced("WARNING\n * Running on http://127.0.0.1:38"), None);
        assert_eq!(
            announced("WARNING\n * Running on http://127.0.0.1:38279\nPress CTRL+C\n").as_deref(),
            Some("http://127.0.0.1:38279")
        );
    }
}
