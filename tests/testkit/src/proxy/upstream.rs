//! The way from the proxy to the API server.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONNECTION, HOST};
use http::request::Parts;
use http::{Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::ConfigExt;

/// Speaks TLS with the API server, with the authority of the cluster.
pub(super) struct Upstream {
    base: Uri,
    /// Without a certificate of its own: whoever calls is who the token says.
    callers: Box<dyn Send_>,
    /// With the rights of the test, for reads of the past that a caller could not make.
    admin: Box<dyn Send_>,
}

/// Hides the type of the connector, which has no public name here.
trait Send_: Send + Sync {
    fn send(&self, request: http::Request<Full<Bytes>>) -> Answer;
}

type Answer = std::pin::Pin<Box<dyn Future<Output = Result<Response<Incoming>, Error>> + Send>>;

impl<C: Connect + Clone + Send + Sync + 'static> Send_ for Client<C, Full<Bytes>> {
    fn send(&self, request: http::Request<Full<Bytes>>) -> Answer {
        Box::pin(self.request(request))
    }
}

impl Upstream {
    pub(super) fn new(admin: &Config) -> Result<Self> {
        let mut anonymous = Config::new(admin.cluster_url.clone());
        anonymous.root_cert.clone_from(&admin.root_cert);
        Ok(Self {
            base: admin.cluster_url.clone(),
            callers: client(&anonymous)?,
            admin: client(admin)?,
        })
    }

    /// Sends a request on as the caller made it.
    pub(super) async fn forward(&self, parts: &Parts, body: Bytes) -> Result<Response<Incoming>> {
        let request = self.request(parts, path_and_query(&parts.uri), body)?;
        self.callers.send(request).await.context("send a request on")
    }

    /// Reads with the rights of the test, with the caller's other headers.
    pub(super) async fn read(&self, parts: &Parts, target: &str) -> Result<(u16, Bytes)> {
        let mut request = self.request(parts, target, Bytes::new())?;
        request.headers_mut().remove(http::header::AUTHORIZATION);
        let answer = self.admin.send(request).await.context("read the past")?;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.context("read the past")?;
        Ok((code, body.to_bytes()))
    }

    /// As [`Self::forward`], to another target.
    pub(super) async fn forward_to(&self, parts: &Parts, target: &str) -> Result<Response<Incoming>> {
        let request = self.request(parts, target, Bytes::new())?;
        self.callers.send(request).await.context("send a request on")
    }

    fn request(&self, parts: &Parts, target: &str, body: Bytes) -> Result<http::Request<Full<Bytes>>> {
        let base = self.base.to_string();
        let uri: Uri = format!("{}{target}", base.trim_end_matches('/')).parse()?;
        let mut request = http::Request::builder()
            .method(parts.method.clone())
            .uri(uri)
            .body(Full::new(body))?;
        *request.headers_mut() = parts.headers.clone();
        for hop in [HOST, CONNECTION, ACCEPT_ENCODING] {
            request.headers_mut().remove(hop);
        }
        Ok(request)
    }
}

pub(super) fn path_and_query(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
}

fn client(config: &Config) -> Result<Box<dyn Send_>> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let connector = config
        .rustls_https_connector_with_connector(http)
        .context("prepare TLS to the API server")?;
    // One connection for each request: a broken one then never hurts another request.
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector);
    Ok(Box::new(client))
}
