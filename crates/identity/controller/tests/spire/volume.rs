//! The volumes of a pod, as kubelet makes them of ConfigMaps, Secrets, tokens and directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::Value;
use trustplane_api::identity::names::SOCKET_DIRECTORY;
use trustplane_plan::Kind;
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};

use crate::pod::Pod;
use crate::stage::api;

/// Makes all volumes of a pod, or brings them up to date; gives their directories.
pub async fn prepare(pod: &Pod) -> Result<BTreeMap<String, PathBuf>> {
    let mut sources = BTreeMap::new();
    for volume in pod.spec()["volumes"].as_array().into_iter().flatten() {
        let name = volume["name"].as_str().unwrap_or_default();
        let source = source(pod, name, volume).await;
        sources.insert(
            name.to_owned(),
            source.with_context(|| format!("make the volume {name}"))?,
        );
    }
    Ok(sources)
}

async fn source(pod: &Pod, name: &str, volume: &Value) -> Result<PathBuf> {
    let of = |field: &str| volume.get(field).filter(|source| !source.is_null());
    if let Some(path) = of("hostPath").and_then(|host| host["path"].as_str()) {
        return shared(pod, path);
    }
    if of("csi").is_some() {
        // What the driver mounts: the directory of the agent's socket.
        return shared(pod, SOCKET_DIRECTORY);
    }
    let directory = pod.volume(name);
    fs::create_dir_all(&directory)?;
    if of("emptyDir").is_some() || of("persistentVolumeClaim").is_some() {
        pod.give(&directory, 0o2777)?;
    } else if let Some(map) = of("configMap") {
        let values = values(pod, &CONFIG_MAP, map["name"].as_str()).await?;
        write(pod, &directory, map, values)?;
    } else if let Some(secret) = of("secret") {
        let values = values(pod, &SECRET, secret["secretName"].as_str()).await?;
        write(pod, &directory, secret, values)?;
    } else if let Some(projected) = of("projected") {
        for source in projected["sources"].as_array().into_iter().flatten() {
            project(pod, &directory, source).await?;
        }
    } else {
        bail!("{volume} is of no kind that the test knows");
    }
    Ok(directory)
}

/// A directory of the node.
fn shared(pod: &Pod, path: &str) -> Result<PathBuf> {
    let directory = pod.node.directory(path);
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

async fn project(pod: &Pod, directory: &Path, source: &Value) -> Result<()> {
    if let Some(wanted) = source.get("serviceAccountToken") {
        let path = wanted["path"].as_str().unwrap_or_default();
        return file(pod, directory, path, token(pod, wanted).await?.as_bytes(), 0o640);
    }
    if let Some(map) = source.get("configMap") {
        let values = values(pod, &CONFIG_MAP, map["name"].as_str()).await?;
        return write(pod, directory, map, values);
    }
    // Admission asks for the name of the namespace, and for nothing else.
    file(pod, directory, "namespace", pod.namespace().as_bytes(), 0o644)
}

/// A token of the account of the pod, bound to the pod.
async fn token(pod: &Pod, wanted: &Value) -> Result<String> {
    let audience = wanted["audience"].as_str().map(str::to_owned);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: audience.into_iter().collect(),
            bound_object_ref: serde_json::from_value(pod.reference())?,
            expiration_seconds: wanted["expirationSeconds"].as_i64(),
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(pod.node.client.clone(), pod.namespace());
    let account = pod.text("/spec/serviceAccountName");
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await?;
    Ok(answer.status.context("a token")?.token)
}

/// The values of a ConfigMap or a Secret.
async fn values(pod: &Pod, kind: &Kind, name: Option<&str>) -> Result<BTreeMap<String, Vec<u8>>> {
    let objects: Api<DynamicObject> = api(&pod.node.client, kind, pod.namespace());
    let object = objects.get(name.unwrap_or_default()).await?;
    let data = object.data["data"].as_object().into_iter().flatten();
    data.map(|(key, value)| {
        let text = value.as_str().unwrap_or_default();
        let value = if *kind == SECRET {
            STANDARD.decode(text)?
        } else {
            text.as_bytes().to_vec()
        };
        Ok((key.clone(), value))
    })
    .collect()
}

/// Writes all values, or those that the volume names, each of which has to be there.
fn write(pod: &Pod, directory: &Path, volume: &Value, values: BTreeMap<String, Vec<u8>>) -> Result<()> {
    let mode = volume["defaultMode"].as_u64().unwrap_or(0o644);
    let mode = u32::try_from(mode)?;
    let Some(items) = volume["items"].as_array() else {
        return values
            .iter()
            .try_for_each(|(key, value)| file(pod, directory, key, value, mode));
    };
    items.iter().try_for_each(|item| {
        let key = item["key"].as_str().unwrap_or_default();
        let value = values.get(key).with_context(|| format!("no key {key}"))?;
        file(
            pod,
            directory,
            item["path"].as_str().unwrap_or_default(),
            value,
            mode,
        )
    })
}

fn file(pod: &Pod, directory: &Path, name: &str, content: &[u8], mode: u32) -> Result<()> {
    let path = directory.join(name);
    fs::write(&path, content)?;
    pod.give(&path, mode)
}
