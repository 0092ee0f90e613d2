//! Whether Kubernetes takes what a spec says of pods.

use std::collections::BTreeMap;

use trustplane_api::identity::CommonConfig;
use trustplane_api::identity::conditions::{self, reason};

use super::names::{is_label_key, is_label_value};
use super::{Defect, affinity, resources, taint};

/// The rule for the key of a label.
pub(super) const KEY: &str = "must be a name of at most 63 letters, digits and -_. that begins and ends with a letter or a digit, perhaps after a DNS name and a slash";
/// The rule for the value of a label.
pub(super) const VALUE: &str =
    "must be empty, or at most 63 letters, digits and -_. that begin and end with a letter or a digit";

/// The defects of what a spec says of pods, by the rules that Kubernetes has for labels and pods. It is for the effective values as well as for
/// those of one object.
pub fn common(common: &CommonConfig) -> Vec<Defect> {
    let mut defects = pairs("spec.labels", &common.labels, reason::INVALID_LABELS);
    defects.extend(pairs(
        "spec.nodeSelector",
        &common.node_selector,
        reason::INVALID_NODE_SELECTOR,
    ));
    defects.extend(taint::defects("spec.tolerations", &common.tolerations));
    defects.extend(common.affinity.iter().flat_map(affinity::defects));
    let resources = common.resources.iter();
    defects.extend(resources.flat_map(|resources| resources::defects("spec.resources", resources)));
    defects
}

fn pairs(field: &str, pairs: &BTreeMap<String, String>, reason: &'static str) -> Vec<Defect> {
    let condition = (conditions::CONFIGURATION_VALID, reason);
    let of_key = |key: &str| {
        (!is_label_key(key)).then(|| Defect::new(at(field, key), format!("the key {KEY}"), condition))
    };
    let of_value = |key: &str, value: &str| {
        (!is_label_value(value)).then(|| Defect::new(at(field, key), VALUE, condition))
    };
    pairs
        .iter()
        .flat_map(|(key, value)| [of_key(key), of_value(key, value)])
        .flatten()
        .collect()
}

/// An entry of a map.
fn at(field: &str, key: &str) -> String {
    format!("{field}[{key}]")
}
