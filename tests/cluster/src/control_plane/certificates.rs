//! The keys of a control plane and the kubeconfigs of its users.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Record;
use crate::kubeconfig;
use crate::pki::{Authority, service_account_keys};

/// The users that the control plane itself needs, and the person who may do everything.
const USERS: [(&str, &str, Option<&str>); 3] = [
    ("admin", "kubernetes-admin", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
];

/// Where keys and certificates lie.
pub(super) fn directory(cluster_dir: &Path) -> PathBuf {
    cluster_dir.join("pki")
}

/// The kubeconfig of one of the users.
pub(super) fn kubeconfig(cluster_dir: &Path, user: &str) -> PathBuf {
    cluster_dir.join(format!("{user}.kubeconfig"))
}

/// Makes them all.
pub(super) fn issue(cluster_dir: &Path, record: &Record) -> Result<()> {
    let pki = directory(cluster_dir);
    let cluster = Authority::create(&pki, "ca")?;
    cluster.server("kube-apiserver", "kube-apiserver", &server_names(record)?)?;
    // What the API server shows to kubelets, so that logs and exec work.
    cluster.client(
        "kubelet-client",
        "kube-apiserver-kubelet-client",
        Some("system:masters"),
    )?;
    service_account_keys(&pki)?;
    let etcd = Authority::create(&pki, "etcd-ca")?;
    let etcd_names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    etcd.peer("etcd", "etcd", &etcd_names)?;
    etcd.client("etcd-client", "kube-apiserver", None)?;
    let front_proxy = Authority::create(&pki, "front-proxy-ca")?;
    front_proxy.client("front-proxy-client", "front-proxy-client", None)?;
    let name = cluster_dir
        .file_name()
        .and_then(|name| name.to_str())
        .context("name the cluster")?;
    for (file, user, group) in USERS {
        let certificate = cluster.client(file, user, group)?;
        let path = kubeconfig(cluster_dir, file);
        let context = format!("trustplane-{name}");
        kubeconfig::write(
            &path,
            &context,
            &record.url(),
            &cluster.files().certificate,
            &certificate,
        )?;
    }
    Ok(())
}

/// The names under which clients on the machine and in pods reach the API server.
fn server_names(record: &Record) -> Result<Vec<String>> {
    let options = &record.options;
    let mut names: Vec<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    .map(str::to_owned)
    .to_vec();
    let service = first_address(&options.service_range)?;
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), service, options.advertise];
    if !options.bind.is_unspecified() {
        addresses.push(options.bind);
    }
    names.extend(addresses.iter().map(IpAddr::to_string));
    names.extend(options.extra_names.iter().cloned());
    names.sort();
    names.dedup();
    Ok(names)
}

/// The address that the API server takes for its own Service: the first after the network's.
fn first_address(range: &str) -> Result<IpAddr> {
    let Some((network, _)) = range.split_once('/') else {
        bail!("{range} is not a range of addresses")
    };
    let network: Ipv4Addr = network
        .parse()
        .with_context(|| format!("understand the range {range}"))?;
    Ok(Ipv4Addr::from_bits(network.to_bits() + 1).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_of_the_api_server_has_the_first_address() {
        assert_eq!(first_address("10.96.0.0/16").unwrap().to_string(), "10.96.0.1");
        assert!(first_address("10.96.0.0").is_err());
    }
}
