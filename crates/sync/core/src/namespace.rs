//! Namespaces chosen by their labels, which may not be known.

use std::collections::BTreeMap;

use trustplane_api::selector::LabelSelector;

/// The label of a namespace that is its name: known without looking.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The labels of a namespace.
pub type Labels = BTreeMap<String, String>;

/// Whether a namespace is chosen; nothing if that hangs on labels that are not known. Without a selector every one is.
pub fn chooses(selector: Option<&LabelSelector>, namespace: &str, labels: Option<&Labels>) -> Option<bool> {
    let Some(selector) = selector else {
        return Some(true);
    };
    match labels {
        Some(labels) => Some(selector.matches(labels)),
        None if selector.keys().all(|key| key == NAME_LABEL) => {
            let known = Labels::from([(NAME_LABEL.to_owned(), namespace.to_owned())]);
            Some(selector.matches(&known))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chosen(selector: Value, labels: Option<Value>) -> Option<bool> {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let labels: Option<Labels> = labels.map(|labels| serde_json::from_value(labels).unwrap());
        chooses(Some(&selector), "shop", labels.as_ref())
    }

    #[test]
    fn what_hangs_on_unknown_labels_is_not_said() {
        let by_name = |name: &str| json!({"matchLabels": {NAME_LABEL: name}});
        assert_eq!(chosen(by_name("shop"), None), Some(true));
        assert_eq!(chosen(by_name("other"), None), Some(false));
        assert_eq!(chosen(json!({}), None), Some(true));
        let by_label = json!({"matchLabels": {"team": "a"}});
        assert_eq!(chosen(by_label.clone(), None), None);
        assert_eq!(chosen(by_label.clone(), Some(json!({"team": "a"}))), Some(true));
        assert_eq!(chosen(by_label, Some(json!({}))), Some(false));
        assert_eq!(chooses(None, "shop", None), Some(true));
    }
}
