//! What this cluster offers a capability: the kinds that are served and the rights that are granted.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec},
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, api::PostParams};

use super::{Capability, Lack};
use crate::rights::Rights;

/// What the API server told us about ourselves.
#[derive(Debug, Default)]
pub struct Facts {
    granted: Vec<PolicyRule>,
    /// The server could not list all rights (it asks somebody else): then the absence of one says nothing.
    incomplete: bool,
    /// Group versions that some capability needs and that are not served, or lack the kind.
    missing: BTreeSet<String>,
}

impl Facts {
    /// Asks the API server about these capabilities.
    pub async fn gather(client: &Client, namespace: &str, known: &[Capability]) -> Result<Self, kube::Error> {
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
        let mut facts = Self {
            granted: granted.collect(),
            incomplete: status.incomplete,
            missing: BTreeSet::new(),
        };
        for crd in known.iter().flat_map(|capability| (capability.crds)()) {
            for version in crd.spec.versions.iter().filter(|version| version.served) {
                let group_version = format!("{}/{}", crd.spec.group, version.name);
                if !serves(client, &group_version, &crd.spec.names.plural).await? {
                    facts
                        .missing
                        .insert(format!("{}.{}", crd.spec.names.plural, crd.spec.group));
                }
            }
        }
        Ok(facts)
    }

    /// What a capability lacks that it cannot do without, and what it lacks of these rights and of its kinds at all.
    pub fn lacks(&self, capability: &Capability, rights: &Rights) -> (Lack, Lack) {
        let all = self.lack(capability, rights);
        let needed = match capability.least {
            None => all.clone(),
            Some(least) => Lack {
                rights: self.lacking(&least()),
                ..Lack::default()
            },
        };
        (needed, all)
    }

    fn lack(&self, capability: &Capability, rights: &Rights) -> Lack {
        let crds = (capability.crds)().into_iter();
        let crds = crds.map(|crd| format!("{}.{}", crd.spec.names.plural, crd.spec.group));
        Lack {
            crds: crds.filter(|crd| self.missing.contains(crd)).collect(),
            rights: self.lacking(rights),
        }
    }

    fn lacking(&self, rights: &Rights) -> BTreeSet<String> {
        match self.incomplete {
            true => BTreeSet::new(),
            false => rights.lacking(&self.granted),
        }
    }
}

async fn serves(client: &Client, group_version: &str, plural: &str) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(group_version).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == plural)),
        // A group of which nothing is served answers with a plain text, so the code alone tells.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}
