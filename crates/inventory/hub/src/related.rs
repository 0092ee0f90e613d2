//! What an object has to do with others, by simple rules: pure functions of projections.
//!
//! [`finds`] says what to look for; whoever has the database looks, and asks [`RelationQuery::keeps`] about each candidate.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use trustplane_inventory_core::InventoryKind as Kind;

use crate::status::{list, word};

/// Objects to look for.
#[derive(Debug, Clone, PartialEq)]
pub struct RelationQuery {
    /// What they are to the object, such as `Runs on`.
    pub relation: &'static str,
    /// Their kind.
    pub kind: Kind,
    /// Their namespace; empty for kinds without one.
    pub namespace: String,
    /// Which of them.
    pub by: Lookup,
}

/// How objects are found.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// By their names.
    Names(Vec<String>),
    /// By what they link to, in any namespace: the node of Pods.
    Link(String),
    /// By their uid.
    Uid(String),
    /// Those of the namespace that a test keeps.
    Match(Match),
}

/// Which objects of a namespace are kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Match {
    /// Their labels have all of these.
    HasLabels(Map<String, Value>),
    /// Their field of this name selects these labels. A selector without labels selects nothing, unless `empty_selects_all`.
    Selects {
        /// The field with their selector.
        field: &'static str,
        /// The labels of the object.
        labels: Map<String, Value>,
        /// Whether a selector without labels selects everything, as that of a NetworkPolicy does.
        empty_selects_all: bool,
    },
    /// They are Pods that mount a volume of this type and source.
    Mounts {
        /// The type of the volume.
        volume: &'static str,
        /// The name of what is mounted.
        source: String,
    },
    /// Their field of this name is this text.
    Field {
        /// The field.
        field: &'static str,
        /// Its text.
        is: String,
    },
    /// They are Ingresses that route to this Service.
    RoutesTo(String),
}

impl RelationQuery {
    /// Whether an object of the right kind and namespace is one of those looked for.
    pub fn keeps(&self, candidate: &Value) -> bool {
        let Lookup::Match(test) = &self.by else {
            return true;
        };
        match test {
            Match::HasLabels(wanted) => contains(&labels(candidate, "labels"), wanted),
            Match::Selects {
                field,
                labels: of,
                empty_selects_all,
            } => {
                let selector = labels(candidate, field);
                if selector.is_empty() {
                    *empty_selects_all
                } else {
                    contains(of, &selector)
                }
            }
            Match::Mounts { volume, source } => list(candidate, "volumes")
                .any(|mounted| word(mounted, "type") == *volume && word(mounted, "source") == source),
            Match::Field { field, is } => word(candidate, field) == is,
            Match::RoutesTo(service) => services(candidate).any(|routed| routed == service),
        }
    }
}

/// What to look for to find the objects that an object has to do with.
pub fn finds(kind: &str, namespace: &str, name: &str, object: &Value) -> Vec<RelationQuery> {
    let Some(kind) = Kind::from_name(kind) else {
        return Vec::new();
    };
    let here = Rules {
        namespace,
        name,
        object,
    };
    match kind {
        Kind::Pod => here.pod(),
        Kind::Service => here.service(),
        Kind::Deployment | Kind::DaemonSet => vec![here.pods("Pods", labels(object, "selector"))],
        Kind::StatefulSet => here.stateful_set(),
        Kind::Job => here.job(),
        Kind::CronJob => vec![here.test("Jobs", Kind::Job, field("owner_ref", name))],
        Kind::Ingress => here.ingress(),
        Kind::NetworkPolicy => here.network_policy(),
        Kind::ConfigMap => here.mounted("configMap"),
        Kind::Secret => here.mounted("secret"),
        Kind::PersistentVolumeClaim => here.mounted("pvc"),
        Kind::ServiceAccount => vec![here.test("Used by", Kind::Pod, field("service_account", name))],
        Kind::RoleBinding | Kind::ClusterRoleBinding => here.binding(),
        Kind::Node => vec![RelationQuery {
            relation: "Pods",
            kind: Kind::Pod,
            namespace: String::new(),
            by: Lookup::Link(name.to_owned()),
        }],
        Kind::Event => here.event(),
        Kind::Namespace | Kind::Role | Kind::ClusterRole => Vec::new(),
    }
}

/// The object that relations are looked for.
struct Rules<'a> {
    namespace: &'a str,
    name: &'a str,
    object: &'a Value,
}

