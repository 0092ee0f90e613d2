//! The trust bundle: whether pods and agents can verify SVIDs with it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use trustplane_api::identity::OperandKind;
use trustplane_api::identity::names::{BUNDLE_KEY, SERVER};
use trustplane_plan::ObjectRef;
use trustplane_plan::kinds::CONFIG_MAP;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

use super::super::report::Finding;
use super::Spire;
use super::operands::subject;
use crate::cluster::{Cluster, Seen};

/// How long before its end the newest CA should have a successor, if its life is long.
const SUCCESSOR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A certificate of the bundle.
struct Authority {
    /// The SPIFFE ID of its trust domain.
    id: Option<String>,
    from: Timestamp,
    until: Timestamp,
}

impl Authority {
    fn is_valid(&self, now: Timestamp) -> bool {
        self.from <= now && now <= self.until
    }

    /// Whether the server should have made a successor by now: it makes one after half of a CA's life, at the latest 30 days before its
    /// end. With the usual life of a day, a newest CA that has half a day left is as it should be.
    fn is_overdue(&self, now: Timestamp) -> bool {
        let life = self.until.duration_since(self.from);
        self.until.duration_since(now) < SUCCESSOR.min(life / 3)
    }
}

/// Reads the bundle: empty if the ConfigMap has none, `None` without the ConfigMap.
pub async fn look(cluster: &Cluster, namespace: &str, name: &str) -> Seen<Option<String>> {
    #[derive(Deserialize)]
    struct Content {
        #[serde(default)]
        data: BTreeMap<String, String>,
    }
    let object = ObjectRef::new(Some(namespace), name);
    let found: Option<Content> = cluster.find(&CONFIG_MAP, &object).await?;
    Ok(found.map(|mut content| content.data.remove(BUNDLE_KEY).unwrap_or_default()))
}

/// Judges the bundle; without a trust domain, one of any trust domain will do.
pub fn judge(spire: &Spire, domain: Option<&str>, now: &Seen<Timestamp>) -> Finding {
    let Spire {
        namespace, bundle, ..
    } = spire;
    let subject = format!("configmap/{namespace}/{bundle}");
    match (&spire.certificates, now) {
        (Err(obstacle), _) => {
            let advice = format!("ask for the right to get the ConfigMap {bundle} in {namespace}");
            Finding::unseen(subject, obstacle, advice)
        }
        (Ok(None), _) => Finding::bad(subject, "does not exist, so no agent starts", describe_server()),
        (Ok(Some(_)), Err(obstacle)) => Finding::unseen(subject, obstacle, "look again later"),
        (Ok(Some(text)), Ok(now)) => content(subject, text, domain, *now, namespace),
    }
}

fn content(subject: String, text: &str, domain: Option<&str>, now: Timestamp, namespace: &str) -> Finding {
    let logs = format!("kubectl logs --namespace {namespace} statefulset/{SERVER} --container {SERVER}");
    if text.trim().is_empty() {
        let told = format!("has no {BUNDLE_KEY}: the server has not written its trust bundle");
        return Finding::bad(subject, told, logs);
    }
    let all = match authorities(text) {
        Err(problem) => return Finding::bad(subject, format!("{BUNDLE_KEY} {problem}"), logs),
        Ok(all) => all,
    };
    let wanted = domain.map(|domain| format!("spiffe://{domain}"));
    let fits = |authority: &&Authority| match &wanted {
        Some(_) => authority.id == wanted,
        None => authority.id.is_some(),
    };
    let newest = all.iter().filter(fits);
    let newest = newest.max_by_key(|authority| (authority.is_valid(now), authority.until));
    let Some(newest) = newest else {
        let wanted = wanted.as_deref().unwrap_or("a trust domain");
        let told = format!(
            "{BUNDLE_KEY} has no certificate of {wanted}, but of {}",
            ids(&all)
        );
        return Finding::bad(subject, told, describe_server());
    };
    let Authority { from, until, .. } = newest;
    let id = newest.id.as_deref().unwrap_or_default();
    if !newest.is_valid(now) {
        let told = format!("no certificate of {id} is valid: the newest one is from {from} to {until}");
        return Finding::bad(subject, told, logs);
    }
    let left = span(until.duration_since(now));
    if newest.is_overdue(now) {
        let told =
            format!("the newest certificate of {id} expires in {left}, and the server has made no successor");
        return Finding::warning(subject, told, logs);
    }
    Finding::good(
        subject,
        format!("has a certificate of {id}, which expires in {left}"),
    )
}

fn describe_server() -> String {
    format!("kubectl describe {}", subject(OperandKind::SpireServer))
}

/// The certificates of a bundle. SPIRE refuses a bundle with anything else in it.
fn authorities(text: &str) -> Result<Vec<Authority>, String> {
    let blocks = Pem::iter_from_buffer(text.as_bytes());
    let all = (1..).zip(blocks).map(|(number, block)| {
        let read = block.ok().filter(|block| block.label == "CERTIFICATE");
        let read = read.and_then(|block| authority(&block));
        read.ok_or_else(|| format!("holds something else than certificates: entry {number}"))
    });
    let all: Vec<Authority> = all.collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err("holds no certificate".to_owned()),
        false => Ok(all),
    }
}

fn authority(block: &Pem) -> Option<Authority> {
    let certificate = block.parse_x509().ok()?;
    let names = certificate.subject_alternative_name().ok()?;
    let mut names = names.iter().flat_map(|names| &names.value.general_names);
    let id = names.find_map(|name| match name {
        GeneralName::URI(uri) if uri.starts_with("spiffe://") => Some((*uri).to_owned()),
        _ => None,
    });
    let validity = certificate.validity();
    Some(Authority {
        id,
        from: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
        until: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
    })
}

fn ids(all: &[Authority]) -> String {
    let mut ids: Vec<&str> = all
        .iter()
        .map(|authority| authority.id.as_deref().unwrap_or("no trust domain"))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids.join(", ")
}

/// A duration as people say it, in whole days, hours or minutes.
fn span(duration: SignedDuration) -> String {
    let hours = duration.as_hours();
    match hours {
        48.. => format!("{} days", hours / 24),
        2.. => format!("{hours} hours"),
        _ => format!("{} minutes", duration.as_mins()),
    }
}
