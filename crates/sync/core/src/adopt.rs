//! When a Secret of somebody else may become ours.

use trustplane_plan::Meta;

use crate::claims::Claim;
use crate::situation::Stranger;
use crate::state::{MANAGED_BY, STATE};

/// Helm writes this on everything that it made.
const HELM: &str = "meta.helm.sh/release-name";

/// Whether all winners ask for it, nobody else manages it, and it is what they want. The error says why not.
pub fn may_adopt(stranger: &Stranger, winners: &[Claim<'_>]) -> Result<(), String> {
    is_free(&stranger.meta, winners)?;
    let Some(nature) = &stranger.nature else {
        return Err("it has not been looked at yet".to_owned());
    };
    if nature.immutable {
        return Err("it is immutable".to_owned());
    }
    if winners
        .iter()
        .any(|winner| winner.request.secret_type != nature.secret_type)
    {
        return Err("it has another type".to_owned());
    }
    Ok(())
}

/// Whether, as far as metadata tells, it may be taken over.
pub fn is_free(meta: &Meta, winners: &[Claim<'_>]) -> Result<(), String> {
    if let Some(owner) = meta.owners.iter().find(|owner| owner.controller) {
        return Err(format!("it belongs to {} {}", owner.kind, owner.name));
    }
    if meta.annotations.contains_key(HELM) {
        return Err("it belongs to a Helm release".to_owned());
    }
    if meta.labels.contains_key(MANAGED_BY) {
        return Err("its label names another manager".to_owned());
    }
    if meta.annotations.contains_key(STATE) {
        return Err("somebody took our label off it".to_owned());
    }
    if meta.is_terminating() {
        return Err("it is being deleted".to_owned());
    }
    if !winners.iter().all(|winner| winner.request.adopt) {
        return Err("nobody manages it, so adopt: true would take it over".to_owned());
    }
    Ok(())
}
