//! The sample at work: a Secret, and a mirror of it that has to follow.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use trustplane_cluster::wait;

use crate::{Release, say};

/// The kind that the sample serves.
pub const DEFINITION: &str = "mirrors.test.trustplane.io";
/// How long the cluster may take to get somewhere.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl Release<'_> {
    /// Makes a Secret and a mirror of it, and waits until the copy is there and the mirror says so.
    pub fn mirrors_work(&self, name: &str) -> Result<()> {
        let source = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"greeting": format!("hello {name}")},
            "metadata": {"name": name, "namespace": self.name(), "labels": {"test.trustplane.io/source": ""}},
        });
        let mirror = json!({
            "apiVersion": "test.trustplane.io/v1", "kind": "Mirror",
            "metadata": {"name": name, "namespace": self.name()},
            "spec": {"source": name, "targets": [format!("{name}-copy")]},
        });
        self.apply(&source)?;
        self.apply(&mirror)?;
        let limit = format!("--timeout={}s", PATIENCE.as_secs());
        let object = format!("{DEFINITION}/{name}");
        say(&mut self.kubectl(&["wait", &object, "--for=condition=Ready", &limit]))?;
        let data = |secret: &str| {
            self.read(&["get", "secret", secret])
                .map(|secret| secret["data"].clone())
        };
        ensure!(
            data(&format!("{name}-copy"))? == data(name)?,
            "the copy of {name} differs from it"
        );
        Ok(())
    }

    /// Deletes a mirror and its source, and waits until the copy is gone.
    pub fn mirrors_clean_up(&self, name: &str) -> Result<()> {
        say(&mut self.kubectl(&["delete", DEFINITION, name, "--timeout=60s"]))?;
        say(&mut self.kubectl(&["delete", "secret", name]))?;
        wait::until("the copy to go", PATIENCE, || {
            let found =
                say(&mut self.kubectl(&["get", "secret", &format!("{name}-copy"), "--ignore-not-found"]))?;
            Ok(found.is_empty().then_some(()))
        })
    }
}
