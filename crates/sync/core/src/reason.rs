//! What people read in events, and metrics count by: one word for each cause.

use std::time::Duration;

use strum::{EnumIter, IntoStaticStr};
use trustplane_plan::{Class, Severity};

/// The reason of an event on a pod. The first five are JASM's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, EnumIter)]
pub enum Reason {
    /// The Secret was created or changed.
    SecretSyncSuccess,
    /// The annotation cannot be understood, or a field of it is wrong.
    AnnotationInvalid,
    /// There is no such provider or store.
    ProviderUnsupported,
    /// The provider did not give the secret.
    SecretFetchFailed,
    /// The Secret could not be written.
    SecretSyncFailed,
    /// The Secret belongs to somebody else, or another request came first.
    SecretConflict,
    /// No policy allows the request.
    PolicyDenied,
    /// A key that was asked for is not in the secret; the others were written.
    SecretKeyMissing,
    /// The secret is larger than a Secret can be.
    SecretTooLarge,
    /// What the provider has does not fit the request.
    SecretDataInvalid,
    /// The provider asked us to slow down.
    ProviderThrottled,
    /// Somebody changed or deleted the Secret, and it was put back.
    SecretRestored,
    /// A workload was restarted because its Secret changed.
    RolloutRestarted,
}

impl Reason {
    /// The word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether somebody should look.
    pub fn severity(self) -> Severity {
        match self {
            Self::SecretSyncSuccess | Self::SecretRestored | Self::RolloutRestarted => Severity::Normal,
            _ => Severity::Warning,
        }
    }
}

/// When something that failed is tried again without anything having changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Retry {
    /// Not at all: it is wrong, and stays so until a person changes it.
    Never,
    /// 5 s doubling to 45 s: it may come to be.
    Soon,
    /// 5 s doubling to 5 min: a person has to act at the provider.
    Slow,
    /// At the next beat of the path, 15 s apart: all who want the path come together, and soon after the outage ends all is
    /// well. Until then the breaker keeps most of them from calling.
    Outage,
}

impl Retry {
    /// How long to wait at the least after `earlier` failures in a row. Without jitter.
    pub fn wait(self, earlier: u32) -> Option<Duration> {
        let (first, max) = match self {
            Self::Never => return None,
            Self::Soon => (5, 45),
            Self::Slow => (5, 300),
            Self::Outage => (1, 1),
        };
        let doubled = 1_u64
            .checked_shl(earlier)
            .unwrap_or(u64::MAX)
            .saturating_mul(first);
        Some(Duration::from_secs(doubled.min(max)))
    }

    /// Who can mend it.
    pub fn class(self) -> Class {
        match self {
            Self::Never | Self::Soon | Self::Slow => Class::User,
            Self::Outage => Class::Transient,
        }
    }
}

/// Something to tell the people of a pod. The text is ours: it never holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Problem {
    /// The event's reason.
    pub reason: Reason,
    /// When it is tried again.
    pub retry: Retry,
    /// What is wrong: which field, which rule.
    pub text: String,
}

impl Problem {
    /// A problem that stays until a person changes something.
    pub fn lasting(reason: Reason, text: impl Into<String>) -> Self {
        Self {
            reason,
            retry: Retry::Never,
            text: text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_limit() {
        let seconds = |retry: Retry, earlier| retry.wait(earlier).map(|wait| wait.as_secs());
        assert_eq!(seconds(Retry::Never, 0), None);
        assert_eq!(
            [0, 1, 3, 4].map(|n| seconds(Retry::Soon, n)),
            [Some(5), Some(10), Some(40), Some(45)]
        );
        assert_eq!(
            [0, 5, 6, 7].map(|n| seconds(Retry::Slow, n)),
            [Some(5), Some(160), Some(300), Some(300)]
        );
        assert_eq!(seconds(Retry::Outage, 4), Some(1));
        for earlier in [63, 64, u32::MAX] {
            assert_eq!(seconds(Retry::Slow, earlier), Some(300));
        }
    }
}
