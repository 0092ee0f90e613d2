//! The objects that the capability makes: their kinds, names and labels.

use aws_lc_rs::digest::{SHA256, digest};
use trustplane_api::hsm::names::{DEVICE_LABEL, OPERATOR};
use trustplane_plan::{Conflicts, Mark, Meta, Ownership};

use crate::resource::slug;

/// The namespace of the HSMDevice that an object in another namespace is for.
pub const DEVICE_NAMESPACE_LABEL: &str = "hsm.j5t.io/device-namespace";
/// The node that an agent is for, on its Deployment.
pub const NODE_ANNOTATION: &str = "hsm.j5t.io/node";
/// The device file that an agent is for, on its pods: with a new one they are made anew.
pub const PATH_ANNOTATION: &str = "hsm.j5t.io/device-path";
/// The agent that a pod is of: its Deployment selects pods by it.
pub const APP_LABEL: &str = "app";
/// What an object is, among those of the capability.
pub const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// The component of agents.
pub const AGENT: &str = "hsm-agent";
/// The component of discovery.
pub const DISCOVERY: &str = "discovery";

/// The end of the names of Secrets with keys of records.
const RECORD_KEY: &str = "-record-key";

/// The most characters of a name that is also a label.
const LONGEST: usize = 63;

/// How objects of the capability are known.
pub fn mark() -> Mark {
    Mark::new("app.kubernetes.io/managed-by", OPERATOR)
}

/// Under which rules objects of the capability are written.
pub fn ownership() -> Ownership {
    Ownership {
        mark: mark(),
        adopt: false,
        // Somebody else's field in an object of ours would run with rights of ours.
        conflicts: Conflicts::Force,
    }
}

/// The pool that is made for an HSMDevice.
pub fn pool_name(device: &str) -> String {
    within(&format!("{device}-pool"), 253)
}

/// The DaemonSet of an HSMDevice. Its pods have the name in a label.
pub fn discovery_name(device: &str) -> String {
    within(&format!("{device}-discovery"), LONGEST)
}

/// The agent of a token, and every object of its own. An agent is known by its HSMDevice and the serial number of its token on the
/// bus; static tokens have a name instead.
///
/// ```
/// use trustplane_hsm_core::objects::agent_name;
///
/// assert_eq!(agent_name("pico", "e6614c311b7e6f35"), "hsm-agent-pico-e6614c311b7e6f35");
/// ```
pub fn agent_name(device: &str, serial: &str) -> String {
    within(&format!("{AGENT}-{device}-{}", slug(serial)), LONGEST)
}

/// The Secret with the certificate of an agent.
pub fn tls_secret_name(agent: &str) -> String {
    format!("{agent}-tls")
}

/// The Secret with the key of the record of an agent.
pub fn record_key_secret_name(agent: &str) -> String {
    format!("{agent}{RECORD_KEY}")
}

/// The agent that a Secret with this name has the key of the record of.
pub(crate) fn agent_of_record_key(secret: &str) -> Option<&str> {
    secret.strip_suffix(RECORD_KEY)
}

/// The Secret with the SO-PIN of the token of an agent.
pub fn so_pin_secret_name(agent: &str) -> String {
    format!("{agent}-so-pin")
}

/// What an agent has in the namespace of its PIN, if that is another one.
pub fn away_name(namespace: &str, agent: &str) -> String {
    format!("{namespace}.{agent}")
}

/// Whether a live object is one for this HSMDevice: it bears our mark and the name of the device.
pub fn is_for(live: &Meta, namespace: &str, device: &str) -> bool {
    let there = live.labels.get(DEVICE_NAMESPACE_LABEL).map(String::as_str);
    let there = there.or(live.object.namespace());
    let named = live.labels.get(DEVICE_LABEL) == Some(&label_value(device));
    mark().is_on(live) && named && there == Some(namespace)
}

/// A text as the value of a label. Equal texts have equal values, and different ones different values, as far as anybody can
/// tell.
pub fn label_value(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: char| c.is_ascii_alphanumeric();
    let value: String = text.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let value = value.trim_matches(|c| !edge(c));
    if value == text {
        return within(value, LONGEST);
    }
    let digest = short_digest(text);
    match value.get(..LONGEST - digest.len() - 1).unwrap_or(value) {
        "" => digest,
        kept => format!("{}-{digest}", kept.trim_end_matches(|c| !edge(c))),
    }
}

/// A name that is cut to a length, with a digest of the whole if anything was cut.
fn within(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let digest = short_digest(name);
    let kept = name.get(..longest - digest.len() - 1).unwrap_or_default();
    format!("{}-{digest}", kept.trim_end_matches(['-', '.', '_']))
}

/// How many characters a short digest has.
pub(crate) const DIGEST: usize = 10;

pub(crate) fn short_digest(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    hex.take(DIGEST / 2).collect()
}

#[cfg(test)]
mod tests;
