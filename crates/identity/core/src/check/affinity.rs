//! Whether Kubernetes takes an affinity.

use trustplane_api::identity::conditions::{self, reason};
use trustplane_api::identity::{
    Affinity, LabelRequirement, LabelSelector, NodeAffinity, NodeRequirement, NodeSelectorTerm, PodAffinity,
    PodAffinityTerm,
};

use super::Defect;
use super::agent::is_namespace;
use super::names::{is_dns_subdomain, is_label_key, is_label_value};
use super::pods::{KEY, VALUE};

const INVALID: (&str, &str) = (conditions::CONFIGURATION_VALID, reason::INVALID_AFFINITY);
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT: &str = "must be from 1 to 100";

pub(super) fn defects(affinity: &Affinity) -> Vec<Defect> {
    let mut faults = Faults::default();
    if let Some(node) = &affinity.node_affinity {
        of_nodes(node, &mut faults.at("spec.affinity.nodeAffinity"));
    }
    if let Some(pods) = &affinity.pod_affinity {
        of_pods(pods, &mut faults.at("spec.affinity.podAffinity"));
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        of_pods(pods, &mut faults.at("spec.affinity.podAntiAffinity"));
    }
    faults.found
}

/// Collects defects.
#[derive(Default)]
struct Faults {
    found: Vec<Defect>,
}

impl Faults {
    fn at<'a>(&'a mut self, field: &str) -> Place<'a> {
        Place {
            field: field.to_owned(),
            faults: self,
        }
    }
}

/// A field, and where its defects go.
struct Place<'a> {
    field: String,
    faults: &'a mut Faults,
}

impl Place<'_> {
    fn below(&mut self, part: &str) -> Place<'_> {
        Place {
            field: format!("{}.{part}", self.field),
            faults: self.faults,
        }
    }

    fn check(&mut self, part: &str, is_fault: bool, rule: &str) {
        if is_fault {
            let field = format!("{}.{part}", self.field);
            self.faults.found.push(Defect::new(field, rule, INVALID));
        }
    }
}

fn of_nodes(affinity: &NodeAffinity, place: &mut Place<'_>) {
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        let mut place = place.below(REQUIRED);
        let terms = &required.node_selector_terms;
        place.check("nodeSelectorTerms", terms.is_empty(), "must have a term");
        for (n, term) in terms.iter().enumerate() {
            of_term(term, &mut place.below(&format!("nodeSelectorTerms[{n}]")));
        }
    }
    for (n, preferred) in affinity
        .preferred_during_scheduling_ignored_during_execution
        .iter()
        .enumerate()
    {
        let mut place = place.below(&format!("{PREFERRED}[{n}]"));
        place.check("weight", !(1..=100).contains(&preferred.weight), WEIGHT);
        of_term(&preferred.preference, &mut place.below("preference"));
    }
}

fn of_term(term: &NodeSelectorTerm, place: &mut Place<'_>) {
    for (n, requirement) in term.match_expressions.iter().enumerate() {
        let mut place = place.below(&format!("matchExpressions[{n}]"));
        place.check("key", !is_label_key(&requirement.key), KEY);
        of_node_values(requirement, &mut place);
    }
    for (n, requirement) in term.match_fields.iter().enumerate() {
        let mut place = place.below(&format!("matchFields[{n}]"));
        place.check("key", requirement.key != "metadata.name", "must be metadata.name");
        let is_operator = matches!(requirement.operator.as_str(), "In" | "NotIn");
        place.check("operator", !is_operator, "must be In or NotIn");
        let is_name = matches!(requirement.values.as_slice(), [name] if is_dns_subdomain(name));
        place.check("values", !is_name, "must be the name of one node");
    }
}

fn of_node_values(requirement: &NodeRequirement, place: &mut Place<'_>) {
    let values = &requirement.values;
    match requirement.operator.as_str() {
        "In" | "NotIn" => {
            place.check(
                "values",
                values.is_empty(),
                "must have a value if operator is In or NotIn",
            );
            let sound = values.iter().all(|value| is_label_value(value));
            place.check("values", !sound, VALUE);
        }
        "Exists" | "DoesNotExist" => place.check(
            "values",
            !values.is_empty(),
            "must be empty if operator is Exists or DoesNotExist",
        ),
        "Gt" | "Lt" => {
            let is_number = matches!(values.as_slice(), [number] if number.parse::<i64>().is_ok());
            place.check(
                "values",
                !is_number,
                "must be one whole number if operator is Gt or Lt",
            );
        }
        _ => place.check(
            "operator",
            true,
            "must be In, NotIn, Exists, DoesNotExist, Gt or Lt",
        ),
    }
}

fn of_pods(affinity: &PodAffinity, place: &mut Place<'_>) {
    let required = &affinity.required_during_scheduling_ignored_during_execution;
    for (n, term) in required.iter().enumerate() {
        of_pod_term(term, &mut place.below(&format!("{REQUIRED}[{n}]")));
    }
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    for (n, preferred) in preferred.iter().enumerate() {
        let mut place = place.below(&format!("{PREFERRED}[{n}]"));
        place.check("weight", !(1..=100).contains(&preferred.weight), WEIGHT);
        of_pod_term(&preferred.pod_affinity_term, &mut place.below("podAffinityTerm"));
    }
}

fn of_pod_term(term: &PodAffinityTerm, place: &mut Place<'_>) {
    place.check("topologyKey", !is_label_key(&term.topology_key), KEY);
    let sound = term.namespaces.iter().all(|name| is_namespace(name));
    place.check("namespaces", !sound, "must be names of namespaces");
    if let Some(selector) = &term.label_selector {
        of_selector(selector, &mut place.below("labelSelector"));
    }
    if let Some(selector) = &term.namespace_selector {
        of_selector(selector, &mut place.below("namespaceSelector"));
    }
    for (part, keys) in [
        ("matchLabelKeys", &term.match_label_keys),
        ("mismatchLabelKeys", &term.mismatch_label_keys),
    ] {
        place.check(part, !keys.iter().all(|key| is_label_key(key)), KEY);
        place.check(
            part,
            !keys.is_empty() && term.label_selector.is_none(),
            "must be empty without a labelSelector",
        );
    }
    let both = term
        .match_label_keys
        .iter()
        .any(|key| term.mismatch_label_keys.contains(key));
    place.check(
        "mismatchLabelKeys",
        both,
        "must have no key that matchLabelKeys has",
    );
}

fn of_selector(selector: &LabelSelector, place: &mut Place<'_>) {
    for (key, value) in &selector.match_labels {
        place.check(&format!("matchLabels[{key}]"), !is_label_key(key), KEY);
        place.check(&format!("matchLabels[{key}]"), !is_label_value(value), VALUE);
    }
    for (n, requirement) in selector.match_expressions.iter().enumerate() {
        of_requirement(requirement, &mut place.below(&format!("matchExpressions[{n}]")));
    }
}

fn of_requirement(requirement: &LabelRequirement, place: &mut Place<'_>) {
    place.check("key", !is_label_key(&requirement.key), KEY);
    let values = &requirement.values;
    match requirement.operator.as_str() {
        "In" | "NotIn" => {
            place.check(
                "values",
                values.is_empty(),
                "must have a value if operator is In or NotIn",
            );
            let sound = values.iter().all(|value| is_label_value(value));
            place.check("values", !sound, VALUE);
        }
        "Exists" | "DoesNotExist" => place.check(
            "values",
            !values.is_empty(),
            "must be empty if operator is Exists or DoesNotExist",
        ),
        _ => place.check("operator", true, "must be In, NotIn, Exists or DoesNotExist"),
    }
}