impl Rules<'_> {
    fn find(&self, relation: &'static str, kind: Kind, by: Lookup) -> RelationQuery {
        let namespace = if kind.is_namespaced() { self.namespace } else { "" };
        RelationQuery {
            relation,
            kind,
            namespace: namespace.to_owned(),
            by,
        }
    }

    fn test(&self, relation: &'static str, kind: Kind, test: Match) -> RelationQuery {
        self.find(relation, kind, Lookup::Match(test))
    }

    /// Objects of these names; none if there are no names.
    fn named<'n>(
        &self,
        relation: &'static str,
        kind: Kind,
        names: impl Iterator<Item = &'n str>,
    ) -> Option<RelationQuery> {
        let mut names: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        (!names.is_empty()).then(|| self.find(relation, kind, Lookup::Names(names)))
    }

    /// Pods with these labels. Of no labels, none.
    fn pods(&self, relation: &'static str, selector: Map<String, Value>) -> RelationQuery {
        if selector.is_empty() {
            return self.find(relation, Kind::Pod, Lookup::Names(Vec::new()));
        }
        self.test(relation, Kind::Pod, Match::HasLabels(selector))
    }

    fn pod(&self) -> Vec<RelationQuery> {
        let own = labels(self.object, "labels");
        let one = |field| std::iter::once(word(self.object, field));
        let job = own.get("job-name").and_then(Value::as_str);
        let mut finds: Vec<RelationQuery> = [
            self.named("Runs on", Kind::Node, one("node_name")),
            self.named("Created by", Kind::Job, job.into_iter()),
            self.named("Acts as", Kind::ServiceAccount, one("service_account")),
            self.named("Mounts", Kind::ConfigMap, self.volumes("configMap")),
            self.named("Mounts", Kind::Secret, self.volumes("secret")),
            self.named("Mounts", Kind::PersistentVolumeClaim, self.volumes("pvc")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !own.is_empty() {
            for kind in [Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet] {
                finds.push(self.test("Belongs to", kind, selects("selector", &own, false)));
            }
            finds.push(self.test("Served by", Kind::Service, selects("selector", &own, false)));
        }
        finds.push(self.test(
            "Restricted by",
            Kind::NetworkPolicy,
            selects("pod_selector", &own, true),
        ));
        finds
    }

    fn volumes(&self, volume: &'static str) -> impl Iterator<Item = &str> {
        list(self.object, "volumes")
            .filter(move |mounted| word(mounted, "type") == volume)
            .map(|mounted| word(mounted, "source"))
    }

    fn service(&self) -> Vec<RelationQuery> {
        vec![
            self.pods("Pods", labels(self.object, "selector")),
            self.test("Routed by", Kind::Ingress, Match::RoutesTo(self.name.to_owned())),
        ]
    }

    fn stateful_set(&self) -> Vec<RelationQuery> {
        let service = std::iter::once(word(self.object, "service_name"));
        let mut finds = vec![self.pods("Pods", labels(self.object, "selector"))];
        finds.extend(self.named("Served by", Kind::Service, service));
        finds
    }

    fn job(&self) -> Vec<RelationQuery> {
        let label = [("job-name".to_owned(), Value::from(self.name))]
            .into_iter()
            .collect();
        let owner = std::iter::once(word(self.object, "owner_ref"));
        let mut finds = vec![self.pods("Pods", label)];
        finds.extend(self.named("Created by", Kind::CronJob, owner));
        finds
    }

    fn ingress(&self) -> Vec<RelationQuery> {
        let secrets = list(self.object, "tls").map(|tls| word(tls, "secret_name"));
        [
            self.named("Routes to", Kind::Service, services(self.object)),
            self.named("Certificates", Kind::Secret, secrets),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn network_policy(&self) -> Vec<RelationQuery> {
        let selector = labels(self.object, "pod_selector");
        vec![self.test("Restricts", Kind::Pod, Match::HasLabels(selector))]
    }

    fn mounted(&self, volume: &'static str) -> Vec<RelationQuery> {
        let source = self.name.to_owned();
        vec![self.test("Mounted by", Kind::Pod, Match::Mounts { volume, source })]
    }

    /// Subjects may be in several namespaces.
    fn binding(&self) -> Vec<RelationQuery> {
        let role = &self.object["role_ref"];
        let kind = match word(role, "kind") {
            "Role" => Kind::Role,
            _ => Kind::ClusterRole,
        };
        let mut finds: Vec<RelationQuery> = self
            .named("Grants", kind, std::iter::once(word(role, "name")))
            .into_iter()
            .collect();
        for subject in
            list(self.object, "subjects").filter(|subject| word(subject, "kind") == "ServiceAccount")
        {
            let namespace = match word(subject, "namespace") {
                "" => self.namespace,
                other => other,
            };
            finds.push(RelationQuery {
                relation: "Subjects",
                kind: Kind::ServiceAccount,
                namespace: namespace.to_owned(),
                by: Lookup::Names(vec![word(subject, "name").to_owned()]),
            });
        }
        finds
    }

    fn event(&self) -> Vec<RelationQuery> {
        let involved = &self.object["involved_object"];
        let uid = word(involved, "uid");
        match Kind::from_name(word(involved, "kind")) {
            Some(kind) if !uid.is_empty() => vec![self.find("About", kind, Lookup::Uid(uid.to_owned()))],
            _ => Vec::new(),
        }
    }
}

fn selects(field: &'static str, labels: &Map<String, Value>, empty_selects_all: bool) -> Match {
    Match::Selects {
        field,
        labels: labels.clone(),
        empty_selects_all,
    }
}

fn field(field: &'static str, is: &str) -> Match {
    Match::Field {
        field,
        is: is.to_owned(),
    }
}

fn labels(object: &Value, field: &str) -> Map<String, Value> {
    object
        .get(field)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

fn contains(labels: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn services(ingress: &Value) -> impl Iterator<Item = &str> {
    list(ingress, "rules")
        .flat_map(|rule| list(rule, "paths"))
        .map(|path| word(path, "service_name"))
}
