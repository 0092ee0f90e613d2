//! What the tool in the agent's pod is told: pure, from what a person wants and what the cluster says of the agent.

use anyhow::{Result, bail};
use trustplane_api::hsm::record::{AgentPhase, Outcome, Record};

use super::agent::{Agent, PROGRAM};

/// The agent's own tool.
const TOOL: [&str; 2] = [PROGRAM, "test-token"];
/// The agent's flag that names the PKCS#11 module.
const LIBRARY: &str = "pkcs11-library";
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

/// Whether the tool gets the PIN. It tries it only if no agent serves the token, and that try is in no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// It does not: nobody needs it.
    Kept,
    /// It does not, because nobody has said that it may be tried. Whoever serves the token is asked without it.
    Withheld,
    /// It does, and tries it if the token does not speak against it.
    Handed,
    /// It does, and tries it whatever the token says.
    Ordered,
}

/// What says that a PIN may be tried.
const CONSENT: &str = "--try-anyway";

/// Whether the tool is to get the PIN: never against the record, and never unasked.
pub fn pin(action: &str, words: &[String], record: &Record) -> Result<Pin> {
    if action == "info" {
        return Ok(Pin::Kept);
    }
    let state = record.state.as_ref();
    if state.is_some_and(|state| state.phase == AgentPhase::Serving) {
        return Ok(Pin::Kept);
    }
    let consent = words.iter().any(|word| word == CONSENT);
    match (speaks_against(record), consent) {
        (true, true) => Ok(Pin::Ordered),
        (true, false) => {
            let why = state.map(|state| format!("{:?}: {}", state.phase, state.message));
            bail!(
                "the agent does not serve the token, and its record speaks against the PIN ({}), so it was not tried. If you are sure that it \
                 is right, add {CONSENT} after --",
                why.unwrap_or_else(|| "the last try was not accepted".to_owned())
            )
        }
        (false, true) => Ok(Pin::Handed),
        (false, false) => Ok(Pin::Withheld),
    }
}

fn speaks_against(record: &Record) -> bool {
    let state = record.state.as_ref();
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
    against || last.is_some_and(|tried| !matches!(tried.outcome, Outcome::Accepted | Outcome::Withdrawn))
}

impl Pin {
    /// Whether the tool gets it.
    pub fn is_handed_over(self) -> bool {
        matches!(self, Self::Handed | Self::Ordered)
    }

    /// What is to be said of it when the tool has failed.
    pub fn complaint(self) -> Option<String> {
        (self == Self::Withheld).then(|| {
            format!(
                "if that is because no agent serves the token: its PIN was not tried, because a try of this tool is in no record. A wrong \
                 one would cost a try, and on a token that does not show so the agent could try it once more. If you are sure that it is \
                 right, add {CONSENT} after --"
            )
        })
    }
}

/// What the agent's tool is told. What a person says counts, then the record, then what the agent was told.
pub fn command(agent: &Agent, record: &Record, pin: Pin, words: &[String]) -> Vec<String> {
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
    tell("module", agent.flag(LIBRARY));
    for flag in SHARED {
        tell(flag, agent.flag(flag));
    }
    let met = record.token.as_ref().map(|token| token.serial.as_str());
    tell(SERIAL, met.or(agent.flag(SERIAL)));
    command.extend(pin.is_handed_over().then(|| "--pin-stdin".to_owned()));
    // Who has consented to a try that nobody writes down has not said that the token is to be overruled.
    let passed_on = |word: &&String| pin == Pin::Ordered || *word != CONSENT;
    command.extend(words.iter().filter(passed_on).cloned());
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
        let agent = choose(&[pod("a", "Running", &arguments)], ("tokens", "pico"), None).unwrap();
        let action = words("write demo/db --from-literal=password=x");
        let own = [
            "/usr/bin/trustplane-agent",
            "test-token",
            "--module=/m.so",
            "--limits=pico-hsm",
        ];
        assert_eq!(
            command(&agent, &record("Unavailable", "accepted"), Pin::Handed, &action),
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
        let told = command(&agent, &Record::default(), Pin::Kept, &action);
        assert_eq!(
            told,
            [&own[..], &["info", "--token-serial", "2", "--token-label=c"]].concat()
        );
        let told = command(&agent, &Record::default(), Pin::Kept, &words("info"));
        assert!(told.contains(&"--token-serial=old".to_owned()), "{told:?}");
    }

    fn of(phase: &str, outcome: &str, text: &str) -> Result<Pin> {
        let words = words(text);
        pin(action(&words)?, &words, &record(phase, outcome))
    }

    #[test]
    fn a_pin_is_handed_over_only_if_nobody_serves_and_somebody_says_so() {
        assert_eq!(of("Serving", "accepted", "list").unwrap(), Pin::Kept);
        assert_eq!(of("PinRejected", "rejected", "info").unwrap(), Pin::Kept);
        // A record that has nothing against it does not know it, or knows the one of before.
        for (phase, outcome) in [("Unavailable", "accepted"), ("Opening", "withdrawn")] {
            let withheld = of(phase, outcome, "benchmark --count=3").unwrap();
            assert_eq!(withheld, Pin::Withheld);
            assert!(
                withheld
                    .complaint()
                    .unwrap()
                    .contains("add --try-anyway after --")
            );
            assert_eq!(of(phase, outcome, "list --try-anyway").unwrap(), Pin::Handed);
        }
        let empty = |text: &str| pin("list", &words(text), &Record::default()).unwrap();
        assert_eq!(empty("list"), Pin::Withheld);
        assert_eq!(empty("--try-anyway list"), Pin::Handed);
        for other in [Pin::Kept, Pin::Handed, Pin::Ordered] {
            assert_eq!(other.complaint(), None);
        }
    }

    #[test]
    fn against_the_record_a_pin_is_handed_over_only_by_order() {
        for phase in ["PinRejected", "PinLow", "PinLocked", "PinUnanswered"] {
            let refused = of(phase, "accepted", "list").unwrap_err().to_string();
            assert!(
                refused.contains(phase) && refused.contains("--try-anyway"),
                "{refused}"
            );
            let ordered = of(phase, "accepted", "--try-anyway list").unwrap();
            assert_eq!(ordered, Pin::Ordered);
        }
        for outcome in ["rejected", "locked", "unanswered", "pending", "new word"] {
            assert!(of("Unavailable", outcome, "list").is_err(), "{outcome}");
        }
    }

    #[test]
    fn a_token_is_overruled_only_where_the_record_speaks_against_the_pin_too() {
        let agent = choose(&[pod("a", "Running", &[])], ("tokens", "pico"), None).unwrap();
        let told = |pin: Pin| {
            let told = command(&agent, &Record::default(), pin, &words("--try-anyway list"));
            ["--pin-stdin", "--try-anyway"].map(|word| told.iter().any(|told| told == word))
        };
        assert_eq!(told(Pin::Handed), [true, false]);
        assert_eq!(told(Pin::Ordered), [true, true]);
        assert_eq!(told(Pin::Kept), [false, false]);
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
