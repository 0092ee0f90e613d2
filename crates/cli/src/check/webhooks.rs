//! Looking at webhooks: are they configured, do they have a CA, and does anybody answer.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::Api;
use kube::api::ListParams;
use kube::client::Body;
use trustplane_plan::path_part;

use crate::cluster::{Cluster, Obstacle, Seen};
use crate::installation::PART_OF;

/// A configured webhook.
#[derive(Debug)]
pub struct Webhook {
    /// Whether there is a CA by which the API server can know us.
    pub has_authority: bool,
    pub answer: Seen<Answer>,
}

/// What came back from the webhook's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Something that speaks HTTP on this path.
    Answered,
    /// A server that does not know the path.
    UnknownPath,
    /// Nobody, in the API server's words.
    Nobody(String),
}

/// Looks at each webhook by its name; `None` for one that is configured nowhere.
pub async fn look(cluster: &Cluster, names: &[String]) -> BTreeMap<String, Seen<Option<Webhook>>> {
    if names.is_empty() {
        return BTreeMap::new();
    }
    let configured = configured(cluster).await;
    let mut seen = BTreeMap::new();
    for name in names {
        let webhook = match &configured {
            Err(obstacle) => Err(obstacle.clone()),
            Ok(configured) => match configured.get(name) {
                None => Ok(None),
                Some(config) => Ok(Some(webhook(cluster, config).await)),
            },
        };
        seen.insert(name.clone(), webhook);
    }
    seen
}

async fn configured(cluster: &Cluster) -> Seen<BTreeMap<String, WebhookClientConfig>> {
    let ours = ListParams::default().labels(PART_OF);
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let validating = cluster.ask(validating.list(&ours)).await?;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let mutating = cluster.ask(mutating.list(&ours)).await?;
    let validating = validating
        .items
        .into_iter()
        .flat_map(|item| item.webhooks.unwrap_or_default());
    let mutating = mutating
        .items
        .into_iter()
        .flat_map(|item| item.webhooks.unwrap_or_default());
    Ok(validating
        .map(|webhook| (webhook.name, webhook.client_config))
        .chain(mutating.map(|webhook| (webhook.name, webhook.client_config)))
        .collect())
}

async fn webhook(cluster: &Cluster, config: &WebhookClientConfig) -> Webhook {
    let bundle = config
        .ca_bundle
        .as_ref()
        .map(|bundle| bundle.0.as_slice())
        .unwrap_or_default();
    let answer = match &config.service {
        None => Err(Obstacle::Failed(
            "it is configured by URL, which only the API server can try".to_owned(),
        )),
        Some(service) => knock(cluster, service).await,
    };
    Webhook {
        has_authority: is_certificate(bundle),
        answer,
    }
}

fn is_certificate(bundle: &[u8]) -> bool {
    bundle.windows(BEGIN.len()).any(|window| window == BEGIN)
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Asks through the API server, which is also who calls the webhook in earnest. A GET is no review, so nothing happens:
/// a webhook answers that it wants a POST.
async fn knock(cluster: &Cluster, service: &ServiceReference) -> Seen<Answer> {
    let ServiceReference {
        name,
        namespace,
        path,
        port,
    } = service;
    let port = port.unwrap_or(443);
    let path = path.as_deref().unwrap_or("/");
    let service = path_part(&format!("https:{name}:{port}"));
    let request = http::Request::get(format!(
        "/api/v1/namespaces/{}/services/{service}/proxy{path}",
        path_part(namespace)
    ))
    .body(Body::empty())
    .map_err(|error| Obstacle::Failed(error.to_string()))?;
    let response = cluster.ask(cluster.client.send(request)).await?;
    // The proxy passes on whatever a server of ours says, and speaks for itself with a Status.
    let (head, body) = response.into_parts();
    let body = cluster.ask(async { body.collect_bytes().await }).await?;
    Ok(understand(head.status, &body))
}

fn understand(status: http::StatusCode, body: &[u8]) -> Answer {
    match status.as_u16() {
        404 => Answer::UnknownPath,
        502..=504 => Answer::Nobody(told(body)),
        _ => Answer::Answered,
    }
}

fn told(body: &[u8]) -> String {
    let status: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = status.as_ref().and_then(|status| status["message"].as_str());
    message.map_or_else(|| String::from_utf8_lossy(body).trim().to_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[test]
    fn a_refusal_is_an_answer_and_a_gateway_error_is_none() {
        assert_eq!(understand(StatusCode::METHOD_NOT_ALLOWED, b""), Answer::Answered);
        assert_eq!(understand(StatusCode::NOT_FOUND, b""), Answer::UnknownPath);
        let status = br#"{"kind":"Status","message":"no endpoints available for service \"https:x:443\""}"#;
        let nobody = Answer::Nobody("no endpoints available for service \"https:x:443\"".to_owned());
        assert_eq!(understand(StatusCode::SERVICE_UNAVAILABLE, status), nobody);
    }

    #[test]
    fn an_authority_is_a_certificate() {
        assert!(is_certificate(b"x\n-----BEGIN CERTIFICATE-----\nMII"));
        assert!(!is_certificate(b""));
        assert!(!is_certificate(b"Cg=="));
    }
}
