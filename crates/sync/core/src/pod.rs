//! What matters of a pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use trustplane_plan::{Meta, Note, ObjectRef, Target};

use crate::grammar::Parsed;
use crate::name::SecretName;
use crate::reason::{Problem, Reason};
use crate::request::Request;
use crate::state::POD;

/// The label by which the pods of one ReplicaSet of a Deployment are told from the next.
const TEMPLATE: &str = "pod-template-hash";

/// Under this name JASM reports, and so do we in its place.
const COMPONENT: &str = "jasm";

/// A pod that asks for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub object: ObjectRef,
    /// Its uid.
    pub uid: Arc<str>,
    /// When it was created.
    pub created: Timestamp,
    /// What it is a part of.
    pub workload: Arc<str>,
    /// As whom it runs; known only where a policy asks for it.
    pub service_account: Option<Arc<str>>,
    /// What it asks for.
    pub asks: Asks,
}

/// What a pod asks for, from its two annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asks {
    /// The requests, or what is wrong with the whole annotation.
    pub annotation: Parsed,
    /// The value that forces a sync.
    pub force: Option<Arc<str>>,
}

impl Pod {
    /// Something to tell on the pod.
    pub fn note(&self, reason: Reason, text: &str) -> Note {
        let about = Target {
            kind: POD,
            object: self.object.clone(),
        };
        Note::new(about, &self.uid, reason.severity(), reason.as_str(), "Sync", text).by(COMPONENT)
    }
}

impl Asks {
    /// The Secrets that are asked for, each once.
    pub fn secrets(&self) -> BTreeSet<&SecretName> {
        self.requests().map(|request| &request.secret_name).collect()
    }

    /// The requests that are good.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        let annotation = self.annotation.as_ref().as_ref().ok();
        let requests = annotation.into_iter().flat_map(|annotation| &annotation.requests);
        requests.flatten()
    }

    /// The stores that are named.
    pub fn stores(&self) -> impl Iterator<Item = &str> {
        self.requests()
            .filter_map(|request| request.source.store.as_deref())
    }

    /// What is wrong with the annotation, in the order of the text.
    pub fn problems(&self) -> Vec<&Problem> {
        match self.annotation.as_ref() {
            Err(problem) => vec![problem],
            Ok(annotation) => {
                let wrong = annotation
                    .requests
                    .iter()
                    .filter_map(|request| request.as_ref().err());
                wrong.chain(&annotation.warnings).collect()
            }
        }
    }
}

/// The workload that a pod is a part of, from its metadata alone: a Deployment by the name that its ReplicaSets share, a
/// CronJob by the name that its Jobs share, any other controller as itself, and a pod on its own as itself.
pub fn workload(meta: &Meta) -> String {
    let Some(owner) = meta.owners.iter().find(|owner| owner.controller) else {
        return format!("Pod/{}", meta.object.name());
    };
    let shared = match owner.kind.as_str() {
        "ReplicaSet" => {
            let template = meta.labels.get(TEMPLATE);
            template.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'))
        }
        "Job" => owner
            .name
            .rsplit_once('-')
            .filter(|(_, minute)| minute.len() >= 8 && minute.bytes().all(|b| b.is_ascii_digit()))
            .map(|(name, _)| name),
        _ => None,
    };
    match (owner.kind.as_str(), shared) {
        ("ReplicaSet", Some(name)) => format!("Deployment/{name}"),
        ("Job", Some(name)) => format!("CronJob/{name}"),
        (kind, _) => format!("{kind}/{}", owner.name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trustplane_plan::Keep;

    use super::*;

    fn of(kind: &str, name: &str, labels: serde_json::Value) -> String {
        let owner = json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
        let body =
            json!({"metadata": {"name": "p", "namespace": "n", "labels": labels, "ownerReferences": owner}});
        workload(&Meta::decode(&body.to_string(), &Keep::default()).unwrap())
    }

    #[test]
    fn pods_of_one_workload_share_its_name() {
        assert_eq!(
            of("ReplicaSet", "web-7d4b9c", json!({"pod-template-hash": "7d4b9c"})),
            "Deployment/web"
        );
        assert_eq!(
            of("ReplicaSet", "web-55", json!({"pod-template-hash": "55"})),
            "Deployment/web"
        );
        assert_eq!(of("ReplicaSet", "own", json!({})), "ReplicaSet/own");
        assert_eq!(of("StatefulSet", "db", json!({})), "StatefulSet/db");
        assert_eq!(of("Job", "backup-29384756", json!({})), "CronJob/backup");
        assert_eq!(of("Job", "once-1", json!({})), "Job/once-1");
        let alone = json!({"metadata": {"name": "p", "namespace": "n"}}).to_string();
        assert_eq!(
            workload(&Meta::decode(&alone, &Keep::default()).unwrap()),
            "Pod/p"
        );
    }
}
