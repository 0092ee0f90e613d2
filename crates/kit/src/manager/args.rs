//! The arguments of a manager.

use clap::{Parser, Subcommand};
use trustplane_process::args::{BindAddress, CommonArgs};

use crate::clients::KubeArgs;

/// The name of a process that was given none.
const NAME: &str = "trustplane-manager";

/// All controllers of the capabilities that you choose, in one process.
#[derive(Debug, Parser)]
#[command(
    after_help = "Every flag is also an environment variable, and a key of the file that --config names. A flag beats \
                  the environment, and the environment beats the file."
)]
pub(super) struct Arguments<M: clap::Args> {
    #[command(flatten)]
    pub(super) manager: ManagerArgs,
    /// What the capabilities of this binary take.
    #[command(flatten)]
    pub(super) more: M,
}

impl<M: clap::Args> AsRef<CommonArgs> for Arguments<M> {
    fn as_ref(&self) -> &CommonArgs {
        &self.manager.common
    }
}

/// For a manager whose capabilities take no arguments of their own.
#[derive(Debug, clap::Args)]
pub struct NoMore {}

/// What every manager takes.
#[derive(Debug, clap::Args)]
pub struct ManagerArgs {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    /// Capabilities to run, separated by commas; without it those whose CRDs and rights exist
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(super) capabilities: Option<Vec<String>>,
    /// Run as one of several replicas, of which one leads
    #[arg(
        long,
        default_value = "true",
        action = clap::ArgAction::Set
    )]
    pub(super) leader_elect: bool,
    /// Name of this process: of its Lease, its Service, its webhook configurations, and the prefix of its Secrets
    #[arg(long, default_value = NAME, value_name = "NAME")]
    pub(super) name: String,
    /// Namespace of the installation; without it that of the pod, or of the kubeconfig
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Name of this pod, for the lease and the audit log; without it the name of the host
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub(super) pod: Option<String>,
    /// Print what would be done, and write nothing; it can run beside the one that works
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Address of the admission webhooks
    #[arg(long, default_value = ":9443", value_name = "ADDRESS")]
    pub(super) webhook_bind_address: BindAddress,
    #[command(flatten)]
    pub(super) kube: KubeArgs,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl ManagerArgs {
    /// The namespace of the installation: as told, or else where we run.
    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// Where we run, for when nobody told.
    pub(super) fn run_in(&mut self, namespace: &str) {
        self.namespace.get_or_insert_with(|| namespace.to_owned());
    }

    /// Whether the process has no name of its own.
    pub(super) fn is_nameless(&self) -> bool {
        self.name == NAME
    }

    /// Whether it takes part in the election. A dry run does not: it would keep the one that works from working.
    pub(super) fn elects(&self) -> bool {
        self.leader_elect && !self.dry_run
    }
}

/// What a manager can do besides running.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Command {
    /// Print the capabilities of this build with their rights, CRDs and webhooks, as JSON
    Describe,
}
