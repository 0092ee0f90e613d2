//! What a provider answers.

use std::fmt;
use std::time::Duration;

use crate::data::Payload;
use crate::reason::{Problem, Reason, Retry};
use crate::request::Source;

/// A secret as a provider has it.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The provider's name.
    pub provider: &'static str,
    /// The content.
    pub payload: Payload,
    /// What the provider calls this version.
    pub version: Option<String>,
    /// For how long the content is good, if it ends.
    pub lease: Option<Lease>,
}

/// The life of a secret that a provider has made for whoever asked. To ask again makes another one, so nobody asks before it
/// is time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What the provider calls it.
    pub id: String,
    /// How long it lasts from now on.
    pub lasts: Duration,
}

/// Why a provider did not give a secret. The texts are ours: no request ids, no values, so that equal causes make equal
/// events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// There is no such secret, or no such version of it.
    #[error("it does not exist")]
    NotFound,
    /// There is no such secret, or its owner does not give it to this namespace: nobody learns which.
    #[error("it does not exist, or is not offered to this namespace")]
    NotOffered,
    /// The provider's rules do not let us.
    #[error("access was denied; needed is {permission}")]
    Denied {
        /// What would have to be allowed.
        permission: String,
    },
    /// The request makes no sense to the provider.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: String,
    },
    /// The provider asked us to slow down.
    #[error("the provider is throttling us")]
    Throttled {
        /// For how long, if it said so.
        retry_after: Option<Duration>,
    },
    /// The provider cannot be reached, or is not well.
    #[error("the provider is unavailable: {what}")]
    Unavailable {
        /// What happened.
        what: String,
    },
    /// The namespace has asked too often.
    #[error("the namespace has used up its quota of questions to providers")]
    OverQuota {
        /// When there is one left.
        retry_after: Duration,
    },
    /// There is no such store, or it is not for this namespace.
    #[error("there is no such store for this namespace")]
    NoStore,
    /// One of the others, and what the provider calls it.
    #[error("{error} ({code})")]
    Coded {
        /// What it means.
        error: Box<FetchError>,
        /// The provider's name for it, such as `ResourceNotFoundException`.
        code: ErrorCode,
    },
}

/// A provider's name for an error: a word. What is more than a word may hold anything, so it is no code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCode(Box<str>);

impl ErrorCode {
    /// The longest code.
    const LONGEST: usize = 64;

    /// Takes a word: letters alone.
    pub fn parse(text: &str) -> Option<Self> {
        let is_word =
            (1..=Self::LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphabetic());
        is_word.then(|| Self(text.into()))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FetchError {
    /// The same error with what the provider calls it, if that is a code.
    #[must_use]
    pub fn with_code(self, code: &str) -> Self {
        match ErrorCode::parse(code) {
            Some(code) => Self::Coded {
                error: Box::new(self),
                code,
            },
            None => self,
        }
    }

    /// What to tell the people of the pod.
    pub fn problem(&self, source: &Source) -> Problem {
        let (reason, retry) = match self {
            Self::Coded { error, .. } => {
                let Problem { reason, retry, .. } = error.problem(source);
                (reason, retry)
            }
            Self::NotFound | Self::NotOffered => (Reason::SecretFetchFailed, Retry::Soon),
            Self::Denied { .. } | Self::Invalid { .. } => (Reason::SecretFetchFailed, Retry::Slow),
            Self::NoStore => (Reason::ProviderUnsupported, Retry::Slow),
            Self::OverQuota { .. } => (Reason::ProviderThrottled, Retry::Soon),
            Self::Throttled { .. } => (Reason::ProviderThrottled, Retry::Outage),
            Self::Unavailable { .. } => (Reason::SecretFetchFailed, Retry::Outage),
        };
        let named = source
            .store
            .as_deref()
            .or(source.provider.as_deref())
            .unwrap_or_default();
        Problem {
            reason,
            retry,
            text: format!("failed to fetch {} from {named}: {self}", source.path),
        }
    }

    /// Whether the secret is gone, as far as the namespace is concerned.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Coded { error, .. } => error.is_missing(),
            other => matches!(other, Self::NotFound | Self::NotOffered),
        }
    }

    /// How long the provider wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after } => *retry_after,
            Self::OverQuota { retry_after } => Some(*retry_after),
            Self::Coded { error, .. } => error.retry_after(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_told_and_changes_nothing_else() {
        let source = Source {
            provider: Some("aws-secretsmanager".to_owned()),
            store: None,
            path: "prod/db".to_owned(),
            version: None,
        };
        let retry_after = Some(Duration::from_secs(9));
        let coded = FetchError::NotFound.with_code("ResourceNotFoundException");
        let (plain, told) = (FetchError::NotFound.problem(&source), coded.problem(&source));
        assert_eq!((told.reason, told.retry), (plain.reason, plain.retry));
        assert_eq!(
            told.text,
            "failed to fetch prod/db from aws-secretsmanager: it does not exist (ResourceNotFoundException)"
        );
        assert!(coded.is_missing());
        let throttled = FetchError::Throttled { retry_after }.with_code("ThrottlingException");
        assert_eq!(throttled.retry_after(), retry_after);
        assert!(!throttled.is_missing());
    }

    #[test]
    fn what_is_no_word_is_no_code() {
        let long = "a".repeat(65);
        for odd in ["", "a b", "hunter2", "a:b", "ä", "a\n", &long] {
            assert_eq!(
                FetchError::NotFound.with_code(odd),
                FetchError::NotFound,
                "{odd:?}"
            );
        }
        assert!(ErrorCode::parse(&long[1..]).is_some());
    }
}
