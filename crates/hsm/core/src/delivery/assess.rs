//! Assesses a situation: what there is to do about an HSMSecret, before any value is read.

use trustplane_api::hsm::delivery::{SYNCED, reason, sync_status};
use trustplane_api::hsm::names::{DELIVERED_LABEL, OPERATOR, SECRET_FINALIZER};
use trustplane_api::hsm::{HSM_SECRET, HsmSecretSpec};
use trustplane_plan::{
    Apply, Conflicts, Convergence, Expect, Fingerprinter, Meta, Ownership, converge, secret_type,
};

use super::copies::{Agreed, TokenCopy, Verdict, verdict};
use super::locations::Tenant;
use super::shell::shell;
use super::{LiveSecret, Placement, SecretContent, Situation, oldest};
use crate::objects::mark;

/// What there is to do about an HSMSecret.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "made and used up one at a time, never kept"
)]
pub enum Assessment {
    /// Nothing: this installation does not serve the HSMSecret, or the HSMSecret is being deleted and our finalizer is gone.
    Ignore,
    /// The HSMSecret is being deleted: delete its Secret, then remove the finalizer.
    Remove,
    /// Look again soon: a token has yet to be asked, or the Secret is being deleted.
    Wait,
    /// There is a problem: the Secret stays as it is.
    Stay(Problem),
    /// The Secret holds what is on the tokens.
    InLine(Agreed),
    /// The Secret was delivered, and `autoSync` is off: the controller does not look whether the tokens have changed.
    Unwatched,
    /// The Secret has to be written.
    Deliver(Delivery),
}

/// Why the Secret stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `status.syncStatus`.
    pub sync_status: &'static str,
    /// The reason of the condition and of the event.
    pub reason: &'static str,
    /// What is wrong, and what a person can do.
    pub text: String,
    /// How much of the tokens the status may tell.
    pub scope: Scope,
    /// Whether the claim of the namespace ends: the secret was deleted, and no token has it.
    pub releases: bool,
}

/// How much of the tokens the status may tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Nothing: the location belongs to another namespace, or it is not known to which namespace it belongs.
    Nothing,
    /// What each token has.
    Tokens,
    /// What each token has, and that the copies differ.
    Contradiction,
}

/// A Secret that has to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The write, without data.
    pub write: Apply,
    /// What counts on the tokens.
    pub agreed: Agreed,
    /// Whether the location has to be claimed first.
    pub claims: bool,
    /// The fields of other field managers that have to become ours before the write.
    pub takes_over: Option<TakeOver>,
}

/// The fields of other field managers that have to become ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOver {
    /// All fields of the original, which made the Secret.
    Original,
    /// The data, to which another field manager has added keys.
    Data,
}

impl Assessment {
    /// The token whose secret has to be read: an index into the tokens of the situation.
    pub fn source(&self) -> Option<usize> {
        match self {
            Self::Deliver(delivery) if delivery.takes_over.is_none() => Some(delivery.agreed.source),
            _ => None,
        }
    }

    /// The fields of other field managers that have to become ours before a value is read.
    pub fn takes_over(&self) -> Option<TakeOver> {
        match self {
            Self::Deliver(delivery) => delivery.takes_over,
            _ => None,
        }
    }

    /// The reason of a problem that newer token lists may end, unless the status tells of it already.
    ///
    /// A person writes to one token after the other, and makes an HSMSecret right after its secret. A list from before such a write is no
    /// reason for a warning.
    pub fn to_confirm(&self, situation: &Situation) -> Option<&'static str> {
        const LISTED: [&str; 3] = [reason::NOT_ON_TOKEN, reason::COPIES_DIFFER, reason::UNREADABLE];
        let Self::Stay(problem) = self else { return None };
        let synced = situation.status.conditions.get(SYNCED);
        let is_told = synced.is_some_and(|synced| {
            synced.reason == problem.reason && synced.observed_generation == situation.object.generation
        });
        (LISTED.contains(&problem.reason) && !is_told).then_some(problem.reason)
    }

    /// Plans the write at once: no other field manager has fields that have to become ours.
    pub fn take_nothing_over(&mut self) {
        if let Self::Deliver(delivery) = self {
            delivery.takes_over = None;
        }
    }
}

