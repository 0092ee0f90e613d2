//! Our own pod, of which we may change one annotation.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use serde_json::{Value, json};
use trustplane_api::hsm::ReportedDevice;
use trustplane_api::hsm::names::REPORT_ANNOTATION;
use trustplane_hsm_core::usb::report::Reporter;

use crate::report::Sink;

/// The name under which the API server keeps our writes apart.
const MANAGER: &str = "trustplane-discovery";
/// The longest that a write may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// Our own pod.
#[derive(Clone)]
pub struct OwnPod {
    api: Api<Pod>,
    name: String,
    uid: String,
}

/// Why our pod could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// The API server did not take it.
    #[error("patch the pod {pod}: {source}")]
    Patch {
        /// The pod.
        pod: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// The API server did not answer.
    #[error("patch the pod {0}: no answer")]
    Late(String),
}

impl OwnPod {
    /// The pod of this name, as long as it is this one and not another one that came after it.
    pub fn new(client: Client, namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// What an earlier process of this pod has reported. We may not read the pod; but the answer to a patch is the pod, and this one
    /// changes nothing.
    pub async fn earlier(&self, reporter: &Reporter) -> Result<Option<Vec<ReportedDevice>>, PodError> {
        let pod = self.patch(json!({})).await?;
        let text = pod
            .metadata
            .annotations
            .unwrap_or_default()
            .remove(REPORT_ANNOTATION);
        Ok(text.and_then(|text| reporter.recall(&text)))
    }

    async fn patch(&self, mut metadata: Value) -> Result<PartialObjectMeta<Pod>, PodError> {
        metadata["uid"] = self.uid.clone().into();
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = self.api.patch_metadata(&self.name, &params, &patch);
        let patched = tokio::time::timeout(DEADLINE, patched).await;
        let patched = patched.map_err(|_| PodError::Late(self.name.clone()))?;
        patched.map_err(|source| PodError::Patch {
            pod: self.name.clone(),
            source: Box::new(source),
        })
    }
}

impl Sink for OwnPod {
    type Error = PodError;

    async fn write(&self, report: String) -> Result<(), PodError> {
        let metadata = json!({ "annotations": { REPORT_ANNOTATION: report } });
        self.patch(metadata).await.map(|_| ())
    }
}
