//! The versions of SPIRE's programs, by the tags of their images: whether they fit together, and the configuration that they get.

use serde::Deserialize;
use trustplane_api::identity::names::{AGENT, CONTROLLER_MANAGER, OIDC, SERVER};
use trustplane_plan::kinds::{DAEMON_SET, DEPLOYMENT, STATEFUL_SET};
use trustplane_plan::{Kind, ObjectRef};

use super::super::report::Finding;
use super::Spire;
use crate::cluster::{Cluster, Obstacle, Seen};

/// A program of SPIRE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Server,
    ControllerManager,
    Agent,
    OidcDiscoveryProvider,
}

/// Where a program runs, and which version it should have.
struct Row {
    name: &'static str,
    kind: &'static Kind,
    workload: &'static str,
    /// The minor version that its configuration is written for.
    minor: (u64, u64),
    /// The chart's value of its image.
    value: &'static str,
}

impl Part {
    pub const ALL: [Self; 4] = [
        Self::Server,
        Self::ControllerManager,
        Self::Agent,
        Self::OidcDiscoveryProvider,
    ];

    fn row(self) -> Row {
        const SPIRE: (u64, u64) = (1, 15);
        const SET: &Kind = &STATEFUL_SET;
        const DAEMON: &Kind = &DAEMON_SET;
        const DEPLOYED: &Kind = &DEPLOYMENT;
        let row = |name, kind, workload, minor, value| Row {
            name,
            kind,
            workload,
            minor,
            value,
        };
        match self {
            Self::Server => row(SERVER, SET, SERVER, SPIRE, "spireServer"),
            Self::ControllerManager => row(CONTROLLER_MANAGER, SET, SERVER, (0, 6), "spireControllerManager"),
            Self::Agent => row(AGENT, DAEMON, AGENT, SPIRE, "spireAgent"),
            Self::OidcDiscoveryProvider => row(
                "spiffe-oidc-discovery-provider",
                DEPLOYED,
                OIDC,
                SPIRE,
                "oidcDiscoveryProvider",
            ),
        }
    }
}

/// What is read of a StatefulSet, a DaemonSet or a Deployment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Workload {
    spec: WorkloadSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WorkloadSpec {
    template: Template,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Template {
    spec: Pod,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Pod {
    containers: Vec<Container>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    image: String,
}

/// Looks at the image of each program.
pub async fn look(cluster: &Cluster, namespace: &str) -> Vec<(Part, Seen<Option<String>>)> {
    let mut images = Vec::new();
    for part in Part::ALL {
        let Row {
            name, kind, workload, ..
        } = part.row();
        let found: Seen<Option<Workload>> = cluster
            .find(kind, &ObjectRef::new(Some(namespace), workload))
            .await;
        let image = found.map(|found| {
            let containers = found?.spec.template.spec.containers;
            // A workload with one program may call its container as it likes.
            let is_alone = containers.len() == 1;
            let mut containers = containers.into_iter();
            let container = containers.find(|container| is_alone || container.name == name);
            Some(container.unwrap_or_default().image)
        });
        images.push((part, image));
    }
    images
}

/// Judges the versions. What a missing workload means is told by its operand.
pub fn judge(spire: &Spire) -> Vec<Finding> {
    let server = spire.images.iter().find(|(part, _)| *part == Part::Server);
    let server = server.and_then(|(_, image)| image.as_ref().ok()?.as_deref());
    let server = server.and_then(|image| version(image).ok());
    let mut findings = Vec::new();
    let mut unseen: Option<String> = None;
    for (part, image) in &spire.images {
        let Row { kind, workload, .. } = part.row();
        let subject = format!("{}/{}/{workload}", kind.kind.to_lowercase(), spire.namespace);
        match image {
            Ok(Some(image)) => findings.push(one(*part, image, server, subject)),
            Ok(None) => {}
            // Two programs of one workload are not seen for one reason.
            Err(_) if unseen.as_ref() == Some(&subject) => {}
            Err(obstacle) => {
                findings.push(hidden(&subject, obstacle, kind, &spire.namespace));
                unseen = Some(subject);
            }
        }
    }
    findings
}

fn hidden(subject: &str, obstacle: &Obstacle, kind: &Kind, namespace: &str) -> Finding {
    let advice = format!("ask for the right to get {} in {namespace}", kind.plural);
    Finding::unseen(subject, obstacle, advice)
}

fn one(part: Part, image: &str, server: Option<Version<'_>>, subject: String) -> Finding {
    let Row {
        name, minor, value, ..
    } = part.row();
    let version = match version(image) {
        Ok(version) => version,
        Err(why) => {
            let advice = format!("compare by hand, or name the version: identity.images.{value}.tag");
            return Finding::warning(subject, format!("{name} has an unknown version: {why}"), advice);
        }
    };
    let Version(tag, number) = version;
    let mut faults = Vec::new();
    if part == Part::Agent
        && let Some(Version(other, _)) = server.filter(|server| server.1 < number)
    {
        faults.push(format!("newer than the server, which is {other}"));
    }
    if (number.0, number.1) != minor {
        faults.push(format!(
            "its configuration is written for {}.{}",
            minor.0, minor.1
        ));
    }
    if faults.is_empty() {
        return Finding::good(subject, format!("{name} is {tag}"));
    }
    let advice = format!("choose another image: helm upgrade with identity.images.{value}.tag");
    Finding::bad(
        subject,
        format!("{name} is {tag}: {}", faults.join(", and ")),
        advice,
    )
}

/// A version: as the tag says it, and in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version<'a>(&'a str, (u64, u64, u64));

/// The version that the tag of an image names, or why none is known.
fn version(image: &str) -> Result<Version<'_>, String> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    match (tag.and_then(|tag| Some((tag, numbers(tag)?))), tag, digest) {
        (Some((tag, numbers)), _, _) => Ok(Version(tag, numbers)),
        (None, None, Some(_)) => Err(format!("the image {image} has a digest and no tag")),
        (None, None, None) => Err(format!("the image {image} has no tag")),
        (None, Some(tag), _) => Err(format!("the tag {tag} names none")),
    }
}

/// The numbers of `1.15.3`, `v1.15`, `1.15.3-ubi9`.
fn numbers(tag: &str) -> Option<(u64, u64, u64)> {
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    let plain = tag.split(['-', '+']).next().unwrap_or(tag);
    let mut parts = plain.split('.').map(|part| part.parse().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    let patch = parts.next().unwrap_or(Some(0))?;
    parts.next().is_none().then_some((major, minor, patch))
}
