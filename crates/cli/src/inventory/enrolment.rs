//! What an enrolment writes: pure, from what a person wants and what the cluster has.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::json;
use trustplane_api::inventory::{OBSYK_AGENT, ObsykAgentSpec};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Apply, Conflicts, Expect, Manifest};
use trustplane_process::secret::Secret;

use super::credentials::{self, Credentials, encode};
use super::hub::Hub;

/// The keys of the Secret, as the agent reads them.
const CLIENT_ID: &str = "client_id";
const PRIVATE_KEY: &str = "private_key";
/// The label that says which program made the objects.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kubectl-trustplane");

/// What a person wants.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where the manager runs, and with it the Secret and the ObsykAgent.
    pub namespace: String,
    /// The name of this cluster at the platform.
    pub cluster: String,
    /// The name of the Secret.
    pub secret: String,
    /// The name of the ObsykAgent.
    pub agent: String,
    /// Whether objects that are there already are overwritten.
    pub replace: bool,
}

/// The platform that gets the inventory.
#[derive(Debug, PartialEq, Eq)]
pub enum Platform {
    /// A hub in this cluster, at this URL: the key is registered by this program.
    Hub(Hub, String),
    /// Another one: the key is registered by a person.
    Outside(String),
}

/// Which version of an object was seen.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    uid: Arc<str>,
    resource_version: Arc<str>,
}

/// A Secret that is there already. Its values are wiped when it is dropped.
#[derive(Debug, Deserialize)]
pub struct LiveSecret {
    metadata: Version,
    #[serde(default)]
    data: BTreeMap<String, Secret<String>>,
}

/// An ObsykAgent that is there already.
#[derive(Debug, Deserialize)]
pub struct LiveAgent {
    metadata: Version,
    spec: ObsykAgentSpec,
}

/// What the cluster has under the names that a person wants.
#[derive(Debug, Default)]
pub struct Existing {
    pub secret: Option<LiveSecret>,
    pub agent: Option<LiveAgent>,
}

impl Platform {
    /// The platform that is meant: the hub of the namespace, unless a URL is named that is none of the hub's.
    pub fn choose(named: Option<&str>, hub: Option<Hub>, namespace: &str) -> Result<Self> {
        let own = |hub: &Hub, named: &str| hub.urls.iter().any(|url| same_url(url, named));
        match (named, hub) {
            (Some(named), Some(hub)) if own(&hub, named) => Ok(Self::Hub(hub, named.to_owned())),
            (Some(named), _) => Ok(Self::Outside(named.to_owned())),
            (None, Some(hub)) => match hub.urls.first().cloned() {
                Some(url) => Ok(Self::Hub(hub, url)),
                None => bail!(
                    "the hub in pod {} does not say by which URL agents reach it: name it with --platform-url",
                    hub.path()
                ),
            },
            (None, None) => bail!(
                "no hub runs in namespace {namespace}: name the platform with --platform-url, or run a hub here, by helm upgrade with \
                 hub.enabled=true"
            ),
        }
    }

    /// Where agents reach it.
    pub fn url(&self) -> &str {
        match self {
            Self::Hub(_, url) | Self::Outside(url) => url,
        }
    }
}

