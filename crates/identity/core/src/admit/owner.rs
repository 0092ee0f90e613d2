//! The owner reference of operands.

use serde_json::Value;
use trustplane_api::identity::ZTWIM;

use super::{Denial, Review, Rule};
use crate::inherit::{Holder, owner_reference};

const OWNERS: &str = "/metadata/ownerReferences";
const PATH: &str = "metadata.ownerReferences";

/// Sets the reference to the ZTWIM with this uid. An operand that already has another controller cannot have it: that is refused if it is
/// new, and a warning if it is not.
pub(super) fn write_owner(
    review: &Review<'_>,
    rule: Rule,
    object: &mut Value,
    uid: &str,
) -> Result<Option<String>, Denial> {
    let owner = owner_reference(uid).to_json();
    let (ours, mut others): (Vec<_>, Vec<_>) = owners(object).iter().cloned().partition(is_ztwim);
    if ours == [owner.clone()] {
        return Ok(None);
    }
    if let Some(controller) = others.iter().find(|owner| owner["controller"] == true) {
        let name = |part: &str| controller[part].as_str().unwrap_or_default().to_owned();
        let (controller, operand, ztwim) = (
            format!("{}/{}", name("kind"), name("name")),
            review.subject,
            Holder::Ztwim,
        );
        let text = format!("{controller} is the controller of {operand}, so {ztwim} cannot be");
        return if review.changes(OWNERS) {
            Err(Denial::new(rule, PATH, &text))
        } else {
            Ok(Some(text))
        };
    }
    others.push(owner);
    object["metadata"]["ownerReferences"] = Value::Array(others);
    Ok(None)
}

/// Refuses to take the reference off, unless [`write_owner`] has put it back. The garbage collector may, but does not ask us.
pub(super) fn check_owner_kept(review: &Review<'_>, admitted: &Value) -> Result<(), Denial> {
    let ours = |object| owners(object).iter().find(|owner| is_ztwim(owner));
    let had = review.old.and_then(ours);
    if had.is_none() || had != ours(admitted) || had == ours(review.new) {
        return Ok(());
    }
    let text = format!(
        "must keep the reference to {}: only the garbage collector takes it off",
        Holder::Ztwim
    );
    Err(Denial::new(Rule::OperandUpdate, PATH, &text))
}

fn owners(object: &Value) -> &[Value] {
    object
        .pointer(OWNERS)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn is_ztwim(owner: &Value) -> bool {
    owner["kind"] == *ZTWIM.kind && owner["apiVersion"] == ZTWIM.api_version()
}
