//! Makes the Secret without its data, which needs no value.

use std::collections::BTreeMap;

use serde_json::json;
use trustplane_api::hsm::HSM_SECRET;
use trustplane_api::hsm::names::{DELIVERED_LABEL, LOCATION_LABEL, OPERATOR};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Manifest, Owner};

use super::{Placement, Situation};
use crate::metadata::Metadata;
use crate::objects::label_value;

/// The prefix of the annotations of the original.
const DOMAIN: &str = "hsm.j5t.io";

/// The Secret as it should be, without its data. `None` if the HSMSecret cannot be its owner.
pub(super) fn shell(
    situation: &Situation,
    placement: &Placement,
    secret_type: &str,
    metadata: &Metadata,
) -> Option<Manifest> {
    let secret = &placement.secret;
    let owner = Owner::controller(&HSM_SECRET, &situation.object, secret.namespace())?;
    let bare = Manifest::new(SECRET, secret.namespace(), secret.name())
        .owner(owner)
        .with("type", json!(secret_type));
    let labelled = labels(metadata)
        .into_iter()
        .fold(bare, |wish, (key, value)| wish.label(key, value));
    // Our labels come last: metadata on a token cannot pass the Secret off as that of another owner.
    let path = situation.spec.as_ref().and_then(|spec| spec.hsm_path.as_deref());
    let path = path.filter(|path| !path.is_empty());
    let location = path.unwrap_or(situation.object.object.name()).replace('/', "_");
    let labelled = labelled
        .label(DELIVERED_LABEL, OPERATOR)
        .label(LOCATION_LABEL, &label_value(&location));
    let annotations = [
        ("description", &metadata.description),
        ("format", &metadata.format),
        ("data-type", &metadata.data_type),
        ("source", &metadata.source),
        ("created-at", &metadata.created_at),
    ];
    let given = annotations.into_iter().filter(|(_, text)| !text.is_empty());
    Some(given.fold(labelled, |wish, (name, text)| {
        wish.annotation(&format!("{DOMAIN}/{name}"), text)
    }))
}

/// The labels of the metadata that a Secret can have. Labels with a prefix are left out, as by the original, because they have a
/// meaning to other programs.
fn labels(metadata: &Metadata) -> BTreeMap<&str, &str> {
    let labels = metadata.labels.iter();
    let pairs = labels.map(|(key, value)| (key.as_str(), value.as_str()));
    pairs
        .filter(|(key, value)| is_name(key) && (value.is_empty() || is_name(value)))
        .collect()
}

/// Whether a text can be the name or the value of a label.
fn is_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63
        && text.chars().all(allowed)
        && edge(text.chars().next())
        && edge(text.chars().next_back())
}
