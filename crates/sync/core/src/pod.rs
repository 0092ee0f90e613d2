//! What matters of a pod.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use trustplane_plan::kinds::POD;
use trustplane_plan::{Meta, Note, ObjectRef, Target};

use crate::grammar::Parsed;
use crate::name::SecretName;
use crate::reason::{Problem, Reason};
use crate::request::Request;

/// The label by which the pods of one ReplicaSet of a Deployment are told from the next.
const TEMPLATE: &str = "pod-template-hash";

/// The label by which pods of a StatefulSet or DaemonSet tell from which revision of its template they are.
const REVISION: &str = "controller-revision-hash";

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
    pub workload: Workload,
    /// As whom it runs; known only where a policy asks for it.
    pub service_account: Option<Arc<str>>,
    /// What it asks for.
    pub asks: Asks,
}

/// What a pod is a part of, as its metadata says: whoever creates a pod chooses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Kind and name, such as `Deployment/web`.
    pub name: Arc<str>,
    /// The uid of its controller, where one controller stays for as long as the workload does.
    pub uid: Option<Arc<str>>,
    /// What all pods of one template share: the uid of a ReplicaSet or of a CronJob's Job, or the revision of another controller.
    pub template: Option<Arc<str>>,
}

impl Workload {
    /// What tells it from every other workload of the namespace: its name, and the uid of its controller where that stays.
    pub fn identity(&self) -> String {
        match &self.uid {
            Some(uid) => format!("{} {uid}", self.name),
            None => self.name.to_string(),
        }
    }
}

impl From<&str> for Workload {
    fn from(name: &str) -> Self {
        Self {
            name: name.into(),
            uid: None,
            template: None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
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
        self.numbered().map(|(_, request)| &**request)
    }

    /// The requests that are good, each with its place among all of the pod.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &Arc<Request>)> {
        let annotation = self.annotation.as_ref().as_ref().ok();
        let requests = annotation.into_iter().flat_map(|annotation| &annotation.requests);
        let numbered = requests.enumerate();
        numbered.filter_map(|(index, request)| Some((index, request.as_ref().ok()?)))
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
pub fn workload(meta: &Meta) -> Workload {
    let Some(owner) = meta.owners.iter().find(|owner| owner.controller) else {
        return format!("Pod/{}", meta.object.name()).as_str().into();
    };
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let behind = match (group, owner.kind.as_str()) {
        ("apps", "ReplicaSet") => {
            let template = meta.labels.get(TEMPLATE);
            let name = template.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
            name.map(|name| format!("Deployment/{name}"))
        }
        ("batch", "Job") => owner
            .name
            .rsplit_once('-')
            .filter(|(_, minute)| minute.len() >= 8 && minute.bytes().all(|b| b.is_ascii_digit()))
            .map(|(name, _)| format!("CronJob/{name}")),
        _ => None,
    };
    let uid: Option<Arc<str>> = Some(owner.uid.as_str().into());
    match behind {
        Some(name) => Workload {
            template: uid,
            ..name.as_str().into()
        },
        None => Workload {
            uid,
            template: meta.labels.get(REVISION).map(|revision| revision.as_str().into()),
            ..format!("{}/{}", owner.kind, owner.name).as_str().into()
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trustplane_plan::Keep;

    use super::*;

    fn part_of(version: &str, kind: &str, name: &str, labels: serde_json::Value) -> Workload {
        let owner =
            json!([{"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": true}]);
        let body =
            json!({"metadata": {"name": "p", "namespace": "n", "labels": labels, "ownerReferences": owner}});
        workload(&Meta::decode(&body.to_string(), &Keep::default()).unwrap())
    }

    fn of(kind: &str, name: &str, labels: serde_json::Value) -> String {
        let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        part_of(version, kind, name, labels).to_string()
    }

    #[test]
    fn a_workload_is_known_by_the_uid_of_its_controller() {
        let hash = json!({"pod-template-hash": "7d4b9c"});
        let deployment = part_of("apps/v1", "ReplicaSet", "web-7d4b9c", hash.clone());
        assert_eq!(deployment.identity(), "Deployment/web");
        assert_eq!(deployment.template.as_deref(), Some("u"));
        let set = part_of("apps/v1", "StatefulSet", "db", json!({}));
        assert_eq!(
            (set.identity().as_str(), set.template),
            ("StatefulSet/db u", None)
        );
        let revision = json!({"controller-revision-hash": "db-5f"});
        let set = part_of("apps/v1", "StatefulSet", "db", revision);
        assert_eq!(set.template.as_deref(), Some("db-5f"));
        // Neither another group nor a kind that only sounds like it passes for a Deployment or a pod.
        for (version, kind, name) in [
            ("x.io/v1", "ReplicaSet", "web-7d4b9c"),
            ("apps/v1", "Deployment", "web"),
            ("v1", "Pod", "web"),
        ] {
            let other = part_of(version, kind, name, hash.clone()).identity();
            assert!(other.ends_with(" u"), "{other}");
        }
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
            workload(&Meta::decode(&alone, &Keep::default()).unwrap()).identity(),
            "Pod/p"
        );
    }
}
