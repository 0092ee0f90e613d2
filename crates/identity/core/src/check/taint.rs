//! Whether Kubernetes takes tolerations.

use trustplane_api::identity::Toleration;
use trustplane_api::identity::conditions::{self, reason};

use super::Defect;
use super::names::{is_label_key, is_label_value};
use super::pods::{KEY, VALUE};

const INVALID: (&str, &str) = (conditions::CONFIGURATION_VALID, reason::INVALID_TOLERATIONS);

pub(super) fn defects(field: &str, tolerations: &[Toleration]) -> Vec<Defect> {
    let all = tolerations.iter().enumerate();
    all.flat_map(|(n, toleration)| {
        let faults = faults(toleration).into_iter();
        faults.map(move |(part, rule)| Defect::new(format!("{field}[{n}].{part}"), rule, INVALID))
    })
    .collect()
}

fn faults(toleration: &Toleration) -> Vec<(&'static str, &'static str)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, operator, value, effect) = (
        text(&toleration.key),
        text(&toleration.operator),
        text(&toleration.value),
        text(&toleration.effect),
    );
    let mut faults = Vec::new();
    let mut check = |is_fault: bool, part, rule| {
        if is_fault {
            faults.push((part, rule));
        }
    };
    check(!key.is_empty() && !is_label_key(&key), "key", KEY);
    check(
        key.is_empty() && operator != "Exists",
        "operator",
        "must be Exists without a key: all taints are tolerated then",
    );
    let value_rule = match operator.as_str() {
        "" | "Equal" => (!is_label_value(&value)).then_some(VALUE),
        "Exists" => (!value.is_empty()).then_some("must be empty if operator is Exists"),
        // Newer clusters have these.
        "Gt" | "Lt" => value
            .parse::<i64>()
            .is_err()
            .then_some("must be a whole number if operator is Gt or Lt"),
        _ => {
            check(true, "operator", "must be Exists or Equal");
            None
        }
    };
    check(value_rule.is_some(), "value", value_rule.unwrap_or_default());
    check(
        !matches!(
            effect.as_str(),
            "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute"
        ),
        "effect",
        "must be NoSchedule, PreferNoSchedule, NoExecute, or absent",
    );
    check(
        toleration.toleration_seconds.is_some() && effect != "NoExecute",
        "effect",
        "must be NoExecute if there are tolerationSeconds",
    );
    faults
}
