//! The arguments of the capability.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use trustplane_kit::manager::Workbench;
use trustplane_sync_core::situation::Settings;
use trustplane_sync_providers::aws::{Aws, AwsError};
use trustplane_sync_providers::{Registry, env::Env, file::Files, kubernetes::Kubernetes};

/// How the capability works.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Secret sync")]
pub struct SyncArgs {
    /// What pods may ask for: what SecretSyncPolicies say, or everything
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    sync_policy: PolicyMode,
    /// How long a fetched value is new enough for another pod
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = duration)]
    sync_fresh_for: Duration,
    /// How often to look for a new value where the annotation says nothing; without it only on events
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    sync_refresh_interval: Option<Duration>,
    /// Value of the label app.kubernetes.io/managed-by on Secrets; those of JASM are recognised with any
    #[arg(long, default_value = "jasm", value_name = "VALUE")]
    sync_managed_by: String,
    /// Serve only these namespaces, separated by commas; roles in them are enough then
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    sync_namespaces: Option<Vec<String>>,
    /// Look only at pods with these labels, such as jasm.codnod.io/sync=true: it spares memory where few pods ask
    #[arg(long, value_name = "SELECTOR")]
    sync_pod_selector: Option<String>,
    /// Offer the provider "env": variables whose names begin with this; the rest of the name is the path
    #[arg(long, value_name = "PREFIX")]
    sync_env_prefix: Option<String>,
    /// Offer the provider "file": files and directories beneath this directory
    #[arg(long, value_name = "DIRECTORY")]
    sync_file_root: Option<PathBuf>,
    /// Offer the provider "kubernetes": Secrets of these namespaces, separated by commas, that agree to it
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    sync_kubernetes_namespaces: Option<Vec<String>>,
}

/// What decides about requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PolicyMode {
    /// The policies of the cluster; without any, a namespace may have what lies in the folder of its name
    #[default]
    Enforce,
    /// Every pod may ask for everything, and is told what the policies would deny
    Audit,
    /// Every pod may ask for everything, as in JASM
    Off,
}

/// Arguments that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgsError {
    /// A provider cannot be set up.
    #[error(transparent)]
    Aws(#[from] AwsError),
    /// That would offer the whole environment.
    #[error("--sync-env-prefix: must not be empty")]
    EmptyPrefix,
    /// There is no such directory.
    #[error("--sync-file-root: failed to open {}: {source}", root.display())]
    Root {
        /// The directory.
        root: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    parsed
        .ok()
        .and_then(|span| Duration::try_from(span).ok())
        .ok_or_else(|| "must be a duration such as 90s or 1h30m".to_owned())
}

impl SyncArgs {
    /// The namespaces to serve; all if none is named.
    pub(crate) fn namespaces(&self) -> Option<Vec<String>> {
        self.sync_namespaces.clone()
    }

    /// The namespaces that are named; none if all are served.
    pub(crate) fn served(&self) -> Vec<String> {
        let named = self.sync_namespaces.iter().flatten();
        named.filter(|name| !name.is_empty()).cloned().collect()
    }

    /// Which pods to look at; all if nothing is said.
    pub(crate) fn pod_selector(&self) -> Option<String> {
        self.sync_pod_selector.clone()
    }

    /// What decides about requests.
    pub(crate) fn policy(&self) -> PolicyMode {
        self.sync_policy
    }

    /// The files that providers and stores may read.
    pub(crate) fn files(&self) -> Result<Option<Arc<Files>>, ArgsError> {
        let Some(root) = &self.sync_file_root else {
            return Ok(None);
        };
        let files = Files::beneath(root).map_err(|source| ArgsError::Root {
            root: root.clone(),
            source,
        })?;
        Ok(Some(Arc::new(files)))
    }

    /// The providers of this process.
    pub(crate) fn registry(
        &self,
        bench: &Workbench,
        files: Option<Arc<Files>>,
    ) -> Result<Registry, ArgsError> {
        let mut registry = Registry::default().with(Aws::from_environment(&bench.metrics)?);
        if let Some(prefix) = &self.sync_env_prefix {
            registry = registry.with(Env::new(prefix).ok_or(ArgsError::EmptyPrefix)?);
        }
        if let Some(files) = files {
            registry = registry.with_shared(files);
        }
        if let Some(namespaces) = &self.sync_kubernetes_namespaces {
            let (client, watches) = (bench.clients.call.clone(), bench.watches.clone());
            let called = ("kubernetes".to_owned(), None);
            let namespaces = namespaces.iter().cloned();
            registry = registry.with(Kubernetes::new(
                client,
                watches,
                namespaces,
                called,
                &bench.metrics,
            ));
        }
        Ok(registry)
    }

    /// What the core needs to know.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            fresh_for: self.sync_fresh_for,
            refresh: self.sync_refresh_interval,
            managed_by: self.sync_managed_by.clone(),
        }
    }
}
