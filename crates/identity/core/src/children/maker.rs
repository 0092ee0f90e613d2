//! Makes the objects of one program.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use trustplane_api::identity::CommonConfig;
use trustplane_plan::kinds::{
    CLUSTER_ROLE_BINDING, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT,
};
use trustplane_plan::{Kind, Manifest, Scope};

use super::Part;
use super::labels::{selector, standard_labels, version};
use crate::Shared;

/// Makes the objects of one program: it knows their namespace and their labels.
pub(super) struct ObjectMaker<'a> {
    pub part: Part,
    pub shared: &'a Shared,
    labels: Map<String, Value>,
}

impl<'a> ObjectMaker<'a> {
    /// People's labels come first; ours win.
    pub fn new(part: Part, common: &CommonConfig, shared: &'a Shared) -> Self {
        let given = common.labels.iter();
        let mut labels: Map<String, Value> = given
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect();
        labels.extend(standard_labels(part));
        Self { part, shared, labels }
    }

    /// Adds the version that the tag of an image tells.
    pub fn version(mut self, image: &str) -> Self {
        self.labels.extend(version(image));
        self
    }

    /// An object with the labels and no field yet.
    pub fn object(&self, kind: Kind, name: &str) -> Manifest {
        let namespace = (kind.scope == Scope::Namespaced).then_some(&*self.shared.namespace);
        let labels = self.labels.iter();
        labels.fold(Manifest::new(kind, namespace, name), |object, (key, value)| {
            object.label(key, value.as_str().unwrap_or_default())
        })
    }

    pub fn account(&self, name: &str) -> Manifest {
        self.object(SERVICE_ACCOUNT, name)
    }

    /// The Service for the pods of a program.
    pub fn service(&self, name: &str, pods: Part, ports: Value) -> Manifest {
        let spec = json!({ "type": "ClusterIP", "selector": selector(pods), "ports": ports });
        self.object(SERVICE, name).with("spec", spec)
    }

    /// Gives an account the rights of a ClusterRole.
    pub fn cluster_binding(&self, name: &str, role: &str, account: &str) -> Manifest {
        self.object(CLUSTER_ROLE_BINDING, name)
            .with("roleRef", role_ref("ClusterRole", role))
            .with("subjects", self.subjects(account))
    }

    /// A Role and its binding.
    pub fn role(&self, name: &str, rules: Value, account: &str) -> [Manifest; 2] {
        [
            self.object(ROLE, name).with("rules", rules),
            self.object(ROLE_BINDING, name)
                .with("roleRef", role_ref("Role", name))
                .with("subjects", self.subjects(account)),
        ]
    }

    fn subjects(&self, account: &str) -> Value {
        json!([{ "kind": "ServiceAccount", "name": account, "namespace": self.shared.namespace }])
    }

    /// Lets a drain of nodes take one pod at a time, and the only pod too: a node would never be drained otherwise.
    pub fn disruption_budget(&self, name: &str, replicas: i32) -> Manifest {
        let mut spec = json!({ "selector": { "matchLabels": selector(self.part) } });
        match replicas {
            ..=1 => spec["maxUnavailable"] = 1.into(),
            more => spec["minAvailable"] = (more - 1).into(),
        }
        self.object(POD_DISRUPTION_BUDGET, name).with("spec", spec)
    }

    /// The pod template of a workload, and the selector that goes with it.
    pub fn template(&self, annotations: &Value, pod: &Value) -> (Value, Value) {
        let template = json!({
            "metadata": { "labels": self.labels, "annotations": annotations },
            "spec": pod,
        });
        (json!({ "matchLabels": selector(self.part) }), template)
    }
}

fn role_ref(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name })
}

/// The SHA-256 of some files, in hexadecimal.
pub(super) fn hash(files: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for file in files {
        hasher.update(file.as_bytes());
    }
    let digest = hasher.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