/// Says what there is to do about an HSMSecret.
pub fn assess(situation: &Situation, fingerprinter: &Fingerprinter) -> Assessment {
    if !situation.served {
        return Assessment::Ignore;
    }
    if situation.object.is_terminating() {
        let finalizers = &situation.object.finalizers;
        return match finalizers.iter().any(|name| name == SECRET_FINALIZER) {
            true => Assessment::Remove,
            false => Assessment::Ignore,
        };
    }
    let (spec, placement) = match readable(situation) {
        Ok(readable) => readable,
        Err(text) => return stay(sync_status::ERROR, reason::INVALID_SPEC, text, Scope::Nothing),
    };
    if let Some(text) = taken(situation, placement) {
        return stay(sync_status::ERROR, reason::SECRET_TAKEN, text, Scope::Nothing);
    }
    let tenant = Tenant::of(situation);
    if let Tenant::Theirs(why) = &tenant {
        let text = format!(
            "the location {} on the tokens belongs to another namespace: {why}",
            placement.path
        );
        return stay(sync_status::ERROR, reason::LOCATION_TAKEN, text, Scope::Nothing);
    }
    if is_unwatched(situation, spec) {
        return Assessment::Unwatched;
    }
    match verdict(&situation.tokens, &situation.status) {
        Verdict::Unsettled => Assessment::Wait,
        Verdict::Agreed(agreed) => {
            let Some(copy) = situation.tokens.get(agreed.source).and_then(|token| token.copy()) else {
                return Assessment::Wait;
            };
            let delivery = Comparison {
                situation,
                spec,
                placement,
                copy,
            };
            delivery.compare(agreed, tenant == Tenant::Free, fingerprinter)
        }
        Verdict::Differ(text) => stay(
            sync_status::ERROR,
            reason::COPIES_DIFFER,
            text,
            Scope::Contradiction,
        ),
        Verdict::Absent { deleted } => absent(situation, placement, &tenant, deleted),
        Verdict::Unknown { reason, text } => {
            let scope = scope(&tenant);
            stay(undelivered(situation), reason, text, scope)
        }
    }
}

fn stay(sync_status: &'static str, reason: &'static str, text: String, scope: Scope) -> Assessment {
    Assessment::Stay(Problem {
        sync_status,
        reason,
        text,
        scope,
        releases: false,
    })
}

/// How much the status may tell of a location: nothing before the location belongs to the namespace of the HSMSecret.
fn scope(tenant: &Tenant) -> Scope {
    match tenant {
        Tenant::Ours => Scope::Tokens,
        Tenant::Free | Tenant::Theirs(_) => Scope::Nothing,
    }
}

/// The spec and the placement, or which field of the spec is invalid.
fn readable(situation: &Situation) -> Result<(&HsmSecretSpec, &Placement), String> {
    let Some(spec) = &situation.spec else {
        return Err("spec: cannot be read by this version".to_owned());
    };
    if secret_type::is_reserved(&spec.secret_type) {
        return Err(format!(
            "spec.secretType: {} is for credentials of the cluster or releases of Helm",
            spec.secret_type
        ));
    }
    let placement = situation.placement.as_ref().map_err(String::clone)?;
    Ok((spec, placement))
}

/// The conflict about the Secret, if there is one: the text names another owner, or an older HSMSecret that wants the Secret.
fn taken(situation: &Situation, placement: &Placement) -> Option<String> {
    let name = placement.secret.name();
    if let LiveSecret::Found { meta, .. } = &situation.live {
        if situation.owns(meta) {
            return None;
        }
        return Some(format!(
            "Secret {name} exists and belongs to {}: use another secretName, or delete that Secret",
            holder(meta)
        ));
    }
    let all = situation.rivals.iter().chain([&situation.object]);
    let first = oldest(all).filter(|first| first.uid != situation.object.uid)?;
    Some(format!(
        "Secret {name} is made for {} {}, which is older: use another secretName",
        HSM_SECRET.kind,
        first.object.name()
    ))
}

fn holder(meta: &Meta) -> String {
    let mut owners = meta.owners.iter();
    if let Some(owner) = owners.find(|owner| owner.controller) {
        return format!("{} {}", owner.kind, owner.name);
    }
    let manager = meta.labels.get("app.kubernetes.io/managed-by");
    manager.map_or_else(|| "somebody else".to_owned(), |manager| format!("{manager:?}"))
}

/// Whether the tokens no longer matter: `autoSync` is off, and the Secret is as it was delivered for this spec.
fn is_unwatched(situation: &Situation, spec: &HsmSecretSpec) -> bool {
    let LiveSecret::Found {
        content: Some(content),
        ..
    } = &situation.live
    else {
        return false;
    };
    let synced = situation.status.conditions.get(SYNCED);
    let told = synced.is_some_and(|synced| {
        synced.status == "True" && synced.observed_generation == situation.object.generation
    });
    !spec.auto_sync && told && situation.status.secret_checksum.as_ref() == Some(&content.checksum)
}

