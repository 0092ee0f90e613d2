//! Objects chosen by their labels, as everywhere in Kubernetes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Chooses objects by their labels: all that is said must hold. One that says nothing chooses every object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.matchLabels) || !has(self.matchExpressions) || self.matchExpressions.all(e, \
        !(e.key in self.matchLabels) || e.operator == 'Exists' || \
        (e.operator == 'In' && self.matchLabels[e.key] in e.values) || \
        (e.operator == 'NotIn' && !(self.matchLabels[e.key] in e.values)))",
    "message": "matchExpressions contradict matchLabels: no labels could match both",
}]))]
pub struct LabelSelector {
    /// These labels with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that go beyond one value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub match_expressions: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
    "message": "values: In and NotIn need at least one, Exists and DoesNotExist take none",
}]))]
pub struct Requirement {
    /// The label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// What is required of it.
    pub operator: Operator,
    /// The values that In and NotIn speak of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub values: Vec<String>,
}

/// What can be required of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// It is there, with one of the values.
    In,
    /// It is not there, or has none of the values.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether these labels are chosen.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.holds(labels))
    }

    /// The labels that it speaks of.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let named = self.match_labels.keys();
        let required = self.match_expressions.iter().map(|requirement| &requirement.key);
        named.chain(required).map(String::as_str)
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chooses(selector: Value, labels: Value) -> bool {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        selector.matches(&serde_json::from_value(labels).unwrap())
    }

    #[test]
    fn all_that_is_said_must_hold() {
        assert!(chooses(json!({}), json!({})));
        assert!(chooses(
            json!({"matchLabels": {"a": "1"}}),
            json!({"a": "1", "b": "2"})
        ));
        assert!(!chooses(
            json!({"matchLabels": {"a": "1", "b": "1"}}),
            json!({"a": "1"})
        ));
        let required = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        for (operator, values, at_one, absent) in [
            ("In", json!(["1", "2"]), true, false),
            ("In", json!(["2"]), false, false),
            ("NotIn", json!(["1"]), false, true),
            ("NotIn", json!(["2"]), true, true),
            ("Exists", json!([]), true, false),
            ("DoesNotExist", json!([]), false, true),
        ] {
            let selector = required(operator, values);
            assert_eq!(chooses(selector.clone(), json!({"a": "1"})), at_one, "{selector}");
            assert_eq!(chooses(selector.clone(), json!({"b": "1"})), absent, "{selector}");
        }
    }
}
