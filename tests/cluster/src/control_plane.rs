//! The control plane: etcd, API server, controller manager and scheduler, as in production but for their number.
//!
//! ```no_run
//! use trustplane_cluster::control_plane::{ControlPlane, Options};
//!
//! let control_plane = ControlPlane::up("dev", &Options::default())?;
//! println!("export KUBECONFIG={}", control_plane.kubeconfig().display());
//! trustplane_cluster::control_plane::down("dev")?;
//! # Ok::<(), anyhow::Error>(())
//! ```

mod certificates;
mod flags;
mod readiness;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::identity::Identity;
use crate::site::{self, Construction, Site};
use crate::state::{ClusterName, State};
use crate::tools::{Tool, Toolchain};

/// The name under which the control plane keeps its record in the state file.
const NOTE: &str = "control-plane";

/// One of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection, service accounts, namespaces, workloads.
    ControllerManager,
    /// Assigns pods to nodes.
    Scheduler,
}

impl Component {
    /// The name of its binary, its log and its process in the state file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }
}

/// How a control plane is to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Run the controller manager.
    pub controller_manager: bool,
    /// Run the scheduler.
    pub scheduler: bool,
    /// The address that etcd and the API server listen on.
    pub bind: IpAddr,
    /// The address under which clients, and pods, find the API server.
    pub advertise: IpAddr,
    /// More DNS names and addresses for the certificate of the API server.
    pub extra_names: Vec<String>,
    /// A command that goes before each process, such as `nsenter --net=…`; see [`crate::daemon::Daemon::wrapper`].
    pub wrapper: Vec<String>,
    /// Where Services get their addresses from; the first is the API server's own.
    pub service_range: String,
    /// More flags for the API server.
    pub api_server_flags: Vec<String>,
    /// More flags for the controller manager.
    pub controller_manager_flags: Vec<String>,
    /// The process the cluster lives for; see [`site::down_orphans`].
    #[serde(skip)]
    pub owner: Option<Identity>,
}

impl Default for Options {
    /// All components, on loopback.
    fn default() -> Self {
        Self {
            controller_manager: true,
            scheduler: true,
            bind: Ipv4Addr::LOCALHOST.into(),
            advertise: Ipv4Addr::LOCALHOST.into(),
            extra_names: Vec::new(),
            wrapper: Vec::new(),
            service_range: "10.96.0.0/16".into(),
            api_server_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
            owner: None,
        }
    }
}

/// What has to be known of a control plane to use it, and to start one of its components again.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    options: Options,
    etcd_port: u16,
    etcd_peer_port: u16,
    api_port: u16,
    kubernetes: PathBuf,
    etcd: PathBuf,
}

impl Record {
    fn url(&self) -> String {
        format!(
            "https://{}",
            std::net::SocketAddr::new(self.options.advertise, self.api_port)
        )
    }
}

/// A control plane that is up.
#[derive(Debug, Clone)]
pub struct ControlPlane {
    site: Site,
    record: Record,
    timings: Vec<(&'static str, Duration)>,
}

impl ControlPlane {
    /// Starts a control plane in the user's cache, or returns the one that runs already with the same options.
    pub fn up(name: &str, options: &Options) -> Result<Self> {
        Self::up_in(&Cache::locate()?, name, options)
    }

    /// The same in a cache of the caller's choice.
    pub fn up_in(cache: &Cache, name: &str, options: &Options) -> Result<Self> {
        let toolchain = Toolchain::new(cache);
        toolchain.ensure_all(&Tool::CONTROL_PLANE)?;
        // Runs that were killed could not end their clusters; nobody else will.
        site::down_orphans(cache)?;
        let site = Site::new(cache, name.parse()?);
        let locked = site.lock()?;
        if let Some(state) = locked.running()? {
            let running = Self::of(site, &state)?;
            if running.record.options
                != (Options {
                    owner: None,
                    ..options.clone()
                })
            {
                bail!("cluster {name} runs with other options: end it first, or choose another name");
            }
            return Ok(running);
        }
        let mut construction = locked.build(options.owner.clone())?;
        let control_plane = Self::build(&mut construction, cache, options)?;
        construction.finish()?;
        Ok(control_plane)
    }

