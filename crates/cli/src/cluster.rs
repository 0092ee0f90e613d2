//! The way to the cluster: the flags that kubectl has, and calls that end.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use trustplane_kit::apply::WriteError;
use trustplane_kit::read::read_object;
use trustplane_plan::{Kind, ObjectRef};

/// Which cluster, and where in it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The kubeconfig file; otherwise as kubectl finds it.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Look only at the installation in this namespace.
    #[arg(long, short, global = true, value_name = "NAME")]
    namespace: Option<String>,
    /// How many seconds a single request may take.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 10)]
    request_timeout: u64,
}

/// A cluster that can be asked.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    /// The namespace to look at; `None` for all.
    pub namespace: Option<String>,
    /// The namespace of the context, for users who may not look at all.
    pub home: String,
    deadline: Duration,
}

/// Why something could not be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The user may not look.
    Forbidden,
    /// The cluster did not answer, or not in a way that makes sense.
    Failed(String),
}

/// What was seen, or why not.
pub type Seen<T> = Result<T, Obstacle>;

impl ClusterArgs {
    /// Makes a client; nothing is sent yet.
    pub async fn connect(&self) -> Result<Cluster> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
                Config::from_custom_kubeconfig(file, &options)
                    .await
                    .context("understand the kubeconfig")?
            }
            None if self.context.is_some() => Config::from_kubeconfig(&options)
                .await
                .context("understand the kubeconfig")?,
            None => Config::infer()
                .await
                .context("find a cluster: no kubeconfig was found")?,
        };
        // A 503 is something to tell, such as a Service that nobody stands behind, and not to wait for.
        config.default_retry = false;
        let home = config.default_namespace.clone();
        let client = Client::try_from(config).context("make a client")?;
        Ok(Cluster {
            client,
            namespace: self.namespace.clone(),
            home,
            deadline: Duration::from_secs(self.request_timeout),
        })
    }
}

impl Cluster {
    /// A cluster of a test.
    #[cfg(test)]
    pub fn of(client: Client, home: &str) -> Self {
        Self {
            client,
            namespace: None,
            home: home.to_owned(),
            deadline: Duration::from_secs(10),
        }
    }

    /// Waits for an answer, but not for ever.
    pub async fn ask<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Seen<T> {
        match tokio::time::timeout(self.deadline, request).await {
            Err(_) => Err(self.late()),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => Err(Obstacle::Forbidden),
            Ok(Err(kube::Error::Api(status))) => Err(Obstacle::Failed(status.message.clone())),
            Ok(Err(error)) => Err(Obstacle::Failed(chain(&error))),
        }
    }

    /// Some fields of an object, which must exist. An object may hold values, so this and [`Cluster::find`] are the only ways to read
    /// one by its name.
    pub async fn read<T: DeserializeOwned>(&self, kind: &Kind, object: &ObjectRef) -> Seen<T> {
        let found = self.find(kind, object).await?;
        found.ok_or_else(|| Obstacle::Failed("it does not exist".to_owned()))
    }

    /// Some fields of an object; `None` if it does not exist.
    pub async fn find<T: DeserializeOwned>(&self, kind: &Kind, object: &ObjectRef) -> Seen<Option<T>> {
        let read = tokio::time::timeout(self.deadline, read_object(&self.client, kind, object));
        match read.await {
            Err(_) => Err(self.late()),
            Ok(Ok(found)) => Ok(found),
            Ok(Err(WriteError::Forbidden { .. })) => Err(Obstacle::Forbidden),
            // Whoever reads tells what.
            Ok(Err(WriteError::Unavailable { problem, .. })) => Err(Obstacle::Failed(problem)),
            Ok(Err(WriteError::WrongAnswer(_))) => Err(Obstacle::Failed(
                "the API server's answer is not this object".to_owned(),
            )),
            Ok(Err(error)) => Err(Obstacle::Failed(error.to_string())),
        }
    }

    fn late(&self) -> Obstacle {
        Obstacle::Failed(format!("no answer within {} s", self.deadline.as_secs()))
    }

    /// The server's clock, so that the user's need not be right.
    pub async fn now(&self) -> Seen<Timestamp> {
        let request = http::Request::get("/version")
            .body(Body::empty())
            .map_err(|error| Obstacle::Failed(error.to_string()))?;
        let response = self.ask(self.client.send(request)).await?;
        let date = response
            .headers()
            .get(http::header::DATE)
            .and_then(|date| date.to_str().ok());
        date.and_then(|date| rfc2822::parse(date).ok())
            .map(|date| date.timestamp())
            .ok_or_else(|| Obstacle::Failed("the server did not tell the time".to_owned()))
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Forbidden => f.write_str("you may not look at it"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// An error with its causes, each once: some errors repeat their cause in their own text.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
