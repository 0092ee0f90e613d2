//! The command lines of the components.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Component, Record, certificates};
use crate::daemon::Daemon;

const AUDIT_POLICY: &str = include_str!("audit-policy.yaml");

/// Where the audit log is.
pub(super) fn audit_log(cluster_dir: &Path) -> PathBuf {
    cluster_dir.join("audit.log")
}

fn audit_policy(cluster_dir: &Path) -> PathBuf {
    cluster_dir.join("audit-policy.yaml")
}

/// Puts the audit policy where the API server looks for it.
pub(super) fn write_audit_policy(cluster_dir: &Path) -> Result<()> {
    fs::write(audit_policy(cluster_dir), AUDIT_POLICY).context("write the audit policy")
}

/// A component with its flags.
pub(super) fn daemon(component: Component, cluster_dir: &Path, record: &Record) -> Daemon {
    let program = match component {
        Component::Etcd => record.etcd.join(component.name()),
        _ => record.kubernetes.join(component.name()),
    };
    let files = Files {
        dir: cluster_dir,
        pki: certificates::directory(cluster_dir),
    };
    let flags = match component {
        Component::Etcd => etcd(&files, record),
        Component::ApiServer => api_server(&files, record),
        Component::ControllerManager => controller_manager(&files, record),
        Component::Scheduler => scheduler(&files),
    };
    // The data goes with the cluster, so nobody gains from a long farewell.
    Daemon::new(component.name(), program)
        .args(flags)
        .wrapper(&record.options.wrapper)
        .grace(Duration::from_secs(5))
}

struct Files<'a> {
    dir: &'a Path,
    pki: PathBuf,
}

impl Files<'_> {
    fn pki(&self, file: &str) -> String {
        self.pki.join(file).display().to_string()
    }

    fn kubeconfig(&self, user: &str) -> String {
        certificates::kubeconfig(self.dir, user).display().to_string()
    }
}

fn etcd(files: &Files<'_>, record: &Record) -> Vec<String> {
    let client = format!("https://127.0.0.1:{}", record.etcd_port);
    let peer = format!("https://127.0.0.1:{}", record.etcd_peer_port);
    vec![
        "--name=etcd".into(),
        format!("--data-dir={}", files.dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=etcd={peer}"),
        "--client-cert-auth=true".into(),
        format!("--trusted-ca-file={}", files.pki("etcd-ca.crt")),
        format!("--cert-file={}", files.pki("etcd.crt")),
        format!("--key-file={}", files.pki("etcd.key")),
        "--peer-client-cert-auth=true".into(),
        format!("--peer-trusted-ca-file={}", files.pki("etcd-ca.crt")),
        format!("--peer-cert-file={}", files.pki("etcd.crt")),
        format!("--peer-key-file={}", files.pki("etcd.key")),
        // A development cluster need not survive a power cut, and waiting for the disk is most of what etcd does.
        "--unsafe-no-fsync=true".into(),
        "--log-level=warn".into(),
    ]
}

fn api_server(files: &Files<'_>, record: &Record) -> Vec<String> {
    let options = &record.options;
    let mut flags = vec![
        format!("--bind-address={}", options.bind),
        format!("--advertise-address={}", options.advertise),
        format!("--secure-port={}", record.api_port),
        format!("--service-cluster-ip-range={}", options.service_range),
        format!("--etcd-servers=https://127.0.0.1:{}", record.etcd_port),
        format!("--etcd-cafile={}", files.pki("etcd-ca.crt")),
        format!("--etcd-certfile={}", files.pki("etcd-client.crt")),
        format!("--etcd-keyfile={}", files.pki("etcd-client.key")),
        format!("--tls-cert-file={}", files.pki("kube-apiserver.crt")),
        format!("--tls-private-key-file={}", files.pki("kube-apiserver.key")),
        format!("--client-ca-file={}", files.pki("ca.crt")),
        format!("--kubelet-certificate-authority={}", files.pki("ca.crt")),
        format!("--kubelet-client-certificate={}", files.pki("kubelet-client.crt")),
        format!("--kubelet-client-key={}", files.pki("kubelet-client.key")),
        "--kubelet-preferred-address-types=InternalIP,Hostname".into(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
        format!("--service-account-key-file={}", files.pki("service-account.pub")),
        format!(
            "--service-account-signing-key-file={}",
            files.pki("service-account.key")
        ),
        "--authorization-mode=Node,RBAC".into(),
        // OpenShift has the second one on: with it, whoever names an owner needs rights for that.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement".into(),
        "--allow-privileged=true".into(),
    ];
    flags.extend(front_proxy(files));
    flags.extend(audit(files));
    // The API server refuses to publish a loopback address as the endpoint of its Service.
    if options.advertise.is_loopback() {
        flags.push("--endpoint-reconciler-type=none".into());
    }
    flags.extend(options.api_server_flags.iter().cloned());
    flags
}

/// How the API server speaks to aggregated API servers, and whom it believes as such.
fn front_proxy(files: &Files<'_>) -> Vec<String> {
    vec![
        format!(
            "--requestheader-client-ca-file={}",
            files.pki("front-proxy-ca.crt")
        ),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        format!("--proxy-client-cert-file={}", files.pki("front-proxy-client.crt")),
        format!("--proxy-client-key-file={}", files.pki("front-proxy-client.key")),
    ]
}

fn audit(files: &Files<'_>) -> Vec<String> {
    vec![
        format!("--audit-policy-file={}", audit_policy(files.dir).display()),
        format!("--audit-log-path={}", audit_log(files.dir).display()),
        "--audit-log-format=json".into(),
        // A request is in the log before its answer is sent, so a test never misses one.
        "--audit-log-mode=blocking".into(),
        // No rotation: a reader keeps its place in one file.
        "--audit-log-maxsize=0".into(),
    ]
}

fn controller_manager(files: &Files<'_>, record: &Record) -> Vec<String> {
    let kubeconfig = files.kubeconfig("kube-controller-manager");
    let mut flags = vec![
        format!("--kubeconfig={kubeconfig}"),
        "--use-service-account-credentials=true".into(),
        format!(
            "--service-account-private-key-file={}",
            files.pki("service-account.key")
        ),
        format!("--root-ca-file={}", files.pki("ca.crt")),
        format!("--cluster-signing-cert-file={}", files.pki("ca.crt")),
        format!("--cluster-signing-key-file={}", files.pki("ca.key")),
        // There is one of it, and it serves nobody.
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        // The default of 20 requests a second makes many small tests wait for each other.
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
    ];
    flags.extend(record.options.controller_manager_flags.iter().cloned());
    flags
}

fn scheduler(files: &Files<'_>) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", files.kubeconfig("kube-scheduler")),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
    ]
}
