//! One node: a containerd and a kubelet that share a mount namespace, with a directory of their own for each place that
//! they take for the machine's.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::network::Network;
use super::{command, settings};
use crate::control_plane::ControlPlane;
use crate::daemon::{self, Daemon};
use crate::identity::Identity;
use crate::kubeconfig;
use crate::pki::Authority;
use crate::site::Construction;
use crate::wait;

/// What a node puts its own in the place of. Everything below is the node's: the sockets of device plugins, whose path
/// kubelet does not let us choose, the volumes of pods, the logs, the sockets of shims.
pub(super) const REPLACED: [&str; 3] = ["/var/lib", "/var/log", "/run"];

/// Mounts of the node stay in its namespace and vanish with its last process, and containers that ask for it see each
/// other's (CSI drivers do).
const FURNISH: &str = r#"
mount --bind "$1/lib" /var/lib
mount --bind "$1/log" /var/log
mount -t tmpfs -o mode=0755 tmpfs /run
mount --make-rshared /
shift
exec "$@""#;

/// Generous, as the others: it decides only how soon a failure is reported.
const START_LIMIT: Duration = Duration::from_secs(120);
const IMPORT_LIMIT: Duration = Duration::from_secs(300);
const LOG_LINES: usize = 25;

/// A node of a cluster.
#[derive(Debug, Clone)]
pub struct Node {
    number: u8,
    /// Whether it is the only one of its cluster.
    alone: bool,
    cluster_dir: PathBuf,
}

impl Node {
    pub(super) fn new(cluster_dir: &Path, number: u8, alone: bool) -> Self {
        Self {
            number,
            alone,
            cluster_dir: cluster_dir.to_owned(),
        }
    }

    /// Its name in Kubernetes.
    pub fn name(&self) -> String {
        format!("node-{}", self.number)
    }

