//! What `trustplane-agent test-token` is told.

use std::path::PathBuf;

use clap::Subcommand;
use trustplane_hsm_core::limits::{Limits, Profile};
use trustplane_hsm_core::module;

/// Look at a token and try what it can do, without a cluster.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Examples:\n  trustplane-agent test-token --module /usr/lib/softhsm/libsofthsm2.so info\n  \
                  trustplane-agent test-token --module … --token-label dev-a --pin-file pin list\n\n\
                  A token that an agent serves is used through that agent, with its limits and without a PIN. Any other is opened \
                  here: a PIN is tried once, and not at all if the token says that a wrong one was tried before."
)]
pub struct TestTokenArgs {
    /// PKCS#11 module
    #[arg(long, value_name = "FILE", global = true)]
    pub module: Option<PathBuf>,
    /// Read the PIN from the first line of standard input
    #[arg(long, global = true, conflicts_with = "pin_file")]
    pub pin_stdin: bool,
    /// Read the PIN from the first line of a file
    #[arg(long, value_name = "FILE", global = true)]
    pub pin_file: Option<PathBuf>,
    /// Use the token with this label
    #[arg(long, value_name = "TEXT", global = true)]
    pub token_label: Option<String>,
    /// Use the token with this serial number
    #[arg(long, value_name = "TEXT", global = true)]
    pub token_serial: Option<String>,
    /// Use the token in the reader whose name holds this serial number
    #[arg(long, value_name = "TEXT", global = true)]
    pub reader_serial: Option<String>,
    /// Use the token in this slot; beside a label or serial number, it must be there
    #[arg(long, value_name = "NUMBER", global = true)]
    pub slot: Option<u64>,
    /// Try the PIN although the token says that a wrong one was tried before
    #[arg(long, global = true)]
    pub try_anyway: bool,
    /// What the token can take: software, opensc, opensc-64, pico-hsm, smartcard-hsm or yubihsm2. Without this, opensc for a module of
    /// OpenSC, and software for any other
    #[arg(long, value_name = "PROFILE", global = true, value_parser = crate::serve::profile)]
    pub limits: Option<Profile>,
    /// Where processes that want to open the token meet, as the agent has it; without this, the directory for temporary files
    #[arg(long, value_name = "DIRECTORY", global = true)]
    pub runtime_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

impl TestTokenArgs {
    /// What the token can take.
    pub(super) fn limits(&self) -> Limits {
        let by_module = || self.module.as_deref().map(module::profile);
        let profile = self.limits.or_else(by_module);
        profile.unwrap_or(Profile::Software).limits()
    }
}

/// What to do with the token.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Say which tokens there are and who holds them; with a PIN also how much one holds
    Info,
    /// List the secrets
    List,
    /// Read a secret
    Read {
        /// Its path
        path: String,
        /// Only this key
        #[arg(long)]
        key: Option<String>,
        /// Print values
        #[arg(long)]
        show: bool,
    },
    /// Write a secret, in place of what is there
    Write {
        /// Its path
        path: String,
        /// A key and the file with its value
        #[arg(long, value_name = "KEY=FILE")]
        from_file: Vec<String>,
        /// A key and its value; others on this machine can see it while this runs
        #[arg(long, value_name = "KEY=VALUE")]
        from_literal: Vec<String>,
    },
    /// Delete a secret or one key of it; a tombstone is left of a secret
    Delete {
        /// Its path
        path: String,
        /// Only this key
        #[arg(long)]
        key: Option<String>,
        /// Leave no tombstone
        #[arg(long, conflicts_with = "key")]
        purge: bool,
    },
    /// Make a blank token ours: give it a label, and the PIN
    Init {
        /// The label that it gets
        #[arg(long)]
        label: String,
        /// File with the security officer's PIN that it gets
        #[arg(long, value_name = "FILE")]
        so_pin_file: PathBuf,
    },
    /// Measure writes, reads and lists, and leave nothing behind
    Benchmark {
        /// How many secrets
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
        /// How many bytes each has
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
        size: u32,
    },
}
