//! The cluster's DNS: CoreDNS as a Deployment behind a Service, as in production.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::network::DNS_ADDRESS;
use super::{Cluster, command};
use crate::daemon;
use crate::wait;

const MANIFEST: &str = include_str!("coredns.yaml");
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(180);

/// Starts it, and returns when it answers at the address that pods are told. That takes a Ready pod, endpoints, and
/// kube-proxy in step with them, so a pod that starts afterwards finds all of it.
pub(super) fn start(cluster: &Cluster, probe: &Path) -> Result<()> {
    let manifest = cluster.site.dir().join("coredns.yaml");
    fs::write(&manifest, MANIFEST).context("write the manifest of CoreDNS")?;
    let mut apply = cluster.kubectl();
    command::run(apply.arg("apply").arg("--filename").arg(manifest), REQUEST_LIMIT)?;
    let server = format!("{DNS_ADDRESS}:53");
    let mut resolve = cluster.record.network.command(probe);
    resolve.args([
        "resolve",
        "-timeout=1s",
        "-server",
        &server,
        "kubernetes.default.svc.cluster.local",
    ]);
    // Should we be killed now, it can still be found in the namespace.
    resolve.env(daemon::MARKER, cluster.site.dir());
    let answers = wait::until("CoreDNS", LIMIT, || {
        Ok(command::run(&mut resolve, REQUEST_LIMIT).ok())
    });
    answers.map(drop).with_context(|| {
        let mut pods = cluster.kubectl();
        pods.args(["--namespace=kube-system", "describe", "pods"]);
        format!(
            "start CoreDNS; its pods:\n{}",
            command::run(&mut pods, REQUEST_LIMIT).unwrap_or_default()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::images;

    #[test]
    fn the_manifest_agrees_with_what_kubelets_are_told() {
        assert!(MANIFEST.contains(&format!("clusterIP: {DNS_ADDRESS}\n")));
        assert!(MANIFEST.contains(&format!("image: {}\n", images::COREDNS)));
    }
}
