//! What this cluster offers a capability: the kinds that are served and the rights that are granted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec},
    rbac::v1::PolicyRule,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::PostParams};

use super::{Capability, Lack};
use crate::rights::{Place, Rights, lacking};

/// Where the API server keeps events about objects without a namespace.
const DEFAULT: &str = "default";

/// What the API server told us about ourselves.
#[derive(Debug, Default)]
pub struct Facts {
    home: String,
    /// The rights in a namespace. `None` if the API server could not list all of them, because a webhook decides about some: then
    /// a right that is not listed may still be granted.
    granted: BTreeMap<String, Option<Vec<PolicyRule>>>,
    /// Group versions that some capability needs and that are not served, or lack the kind.
    missing: BTreeSet<String>,
}

impl Facts {
    /// Asks the API server about these capabilities, for an installation in this namespace.
    pub async fn gather(client: &Client, home: &str, known: &[Capability]) -> Result<Self, kube::Error> {
        let mut facts = Self {
            home: home.to_owned(),
            ..Self::default()
        };
        let rights = known.iter().flat_map(|capability| {
            let rights = capability.all_rights();
            let places: BTreeSet<Place> = rights.rules().map(|(place, _)| place).collect();
            places.into_iter().map(move |place| (place, capability))
        });
        let mut namespaces = BTreeSet::from([home.to_owned()]);
        for (place, capability) in rights {
            namespaces.extend(facts.namespaces(place, capability).map(str::to_owned));
        }
        for namespace in namespaces {
            let granted = granted(client, &namespace).await?;
            facts.granted.insert(namespace, granted);
        }
        for crd in known.iter().flat_map(Capability::all_crds) {
            for version in crd.spec.versions.iter().filter(|version| version.served) {
                let group_version = format!("{}/{}", crd.spec.group, version.name);
                if !serves(client, &group_version, &crd.spec.names.plural).await? {
                    facts.missing.insert(name(&crd));
                }
            }
        }
        Ok(facts)
    }

    /// What a capability lacks that it cannot do without, and what it lacks at all. `webhooks` is what its webhooks need.
    pub fn lacks(&self, capability: &Capability, webhooks: &Rights) -> (Lack, Lack) {
        let needed = (capability.rights)().and(webhooks.clone());
        let all = capability.all_rights().and(webhooks.clone());
        (
            self.lack(capability, (capability.crds)(), &needed),
            self.lack(capability, capability.all_crds(), &all),
        )
    }

    fn lack(&self, capability: &Capability, crds: Vec<CustomResourceDefinition>, rights: &Rights) -> Lack {
        let mut missing = BTreeSet::new();
        for (place, rule) in rights.rules() {
            for namespace in self.namespaces(place, capability) {
                let Some(Some(granted)) = self.granted.get(namespace) else {
                    continue;
                };
                let told = |what: String| match namespace == self.home {
                    true => what,
                    false => format!("{what} in {namespace}"),
                };
                missing.extend(lacking(rule, granted).into_iter().map(told));
            }
        }
        let crds = crds.iter().map(name);
        Lack {
            crds: crds.filter(|crd| self.missing.contains(crd)).collect(),
            rights: missing,
        }
    }

    /// The namespaces in which rights of this place show. What holds in every namespace shows in our own.
    fn namespaces<'a>(
        &'a self,
        place: Place,
        capability: &'a Capability,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let (one, some): (Option<&str>, &[String]) = match place {
            Place::Served if !capability.namespaces.is_empty() => (None, &capability.namespaces),
            Place::Tenants if !capability.tenants.is_empty() => (None, &capability.tenants),
            Place::Default => (Some(DEFAULT), &[]),
            Place::Cluster | Place::Everywhere | Place::Served | Place::Tenants | Place::Home => {
                (Some(&self.home), &[])
            }
        };
        one.into_iter().chain(some.iter().map(String::as_str))
    }
}

