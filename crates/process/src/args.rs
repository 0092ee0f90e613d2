//! What every binary of ours understands on its command line, in its environment and in its file.
//!
//! A value comes from the first of: flag, environment variable `TRUSTPLANE_*`, key of the file that `--config`
//! names, default. The three speak of the same names: `--log-format json`, `TRUSTPLANE_LOG_FORMAT=json` and
//! `log-format: json`. A binary flattens [`CommonArgs`] into its own clap struct, whose flags get the same treatment:
//!
//! ```
//! use clap::Parser;
//! use trustplane_process::args::{self, CommonArgs};
//!
//! #[derive(Parser)]
//! struct Args {
//!     #[command(flatten)]
//!     common: CommonArgs,
//!     /// Act only while holding the lease.
//!     #[arg(long)]
//!     leader_elect: bool,
//! }
//!
//! let args: Args = args::parse_from(["manager", "-leader-elect=true"], |_| None)?;
//! assert!(args.leader_elect);
//! # Ok::<(), args::ArgsError>(())
//! ```

mod bind;
mod flag;
mod layers;

use std::path::PathBuf;
use std::time::Duration;

pub use bind::{BindAddress, BindError};
pub use flag::{duration, go_bool};
pub(crate) use layers::parse_as;
pub use layers::{ArgsError, parse_from};

/// The flags that every binary has.
#[derive(Debug, Clone, clap::Args)]
pub struct CommonArgs {
    /// A YAML file with the names of these flags as keys.
    #[arg(long, value_name = "FILE", help_heading = "Process")]
    pub config: Option<PathBuf>,

    /// How log lines look.
    #[arg(long, value_enum, default_value_t, help_heading = "Process")]
    log_format: LogFormat,

    /// What is logged: a level, or a list such as `info,trustplane_kit=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info", help_heading = "Process")]
    log: String,

    /// Where probes, metrics and debug state are served; `0` turns it off.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":8080",
        help_heading = "Process"
    )]
    pub admin_bind_address: BindAddress,

    /// A further address that serves the metrics alone.
    #[arg(long, value_name = "ADDRESS", help_heading = "Process")]
    pub metrics_bind_address: Option<BindAddress>,

    /// A further address that serves the probes alone.
    #[arg(long, value_name = "ADDRESS", help_heading = "Process")]
    pub health_probe_bind_address: Option<BindAddress>,

    /// How long running work may take to end after a signal.
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration, help_heading = "Process")]
    pub shutdown_deadline: Duration,

    #[command(flatten)]
    zap: ZapArgs,
}

/// The flags by which operators in Go are told how to log. They are accepted, so that manifests of old go on working; our own
/// say more.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ZapArgs {
    #[arg(long, hide = true, value_parser = zap_level)]
    zap_log_level: Option<&'static str>,
    #[arg(long, hide = true)]
    zap_devel: bool,
    #[arg(long, hide = true, value_parser = zap_encoder)]
    zap_encoder: Option<LogFormat>,
    /// Our lines have no stack traces.
    #[arg(long, hide = true)]
    zap_stacktrace_level: Option<String>,
    /// Our times have one form.
    #[arg(long, hide = true)]
    zap_time_encoding: Option<String>,
}

/// Levels by name, or how far below `info` to go.
fn zap_level(text: &str) -> Result<&'static str, String> {
    match text {
        "debug" => Ok("debug"),
        "info" => Ok("info"),
        "error" | "panic" => Ok("error"),
        other => match other.parse::<u8>() {
            Ok(1) => Ok("debug"),
            Ok(2..) => Ok("trace"),
            _ => Err("must be debug, info, error, panic or a number above 0".to_owned()),
        },
    }
}

fn zap_encoder(text: &str) -> Result<LogFormat, String> {
    match text {
        "json" => Ok(LogFormat::Json),
        "console" => Ok(LogFormat::Pretty),
        _ => Err("must be json or console".to_owned()),
    }
}

impl CommonArgs {
    /// What is logged.
    pub fn log_filter(&self) -> &str {
        let devel = self.zap.zap_devel.then_some("debug");
        self.zap.zap_log_level.or(devel).unwrap_or(&self.log)
    }

    /// How log lines look.
    pub fn log_format(&self) -> LogFormat {
        self.zap.zap_encoder.unwrap_or(self.log_format)
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Pretty,
    /// One JSON object per line, for collectors.
    Json,
}
