//! Where the story plays: a cluster of our own, or somebody's; the images; and the tools that the commands need.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use trustplane_cluster::cache::Cache;
use trustplane_cluster::identity::Identity;
use trustplane_cluster::node::{Claim, Cluster, spire};
use trustplane_cluster::progress::Progress;
use trustplane_cluster::tools::{Tool, Toolchain, debian};
use trustplane_cluster::{interrupt, node, site};

use super::background::Background;
use super::scene::Audience;
use crate::image::{self, Image, Profile};
use crate::run;

/// The namespaces of the story. All of them are the demo's own, so that it can remove them with what they hold.
const NAMESPACES: &str = "trustplane shop tokens";
/// How long a command that stays may take until it says that it is ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// The claim of spire-server. A cluster of our own has no storage provisioner, so its volume is made beforehand.
const SPIRE_DATA: Claim<'_> = Claim {
    namespace: "zero-trust-workload-identity-manager",
    name: "spire-data-spire-server-0",
    user: 1000,
};

/// A cluster with what the story needs.
pub struct Stage {
    kubeconfig: PathBuf,
    /// The tools and the plugin first.
    path: OsString,
    tools: Vec<PathBuf>,
    whose: Whose,
    /// What the story has started and left running.
    background: Mutex<Vec<Background>>,
}

enum Whose {
    /// Made by us under this name, and removed by us.
    Ours { name: String },
    /// Somebody's: we take away what we brought.
    Theirs,
}

impl Stage {
    /// Builds everything, down to the cluster.
    pub fn build(name: &str, audience: Audience) -> Result<Self> {
        let cache = Cache::locate()?;
        site::down_orphans(&cache).context("clear away what an earlier run left")?;
        if node::open(name).is_ok() {
            bail!("a demo runs already; `cargo xtask cluster down --name {name}` ends it");
        }
        debian::install(&debian::missing(true)?)?;
        audience.check()?;
        let mut tools = Tool::NODES.to_vec();
        tools.push(Tool::Helm);
        let toolchain = Toolchain::new(&cache);
        let directories = toolchain.ensure_all(&tools)?;
        spire::images(&cache).context("make the images of SPIRE")?;
        // Before anything is compiled: every build embeds it.
        toolchain.ensure(Tool::Console)?;
        let plugin = plugin()?;
        let images = images(&cache)?;

        let progress = Progress::begin("start a cluster with one node");
        let options = node::Options {
            nodes: node::Count::One,
            owner: Some(Identity::own()?),
        };
        let cluster = node::up(name, &options)?;
        progress.finish();
        let ours = Whose::Ours {
            name: name.to_owned(),
        };
        let stage = Self::new(cluster.control_plane().kubeconfig(), directories, &plugin, ours)?;
        let loaded = images.iter().try_for_each(|image| {
            interrupt::check()?;
            cluster.load_image(&image.archive)
        });
        let furnished = loaded.and_then(|()| cluster.load_spire(&cache).map(drop));
        match furnished
            .context("load the images")
            .and_then(|()| furnish(&cluster))
        {
            Ok(()) => Ok(stage),
            Err(error) => {
                stage.clear()?;
                Err(error)
            }
        }
    }

    /// Whether the cluster is one of our own.
    pub fn is_ours(&self) -> bool {
        matches!(self.whose, Whose::Ours { .. })
    }

    /// Uses a cluster that is there already.
    pub fn borrow(kubeconfig: &Path, audience: Audience) -> Result<Self> {
        audience.check()?;
        let kubeconfig = std::path::absolute(kubeconfig)?;
        let cache = Cache::locate()?;
        let toolchain = Toolchain::new(&cache);
        let directories = toolchain.ensure_all(&[Tool::Kubernetes, Tool::Helm])?;
        toolchain.ensure(Tool::Console)?;
        let plugin = plugin()?;
        let images = images(&cache)?;
        println!(
            "The nodes of this cluster need these images. If they lack any, load them while the chart waits:"
        );
        for image in &images {
            println!("  {}  as {}", image.archive.display(), image.reference);
        }
        let stage = Self::new(kubeconfig, directories, &plugin, Whose::Theirs)?;
        let found = stage.run(&format!(
            "kubectl get namespaces --ignore-not-found -o name {NAMESPACES}"
        ))?;
        let found: Vec<_> = found.lines().collect();
        if !found.is_empty() {
            bail!(
                "the cluster has {} already, and the demo would remove what is in there: it needs these namespaces for itself: \
                 {NAMESPACES}",
                found.join(" and ")
            );
        }
        Ok(stage)
    }