/// The sync status of a secret that cannot be delivered: an error if it was delivered before, else pending.
fn undelivered(situation: &Situation) -> &'static str {
    match situation.status.secret_ref {
        Some(_) => sync_status::ERROR,
        None => sync_status::PENDING,
    }
}

fn absent(situation: &Situation, placement: &Placement, tenant: &Tenant, deleted: bool) -> Assessment {
    let path = &placement.path;
    let was = if deleted { "was deleted" } else { "is not there" };
    let kept = match situation.live {
        LiveSecret::Found { .. } => "; the Secret stays as it was",
        LiveSecret::Absent => "",
    };
    Assessment::Stay(Problem {
        sync_status: undelivered(situation),
        reason: reason::NOT_ON_TOKEN,
        text: format!(
            "no token has {path}: it {was}{kept}; write it with kubectl trustplane hsm create {path}"
        ),
        scope: scope(tenant),
        releases: deleted && situation.tenant.as_deref() == Some(situation.namespace()),
    })
}

struct Comparison<'a> {
    situation: &'a Situation,
    spec: &'a HsmSecretSpec,
    placement: &'a Placement,
    copy: &'a TokenCopy,
}

impl Comparison<'_> {
    /// Compares the Secret with what counts on the tokens.
    fn compare(&self, agreed: Agreed, claims: bool, fingerprinter: &Fingerprinter) -> Assessment {
        let (live, content) = match &self.situation.live {
            LiveSecret::Absent => (None, None),
            LiveSecret::Found { meta, content } => (Some(&**meta), content.as_ref()),
        };
        let same = content.is_some_and(|content| content.digest.as_ref() == Some(&self.copy.digest));
        if let Some(text) = content.and_then(|content| self.fixed(content, same)) {
            return stay(sync_status::ERROR, reason::SECRET_FIXED, text, Scope::Tokens);
        }
        let write = match (self.converge(live, fingerprinter), live) {
            (Some(Convergence::Settled), _) if same => return Assessment::InLine(agreed),
            (Some(Convergence::Write(write)), _) => write,
            // Only its data has to change.
            (Some(Convergence::Settled), Some(live)) => match self.converge(None, fingerprinter) {
                Some(Convergence::Write(write)) => Apply {
                    expect: Expect::Seen {
                        uid: live.uid.clone(),
                        resource_version: live.resource_version.clone(),
                    },
                    conflicts: Conflicts::Force,
                    ..write
                },
                _ => return Assessment::Wait,
            },
            // A Secret that is being deleted is made again when it is gone.
            _ => return Assessment::Wait,
        };
        Assessment::Deliver(Delivery {
            write,
            agreed,
            claims,
            takes_over: live.and_then(|live| takes_over(live, content)),
        })
    }

    /// Compares everything but the data.
    fn converge(&self, live: Option<&Meta>, fingerprinter: &Fingerprinter) -> Option<Convergence> {
        let shell = shell(
            self.situation,
            self.placement,
            &self.spec.secret_type,
            &self.copy.metadata,
        )?;
        let ownership = Ownership {
            mark: mark(),
            // The controller reference makes the Secret ours. If it has no mark, the original made it, or an edit removed the mark.
            adopt: true,
            conflicts: Conflicts::Force,
        };
        Some(converge(shell, live, &ownership, fingerprinter))
    }

    /// Why the Secret has to be deleted: it has another type, or it is immutable and its data has to change.
    fn fixed(&self, content: &SecretContent, same: bool) -> Option<String> {
        let (wanted, name) = (&self.spec.secret_type, self.placement.secret.name());
        let remedy = format!("delete the Secret to have it made anew: kubectl delete secret {name}");
        if content.secret_type != *wanted {
            return Some(format!(
                "Secret {name} has the type {}, not {wanted}, and Kubernetes cannot change it; {remedy}",
                content.secret_type
            ));
        }
        (content.immutable && !same).then(|| format!("Secret {name} is immutable; {remedy}"))
    }
}

/// The fields of other field managers that would survive our apply.
fn takes_over(live: &Meta, content: Option<&SecretContent>) -> Option<TakeOver> {
    let by_original = live.labels.get(DELIVERED_LABEL).is_some_and(|by| by == OPERATOR);
    if live.fields.is_empty() && by_original {
        return Some(TakeOver::Original);
    }
    let mut keys = content.iter().flat_map(|content| &content.keys);
    keys.any(|key| !live.fields.has_field(&["data"], key))
        .then_some(TakeOver::Data)
}
