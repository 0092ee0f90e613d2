//! The OIDC discovery provider.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use trustplane_api::identity::CommonConfig;
use trustplane_identity_core::render::Issuer;
use trustplane_identity_core::{children, examples};
use trustplane_plan::kinds::DEPLOYMENT;

use crate::container;
use crate::http::{self, Answer};
use crate::node::Node;
use crate::pod::Pod;
use crate::server::Server;
use crate::stage::{Stage, applied, pod_of};

/// The pod of SpireOIDCDiscoveryProvider.
pub struct Provider {
    pub pod: Pod,
    /// The authority of its certificate.
    authority: String,
}

impl Provider {
    /// Makes its pod, with a certificate for the names of an issuer. It does not run yet.
    pub async fn new(stage: &Stage, node: &Arc<Node>) -> Result<Self> {
        let objects = stage.oidc(&Default::default(), examples::ISSUER);
        stage.apply(objects.clone()).await?;
        let (secret, hosts) =
            children::certificate(&CommonConfig::default(), &stage.shared, examples::ISSUER);
        let (authority, key) = http::certificate(&hosts)?;
        let data = json!({ "tls.crt": STANDARD.encode(&authority), "tls.key": STANDARD.encode(key) });
        applied(
            &stage.client,
            &secret.with("type", "kubernetes.io/tls".into()).with("data", data),
        )
        .await?;
        let pod = node.admit(pod_of(&objects, &DEPLOYMENT)?).await?;
        Ok(Self { pod, authority })
    }

    /// Fails unless it serves the document and the keys of every issuer of the matrix, to those alone who ask for its own hosts.
    pub async fn serves(&self, stage: &Stage, server: &Server) -> Result<()> {
        let token = server
            .says(&[
                "jwt",
                "mint",
                "-spiffeID",
                "spiffe://example.org/a",
                "-audience",
                "a",
            ])
            .await?;
        let token = token
            .pointer("/svid/token")
            .and_then(Value::as_str)
            .with_context(|| format!("{token:#}"))?;
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap_or_default())?;
        let header: Value = serde_json::from_slice(&header)?;
        let mut seen = Vec::new();
        for example in examples::matrix() {
            if seen.contains(&example.issuer) {
                continue;
            }
            seen.push(example.issuer);
            stage.apply(stage.oidc(&example.oidc, example.issuer)).await?;
            let mut program = container::start(&self.pod, "spiffe-oidc-discovery-provider").await?;
            program.ready().await?;
            let served = self.serves_issuer(example.issuer, &header["kid"]).await;
            served.with_context(|| format!("{}:\n{}", example.issuer, program.log()))?;
            program.end().await?;
        }
        ensure!(seen.len() > 4, "{seen:?}");
        Ok(())
    }

    async fn serves_issuer(&self, url: &str, key: &Value) -> Result<()> {
        let issuer = Issuer::parse(url)?;
        let base = url.trim_end_matches('/');
        let document = self
            .get(&format!("{base}/.well-known/openid-configuration"))
            .await?;
        ensure!(document.status == 200, "{document:?}");
        let document: Value = serde_json::from_str(&document.body)?;
        ensure!(document["issuer"] == url, "{document:#}");
        let keys = self
            .get(document["jwks_uri"].as_str().context("the address of the keys")?)
            .await?;
        let keys: Value = serde_json::from_str(&keys.body)?;
        let mut all = keys["keys"].as_array().into_iter().flatten();
        ensure!(all.any(|it| it["kid"] == *key), "no key {key}: {keys:#}");
        let other = self.ask(&issuer.host, "other.example.org", &issuer.path).await?;
        ensure!(other.status != 200, "{other:?}");
        Ok(())
    }

    /// Asks for a URL as a client does that finds the provider behind it.
    async fn get(&self, url: &str) -> Result<Answer> {
        let (_, rest) = url.split_once("://").context("a URL")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.split(':').next().unwrap_or_default();
        self.ask(host, authority, path).await
    }

    async fn ask(&self, server: &str, host: &str, path: &str) -> Result<Answer> {
        let port = self.pod.port(&"https".into())?;
        let stream = self.pod.network.connect(port).await?;
        let stream = http::tls(stream, server, &self.authority).await?;
        http::get(stream, host, path).await
    }
}
