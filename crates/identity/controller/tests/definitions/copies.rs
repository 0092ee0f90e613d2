//! Copies of our kinds in a group of one test.

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, CustomResourceExt};
use serde_json::Value;
use trustplane_api::identity::{
    ClusterFederatedTrustDomain, ClusterSpiffeId, ClusterStaticEntry, SpiffeCsiDriver, SpireAgent,
    SpireOidcDiscoveryProvider, SpireServer, ZeroTrustWorkloadIdentityManager,
};
use trustplane_plan::Kind;
use trustplane_testkit::{ControlPlane, Sandbox};

const MANAGER: &str = "definitions";

/// The kinds with their schemas, in a group of one test. There is only one object of some kinds in a cluster, so tests that share
/// a control plane would meet at this object, and at the webhooks that judge it.
pub struct Copies {
    client: Client,
    group: String,
    definitions: Vec<CustomResourceDefinition>,
}

impl Copies {
    /// Installs the kinds.
    pub async fn install(test: &str) -> Result<Self> {
        let plane = ControlPlane::shared().await?;
        let sandbox = Sandbox::new(test).await?;
        let group = format!("{}.example.org", sandbox.namespace());
        let definitions: Vec<_> = [
            ZeroTrustWorkloadIdentityManager::crd(),
            SpireServer::crd(),
            SpireAgent::crd(),
            SpiffeCsiDriver::crd(),
            SpireOidcDiscoveryProvider::crd(),
            ClusterSpiffeId::crd(),
            ClusterFederatedTrustDomain::crd(),
            ClusterStaticEntry::crd(),
        ]
        .into_iter()
        .map(|definition| renamed(definition, &group))
        .collect();
        plane.install(&definitions).await?;
        Ok(Self {
            client: plane.client()?,
            group,
            definitions,
        })
    }

    /// Removes the kinds. A test that fails leaves them to be looked at.
    pub async fn remove(self) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for definition in &self.definitions {
            let name = definition.metadata.name.as_deref().context("a name")?;
            api.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    fn resource(&self, kind: &Kind) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: kind.version.to_string(),
            api_version: format!("{}/{}", self.group, kind.version),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        }
    }

    fn api(&self, kind: &Kind) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &self.resource(kind))
    }

    async fn apply(&self, kind: &Kind, object: &Value, params: &PatchParams) -> kube::Result<DynamicObject> {
        let mut object = object.clone();
        object["apiVersion"] = self.resource(kind).api_version.into();
        object["kind"] = kind.kind.as_ref().into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.api(kind).patch(&name, params, &Patch::Apply(&object)).await
    }

    fn strict() -> PatchParams {
        PatchParams::apply(MANAGER).force().validation_strict()
    }

    /// The object as it would be stored.
    pub async fn rehearse(&self, kind: &Kind, object: &Value) -> kube::Result<DynamicObject> {
        let rehearsal = PatchParams {
            dry_run: true,
            ..Self::strict()
        };
        self.apply(kind, object, &rehearsal).await
    }

    /// Nothing if the API server would take the object, or what it says against it.
    pub async fn refusal(&self, kind: &Kind, object: &Value) -> Result<Option<String>> {
        match self.rehearse(kind, object).await {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) => Ok(Some(status.message.clone())),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores the object.
    pub async fn write(&self, kind: &Kind, object: &Value) -> Result<()> {
        let stored = self.apply(kind, object, &Self::strict()).await;
        stored.with_context(|| format!("write {} {object}", kind.kind))?;
        Ok(())
    }

    /// The spec of the object `cluster` as it would be stored if it were created.
    pub async fn create(&self, kind: &Kind, spec: &Value) -> Result<Value> {
        let resource = self.resource(kind);
        let object = serde_json::json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "cluster"}, "spec": spec,
        });
        let rehearsal = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let stored = self
            .api(kind)
            .create(&rehearsal, &serde_json::from_value(object)?)
            .await?;
        Ok(stored.data["spec"].clone())
    }

    /// Writes the status of the object `cluster`.
    pub async fn write_status(&self, kind: &Kind, status: &Value) -> Result<DynamicObject> {
        let patch = Patch::Merge(serde_json::json!({"status": status}));
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default().validation_strict()
        };
        let stored = self.api(kind).patch_status("cluster", &params, &patch).await;
        stored.with_context(|| format!("write the status of {}", kind.kind))
    }

    /// Deletes an object, if it is there.
    pub async fn delete(&self, kind: &Kind, name: &str) -> Result<()> {
        match self.api(kind).delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn renamed(mut definition: CustomResourceDefinition, group: &str) -> CustomResourceDefinition {
    definition.metadata.name = Some(format!("{}.{group}", definition.spec.names.plural));
    definition.spec.group = group.to_owned();
    definition
}