    /// Starts a control plane as a part of a larger construction, and returns when it is ready.
    pub fn build(construction: &mut Construction, cache: &Cache, options: &Options) -> Result<Self> {
        let toolchain = Toolchain::new(cache);
        let [etcd_port, etcd_peer_port, api_port] = construction.reserve_ports()?;
        let record = Record {
            options: Options {
                owner: None,
                ..options.clone()
            },
            etcd_port,
            etcd_peer_port,
            api_port,
            kubernetes: toolchain.ensure(Tool::Kubernetes)?,
            etcd: toolchain.ensure(Tool::Etcd)?,
        };
        construction.note(NOTE, &record)?;
        let site = Site::new(cache, construction.name().clone());
        let mut control_plane = Self {
            site,
            record,
            timings: Vec::new(),
        };
        control_plane.timed("certificates", |plane| {
            certificates::issue(&plane.dir(), &plane.record)?;
            flags::write_audit_policy(&plane.dir())
        })?;
        control_plane.timed("etcd", |plane| plane.start(construction, Component::Etcd))?;
        control_plane.timed("kube-apiserver", |plane| {
            plane.start(construction, Component::ApiServer)
        })?;
        // The scheduler needs nobody to wait for it; the controller manager is ready when it has done some work.
        if options.scheduler {
            construction.start(&flags::daemon(
                Component::Scheduler,
                &control_plane.dir(),
                &control_plane.record,
            ))?;
        }
        if options.controller_manager {
            control_plane.timed("kube-controller-manager", |plane| {
                plane.start(construction, Component::ControllerManager)
            })?;
        }
        Ok(control_plane)
    }

    /// The control plane of a cluster that is up.
    pub fn open(name: &str) -> Result<Self> {
        Self::open_in(&Cache::locate()?, name)
    }

    /// The same in a cache of the caller's choice.
    pub fn open_in(cache: &Cache, name: &str) -> Result<Self> {
        let site = Site::new(cache, name.parse()?);
        match site.state()? {
            Some(state) if state.ready() => Self::of(site, &state),
            _ => bail!("cluster {name} is not up: `cargo xtask cluster up --name {name}` starts it"),
        }
    }

    fn of(site: Site, state: &State) -> Result<Self> {
        let record = state
            .note(NOTE)?
            .with_context(|| format!("cluster {} has no control plane", site.name()))?;
        Ok(Self {
            site,
            record,
            timings: Vec::new(),
        })
    }

    /// The cluster's name.
    pub fn name(&self) -> &ClusterName {
        self.site.name()
    }

    /// The cluster's directory.
    pub fn dir(&self) -> PathBuf {
        self.site.dir()
    }

    /// The kubeconfig of a user who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        certificates::kubeconfig(&self.dir(), "admin")
    }

    /// The audit log: a JSON object per line.
    pub fn audit_log(&self) -> PathBuf {
        flags::audit_log(&self.dir())
    }

    /// The address of the API server.
    pub fn url(&self) -> String {
        self.record.url()
    }

    /// The certificate of the authority that clients trust.
    pub fn ca(&self) -> PathBuf {
        self.pki().join("ca.crt")
    }

    /// The directory of keys and certificates, where [`crate::pki::Authority::open`] finds the authority `ca`.
    pub fn pki(&self) -> PathBuf {
        certificates::directory(&self.dir())
    }

    /// The directory with `kubectl` and the rest of Kubernetes.
    pub fn kubernetes(&self) -> &Path {
        &self.record.kubernetes
    }

    /// How long each step of `up` took; nothing for a control plane that was up before.
    pub fn timings(&self) -> &[(&'static str, Duration)] {
        &self.timings
    }

    /// The process of a component, if it was started.
    pub fn process(&self, component: Component) -> Result<Option<Identity>> {
        Ok(self
            .site
            .state()?
            .and_then(|state| state.process(component.name()).cloned()))
    }

    /// Ends a component as an operator would, or a crash: SIGTERM first, or SIGKILL at once when `grace` is zero.
    pub fn stop(&self, component: Component, grace: Duration) -> Result<()> {
        let mut construction = self.site.lock()?.reopen()?;
        construction.stop(component.name(), grace)
    }

    /// Starts a component that was stopped, with the same data, keys and ports, and returns when it is ready.
    pub fn restart(&self, component: Component) -> Result<()> {
        let mut construction = self.site.lock()?.reopen()?;
        construction.stop(component.name(), Duration::from_secs(5))?;
        self.start(&mut construction, component)
    }

    fn start(&self, construction: &mut Construction, component: Component) -> Result<()> {
        let dir = self.dir();
        let process = construction.start(&flags::daemon(component, &dir, &self.record))?;
        readiness::wait(component, &process, &dir, &self.record)
    }

    fn timed(&mut self, step: &'static str, work: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let started = Instant::now();
        work(self)?;
        self.timings.push((step, started.elapsed()));
        Ok(())
    }
}

/// Ends a cluster in the user's cache; one that does not exist is no error.
pub fn down(name: &str) -> Result<()> {
    site::down(&Cache::locate()?, &name.parse()?)
}

/// Ends a cluster in the user's cache together with those whose names continue its name after a `-`.
pub fn down_all(name: &str) -> Result<()> {
    site::down_family(&Cache::locate()?, &name.parse()?)
}
