//! The words in the status and the events of an HSMSecret. Each word is spelled here and nowhere else.
//!
//! `docs/guide/hsm-secrets.md` says what to do about each word. People and alerts rely on the words, so a word is never changed.

/// The condition that tells whether the Secret holds what is on the tokens. The reason of the condition `Ready` is the sync status.
pub const SYNCED: &str = "Synced";
/// The condition that names the tokens whose copy matters and that cannot be asked or cannot read it.
pub const DEGRADED: &str = "Degraded";
/// The condition that names another owner of the Secret, another namespace that has the location, or tokens whose copies differ.
pub const CONFLICT: &str = "Conflict";

/// The types of the conditions, besides `Ready`.
pub const CONDITIONS: [&str; 3] = [SYNCED, DEGRADED, CONFLICT];

/// `status.syncStatus`, as the original has it.
pub mod sync_status {
    /// The Secret holds what is on the tokens.
    pub const IN_SYNC: &str = "InSync";
    /// The Secret should hold another content, and could not be written.
    pub const OUT_OF_SYNC: &str = "OutOfSync";
    /// A person has to do something, or a token has to come back.
    pub const ERROR: &str = "Error";
    /// There is nothing to deliver yet.
    pub const PENDING: &str = "Pending";
}

/// What is wrong: the reason of a condition and of an event on the HSMSecret.
pub mod reason {
    /// The spec of the HSMSecret is invalid.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// Another owner has the Secret, or an older HSMSecret wants it.
    pub const SECRET_TAKEN: &str = "SecretTaken";
    /// Another namespace has the location on the tokens.
    pub const LOCATION_TAKEN: &str = "LocationTaken";
    /// Tokens have different contents at the location.
    pub const COPIES_DIFFER: &str = "CopiesDiffer";
    /// No token has the secret.
    pub const NOT_ON_TOKEN: &str = "NotOnToken";
    /// A token has the secret and cannot read it.
    pub const UNREADABLE: &str = "SecretUnreadable";
    /// The secret cannot be a Secret of the wanted type.
    pub const UNSUITABLE: &str = "SecretUnsuitable";
    /// The Secret has another type, or is immutable.
    pub const SECRET_FIXED: &str = "SecretFixed";
    /// A token cannot be asked.
    pub const TOKEN_UNREACHABLE: &str = "TokenUnreachable";
    /// No token is known at all.
    pub const NO_TOKEN: &str = "NoToken";
    /// The API server has refused a write.
    pub const WRITE_FAILED: &str = "WriteFailed";
    /// A token was lost between its list and the read of a value.
    pub const READ_FAILED: &str = "ReadFailed";

    /// All reasons.
    pub const ALL: [&str; 12] = [
        INVALID_SPEC,
        SECRET_TAKEN,
        LOCATION_TAKEN,
        COPIES_DIFFER,
        NOT_ON_TOKEN,
        UNREADABLE,
        UNSUITABLE,
        SECRET_FIXED,
        TOKEN_UNREACHABLE,
        NO_TOKEN,
        WRITE_FAILED,
        READ_FAILED,
    ];
}

/// The reason of the event about a delivered Secret.
pub const DELIVERED: &str = "SecretDelivered";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guide_names_every_condition_and_reason() {
        let guide = include_str!("../../../../docs/guide/hsm-secrets.md");
        let words = [&CONDITIONS[..], &reason::ALL, &[DELIVERED]].concat();
        let missing: Vec<_> = words
            .into_iter()
            .filter(|word| !guide.contains(&format!("`{word}`")))
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