async fn granted(client: &Client, namespace: &str) -> Result<Option<Vec<PolicyRule>>, kube::Error> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..Default::default()
    };
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &review).await?;
    let status = review.status.unwrap_or_default();
    let granted = status.resource_rules.into_iter().map(|rule| PolicyRule {
        api_groups: rule.api_groups,
        resources: rule.resources,
        resource_names: rule.resource_names,
        verbs: rule.verbs,
        non_resource_urls: None,
    });
    Ok((!status.incomplete).then(|| granted.collect()))
}

async fn serves(client: &Client, group_version: &str, plural: &str) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(group_version).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == plural)),
        // A group of which nothing is served answers with a plain text, so the code alone tells.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

fn name(crd: &CustomResourceDefinition) -> String {
    format!("{}.{}", crd.spec.names.plural, crd.spec.group)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::manager::Part;

    fn rights(place: Place, verb: &str) -> Rights {
        Rights::none().on(place, "", &["pods"], &[verb])
    }

    fn capability(namespaces: &[&str]) -> Capability {
        Capability {
            name: "watcher",
            about: "",
            crds: Vec::new,
            policies: Vec::new,
            at_home: false,
            opt_in: false,
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            tenants: Vec::new(),
            rights: || rights(Place::Served, "list"),
            parts: vec![Part::new("deletion", "", || rights(Place::Served, "delete"))],
            roles: Vec::new,
            lease_before: None,
            secrets: None,
            webhooks: Vec::new,
            start: Arc::new(|_| Box::pin(async { Ok(()) })),
        }
    }

    fn facts(granted: &[(&str, &[&str])]) -> Facts {
        let rules = |verbs: &[&str]| {
            let rights = Rights::none().on(Place::Home, "", &["pods"], verbs);
            Some(rights.of(Place::Home))
        };
        Facts {
            home: "home".into(),
            granted: granted
                .iter()
                .map(|(namespace, verbs)| ((*namespace).to_owned(), rules(verbs)))
                .collect(),
            missing: BTreeSet::new(),
        }
    }

    #[test]
    fn rights_are_looked_for_where_they_hold() {
        let facts = facts(&[("home", &[]), ("a", &["list", "delete"]), ("b", &["delete"])]);
        let (needed, _) = facts.lacks(&capability(&["a"]), &Rights::none());
        assert!(needed.is_nothing(), "{needed}");
        let (needed, _) = facts.lacks(&capability(&["a", "b"]), &Rights::none());
        assert_eq!(needed.to_string(), "not permitted: list core/pods in b");
        let (needed, _) = facts.lacks(&capability(&[]), &Rights::none());
        assert_eq!(needed.to_string(), "not permitted: list core/pods");
    }

    #[test]
    fn rights_of_tenants_are_looked_for_in_listed_namespaces() {
        let facts = facts(&[("home", &[]), ("a", &["patch"]), ("b", &[])]);
        let tenants = |names: &[&str]| Capability {
            rights: || rights(Place::Tenants, "patch"),
            tenants: names.iter().map(|name| (*name).to_owned()).collect(),
            ..capability(&["home"])
        };
        let (needed, _) = facts.lacks(&tenants(&["a"]), &Rights::none());
        assert!(needed.is_nothing(), "{needed}");
        let (needed, _) = facts.lacks(&tenants(&["a", "b"]), &Rights::none());
        assert_eq!(needed.to_string(), "not permitted: patch core/pods in b");
        let (needed, _) = facts.lacks(&tenants(&[]), &Rights::none());
        assert_eq!(needed.to_string(), "not permitted: patch core/pods");
    }

    #[test]
    fn a_part_without_its_rights_keeps_no_capability_from_running() {
        let facts = facts(&[("home", &["list"])]);
        let (needed, lack) = facts.lacks(&capability(&[]), &Rights::none());
        assert!(needed.is_nothing(), "{needed}");
        assert_eq!(lack.to_string(), "not permitted: delete core/pods");
    }

    #[test]
    fn rights_that_cannot_be_listed_are_not_missed() {
        let mut facts = facts(&[("home", &[])]);
        facts.granted.insert("home".into(), None);
        let (_, lack) = facts.lacks(&capability(&[]), &Rights::none());
        assert!(lack.is_nothing(), "{lack}");
    }
}