/// Whether two URLs mean the same platform: a slash at the end says nothing.
fn same_url(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

impl Wanted {
    /// Refuses to overwrite what exists, unless --replace permits it.
    pub fn permit(&self, existing: &Existing, url: &str) -> Result<()> {
        if let Some(secret) = &existing.secret {
            let name = format!("Secret {}/{}", self.namespace, self.secret);
            if !self.replace {
                bail!(
                    "{name} exists already: this cluster is enrolled, or the Secret is used for something else. For a new key add --replace"
                );
            }
            let others: Vec<&str> = secret
                .data
                .keys()
                .map(String::as_str)
                .filter(|key| ![CLIENT_ID, PRIVATE_KEY].contains(key))
                .collect();
            if !others.is_empty() {
                bail!(
                    "{name} has other keys than those of an agent: {}. Delete it, or name another Secret with --credentials-secret",
                    others.join(", ")
                );
            }
        }
        let Some(agent) = &existing.agent else {
            return Ok(());
        };
        let differs = self.differences(&agent.spec, url);
        if !differs.is_empty() && !self.replace {
            bail!(
                "ObsykAgent {}/{} exists already with another {}. To change it add --replace, or name another one with --agent",
                self.namespace,
                self.agent,
                differs.join(" and ")
            );
        }
        Ok(())
    }

    /// The fields of an agent that are not as wanted.
    fn differences(&self, live: &ObsykAgentSpec, url: &str) -> Vec<&'static str> {
        let fields = [
            ("platformURL", same_url(&live.platform_url, url)),
            ("clusterName", live.cluster_name == self.cluster),
            (
                "credentialsSecretRef",
                live.credentials_secret_ref.name == self.secret,
            ),
        ];
        let differing = fields.into_iter().filter(|(_, is_same)| !is_same);
        differing.map(|(field, _)| field).collect()
    }

    /// The write of the Secret.
    pub fn secret(&self, credentials: &Credentials, existing: &Existing) -> Apply {
        let data = json!({
            CLIENT_ID: encode(&credentials.client_id),
            PRIVATE_KEY: encode(credentials.private_key.expose()),
        });
        let manifest = Manifest::new(SECRET, Some(&self.namespace), &self.secret)
            .label(MANAGED_BY.0, MANAGED_BY.1)
            .with("type", json!("Opaque"))
            .with("data", data);
        self.write(manifest, existing.secret.as_ref().map(|secret| &secret.metadata))
    }

    /// The write of the ObsykAgent; none if it is as wanted already. Fields that others have set stay.
    pub fn agent(&self, url: &str, ca_bundle: Option<&str>, existing: &Existing) -> Option<Apply> {
        let live = existing.agent.as_ref();
        let is_as_wanted = live.is_some_and(|live| {
            let differs = self.differences(&live.spec, url);
            differs.is_empty() && live.spec.ca_bundle.as_deref() == ca_bundle
        });
        if is_as_wanted {
            return None;
        }
        let mut spec = json!({
            "platformURL": url,
            "clusterName": self.cluster,
            "credentialsSecretRef": {"name": self.secret},
        });
        if let Some(bundle) = ca_bundle {
            spec["caBundle"] = bundle.into();
        }
        let manifest = Manifest::new(OBSYK_AGENT, Some(&self.namespace), &self.agent)
            .label(MANAGED_BY.0, MANAGED_BY.1)
            .with("spec", spec);
        Some(self.write(manifest, live.map(|live| &live.metadata)))
    }

    fn write(&self, manifest: Manifest, seen: Option<&Version>) -> Apply {
        let Some(version) = seen else {
            return Apply::create(manifest);
        };
        let conflicts = match self.replace {
            true => Conflicts::Force,
            false => Conflicts::Report,
        };
        Apply {
            manifest,
            expect: Expect::Seen {
                uid: Arc::clone(&version.uid),
                resource_version: Arc::clone(&version.resource_version),
            },
            conflicts,
        }
    }

    /// The command by which a person registers the public key where the hub runs.
    pub fn registration(&self, credentials: &Credentials) -> String {
        format!(
            "trustplane-hub client add --name {} --id {} <<'EOF'\n{}EOF",
            quoted(&self.cluster),
            quoted(&credentials.client_id),
            credentials.public_key
        )
    }
}

impl Existing {
    /// The client of before: the platform keeps what it knows of the cluster under this id.
    pub fn client_id(&self) -> Option<String> {
        let secret = self.secret.as_ref()?;
        credentials::client_id(secret.data.get(CLIENT_ID)?).ok()
    }

    /// The certificates by which the agent knows this platform already.
    pub fn ca_bundle(&self, url: &str) -> Option<String> {
        let spec = &self.agent.as_ref()?.spec;
        spec.ca_bundle
            .clone()
            .filter(|_| same_url(&spec.platform_url, url))
    }
}

/// A word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
