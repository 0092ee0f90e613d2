//! The API of kubelet, as far as the agent asks for it: which pods are on the node. Like kubelet it lets in whom the API server says may look.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::http;

/// Where it listens.
pub const PORT: u16 = 10250;

/// Serves the list of pods.
pub fn serve(
    listener: TcpListener,
    client: Client,
    node: &'static str,
    pods: Arc<Mutex<Vec<Value>>>,
) -> Result<impl Future<Output = ()> + Send> {
    let (certificate, key) = http::certificate(&[node.to_owned()])?;
    let acceptor = http::acceptor(&certificate, &key)?;
    Ok(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n")
                && stream.read_buf(&mut asked).await.is_ok_and(|read| read > 0)
            {}
            let (status, body) = match may_look(&client, node, &String::from_utf8_lossy(&asked)).await {
                Ok(()) => {
                    let items = pods.lock().unwrap().clone();
                    (
                        "200 OK",
                        json!({ "apiVersion": "v1", "kind": "PodList", "items": items }),
                    )
                }
                Err(why) => ("403 Forbidden", json!({ "message": format!("{why:#}") })),
            };
            let (body, end) = (body.to_string(), "Connection: close\r\n\r\n");
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{end}"
            );
            let _ = stream.write_all((head + &body).as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    })
}

/// Whether the token of a request may see the pods of the node. From Kubernetes 1.33 on, kubelet asks for `nodes/pods`.
async fn may_look(client: &Client, node: &str, request: &str) -> Result<()> {
    ensure!(request.starts_with("GET /pods"), "not asked for pods: {request}");
    let token = request.split_once("Bearer ").context("no token")?.1;
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: token.split_once("\r\n").map(|(token, _)| token.to_owned()),
            audiences: None,
        },
        ..TokenReview::default()
    };
    let told = Api::<TokenReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await?;
    let user = told
        .status
        .and_then(|status| status.user)
        .context("a token of nobody")?;
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            resource_attributes: Some(ResourceAttributes {
                verb: Some("get".to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: Some("pods".to_owned()),
                name: Some(node.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let told = Api::<SubjectAccessReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await?;
    ensure!(
        told.status.is_some_and(|status| status.allowed),
        "the agent may not see pods"
    );
    Ok(())
}
