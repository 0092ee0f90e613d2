//! A controller's hands on a real API server: its own account, its own clients, a writer.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};
use trustplane_kit::apply::Writer;
use trustplane_kit::clients::Clients;
use trustplane_kit::lease::{Fence, Identity};
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{
    Apply, Conflicts, Convergence, Expect, Fingerprinter, Keep, Kind, Manifest, Mark, Meta, ObjectRef,
    Ownership, Target, converge,
};
use trustplane_process::metrics::Metrics;
use trustplane_testkit::{Instance, Rules, Sandbox};

pub const MANAGER: &str = "trustplane-test";

pub struct Rig {
    pub sandbox: Sandbox,
    pub instance: Instance,
    pub clients: Clients,
    pub metrics: Metrics,
    pub writer: Writer,
}

impl Rig {
    /// A rig that may write ConfigMaps.
    pub async fn new(name: &str) -> Result<Self> {
        Self::with(
            name,
            Rules::default().allow("", "configmaps", &["get", "create", "patch", "delete"]),
        )
        .await
    }

    pub async fn with(name: &str, rules: Rules) -> Result<Self> {
        let sandbox = Sandbox::new(name).await?;
        let instance = sandbox.instance("writer", &rules).await?;
        let clients = clients(&instance, Fence::always())?;
        let metrics = Metrics::new();
        let writer = Writer::new(clients.call.clone(), MANAGER, &metrics);
        Ok(Self {
            sandbox,
            instance,
            clients,
            metrics,
            writer,
        })
    }

    /// The ConfigMaps of the test's namespace, for the hand of the test.
    pub fn maps(&self) -> Api<ConfigMap> {
        self.sandbox.api()
    }

    pub fn object(&self, name: &str) -> ObjectRef {
        ObjectRef::new(Some(self.sandbox.namespace()), name)
    }

    pub fn target(&self, kind: Kind, name: &str) -> Target {
        Target {
            kind,
            object: self.object(name),
        }
    }

    pub fn wish(&self, name: &str, data: Value) -> Manifest {
        Manifest::new(CONFIG_MAP, Some(self.sandbox.namespace()), name).with("data", data)
    }

    /// The live metadata of a ConfigMap, as `converge` wants it.
    pub async fn live(&self, name: &str) -> Result<Option<Meta>> {
        Ok(self
            .writer
            .get_meta(&CONFIG_MAP, &self.object(name), &Keep::owned_by(MANAGER))
            .await?)
    }

    /// Compares a wish with the live object, and writes what is needed.
    pub async fn bring_about(&self, wish: Manifest, ownership: &Ownership) -> Result<Convergence> {
        let live = self.live(wish.object().name()).await?;
        let convergence = converge(wish, live.as_ref(), ownership, &fingerprinter());
        if let Convergence::Write(apply) = &convergence {
            self.writer.apply(apply).await?;
        }
        Ok(convergence)
    }

    /// Writes as somebody else: a plain update, under another manager.
    pub async fn meddle(&self, name: &str, manager: &str, patch: Value) -> Result<ConfigMap> {
        let params = kube::api::PatchParams {
            field_manager: Some(manager.to_owned()),
            ..Default::default()
        };
        let patch = kube::api::Patch::Merge(patch);
        self.maps()
            .patch(name, &params, &patch)
            .await
            .context("meddle with a ConfigMap")
    }

    /// Makes a ConfigMap as somebody else.
    pub async fn stranger(&self, name: &str, labels: Value) -> Result<ConfigMap> {
        let body = json!({ "metadata": { "name": name, "labels": labels }, "data": { "theirs": "1" } });
        let map: ConfigMap = serde_json::from_value(body)?;
        let params = kube::api::PostParams {
            field_manager: Some("stranger".to_owned()),
            ..Default::default()
        };
        self.maps()
            .create(&params, &map)
            .await
            .context("create a stranger's ConfigMap")
    }

    pub async fn data(&self, name: &str) -> Result<Value> {
        let map = self.maps().get(name).await?;
        Ok(json!(map.data.unwrap_or_default()))
    }
}

/// The clients of an instance, as a process would have them.
pub fn clients(instance: &Instance, fence: Fence) -> Result<Clients> {
    let identity = Identity::new("test", "0.0.0", Some(instance.name()));
    Ok(Clients::new(instance.config()?, identity, fence)?)
}

pub fn ownership() -> Ownership {
    Ownership {
        mark: Mark::new("app.kubernetes.io/managed-by", "trustplane-test"),
        adopt: false,
        conflicts: Conflicts::Report,
    }
}

pub fn fingerprinter() -> Fingerprinter {
    Fingerprinter::new(&[9; 32])
}

/// An update of exactly what was seen.
pub fn update(wish: Manifest, seen: &Meta, conflicts: Conflicts) -> Apply {
    Apply {
        manifest: wish,
        expect: Expect::Seen {
            uid: seen.uid.clone(),
            resource_version: seen.resource_version.clone(),
        },
        conflicts,
    }
}
