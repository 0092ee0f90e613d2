//! The effective CommonConfig of an operand.

use trustplane_api::identity::CommonConfig;

/// The CommonConfig that holds for an operand.
///
/// Labels are merged, and the operand wins for each key. Of everything else the operand's wins as a whole, unless it is empty.
/// Nothing of it is written back into operands.
pub fn common(ztwim: &CommonConfig, operand: &CommonConfig) -> CommonConfig {
    let mut labels = ztwim.labels.clone();
    labels.extend(operand.labels.clone());
    CommonConfig {
        labels,
        resources: whole(&ztwim.resources, &operand.resources, is_empty),
        affinity: whole(&ztwim.affinity, &operand.affinity, is_empty),
        tolerations: whole(&ztwim.tolerations, &operand.tolerations, Vec::is_empty),
        node_selector: whole(&ztwim.node_selector, &operand.node_selector, |selector| {
            selector.is_empty()
        }),
    }
}

fn whole<T: Clone>(ztwim: &T, operand: &T, is_empty: impl Fn(&T) -> bool) -> T {
    if is_empty(operand) {
        ztwim.clone()
    } else {
        operand.clone()
    }
}

fn is_empty<T: Default + PartialEq>(value: &Option<T>) -> bool {
    value.as_ref().is_none_or(|value| *value == T::default())
}
