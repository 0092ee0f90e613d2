//! The door of the API server: what it lets in, and what it refuses.

use anyhow::Result;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Client, Resource};
use serde_json::{Value, json};

const NAME: &str = "probe";
const MANAGER: &str = "trustplane-testkit";

/// Knocks with objects of one kind, with strict validation.
pub struct Door {
    api: Api<DynamicObject>,
    kind: ApiResource,
}

impl Door {
    /// For a kind that is installed; in a namespace, or for kinds of the whole cluster.
    pub fn new<K: Resource<DynamicType = ()>>(client: Client, namespace: Option<&str>) -> Self {
        let kind = ApiResource::erase::<K>(&());
        let api = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        Self { api, kind }
    }

    /// The object with which it knocks.
    pub fn object(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": {"name": NAME}, "spec": spec,
        })
    }

    /// Nothing if it would be let in, or what is wrong.
    pub async fn refusal(&self, spec: &Value) -> Result<Option<String>> {
        let rehearsal = PatchParams {
            dry_run: true,
            ..PatchParams::apply(MANAGER).validation_strict()
        };
        match self
            .api
            .patch(NAME, &rehearsal, &Patch::Apply(self.object(spec)))
            .await
        {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) => Ok(Some(status.message.clone())),
            Err(error) => Err(error.into()),
        }
    }

    /// Fails unless it would be let in.
    pub async fn takes(&self, spec: Value) -> Result<()> {
        assert_eq!(self.refusal(&spec).await?, None, "{spec}");
        Ok(())
    }

    /// Fails unless it is refused with these words.
    pub async fn refuses(&self, spec: Value, why: &str) -> Result<()> {
        let told = self.refusal(&spec).await?.unwrap_or_default();
        assert!(
            told.contains(why),
            "{spec} should be refused for {why:?}: {told:?}"
        );
        Ok(())
    }

    /// What becomes of a spec that is let in.
    pub async fn made(&self, spec: Value) -> Result<Value> {
        let apply = Patch::Apply(self.object(&spec));
        let object = self.api.patch(NAME, &PatchParams::apply(MANAGER), &apply).await?;
        Ok(object.data["spec"].clone())
    }
}
