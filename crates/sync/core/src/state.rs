//! What the Secret itself says about how it was made, so that a restart needs neither a provider nor a value.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use trustplane_plan::{Kind, Mark, Meta, Scope};

use crate::claims::Claim;
use crate::data::Data;
use crate::situation::Stores;

/// Secrets, as watches and plans name them.
pub const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets", Scope::Namespaced);
/// Pods, as watches and plans name them.
pub const POD: Kind = Kind::new("", "v1", "Pod", "pods", Scope::Namespaced);

/// The label by which our Secrets are known.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The label that names the provider.
pub const PROVIDER: &str = "jasm.codnod.io/provider";
/// The annotation with the path.
pub const SOURCE_PATH: &str = "jasm.codnod.io/source-path";
/// The annotation with the time of the last write.
pub const SYNCED_AT: &str = "jasm.codnod.io/synced-at";
/// The annotation with the provider's version.
pub const VERSION: &str = "jasm.codnod.io/version";
/// The annotation with the workload that the Secret was made for.
pub const REQUESTED_BY: &str = "trustplane.io/requested-by";
/// The annotation with what it was made from, and which keys it got: two short hashes of what metadata shows anyway.
pub const STATE: &str = "trustplane.io/sync-state";

/// How our Secrets are known; those of JASM, by either of its names, are ours too.
pub fn mark(value: &str) -> Mark {
    Mark::new(MANAGED_BY, value).also("jasm").also("caronte")
}

/// Which request a Secret was made for: everything that a new write could depend on, but the content.
pub fn request_state(winners: &[Claim<'_>], forced: &[&str], stores: &Stores) -> String {
    let what: Vec<_> = winners
        .iter()
        .map(|claim| {
            (
                &claim.request.source,
                &claim.request.shape,
                &claim.request.secret_type,
            )
        })
        .collect();
    let named = winners
        .iter()
        .filter_map(|claim| claim.request.source.store.as_deref());
    // A store that was changed is another place.
    let revisions: BTreeMap<&str, &str> = named
        .filter_map(|name| Some((name, &*stores.get(name)?.revision)))
        .collect();
    // Texts, lists and maps of texts always have a JSON form.
    let bytes = match revisions.is_empty() {
        true => serde_json::to_vec(&(what, forced)),
        false => serde_json::to_vec(&(what, forced, revisions)),
    };
    short_hash(&bytes.unwrap_or_default())
}

/// Which keys a Secret got.
pub fn keys_state<'a>(keys: impl Iterator<Item = &'a str>) -> String {
    let mut keys: Vec<&str> = keys.collect();
    keys.sort_unstable();
    // A key cannot hold a slash.
    short_hash(keys.join("/").as_bytes())
}

/// The annotation of a Secret that is about to be written.
pub fn state(request: &str, data: &Data) -> String {
    format!("{request}.{}", keys_state(data.keys().map(String::as_str)))
}

fn short_hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// How a live Secret of ours stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Made by us for this request, and untouched since.
    Intact,
    /// Made for another request.
    Outdated,
    /// Somebody changed a key or a label of ours.
    Touched,
    /// Made by JASM from the same path. What it holds is not known.
    Inherited,
}

/// Compares a live Secret of ours with what it should have been made for. No value is needed: whoever changes a field of
/// ours takes it from our field set.
pub fn standing(live: &Meta, request: &str, path: &str) -> Standing {
    let Some(state) = live.annotations.get(STATE) else {
        let same = live
            .annotations
            .get(SOURCE_PATH)
            .is_some_and(|recorded| recorded == path);
        // One that we made has lost the annotation by somebody's hand, and with it a field of ours.
        let ours = !live.fields.is_empty();
        return match (ours, same) {
            (true, _) => Standing::Touched,
            (false, true) => Standing::Inherited,
            (false, false) => Standing::Outdated,
        };
    };
    let (made_for, keys) = state.split_once('.').unwrap_or((state, ""));
    let held = |parent: &[&str], names: &[&str]| names.iter().all(|name| live.fields.has_field(parent, name));
    let untouched = held(&["metadata", "labels"], &[MANAGED_BY, PROVIDER])
        && held(&["metadata", "annotations"], &[SOURCE_PATH, STATE, REQUESTED_BY])
        && keys_state(live.fields.children(&["data"])) == keys;
    match (untouched, made_for == request) {
        (_, false) => Standing::Outdated,
        (true, true) => Standing::Intact,
        (false, true) => Standing::Touched,
    }
}

/// When a live Secret was last written by us or by JASM.
pub fn synced_at(live: &Meta) -> Option<Timestamp> {
    live.annotations.get(SYNCED_AT)?.parse().ok()
}
