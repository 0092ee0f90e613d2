//! What the tool in the agent's pod is told: pure, from what a person wants and what the cluster says of the agent.

use anyhow::{Result, bail};
use trustplane_api::hsm::record::{AgentPhase, Outcome, Record};

use super::agent::Agent;

/// The agent's own tool.
const TOOL: [&str; 2] = ["/usr/bin/trustplane-agent", "test-token"];
/// What a person may ask for here.
pub const ACTIONS: [&str; 6] = ["info", "list", "read", "write", "delete", "benchmark"];
/// Flags of the agent that the tool has as well, and must have as the agent has them.
const SHARED: [&str; 4] = ["limits", "runtime-dir", "token-label", "reader-serial"];
const SERIAL: &str = "token-serial";

/// What is wanted, if it can be had here.
pub fn action(words: &[String]) -> Result<&str> {
    let is_action = |word: &&String| ACTIONS.contains(&word.as_str()) || *word == "init";
    match words.iter().find(is_action).map(String::as_str) {
        Some("init") => bail!(
            "a token is not initialised in the pod of an agent, which needs one that is. Set spec.pkcs11.autoProvision of the \
             HSMDevice, and its agent makes the one blank token its own and keeps the security officer's PIN in a Secret; or, where \
             the token is plugged in, run `trustplane-agent test-token init`"
        ),
        Some(action) => Ok(action),
        None => bail!("say what to do after --: {}", ACTIONS.join(", ")),
    }
}

/// Whether the tool is to get the PIN. It tries it only if no agent serves the token, and then not against the record.
pub fn needs_pin(action: &str, words: &[String], record: &Record) -> Result<bool> {
    if action == "info" {
        return Ok(false);
    }
    let state = record.state.as_ref();
    if state.is_some_and(|state| state.phase == AgentPhase::Serving) {
        return Ok(false);
    }
    if words.iter().any(|word| word == "--try-anyway") {
        return Ok(true);
    }
    let against = state.is_some_and(|state| {
        matches!(
            state.phase,
            AgentPhase::PinRejected
                | AgentPhase::PinLow
                | AgentPhase::PinLocked
                | AgentPhase::PinUnanswered
                | AgentPhase::PinExpired
                | AgentPhase::PinInvalid
        )
    });
    let serial = record.token.as_ref().map(|token| token.serial.as_str());
    let last = record
        .tries
        .iter()
        .rev()
        .find(|tried| Some(tried.token.as_str()) == serial);
    let refused = last.is_some_and(|tried| !matches!(tried.outcome, Outcome::Accepted | Outcome::Withdrawn));
    if against || refused {
        let why = state.map(|state| format!("{:?}: {}", state.phase, state.message));
        bail!(
            "the agent does not serve the token, and its record speaks against the PIN ({}), so it was not tried. If you are sure that it \
             is right, add --try-anyway after --",
            why.unwrap_or_else(|| "the last try was not accepted".to_owned())
        );
    }
    Ok(true)
}

/// What the agent's tool is told. What a person says counts, then the record, then what the agent was told.
pub fn command(agent: &Agent, record: &Record, has_pin: bool, words: &[String]) -> Vec<String> {
    let given = |flag: &str| {
        let flag = format!("--{flag}");
        words
            .iter()
            .any(|word| *word == flag || word.strip_prefix(&flag).is_some_and(|rest| rest.starts_with('=')))
    };
    let mut command: Vec<String> = TOOL.map(str::to_owned).into();
    let mut tell = |flag: &str, value: Option<&str>| {
        let value = value.filter(|_| !given(flag));
        command.extend(value.map(|value| format!("--{flag}={value}")));
    };
    tell("module", Some(&agent.library));
    for flag in SHARED {
        tell(flag, agent.flag(flag));
    }
    let met = record.token.as_ref().map(|token| token.serial.as_str());
    tell(SERIAL, met.or(agent.flag(SERIAL)));
    command.extend(has_pin.then(|| "--pin-stdin".to_owned()));
    command.extend_from_slice(words);
    command
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::agent::{choose, tests::pod};
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn record(phase: &str, outcome: &str) -> Record {
        let since = "2026-07-07T08:00:00Z";
        let tried = json!([
            {"token": "another", "secret": "u", "digest": "d", "by": "p/1", "at": since, "outcome": "rejected"},
            {"token": "1f", "secret": "u", "digest": "d", "by": "p/1", "at": since, "outcome": outcome},
        ]);
        let parts = [
            ("state", json!({"phase": phase, "message": "m", "since": since})),
            ("token", json!({"serial": "1f"})),
            ("tries", tried),
        ];
        Record::read(&parts.map(|(key, part)| (key.to_owned(), part.to_string())).into()).unwrap()
    }

    #[test]
    fn the_tool_has_the_flags_of_the_agent_and_never_the_pin() {
        let arguments = [
            "--limits=pico-hsm",
            "--token-label=a b",
            "--token-serial=old",
            "--port=9090",
        ];
        let agent = choose(&[pod("a", "Running", &arguments)], "pico", None).unwrap();
        let action = words("write demo/db --from-literal=password=x");
        let own = [
            "/usr/bin/trustplane-agent",
            "test-token",
            "--module=/m.so",
            "--limits=pico-hsm",
        ];
        assert_eq!(
            command(&agent, &record("Unavailable", "accepted"), true, &action),
            [
                &own[..],
                &[
                    "--token-label=a b",
                    "--token-serial=1f",
                    "--pin-stdin",
                    "write",
                    "demo/db",
                    "--from-literal=password=x",
                ]
            ]
            .concat()
        );
        let action = words("info --token-serial 2 --token-label=c");
        let told = command(&agent, &Record::default(), false, &action);
        assert_eq!(
            told,
            [&own[..], &["info", "--token-serial", "2", "--token-label=c"]].concat()
        );
        let told = command(&agent, &Record::default(), false, &words("info"));
        assert!(told.contains(&"--token-serial=old".to_owned()), "{told:?}");
    }

    #[test]
    fn a_pin_is_handed_over_only_if_nobody_serves_and_the_record_is_not_against_it() {
        let of = |phase: &str, outcome: &str, text: &str| {
            let words = words(text);
            needs_pin(action(&words)?, &words, &record(phase, outcome))
        };
        assert!(!of("Serving", "accepted", "list").unwrap(), "the agent has it");
        assert!(!of("PinRejected", "rejected", "info").unwrap());
        assert!(of("Unavailable", "accepted", "list").unwrap());
        assert!(of("Opening", "withdrawn", "benchmark --count=3").unwrap());
        for phase in ["PinRejected", "PinLow", "PinLocked", "PinUnanswered"] {
            let refused = of(phase, "accepted", "list").unwrap_err().to_string();
            assert!(
                refused.contains(phase) && refused.contains("--try-anyway"),
                "{refused}"
            );
            assert!(of(phase, "accepted", "--try-anyway list").unwrap());
        }
        for outcome in ["rejected", "locked", "unanswered", "pending", "new word"] {
            assert!(of("Unavailable", outcome, "list").is_err(), "{outcome}");
        }
    }

    #[test]
    fn what_cannot_be_had_here_is_told_with_what_can() {
        let refused = action(&words("init --label=x")).unwrap_err().to_string();
        assert!(
            refused.contains("autoProvision") && refused.contains("test-token init"),
            "{refused}"
        );
        let refused = action(&words("format")).unwrap_err().to_string();
        assert!(
            refused.ends_with("info, list, read, write, delete, benchmark"),
            "{refused}"
        );
    }
}
