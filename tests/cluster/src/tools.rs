//! The pinned tools: built once from the package registries, kept in the cache by the hash of what they are made of.
//!
//! The pins are what lies under `xtask/tools`, Go modules, Python requirements and a cargo workspace, and the table of
//! crates, compiled in; no other place names a version. The console of the hub is built from its folder of the work tree, whose lock
//! file has the pins; so is the stand-in for the CSI driver of SPIFFE, from `tests/cluster/csi`. Two runs at once wait for each other, and an interrupted build leaves nothing that looks finished.

mod cargo;
pub mod console;
pub mod debian;
mod go;
pub mod node;
mod npm;
mod python;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::cache::{Cache, Lock};
use crate::interrupt;
use crate::progress::Progress;

/// A tool, or a set of tools that is built in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `etcd`.
    Etcd,
    /// `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `kubelet`, `kube-proxy` and `kubectl`.
    Kubernetes,
    /// `coredns`.
    CoreDns,
    /// `probe`, our own: the sandbox of every pod, and what tests look at a cluster with.
    Probe,
    /// `helm`.
    Helm,
    /// `moto_server`, the AWS of the tests.
    Moto,
    /// `libkryoptic_pkcs11.so`, a PKCS#11 module with tokens in software.
    Kryoptic,
    /// `cargo-nextest`.
    Nextest,
    /// `cargo-deny`.
    Deny,
    /// `node_modules` of the hub's console, for its build and its tests.
    ConsolePackages,
    /// The console of the hub: `dist`, which browsers load.
    Console,
    /// `csi-stand-in`, our own: it takes the place of `spiffe-csi-driver` and `csi-node-driver-registrar`.
    CsiStandIn,
    /// `spire-controller-manager`.
    SpireControllerManager,
    /// `spire-server`, `spire-agent` and `oidc-discovery-provider`.
    Spire,
}

enum Recipe {
    Go(go::Module),
    Cargo(cargo::Package),
    Library(cargo::Library),
    Python(python::Requirements),
    Packages(npm::Packages),
    Npm(npm::Project),
}

impl Tool {
    /// All of them, in the order in which a cold run needs them.
    pub const ALL: [Self; 14] = [
        Self::Etcd,
        Self::Kubernetes,
        Self::CoreDns,
        Self::Probe,
        Self::Helm,
        Self::Moto,
        Self::Kryoptic,
        Self::Nextest,
        Self::Deny,
        Self::ConsolePackages,
        Self::Console,
        Self::CsiStandIn,
        Self::SpireControllerManager,
        Self::Spire,
    ];

    /// What a control plane without nodes needs.
    pub const CONTROL_PLANE: [Self; 2] = [Self::Etcd, Self::Kubernetes];

    /// What a cluster with nodes needs.
    pub const NODES: [Self; 4] = [Self::Etcd, Self::Kubernetes, Self::CoreDns, Self::Probe];

    /// Its name, for people and for the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kubernetes => "kubernetes",
            Self::CoreDns => "coredns",
            Self::Probe => "probe",
            Self::Helm => "helm",
            Self::Moto => "moto",
            Self::Kryoptic => "kryoptic",
            Self::Nextest => "cargo-nextest",
            Self::Deny => "cargo-deny",
            Self::ConsolePackages => "console-packages",
            Self::Console => "console",
            Self::CsiStandIn => "csi-stand-in",
            Self::SpireControllerManager => "spire-controller-manager",
            Self::Spire => "spire",
        }
    }

    /// The pinned version.
    pub fn version(self) -> Result<String> {
        match self.recipe() {
            Recipe::Go(module) => module.version().map(str::to_owned),
            Recipe::Cargo(package) => Ok(package.version.to_owned()),
            Recipe::Library(library) => library.version().map(str::to_owned),
            Recipe::Python(requirements) => requirements.version().map(str::to_owned),
            Recipe::Packages(packages) => Ok(packages.version().to_owned()),
            Recipe::Npm(project) => Ok(project.version().to_owned()),
        }
    }

    fn recipe(self) -> Recipe {
        match self {
            Self::Etcd => Recipe::Go(go::ETCD),
            Self::Kubernetes => Recipe::Go(go::KUBERNETES),
            Self::CoreDns => Recipe::Go(go::COREDNS),
            Self::Probe => Recipe::Go(go::PROBE),
            Self::Helm => Recipe::Go(go::HELM),
            Self::Moto => Recipe::Python(python::MOTO),
            Self::Kryoptic => Recipe::Library(cargo::KRYOPTIC),
            Self::Nextest => Recipe::Cargo(cargo::NEXTEST),
            Self::Deny => Recipe::Cargo(cargo::DENY),
            Self::ConsolePackages => Recipe::Packages(npm::CONSOLE_PACKAGES),
            Self::Console => Recipe::Npm(npm::CONSOLE),
            Self::CsiStandIn => Recipe::Go(go::CSI_STAND_IN),
            Self::SpireControllerManager => Recipe::Go(go::SPIRE_CONTROLLER_MANAGER),
            Self::Spire => Recipe::Go(go::SPIRE),
        }
    }

    /// The name of its directory in the cache: it changes with everything the binaries are made of.
    fn directory(self) -> Result<String> {
        let inputs = match self.recipe() {
            Recipe::Go(module) => module.inputs()?,
            Recipe::Cargo(package) => package.inputs(),
            Recipe::Library(library) => library.inputs(),
            Recipe::Python(requirements) => requirements.inputs(),
            Recipe::Packages(packages) => packages.inputs()?,
            Recipe::Npm(project) => project.inputs()?,
        };
        Ok(format!("{}-{}", self.name(), fingerprint(&inputs)))
    }
}

