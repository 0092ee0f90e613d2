//! Where a test's cluster stands, and everything by which it can be noticed on the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use trustplane_cluster::cache::Cache;
use trustplane_cluster::daemon;
use trustplane_cluster::identity::Identity;
use trustplane_cluster::node::{self, Cluster, Count, Options};
use trustplane_cluster::resource::Resource;
use trustplane_cluster::site::{self, Site};

/// A cluster's place, cleared also when its test fails.
pub struct Place(pub Site);

impl Place {
    pub fn new(name: &str) -> Self {
        // The process id keeps two runs of the same test apart.
        let name = format!("{name}-{}", std::process::id());
        Self(Site::new(&Cache::locate().unwrap(), name.parse().unwrap()))
    }

    pub fn up(&self, nodes: Count) -> Cluster {
        let owner = Some(Identity::own().unwrap());
        let cluster = node::up(self.0.name().as_str(), &Options { nodes, owner }).unwrap();
        let total: Duration = cluster.timings().iter().map(|(_, time)| *time).sum();
        println!(
            "{} is up in {total:.1?}: {:.1?}",
            self.0.name(),
            cluster.timings()
        );
        cluster
    }

    pub fn down(&self) {
        let started = Instant::now();
        site::down(&Cache::locate().unwrap(), self.0.name()).unwrap();
        println!("{} is down in {:.1?}", self.0.name(), started.elapsed());
    }

    pub fn resources(&self) -> Vec<Resource> {
        self.0
            .state()
            .unwrap()
            .map(|state| state.resources().to_vec())
            .unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = site::down(&Cache::locate().unwrap(), self.0.name());
    }
}

/// Everything by which a cluster can be noticed on the machine.
pub struct Footprint {
    directory: PathBuf,
    pub processes: Vec<Identity>,
    /// Mount and network namespaces that its processes are in, but for the machine's. They are held open: the kernel gives
    /// the name of one that is gone to the next, which may be a neighbour's.
    namespaces: BTreeMap<PathBuf, File>,
    /// Files and directories of the kernel: the named namespace, the link, the control groups.
    paths: Vec<PathBuf>,
}

impl Footprint {
    pub fn of(place: &Place) -> Self {
        let mut processes = daemon::marked(&place.0.dir()).unwrap();
        let mut paths = Vec::new();
        for resource in place.resources() {
            match resource {
                Resource::Process { identity, .. } => processes.push(identity),
                Resource::ControlGroup { path } => {
                    processes.extend(members(&path));
                    paths.push(path);
                }
                Resource::NetworkNamespace { name } => paths.push(Path::new("/run/netns").join(name)),
                Resource::Link { name } => paths.push(Path::new("/sys/class/net").join(name)),
                _ => {}
            }
        }
        let own = namespaces("self");
        let mut namespaces = BTreeMap::new();
        for file in processes.iter().flat_map(|process| held(process.pid())) {
            let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
            if !own.contains(&name) {
                namespaces.insert(name, file);
            }
        }
        Self {
            directory: place.0.dir(),
            processes,
            namespaces,
            paths,
        }
    }

    pub fn assert_gone(&self) {
        assert!(
            self.paths.len() > 1 && !self.namespaces.is_empty(),
            "there was nothing to leave"
        );
        assert!(!self.directory.exists(), "its directory stays");
        for path in &self.paths {
            assert!(!path.exists(), "{} stays", path.display());
        }
        for process in &self.processes {
            assert!(!process.alive().unwrap(), "process {} stays", process.pid());
        }
        assert_eq!(daemon::marked(&self.directory).unwrap(), [], "processes stay");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(
            !mounts.contains(self.directory.to_str().unwrap()),
            "mounts stay: {mounts}"
        );
        // A namespace lives as long as a process is in it.
        let entries = fs::read_dir("/proc").unwrap().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            let stays = namespaces(&pid)
                .iter()
                .any(|namespace| self.namespaces.contains_key(namespace));
            assert!(!stays, "process {pid} stays in a namespace of the cluster");
        }
    }
}

const NAMESPACES: [&str; 2] = ["mnt", "net"];

/// The namespaces of a process, held open; none of one that has ended.
fn held(pid: i32) -> impl Iterator<Item = File> {
    NAMESPACES
        .iter()
        .filter_map(move |kind| File::open(format!("/proc/{pid}/ns/{kind}")).ok())
}

fn namespaces(pid: &str) -> BTreeSet<PathBuf> {
    NAMESPACES
        .iter()
        .filter_map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok())
        .collect()
}

/// The processes of a control group and those below it; one that ends while we look has none.
fn members(group: &Path) -> Vec<Identity> {
    let list = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let own = list
        .lines()
        .filter_map(|line| Identity::of(line.parse().unwrap()).unwrap());
    let below = fs::read_dir(group)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    own.chain(below.filter(|path| path.is_dir()).flat_map(|path| members(&path)))
        .collect()
}
