//! When the serving certificate of the OIDC discovery provider is made, and when the next one.
//!
//! That is decided without a look at the key: the Secret bears a fingerprint of the names and of the CAs that were wanted, and an
//! annotation says when the certificate ends.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use trustplane_plan::{
    Apply, Convergence, Expect, FINGERPRINT, Fingerprinter, Manifest, Meta, OWNER_UID, Ownership, converge,
};

/// When the certificate in a Secret ends. Whoever issues a certificate stamps the Secret with it.
pub const ENDS: &str = "trustplane.io/certificate-ends";

/// With what certificates are issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuing {
    /// The CAs that clients trust, in PEM. Others make another certificate.
    pub bundle: String,
    /// How long before its end a certificate is replaced.
    pub renew_before: SignedDuration,
}

/// A certificate that has to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    /// The DNS names that it is for.
    pub names: Vec<String>,
    /// The write of the Secret, without its values.
    pub write: Apply,
}

/// What is to be done about the Secret.
pub(super) enum Verdict {
    /// Nothing, until this time has passed.
    Good(Duration),
    /// This certificate has to be made.
    Due(Box<Certificate>),
    /// The Secret belongs to somebody else.
    Foreign(Option<String>),
    /// The Secret is being deleted.
    Terminating,
}

/// What a Secret is to be: its metadata comes from `bare`.
pub(super) struct Wish<'a> {
    pub bare: Manifest,
    pub names: Vec<String>,
    pub issuing: &'a Issuing,
    pub owner: &'a str,
    pub ownership: &'a Ownership,
    pub fingerprinter: &'a Fingerprinter,
}

impl Wish<'_> {
    /// Compares the wish with the live Secret.
    pub fn judge(self, live: Option<&Meta>, now: Timestamp) -> Verdict {
        let recipe = self
            .bare
            .label(OWNER_UID, self.owner)
            .with("type", "kubernetes.io/tls".into())
            .with(
                "data",
                json!({ "tls.crt": self.names.join(","), "tls.key": "", "ca.crt": self.issuing.bundle }),
            );
        let due = |write| {
            Verdict::Due(Box::new(Certificate {
                names: self.names.clone(),
                write,
            }))
        };
        match (
            converge(recipe.clone(), live, self.ownership, self.fingerprinter),
            live,
        ) {
            (Convergence::Write(write), _) => due(write),
            (Convergence::Settled, Some(live)) => match good_for(live, self.issuing, now) {
                Some(time) => Verdict::Good(time),
                None => {
                    let mark = &self.ownership.mark;
                    let recipe = recipe.label(&mark.key, &mark.value);
                    let fingerprint = self.fingerprinter.of(&recipe);
                    due(Apply {
                        manifest: recipe.annotation(FINGERPRINT, &fingerprint),
                        expect: Expect::Seen {
                            uid: live.uid.clone(),
                            resource_version: live.resource_version.clone(),
                        },
                        conflicts: self.ownership.conflicts,
                    })
                }
            },
            (Convergence::Foreign { holder }, _) => Verdict::Foreign(holder),
            // Without a live object nothing is settled.
            (Convergence::Terminating | Convergence::Settled, _) => Verdict::Terminating,
        }
    }
}

/// How long the certificate in a Secret can stay; `None` if another one is due.
fn good_for(live: &Meta, issuing: &Issuing, now: Timestamp) -> Option<Duration> {
    let ends: Timestamp = live.annotations.get(ENDS)?.parse().ok()?;
    let due = ends.checked_sub(issuing.renew_before).ok()?;
    let left = Duration::try_from(due.duration_since(now)).ok();
    left.filter(|left| !left.is_zero())
}
