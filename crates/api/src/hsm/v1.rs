//! The service of the agent of one token, `hsm.v1.HSMAgent`, as it goes over the wire.
//!
//! The code is generated from `proto/hsm/v1/agent.proto` by `cargo xtask gen`. Values and PINs do not show themselves when a
//! message is printed. They are not wiped by themselves: who takes a message apart moves them to where they are.

#[rustfmt::skip]
#[allow(clippy::all, reason = "nobody writes it")]
mod generated;
#[cfg(test)]
mod wire_tests;

use std::fmt;

pub use generated::*;

/// The name that the certificate of the manager has, and that an agent asks for.
pub const MANAGER: &str = "hsm-manager";

/// The name that the certificate of an agent has, and that the manager asks for.
pub fn agent_name(agent: &str, namespace: &str) -> String {
    format!("{agent}.{namespace}.hsm-agent")
}

/// Only the names of the keys.
impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.data.keys()).finish()
    }
}

/// Nothing.
impl fmt::Debug for ChangePinRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangePinRequest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_values_nor_pins_are_printed() {
        let data = SecretData {
            data: [("password".to_owned(), b"hunter2".to_vec())].into(),
        };
        let write = WriteSecretRequest {
            secret_data: Some(data),
            ..WriteSecretRequest::default()
        };
        let pins = ChangePinRequest {
            old_pin: "648219".to_owned(),
            new_pin: "912846".to_owned(),
        };
        let shown = format!("{write:?} {pins:?}");
        assert!(shown.contains("password"), "{shown}");
        for hidden in ["hunter2", "104", "648219", "912846"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}
