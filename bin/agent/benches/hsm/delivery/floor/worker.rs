//! A worker of the floor.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use trustplane_api::hsm::HsmSecret;
use trustplane_api::hsm::names::{LOCATIONS, SECRET_FINALIZER};
use trustplane_api::hsm::v1::ReadSecretRequest;
use trustplane_hsm_controller::Agents;

use super::super::MANY;
use super::{Gets, Written};
use crate::secrets::path;

/// The answer to a call has no more than this, as for the capability.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MANAGER: &str = "fieldManager=bench&fieldValidation=Strict";
const FORCED: &str = "fieldManager=bench&fieldValidation=Strict&force=true";

/// HSMSecrets that were made and that no worker has taken.
pub type Made = Arc<Mutex<UnboundedReceiver<HsmSecret>>>;

/// What a worker knows. All workers share it.
pub struct Worker {
    pub client: Client,
    pub agents: Arc<Agents>,
    pub written: Arc<HashMap<String, Written>>,
    pub namespace: String,
    pub gets: Gets,
    pub claims: usize,
}

impl Worker {
    /// Delivers what was made, until nothing more is made.
    pub async fn work(self: Arc<Self>, made: Made) -> Result<()> {
        loop {
            let next = made.lock().await.recv().await;
            let Some(live) = next else { return Ok(()) };
            let delivered = self.deliver(&live).await;
            delivered.with_context(|| format!("deliver {}", live.name_any()))?;
        }
    }

    async fn deliver(&self, live: &HsmSecret) -> Result<()> {
        let name = live.name_any();
        let uid = live.uid().context("a uid")?;
        let written = self.written.get(&name).context("what was written before")?;
        let data = self.read(written).await?;
        let itself = self.place::<HsmSecret>(&name);
        self.get(&itself).await?;
        let add = json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": [SECRET_FINALIZER] },
        ]);
        self.write(Method::PATCH, format!("{itself}?{MANAGER}"), JSON_PATCH, &add)
            .await?;
        self.claim(&name).await?;

        let mut secret = written.secret.clone();
        secret["data"] = data;
        secret["metadata"]["ownerReferences"][0]["uid"] = uid.as_str().into();
        // Like the capability: the write creates the Secret, and fails if the Secret exists.
        secret["metadata"]["resourceVersion"] = "1".into();
        let place = self.place::<Secret>(&name);
        self.apply(&place, &secret).await?;

        let mut event = written.event.clone();
        event["metadata"]["namespace"] = self.namespace.as_str().into();
        event["regarding"]["namespace"] = self.namespace.as_str().into();
        event["regarding"]["uid"] = uid.as_str().into();
        let events = Event::url_path(&(), Some(&self.namespace));
        self.write(Method::POST, events, "application/json", &event)
            .await?;

        self.get(&itself).await?;
        let status = json!({
            "apiVersion": HsmSecret::api_version(&()), "kind": HsmSecret::kind(&()),
            "metadata": { "name": name }, "status": written.status,
        });
        self.apply(&format!("{itself}/status"), &status).await
    }

    /// Reads the secret from the token, as the data of a Secret.
    async fn read(&self, written: &Written) -> Result<Value> {
        let mut client = self.agents.connect(&written.agent).await?;
        let request = ReadSecretRequest {
            path: written.path.clone(),
            ..ReadSecretRequest::default()
        };
        let answer = client.read_secret(request).await?.into_inner();
        let data = answer.secret_data.context("data")?.data.into_iter();
        let data: HashMap<String, ByteString> = data.map(|(key, value)| (key, ByteString(value))).collect();
        Ok(serde_json::to_value(data)?)
    }

    /// Writes to whom locations belong, with every so many HSMSecrets.
    async fn claim(&self, name: &str) -> Result<()> {
        let number: usize = name.rsplit('-').next().unwrap_or_default().parse()?;
        if (number + 1) * self.claims / MANY == number * self.claims / MANY {
            return Ok(());
        }
        let lines: String = (0..=number)
            .map(|claimed| format!("{}\n", path(claimed)))
            .collect();
        let claims = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": LOCATIONS },
            "data": { &self.namespace: lines },
        });
        self.apply(&self.place::<ConfigMap>(LOCATIONS), &claims).await
    }

    fn place<K: Resource<DynamicType = ()>>(&self, name: &str) -> String {
        format!("{}/{name}", K::url_path(&(), Some(&self.namespace)))
    }

    async fn apply(&self, place: &str, body: &Value) -> Result<()> {
        self.write(Method::PATCH, format!("{place}?{FORCED}"), APPLY, body)
            .await
    }

    async fn write(&self, method: Method, place: String, form: &str, body: &Value) -> Result<()> {
        let request = Request::builder()
            .method(method)
            .uri(place)
            .header(ACCEPT, METADATA)
            .header(CONTENT_TYPE, form)
            .body(body.to_string().into_bytes())?;
        self.client.request_text(request).await?;
        Ok(())
    }

    async fn get(&self, place: &str) -> Result<()> {
        if self.gets == Gets::AsOurs {
            let request = Request::get(place).header(ACCEPT, METADATA).body(Vec::new())?;
            self.client.request_text(request).await?;
        }
        Ok(())
    }
}
