//! The spelling of flags: Go's booleans and single dashes, durations, and the environment name in the help.

use std::any::TypeId;
use std::ffi::OsString;
use std::time::Duration;

use clap::builder::{ArgAction, Resettable};
use clap::{Arg, Command};
use jiff::SignedDuration;

/// What environment variables of ours begin with.
const ENV_PREFIX: &str = "TRUSTPLANE_";

/// A boolean as Go's `strconv.ParseBool` reads it.
///
/// [`parse_from`](super::parse_from) gives this to every `bool` flag, so that `--x`, `--x=false`, `-x=true` and `x: false` work.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("want true or false".to_owned()),
    }
}

/// A duration such as `25s` or `1m30s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text
        .parse::<SignedDuration>()
        .map_err(|error| error.to_string())?;
    Duration::try_from(parsed).map_err(|_| "want a positive duration such as 25s or 1m30s".to_owned())
}

/// One flag of a command: its long name without dashes, and its environment variables, the first of which wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flag {
    pub(super) name: String,
    pub(super) env: Vec<String>,
}

impl Flag {
    fn of(arg: &Arg) -> Option<Self> {
        let name = arg.get_long()?.to_owned();
        let ours = format!("{ENV_PREFIX}{}", name.to_uppercase().replace('-', "_"));
        // A name that others gave, such as `KUBECONFIG`, works beside ours.
        let other = arg.get_env().map(|name| name.to_string_lossy().into_owned());
        let env = std::iter::once(ours).chain(other).collect();
        Some(Self { name, env })
    }

    /// Whether the command line names this flag.
    pub(super) fn is_given(&self, argv: &[OsString]) -> bool {
        argv.iter().skip(1).map_while(|arg| before_end(arg)).any(|arg| {
            let given = arg
                .strip_prefix("--")
                .map(|arg| arg.split_once('=').map_or(arg, |(name, _)| name));
            given == Some(self.name.as_str())
        })
    }

    /// The value that the command line gives to this flag.
    pub(super) fn value(&self, argv: &[OsString]) -> Option<OsString> {
        let long = format!("--{}", self.name);
        let mut args = argv.iter().skip(1);
        while let Some(arg) = args.next() {
            let text = before_end(arg)?;
            if text == long {
                return args.next().cloned();
            }
            if let Some(value) = text.strip_prefix(&long).and_then(|rest| rest.strip_prefix('=')) {
                return Some(value.into());
            }
        }
        None
    }
}

/// The text of an argument, or `None` at the `--` that ends the flags.
fn before_end(arg: &OsString) -> Option<&str> {
    if arg == "--" {
        None
    } else {
        Some(arg.to_str().unwrap_or_default())
    }
}

/// All flags of a command, `help` and `version` left out.
pub(super) fn flags(command: &Command) -> Vec<Flag> {
    command.get_arguments().filter_map(Flag::of).collect()
}

/// Gives every flag its environment name in the help, and every boolean flag Go's spelling.
pub(super) fn shape(command: Command) -> Command {
    command.mut_args(|arg| {
        let Some(flag) = Flag::of(&arg) else { return arg };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let arg = arg
            .help(format!("{help} [env: {}]", flag.env.join(", ")))
            .env(Resettable::Reset);
        let boolean = arg.get_value_parser().type_id() == TypeId::of::<bool>();
        match arg.get_action() {
            ArgAction::SetTrue => go_style(arg.action(ArgAction::Set).default_value("false")),
            ArgAction::Set if boolean => go_style(arg),
            _ => arg,
        }
    })
}

fn go_style(arg: Arg) -> Arg {
    arg.num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .value_name("BOOL")
        .value_parser(go_bool)
        .hide_possible_values(true)
}

/// Rewrites Go's `-name` and `-name=value` to two dashes where `name` is a flag of ours.
pub(super) fn double_dashes(argv: Vec<OsString>, flags: &[Flag]) -> Vec<OsString> {
    let mut ended = false;
    let rewrite = |arg: OsString| {
        ended |= arg == "--";
        let known = arg
            .to_str()
            .and_then(|text| text.strip_prefix('-'))
            .is_some_and(|rest| {
                let name = rest.split_once('=').map_or(rest, |(name, _)| name);
                name.len() > 1 && flags.iter().any(|flag| flag.name == name)
            });
        if !known || ended {
            return arg;
        }
        let mut long = OsString::from("-");
        long.push(arg);
        long
    };
    argv.into_iter().map(rewrite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(duration("1m30s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
        for text in ["", "25", "-3s", "soon"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_single_dash_is_only_doubled_for_our_names_before_the_end_of_flags() {
        let flags = [Flag {
            name: "leader-elect".into(),
            env: Vec::new(),
        }];
        let argv = ["m", "-leader-elect=true", "-v", "-leader", "--", "-leader-elect"].map(OsString::from);
        let doubled = double_dashes(argv.to_vec(), &flags);
        assert_eq!(
            doubled,
            ["m", "--leader-elect=true", "-v", "-leader", "--", "-leader-elect"]
        );
    }
}
