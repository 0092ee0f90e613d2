//! Flag before environment before file before default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ContextKind;
use serde_json::Value;

use super::flag::{Flag, double_dashes, flags, shape};

/// Arguments that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// The command line is wrong, or asks for help.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// A value of the environment or the file is wrong.
    #[error("bad value in {origin}: {reason}")]
    Value {
        /// Which variable, or which key of which file.
        origin: String,
        /// What is wrong, and what is valid.
        reason: String,
    },
    /// The file has a key that is not a flag.
    #[error("unknown key `{key}` in {}; valid keys are {}", .file.display(), .valid.join(", "))]
    UnknownKey {
        /// The key.
        key: String,
        /// The file.
        file: PathBuf,
        /// Every valid key.
        valid: Vec<String>,
    },
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not a YAML mapping.
    #[error("{} is not a mapping of flag names to values: {reason}", .file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Where and why.
        reason: String,
    },
}

impl ArgsError {
    /// Ends the process as command line tools do: help on stdout with code 0, a complaint on stderr with code 2.
    pub fn exit(&self) -> ! {
        if let Self::CommandLine(error) = self {
            error.exit();
        }
        let complaint = clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{self}\n"));
        complaint.exit()
    }
}

/// Reads a command line (program name first), the environment and the file.
///
/// An empty variable counts as unset, since templates render optional values so. Variables that name no flag are
/// ignored: a Service called `trustplane` makes Kubernetes add `TRUSTPLANE_PORT` and its like to every pod.
pub fn parse_from<T, I>(argv: I, env: impl Fn(&str) -> Option<String>) -> Result<T, ArgsError>
where
    T: clap::Parser,
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    parse_as(T::command(), argv, env)
}

/// [`parse_from`] with a command that differs from the type's own in its name and version alone.
pub(crate) fn parse_as<T, I>(
    command: clap::Command,
    argv: I,
    env: impl Fn(&str) -> Option<String>,
) -> Result<T, ArgsError>
where
    T: clap::Parser,
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let flags = flags(&command);
    let command = shape(command);
    let argv = double_dashes(argv.into_iter().map(Into::into).collect(), &flags);
    let layers = Layers::gather(&flags, &argv, env)?;
    let parsed = command.try_get_matches_from(layers.before(argv));
    let mut matches = parsed.map_err(|error| layers.explain(error))?;
    Ok(T::from_arg_matches_mut(&mut matches)?)
}

/// Values for flags that the command line does not give.
struct Layers(BTreeMap<String, Layered>);

struct Layered {
    values: Vec<String>,
    origin: String,
}

impl Layers {
    fn gather(
        flags: &[Flag],
        argv: &[OsString],
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ArgsError> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let config = flags.iter().find(|flag| flag.name == "config");
        let variable = |flag: &Flag| {
            flag.env
                .iter()
                .find_map(|name| env(name).map(|value| (name.clone(), value)))
        };
        let file = config.and_then(|flag| {
            let named = || variable(flag).map(|(_, value)| OsString::from(value));
            flag.value(argv).or_else(named)
        });
        let mut layers = match file {
            Some(file) => read_file(Path::new(&file), flags)?,
            None => BTreeMap::new(),
        };
        for flag in flags {
            if let Some((name, value)) = variable(flag) {
                let origin = format!("the environment variable {name}");
                layers.insert(
                    flag.name.clone(),
                    Layered {
                        values: vec![value],
                        origin,
                    },
                );
            }
            if flag.is_given(argv) {
                layers.remove(&flag.name);
            }
        }
        Ok(Self(layers))
    }

    /// The command line with the layered values put in front, as if they had been typed.
    fn before(&self, mut argv: Vec<OsString>) -> Vec<OsString> {
        let rest = if argv.is_empty() {
            Vec::new()
        } else {
            argv.split_off(1)
        };
        for (name, layered) in &self.0 {
            argv.extend(
                layered
                    .values
                    .iter()
                    .map(|value| OsString::from(format!("--{name}={value}"))),
            );
        }
        argv.extend(rest);
        argv
    }

    /// Names the origin of a bad value that nobody typed.
    fn explain(&self, error: clap::Error) -> ArgsError {
        let culprit = error
            .get(ContextKind::InvalidArg)
            .map(ToString::to_string)
            .unwrap_or_default();
        let name = culprit
            .trim_start_matches("--")
            .split([' ', '=', '['])
            .next()
            .unwrap_or_default();
        match self.0.get(name) {
            Some(layered) => {
                let text = error.to_string();
                let reason = text
                    .lines()
                    .map(str::trim)
                    .take_while(|line| !line.starts_with("For more"));
                let reason = reason
                    .filter(|line| !line.is_empty())
                    .collect::<Vec<_>>()
                    .join(" ");
                let reason = reason.trim_start_matches("error: ").to_owned();
                ArgsError::Value {
                    origin: layered.origin.clone(),
                    reason,
                }
            }
            None => ArgsError::CommandLine(error),
        }
    }
}

fn read_file(file: &Path, flags: &[Flag]) -> Result<BTreeMap<String, Layered>, ArgsError> {
    let text = std::fs::read_to_string(file).map_err(|source| ArgsError::Read {
        file: file.to_owned(),
        source,
    })?;
    let syntax = |reason: String| ArgsError::Syntax {
        file: file.to_owned(),
        reason,
    };
    // An empty file, or one of comments alone, sets nothing.
    let keys: Option<BTreeMap<String, Value>> =
        serde_saphyr::from_str(&text).map_err(|error| syntax(error.to_string()))?;
    let mut layers = BTreeMap::new();
    for (key, value) in keys.unwrap_or_default() {
        // A file that names a further file would make "which value wins" a riddle.
        let valid = || {
            flags
                .iter()
                .map(|flag| &flag.name)
                .filter(|name| *name != "config")
        };
        if !valid().any(|name| *name == key) {
            return Err(ArgsError::UnknownKey {
                key,
                file: file.to_owned(),
                valid: valid().cloned().collect(),
            });
        }
        let origin = format!("key `{key}` of {}", file.display());
        let values = texts(value).ok_or_else(|| ArgsError::Value {
            origin: origin.clone(),
            reason: "want a text, a number, true or false, or a list of these".to_owned(),
        })?;
        layers.insert(key, Layered { values, origin });
    }
    Ok(layers)
}

/// A scalar or a list of scalars, as they would be typed.
fn texts(value: Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Bool(_) | Value::Number(_) => Some(vec![value.to_string()]),
        Value::Array(values) => values.into_iter().map(|value| texts(value)?.pop()).collect(),
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
