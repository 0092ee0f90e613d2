//! When a Secret that is not ours may be taken over: only if its owner consents.
//!
//! A request says `adopt: true`, but whoever may create a pod can say so, and could have any Secret of the namespace overwritten
//! without a right to Secrets. So the Secret itself must consent, by an annotation that takes a right to Secrets to write, or
//! an admin must have named it in a policy. Some types are never taken over, whoever consents. The chart has the API server
//! say the same (`secretguard.yaml`).

use trustplane_plan::Meta;
use trustplane_plan::secret_type::is_reserved;

use crate::claims::Claim;
use crate::situation::{Live, Situation, Stranger};
use crate::state::{MANAGED_BY, STATE};

/// The annotation by which the owner of a Secret lets a capability take it over.
pub const CONSENT: &str = "trustplane.io/adopt-by";
/// What stands in it for this capability.
pub const CONSENT_VALUE: &str = "sync";

/// Helm writes this on everything that it made.
const HELM: &str = "meta.helm.sh/release-name";

/// Whether everybody consents and the Secret is what the winners want. The error says why not, and what would help.
pub fn may_adopt(situation: &Situation, stranger: &Stranger, winners: &[Claim]) -> Result<(), String> {
    is_free(situation, &stranger.meta, winners)?;
    let Some(nature) = &stranger.nature else {
        return Err("it has not been looked at yet".to_owned());
    };
    let secret_type = &nature.secret_type;
    if is_reserved(secret_type) {
        return Err(format!(
            "a Secret of type {secret_type} is never taken over; use another secretName"
        ));
    }
    if nature.immutable {
        return Err("it is immutable; delete it, or use another secretName".to_owned());
    }
    if winners
        .iter()
        .any(|winner| winner.request.secret_type != *secret_type)
    {
        return Err(format!(
            "its type is {secret_type}; name that type in the request, or use another secretName"
        ));
    }
    Ok(())
}

/// Whether type and mutability of a Secret that Trustplane does not manage have to be read: only if its metadata lets the winners
/// take it over, because the API server sends the values along.
pub fn needs_nature(situation: &Situation, winners: &[Claim]) -> bool {
    let Live::Foreign(stranger) = &situation.live else {
        return false;
    };
    !winners.is_empty() && is_free(situation, &stranger.meta, winners).is_ok()
}

/// Whether, as far as metadata tells, it may be taken over.
fn is_free(situation: &Situation, meta: &Meta, winners: &[Claim]) -> Result<(), String> {
    if let Some(owner) = meta.owners.iter().find(|owner| owner.controller) {
        return Err(format!(
            "{} {} manages it; use another secretName",
            owner.kind, owner.name
        ));
    }
    if meta.annotations.contains_key(HELM) {
        return Err("it belongs to a Helm release; use another secretName".to_owned());
    }
    if meta.labels.contains_key(MANAGED_BY) {
        return Err(format!(
            "its label {MANAGED_BY} names another manager; use another secretName"
        ));
    }
    if meta.annotations.contains_key(STATE) {
        return Err(format!(
            "its label {MANAGED_BY} was taken off; put the label back, or delete the Secret"
        ));
    }
    if meta.is_terminating() {
        return Err("it is being deleted; it is made anew when it is gone".to_owned());
    }
    let consents = meta
        .annotations
        .get(CONSENT)
        .is_some_and(|value| value == CONSENT_VALUE);
    let is_wanted = winners.iter().all(|winner| winner.request.adopt);
    let by_policy = || {
        let mut judged = winners.iter().map(|winner| situation.judge(winner));
        judged.all(|judged| judged.is_ok_and(|allowance| allowance.may_adopt))
    };
    let name = situation.secret.name();
    match (is_wanted, consents || by_policy()) {
        (true, true) => Ok(()),
        (false, true) => Err("say adopt: true in the request to have it taken over".to_owned()),
        (true, false) => Err(format!(
            "to have it taken over, put the annotation {CONSENT}: {CONSENT_VALUE} on Secret {name}, or have it named in \
             adoptSecrets of a SecretSyncPolicy"
        )),
        (false, false) => Err(format!(
            "use another secretName, or say adopt: true in the request and put the annotation {CONSENT}: {CONSENT_VALUE} \
             on Secret {name}"
        )),
    }
}
