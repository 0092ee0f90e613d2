//! The words of the capability in conditions and events: each is spelled here and nowhere else.
//!
//! The constants of this module are the types of the conditions of an HSMPool. `docs/guide/hsm.md` says what to do about each.
//! People and alerts rely on the words, so a word is never changed.

use super::record::AgentPhase;

/// Whether the reports of the nodes make one picture. Its reason is the [`phase`] of the pool.
pub const DEVICE_AGGREGATION: &str = "DeviceAggregation";
/// Whether an agent serves every token that is there.
pub const SERVED: &str = "Served";

/// An HSMDevice of the pool makes no sense.
pub const INVALID_DEVICE: &str = "InvalidDevice";
/// An HSMDevice of the pool is probably not what its author meant.
pub const DEVICE_WARNING: &str = "DeviceWarning";
/// Another HSMDevice, or another entry of the same one, has a token.
pub const CONFLICT: &str = "Conflict";
/// Two tokens have one serial number.
pub const DUPLICATE_SERIAL: &str = "DuplicateSerial";
/// The status has no room for all tokens.
pub const TOKENS_LEFT_OUT: &str = "TokensLeftOut";
/// The PIN is in a Secret of another namespace that does not consent.
pub const PIN_SECRET_NOT_SHARED: &str = "PinSecretNotShared";

/// The conditions that should be True. All others tell of a problem.
pub const WANTED: [&str; 2] = [DEVICE_AGGREGATION, SERVED];

/// The conditions that tell of a problem, apart from [`PINS`]. An event on the HSMDevice has the same word.
pub const PROBLEMS: [&str; 6] = [
    INVALID_DEVICE,
    DEVICE_WARNING,
    CONFLICT,
    DUPLICATE_SERIAL,
    TOKENS_LEFT_OUT,
    PIN_SECRET_NOT_SHARED,
];

/// What an agent may say of a PIN: the word of each phase is the type and the reason of a condition, and the reason of an event.
pub const PINS: [AgentPhase; 9] = [
    AgentPhase::PinRejected,
    AgentPhase::PinLocked,
    AgentPhase::PinLow,
    AgentPhase::PinMissing,
    AgentPhase::PinExpired,
    AgentPhase::PinInvalid,
    AgentPhase::PinNotSet,
    AgentPhase::PinUnanswered,
    AgentPhase::PinKeyLost,
];

/// The reasons of conditions, apart from those that every capability has (`trustplane_plan::condition::reason`).
pub mod reason {
    /// Of [`INVALID_DEVICE`](super::INVALID_DEVICE).
    pub const INVALID: &str = "Invalid";
    /// Of [`DEVICE_WARNING`](super::DEVICE_WARNING).
    pub const WARNING: &str = "Warning";
    /// Of [`CONFLICT`](super::CONFLICT).
    pub const CLAIMED: &str = "Claimed";
    /// Of [`DUPLICATE_SERIAL`](super::DUPLICATE_SERIAL).
    pub const DUPLICATE: &str = "Duplicate";
    /// Of [`TOKENS_LEFT_OUT`](super::TOKENS_LEFT_OUT).
    pub const TOO_MANY: &str = "TooMany";
    /// Of [`PIN_SECRET_NOT_SHARED`](super::PIN_SECRET_NOT_SHARED).
    pub const NOT_SHARED: &str = "NotShared";
    /// Of [`SERVED`](super::SERVED): every token that is there is served.
    pub const ALL_SERVED: &str = "AllServed";
    /// Of [`SERVED`](super::SERVED): an agent has not had its time yet.
    pub const STARTING: &str = "Starting";
    /// Of [`SERVED`](super::SERVED): a token is not served.
    pub const NOT_SERVED: &str = "NotServed";
}

/// The phases of an HSMPool.
pub mod phase {
    /// No discovery pod reports.
    pub const PENDING: &str = "Pending";
    /// Nodes still look.
    pub const AGGREGATING: &str = "Aggregating";
    /// All nodes report, and every token that is there is served.
    pub const READY: &str = "Ready";
    /// A node does not report, or a token is not served.
    pub const PARTIAL: &str = "Partial";
    /// The pool or an HSMDevice of it makes no sense.
    pub const ERROR: &str = "Error";
}

/// The reasons of events that are no condition and no phase of an agent.
pub mod event {
    /// A token is not served, and has had its time.
    pub const TOKEN_NOT_SERVED: &str = "TokenNotServed";
    /// A token is on another node now.
    pub const TOKEN_MOVED: &str = "TokenMoved";
    /// An agent is not made while the pod of the old one may run.
    pub const AGENT_WAITS: &str = "AgentWaits";
    /// An object of an agent has a name that is taken.
    pub const AGENT_TAKEN: &str = "AgentTaken";
    /// The HSMPool of an HSMDevice has a name that is taken.
    pub const POOL_TAKEN: &str = "PoolTaken";
    /// The DaemonSet of an HSMDevice has a name that is taken.
    pub const DISCOVERY_TAKEN: &str = "DiscoveryTaken";
    /// The Secret with the SO-PIN of a token is gone.
    pub const SO_PIN_LOST: &str = "SoPinLost";
    /// Nothing could be made for an agent to prove itself with.
    pub const CREDENTIALS_FAILED: &str = "CredentialsFailed";
    /// The API server does not say whether a PIN is shared.
    pub const PIN_SECRET_UNKNOWN: &str = "PinSecretUnknown";
    /// The status of an HSMPool cannot be read.
    pub const STATUS_UNREADABLE: &str = "StatusUnreadable";

    /// All of them.
    pub const ALL: [&str; 10] = [
        TOKEN_NOT_SERVED,
        TOKEN_MOVED,
        AGENT_WAITS,
        AGENT_TAKEN,
        POOL_TAKEN,
        DISCOVERY_TAKEN,
        SO_PIN_LOST,
        CREDENTIALS_FAILED,
        PIN_SECRET_UNKNOWN,
        STATUS_UNREADABLE,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_names_every_condition_and_event() {
        let guide = include_str!("../../../../docs/guide/hsm.md");
        let pins = PINS.map(AgentPhase::as_str);
        let words = [&WANTED[..], &PROBLEMS, &pins, &event::ALL].concat();
        let missing: Vec<_> = words
            .into_iter()
            .filter(|word| !guide.contains(&format!("`{word}`")))
            .collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn the_word_of_a_phase_is_its_wire_form() {
        for phase in PINS {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
    }
}
