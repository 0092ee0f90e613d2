//! What an error means to the one who called, in the words of gRPC.

use strum::IntoStaticStr;

/// The status that a caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The request is wrong, on this token and on any that is like it.
    InvalidArgument,
    /// There is no such secret. This is known, not guessed.
    NotFound,
    /// The token is not in the state that the caller expects.
    FailedPrecondition,
    /// There is no room.
    ResourceExhausted,
    /// Something is there and cannot be trusted.
    DataLoss,
}

impl Code {
    /// The word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_grpc() {
        assert_eq!(Code::DataLoss.as_str(), "DATA_LOSS");
        assert_eq!(Code::FailedPrecondition.as_str(), "FAILED_PRECONDITION");
    }
}
