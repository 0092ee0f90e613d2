//! Words for how a token is doing, for programs.

use crate::error::PinProblem;
use crate::health::Phase;

impl Phase {
    /// Every phase that there is.
    pub(crate) const ALL: [Self; 15] = [
        Self::Opening,
        Self::Serving,
        Self::Unavailable,
        Self::Ended,
        Self::PinRefused(PinProblem::Rejected),
        Self::PinRefused(PinProblem::Locked),
        Self::PinRefused(PinProblem::Expired),
        Self::PinRefused(PinProblem::Form),
        Self::PinRefused(PinProblem::NotSet),
        Self::PinRefused(PinProblem::TriesLow),
        Self::PinRefused(PinProblem::Unanswered),
        Self::PinRefused(PinProblem::Undecided),
        Self::PinRefused(PinProblem::Missing),
        Self::PinRefused(PinProblem::TooMany),
        Self::PinRefused(PinProblem::KeyLost),
    ];

    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Opening => "Opening",
            Self::Serving => "Serving",
            Self::Unavailable => "Unavailable",
            Self::Ended => "Ended",
            Self::PinRefused(problem) => problem.word(),
        }
    }
}

impl PinProblem {
    /// A word for it. It begins with `Pin`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rejected => "PinRejected",
            Self::Locked => "PinLocked",
            Self::Expired => "PinExpired",
            Self::Form => "PinForm",
            Self::NotSet => "PinNotSet",
            Self::TriesLow => "PinTriesLow",
            Self::Unanswered => "PinUnanswered",
            Self::Undecided => "PinUndecided",
            Self::Missing => "PinMissing",
            Self::TooMany => "PinTooMany",
            Self::KeyLost => "PinKeyLost",
        }
    }
}
