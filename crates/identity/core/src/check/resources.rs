//! Whether Kubernetes takes what a container requests and may use.

use trustplane_api::identity::Resources;
use trustplane_api::identity::conditions::{self, reason};

use super::Defect;
use super::names::is_label_key;
use super::quantity::{billionths, is_whole};

const INVALID: (&str, &str) = (conditions::CONFIGURATION_VALID, reason::INVALID_RESOURCES);

pub(super) fn defects(field: &str, resources: &Resources) -> Vec<Defect> {
    let fault = |path: String, rule: &str| Defect::new(format!("{field}.{path}"), rule, INVALID);
    let mut defects = Vec::new();
    for (part, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, amount) in amounts {
            let rule = of_name(name).or_else(|| of_amount(name, &amount.0));
            defects.extend(rule.map(|rule| fault(format!("{part}[{name}]"), rule)));
        }
    }
    for (name, request) in &resources.requests {
        let limit = resources.limits.get(name).and_then(|limit| billionths(&limit.0));
        let (Some(request), limit) = (billionths(&request.0), limit) else {
            continue;
        };
        let rule = match limit {
            Some(limit) if request > limit => "must not be more than the limit",
            Some(limit) if request != limit && !may_overcommit(name) => "must be the same as the limit",
            None if !may_overcommit(name) => "must have a limit, and the same one",
            _ => continue,
        };
        defects.push(fault(format!("requests[{name}]"), rule));
    }
    if !resources.claims.is_empty() {
        defects.push(fault(
            "claims".to_owned(),
            "must be empty: the pods of operands have no resource claims",
        ));
    }
    defects
}

/// What is wrong with the name of a resource of a container.
fn of_name(name: &str) -> Option<&'static str> {
    let is_native = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name);
    let prefix = name.split_once('/').map(|(prefix, _)| prefix);
    let is_extended = prefix.is_some_and(|prefix| {
        let of_kubernetes = prefix == "kubernetes.io" || prefix.ends_with(".kubernetes.io");
        !of_kubernetes && !name.starts_with("requests.") && is_label_key(name)
    });
    (!is_native && !is_extended).then_some(
        "must be cpu, memory, ephemeral-storage, hugepages-SIZE, or an extended resource such as example.org/gpu",
    )
}

fn of_amount(name: &str, amount: &str) -> Option<&'static str> {
    match billionths(amount) {
        None => Some("must be an amount such as 100m, 1.5 or 128Mi"),
        Some(..=-1) => Some("must not be negative"),
        Some(amount) if name.contains('/') && !is_whole(amount) => Some("must be a whole number"),
        Some(_) => None,
    }
}

fn is_huge_page(name: &str) -> bool {
    name.strip_prefix("hugepages-")
        .is_some_and(|size| billionths(size).is_some_and(|size| size > 0))
}

/// Whether a limit may be more than the request.
fn may_overcommit(name: &str) -> bool {
    !name.contains('/') && !is_huge_page(name)
}