    fn new(kubeconfig: PathBuf, mut tools: Vec<PathBuf>, plugin: &Path, whose: Whose) -> Result<Self> {
        tools.extend(plugin.parent().map(Path::to_owned));
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(tools.iter().cloned().chain(std::env::split_paths(&inherited)))?;
        Ok(Self {
            kubeconfig,
            path,
            tools,
            whose,
            background: Mutex::default(),
        })
    }

    /// Starts a command that stays until the stage is cleared, and gives the first line that begins with `sign`.
    pub fn start(&self, line: &str, sign: &str) -> Result<String> {
        let mut started = Background::start(line, |command| {
            self.dress(command);
        })?;
        let found = started.hear(PATIENCE, |line| {
            Ok(line.starts_with(sign).then(|| line.to_owned()))
        })?;
        self.background
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(started);
        Ok(found)
    }

    /// The command, in the environment in which the person's would run.
    pub fn dress<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(run::root())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", &self.path)
    }

    /// The line that gives a person's terminal the same environment.
    pub fn environment(&self) -> String {
        let tools: Vec<_> = self
            .tools
            .iter()
            .map(|directory| directory.display().to_string())
            .collect();
        format!(
            "export KUBECONFIG={} PATH={}:$PATH",
            self.kubeconfig.display(),
            tools.join(":")
        )
    }

    /// Shows what the cluster says of a failure, before it is gone.
    pub fn explain(&self) {
        for line in [
            "kubectl get pods --all-namespaces -o wide",
            "kubectl get events --namespace trustplane --sort-by=.lastTimestamp",
            "kubectl logs --namespace trustplane --selector app.kubernetes.io/name=trustplane --tail=30",
            "kubectl get obsykagents --namespace trustplane -o yaml",
            "kubectl get events --namespace tokens --sort-by=.lastTimestamp",
            "kubectl get hsmpools,configmaps --namespace tokens -o yaml",
            "kubectl logs --namespace tokens --selector app.kubernetes.io/component=hsm-agent --tail=30 --prefix",
            "kubectl get hsmsecrets --namespace vault-shop -o yaml",
            "kubectl get events --namespace vault-shop --sort-by=.lastTimestamp",
            "kubectl get ztwim,spireservers,spireagents,spiffecsidrivers,spireoidcdiscoveryproviders -o yaml",
            "kubectl get events --namespace zero-trust-workload-identity-manager --sort-by=.lastTimestamp",
            "kubectl logs --namespace zero-trust-workload-identity-manager --tail=30 --prefix --all-containers \
             --selector app.kubernetes.io/part-of=zero-trust-workload-identity-manager",
            "kubectl get events --namespace identity-shop --sort-by=.lastTimestamp",
            "kubectl logs reader --namespace identity-shop --tail=30",
        ] {
            eprintln!("\n$ {line}");
            match self.run(line) {
                Ok(said) => eprint!("{said}"),
                Err(error) => eprintln!("{error:#}"),
            }
        }
    }

    /// Takes away everything that the demo made.
    pub fn clear(&self) -> Result<()> {
        let progress = Progress::begin("clean up");
        self.background
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        match &self.whose {
            Whose::Ours { name } => trustplane_cluster::down(name)?,
            Whose::Theirs => {
                self.run("helm uninstall trustplane --namespace trustplane --ignore-not-found --wait")?;
                self.run(&format!(
                    "kubectl delete namespace {NAMESPACES} --ignore-not-found"
                ))?;
            }
        }
        progress.finish();
        if matches!(self.whose, Whose::Theirs) {
            println!(
                "CRDs are kept, with what they hold: kubectl delete crd --selector app.kubernetes.io/part-of=trustplane"
            );
        }
        Ok(())
    }

    /// Runs a shell line of the story to its end.
    pub fn run(&self, line: &str) -> Result<String> {
        run::output(self.dress(Command::new("sh").args(["-c", line])))
    }
}

/// Makes what whoever runs the nodes has: places for two tokens, and the volume of spire-server.
fn furnish(cluster: &Cluster) -> Result<()> {
    let nodes = cluster.nodes();
    let first = nodes.first().context("a cluster without a node")?;
    for token in ["a", "b"] {
        first.make_room_for_token(token, image::UID)?;
    }
    cluster.make_volume(&SPIRE_DATA)
}

fn plugin() -> Result<PathBuf> {
    image::compile("kubectl-trustplane", "kubectl-trustplane", Profile::Test)
}

fn images(cache: &Cache) -> Result<Vec<Image>> {
    let shipped: Vec<_> = image::recipe::shipped().collect();
    image::build_all(&shipped, Profile::Test, cache, &image::archives(cache))
}