/// Sixteen hexadecimal digits over a list of texts; their borders count too.
fn fingerprint(inputs: &[String]) -> String {
    let mut hasher = Sha256::new();
    for input in inputs {
        hasher.update(u64::try_from(input.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(input);
    }
    hasher
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The tools of a cache.
#[derive(Debug, Clone)]
pub struct Toolchain {
    cache: Cache,
}

impl Toolchain {
    /// The tools in this cache.
    pub fn new(cache: &Cache) -> Self {
        Self { cache: cache.clone() }
    }

    /// The directory with the binaries of a tool, if it is built.
    pub fn built(&self, tool: Tool) -> Result<Option<PathBuf>> {
        let directory = self.cache.tools().join(tool.directory()?);
        Ok(directory.is_dir().then_some(directory))
    }

    /// The directory with the binaries of a tool, which is built first if it has to be.
    pub fn ensure(&self, tool: Tool) -> Result<PathBuf> {
        if let Some(directory) = self.built(tool)? {
            return Ok(directory);
        }
        let _guard = interrupt::Guard::begin()?;
        let needed = match tool {
            Tool::Console => Some(self.ensure(Tool::ConsolePackages)?),
            _ => None,
        };
        let name = tool.directory()?;
        let lock = self.cache.tools().join(format!("{}.lock", tool.name()));
        let _lock = Lock::wait(&lock, &format!("the build of {}", tool.name()))?;
        if let Some(directory) = self.built(tool)? {
            return Ok(directory);
        }
        // What an interrupted build left is kept: the next one goes on from there.
        let staging = self.cache.tools().join(format!(".staging-{name}"));
        fs::create_dir_all(&staging).with_context(|| format!("create {}", staging.display()))?;
        let mut progress = Progress::begin(format!("build {} {}", tool.name(), tool.version()?));
        let binaries = match tool.recipe() {
            Recipe::Go(module) => module.build(&staging, &mut progress),
            Recipe::Cargo(package) => package.build(&staging, &mut progress),
            Recipe::Library(library) => library.build(&staging, &mut progress),
            Recipe::Python(requirements) => requirements.build(&staging, &mut progress),
            Recipe::Packages(packages) => packages.build(&staging, &mut progress),
            Recipe::Npm(project) => project.build(&staging, &needed.unwrap_or_default(), &mut progress),
        }
        .with_context(|| format!("build {}", tool.name()))?;
        let directory = self.cache.tools().join(name);
        publish(&binaries, &directory)?;
        fs::remove_dir_all(&staging).with_context(|| format!("remove {}", staging.display()))?;
        progress.finish();
        Ok(directory)
    }

    /// A search path on which these tools come first; what is missing of them is built.
    pub fn search_path(&self, tools: &[Tool]) -> Result<OsString> {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let directories = self
            .ensure_all(tools)?
            .into_iter()
            .chain(std::env::split_paths(&inherited));
        std::env::join_paths(directories).context("make a search path")
    }

    /// Builds what is missing of several tools and gives their directories in the same order.
    pub fn ensure_all(&self, tools: &[Tool]) -> Result<Vec<PathBuf>> {
        tools.iter().map(|tool| self.ensure(*tool)).collect()
    }
}

/// Binaries appear under their final name all at once, and only when they are on the disk.
fn publish(binaries: &Path, directory: &Path) -> Result<()> {
    let attempt = || -> std::io::Result<()> {
        for entry in fs::read_dir(binaries)? {
            fs::File::open(entry?.path())?.sync_all()?;
        }
        fs::rename(binaries, directory)
    };
    attempt().with_context(|| format!("put the binaries into {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_stable_and_changes_with_every_input_and_border() {
        let of = |inputs: &[&str]| fingerprint(&inputs.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["go.mod", "go.sum"]), of(&["go.mod", "go.sum"]));
        assert_eq!(of(&["a"]).len(), 16);
        let different = [
            of(&["ab", "c"]),
            of(&["a", "bc"]),
            of(&["abc"]),
            of(&["ab", "c", ""]),
        ];
        for (index, one) in different.iter().enumerate() {
            assert!(!different[index + 1..].contains(one));
        }
    }

    #[test]
    fn every_tool_has_a_version_and_a_directory_of_its_own() {
        let mut directories: Vec<String> = Tool::ALL.iter().map(|tool| tool.directory().unwrap()).collect();
        for tool in Tool::ALL {
            let version = tool.version().unwrap();
            assert!(
                version
                    .trim_start_matches('v')
                    .starts_with(|c: char| c.is_ascii_digit()),
                "{version}"
            );
        }
        directories.sort();
        directories.dedup();
        assert_eq!(directories.len(), Tool::ALL.len());
    }

    #[test]
    fn binaries_are_published_under_their_final_name() {
        let dir = tempfile::tempdir().unwrap();
        let (staged, published) = (dir.path().join("bin"), dir.path().join("tool-1"));
        fs::create_dir(&staged).unwrap();
        fs::write(staged.join("tool"), "binary").unwrap();
        publish(&staged, &published).unwrap();
        assert!(published.join("tool").exists() && !staged.exists());
    }
}