    /// Its address inside the cluster.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 244, 0, 10 + self.number)
    }

    fn directory(&self) -> PathBuf {
        self.cluster_dir.join(self.name())
    }

    /// What the node has as `/var/lib`.
    pub fn state_directory(&self) -> PathBuf {
        self.directory().join("lib")
    }

    /// A place for a token of SoftHSM, as whoever runs the node makes it: the directory `/var/lib/softhsm/<name>` of the node,
    /// with a `softhsm2.conf`, for this user.
    pub fn make_room_for_token(&self, name: &str, user: u32) -> Result<()> {
        let home = self.state_directory().join("softhsm").join(name);
        let tokens = home.join("tokens");
        fs::create_dir_all(&tokens).with_context(|| format!("create {}", tokens.display()))?;
        let configuration = home.join("softhsm2.conf");
        let text = format!("directories.tokendir = /var/lib/softhsm/{name}/tokens\n");
        fs::write(&configuration, text).with_context(|| format!("write {}", configuration.display()))?;
        for path in [home, tokens, configuration] {
            chown(&path, Some(user), Some(user)).with_context(|| format!("give away {}", path.display()))?;
        }
        Ok(())
    }

    /// Its containerd, by the name of its process.
    pub(super) fn containerd(&self) -> String {
        format!("containerd-{}", self.name())
    }

    /// Its kubelet, likewise.
    pub(super) fn kubelet(&self) -> String {
        format!("kubelet-{}", self.name())
    }

    /// Starts its containerd, and with it the mount namespace.
    pub(super) fn start_containerd(
        &self,
        construction: &mut Construction,
        network: &Network,
    ) -> Result<Identity> {
        for directory in [
            self.directory().join("log"),
            self.state_directory(),
            self.directory().join("cni"),
        ] {
            fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        }
        network.add_node(self.address())?;
        let cni = self.directory().join("cni");
        self.write(
            "cni/pods.conflist",
            settings::pod_network(self.number).to_string(),
        )?;
        let configuration = self.write("containerd.toml", settings::containerd(&cni))?;
        let mut wrapper = network.wrapper();
        wrapper.extend(
            [
                "unshare",
                "--mount",
                "--propagation=private",
                "sh",
                "-ec",
                FURNISH,
                "node",
            ]
            .map(str::to_owned),
        );
        wrapper.push(self.directory().display().to_string());
        let daemon = Daemon::new(self.containerd(), "containerd")
            .wrapper(wrapper)
            .arg("--config")
            .arg(configuration);
        construction.start(&daemon)
    }

    /// Waits for its containerd to answer.
    pub(super) fn await_containerd(&self, construction: &Construction, containerd: &Identity) -> Result<()> {
        self.await_process(construction, &self.containerd(), containerd, || {
            // Before the socket is there, the namespace may not be furnished either.
            let socket = format!("/proc/{}/root{}", containerd.pid(), settings::CONTAINERD_SOCKET);
            let answers =
                || command::run(self.ctr(containerd).arg("version"), Duration::from_secs(5)).is_ok();
            Ok(Path::new(&socket).exists() && answers())
        })
    }

    /// Puts the images of an archive into its store.
    pub(super) fn import(&self, containerd: &Identity, archive: &Path) -> Result<()> {
        let mut import = self.ctr(containerd);
        // The bytes come through a descriptor, as the node need not see the place where the archive lies.
        import.args(["--namespace=k8s.io", "images", "import", "-"]);
        let file = fs::File::open(archive).with_context(|| format!("open {}", archive.display()))?;
        command::run_with_input(&mut import, file, IMPORT_LIMIT)
            .with_context(|| format!("load {} into {}", archive.display(), self.name()))
            .map(drop)
    }

    /// Starts its kubelet, in the mount namespace of its containerd.
    pub(super) fn start_kubelet(
        &self,
        construction: &mut Construction,
        network: &Network,
        plane: &ControlPlane,
        group: &str,
    ) -> Result<Identity> {
        let containerd = construction
            .state()
            .process(&self.containerd())
            .context("the node has no containerd")?;
        let mut wrapper = network.wrapper();
        wrapper.push(format!("--mount=/proc/{}/ns/mnt", containerd.pid()));
        let (kubeconfig, configuration) = self.configure_kubelet(plane, group)?;
        let daemon = Daemon::new(self.kubelet(), plane.kubernetes().join("kubelet"))
            .wrapper(wrapper)
            .arg("--config")
            .arg(configuration)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg(format!("--hostname-override={}", self.name()))
            .arg(format!("--node-ip={}", self.address()));
        construction.start(&daemon)
    }

    /// Waits for the node to be Ready in the eyes of the API server, which `ready` asks.
    pub(super) fn await_kubelet(
        &self,
        construction: &Construction,
        kubelet: &Identity,
        ready: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        self.await_process(construction, &self.kubelet(), kubelet, ready)
    }

    fn configure_kubelet(&self, plane: &ControlPlane, group: &str) -> Result<(PathBuf, PathBuf)> {
        let name = self.name();
        let authority = Authority::open(&plane.pki(), "ca")?;
        let client = authority.client(&name, &format!("system:node:{name}"), Some("system:nodes"))?;
        let mut names = vec![name.clone(), self.address().to_string()];
        names.extend(self.alone.then(|| Ipv4Addr::LOCALHOST.to_string()));
        let server = authority.server(&format!("{name}-serving"), &name, &names)?;
        let path = self.directory().join("kubelet.kubeconfig");
        kubeconfig::write(&path, plane.name().as_str(), &plane.url(), &plane.ca(), &client)?;
        let configuration = settings::Kubelet {
            address: self.address(),
            alone: self.alone,
            control_group: &format!("/{group}/{name}"),
            authority: &plane.ca(),
            certificate: &server.certificate,
            key: &server.key,
            resolv_conf: &self.write("resolv.conf", String::new())?,
        };
        Ok((
            path,
            self.write("kubelet.json", configuration.configuration().to_string())?,
        ))
    }

    fn await_process(
        &self,
        construction: &Construction,
        name: &str,
        process: &Identity,
        mut ready: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        wait::until(name, START_LIMIT, || {
            if !process.alive()? {
                bail!("{name} has ended");
            }
            Ok(ready()?.then_some(()))
        })
        .with_context(|| {
            let log = daemon::log_tail(&construction.dir(), name, LOG_LINES);
            format!("start {name}; the end of its log:\n{log}")
        })
    }

    fn write(&self, file: &str, content: String) -> Result<PathBuf> {
        let path = self.directory().join(file);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// The client of its containerd, in its mount namespace. It carries the marker: should we be killed while it loads
    /// an image, it can still be found.
    fn ctr(&self, containerd: &Identity) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", containerd.pid()))
            .arg("ctr")
            .env(daemon::MARKER, &self.cluster_dir);
        command
    }
}
