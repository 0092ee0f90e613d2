//! The images of SPIRE, and of the stand-in for its CSI driver, for clusters that are asked to have them.
//!
//! Program, entrypoint, user and directories are those of the images that upstream publishes, so a manifest that runs with
//! those runs with these. Certificate authorities and the working directory `/opt/spire` are left out: nothing here is asked
//! for outside the cluster, and manifests give full paths.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::{Cluster, images};
use crate::cache::Cache;
use crate::image_archive::{self, Entry, ImageSpec, Layer};
use crate::tools::{Tool, Toolchain};

/// The registry of the images' references. There is none: nodes get the images from archives.
pub const REGISTRY: &str = "trustplane.local";

/// What the images of a cluster are recorded in, so that they are loaded once.
const LOADED: &str = "spire-images";

/// An image that SPIRE needs on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// What the chart calls it, below `identity.images`.
    pub key: &'static str,
    /// The last part of its name; the first is [`REGISTRY`].
    pub repository: &'static str,
    /// Its tag: the version of SPIRE or of the controller manager, and `dev` for what is our own.
    pub tag: String,
    /// The OCI archive.
    pub archive: PathBuf,
}

impl Image {
    /// How a pod asks for it.
    pub fn reference(&self) -> String {
        reference(self.repository, &self.tag)
    }
}

fn reference(repository: &str, tag: &str) -> String {
    format!("{REGISTRY}/{repository}:{tag}")
}

/// How an image is made of one binary.
#[derive(Debug)]
struct Recipe {
    key: &'static str,
    repository: &'static str,
    tool: Tool,
    binary: &'static str,
    /// Where upstream's image has the binary.
    path: &'static str,
    /// What its entrypoint says after that.
    arguments: &'static [&'static str],
    /// The user and the group of its processes, and the owner of what is in it.
    user: u32,
    /// Directories that its user may write to.
    directories: &'static [&'static str],
}

const RECIPES: [Recipe; 6] = [
    Recipe {
        key: "spireServer",
        repository: "spire-server",
        tool: Tool::Spire,
        binary: "spire-server",
        path: "/opt/spire/bin/spire-server",
        arguments: &["run"],
        user: 1000,
        directories: &[
            "/etc/spire/server",
            "/run/spire/server/private",
            "/tmp/spire-server/private",
            "/var/lib/spire/server",
        ],
    },
    Recipe {
        key: "spireAgent",
        repository: "spire-agent",
        tool: Tool::Spire,
        binary: "spire-agent",
        path: "/opt/spire/bin/spire-agent",
        arguments: &["run"],
        user: 0,
        directories: &[
            "/etc/spire/agent",
            "/run/spire/agent/public",
            "/tmp/spire-agent/public",
            "/var/lib/spire/agent",
        ],
    },
    Recipe {
        key: "oidcDiscoveryProvider",
        repository: "oidc-discovery-provider",
        tool: Tool::Spire,
        binary: "oidc-discovery-provider",
        path: "/opt/spire/bin/oidc-discovery-provider",
        arguments: &[],
        user: 1000,
        directories: &[],
    },
    Recipe {
        key: "spireControllerManager",
        repository: "spire-controller-manager",
        tool: Tool::SpireControllerManager,
        binary: "spire-controller-manager",
        path: "/spire-controller-manager",
        arguments: &[],
        user: 0,
        directories: &["/tmp"],
    },
    Recipe {
        key: "spiffeCsiDriver",
        repository: "spiffe-csi-driver",
        tool: Tool::CsiStandIn,
        binary: "csi-stand-in",
        path: "/spiffe-csi-driver",
        arguments: &[],
        user: 0,
        directories: &[],
    },
    Recipe {
        key: "nodeDriverRegistrar",
        repository: "csi-node-driver-registrar",
        tool: Tool::CsiStandIn,
        binary: "csi-stand-in",
        path: "/csi-node-driver-registrar",
        arguments: &[],
        user: 0,
        directories: &[],
    },
];

impl Recipe {
    fn tag(&self) -> Result<String> {
        Ok(match self.tool {
            Tool::CsiStandIn => "dev".to_owned(),
            tool => tool.version()?.trim_start_matches('v').to_owned(),
        })
    }

    /// The archive in the cache, which is written first if it has to be.
    fn make(&self, cache: &Cache) -> Result<Image> {
        let built = Toolchain::new(cache).ensure(self.tool)?;
        let tag = self.tag()?;
        let made_of = format!("{self:?} {}", built.display());
        let archive = images::directory(cache)?.join(format!("{}-{}.tar", self.repository, digits(&made_of)));
        if !archive.exists() {
            image_archive::write(&self.spec(&built, &tag), &archive)?;
        }
        Ok(Image {
            key: self.key,
            repository: self.repository,
            tag,
            archive,
        })
    }

    fn spec(&self, built: &Path, tag: &str) -> ImageSpec {
        let owner = u64::from(self.user);
        let program = Entry::file(self.path, built.join(self.binary), 0o755);
        let directories = self.owned_directories().into_iter();
        let entries = directories
            .map(|path| Entry::directory(path, 0o755))
            .chain([program])
            .map(|entry| entry.owned_by(owner, owner));
        ImageSpec {
            reference: reference(self.repository, tag),
            layers: vec![Layer::new(entries)],
            entrypoint: [self.path]
                .iter()
                .chain(self.arguments)
                .map(ToString::to_string)
                .collect(),
            user: format!("{0}:{0}", self.user),
            ..ImageSpec::default()
        }
    }

    /// The directories with those that they lie in: upstream's belong to the user too.
    fn owned_directories(&self) -> Vec<String> {
        let all = self
            .directories
            .iter()
            .flat_map(|directory| Path::new(directory).ancestors());
        let mut paths: Vec<_> = all
            .map(|path| path.display().to_string())
            .filter(|path| path != "/")
            .collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

fn digits(text: &str) -> String {
    let hash = Sha256::digest(text);
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Builds SPIRE, its controller manager and the stand-in, if they are not built yet, and gives the archives of their images.
pub fn images(cache: &Cache) -> Result<Vec<Image>> {
    RECIPES.iter().map(|recipe| recipe.make(cache)).collect()
}

impl Cluster {
    /// Loads the images of SPIRE into every node, and gives them. A second call finds them there.
    pub fn load_spire(&self, cache: &Cache) -> Result<Vec<Image>> {
        let images = images(cache)?;
        let record = self.site.dir().join(LOADED);
        let archives: String = images
            .iter()
            .map(|image| format!("{}\n", image.archive.display()))
            .collect();
        if fs::read_to_string(&record).is_ok_and(|loaded| loaded == archives) {
            return Ok(images);
        }
        for image in &images {
            self.load_image(&image.archive)?;
        }
        fs::write(&record, archives).context("remember that the images are loaded")?;
        Ok(images)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(repository: &str) -> &'static Recipe {
        RECIPES
            .iter()
            .find(|recipe| recipe.repository == repository)
            .unwrap()
    }

    #[test]
    fn references_have_the_pinned_versions() {
        let references = RECIPES.map(|recipe| reference(recipe.repository, &recipe.tag().unwrap()));
        assert_eq!(
            references,
            [
                "trustplane.local/spire-server:1.15.3",
                "trustplane.local/spire-agent:1.15.3",
                "trustplane.local/oidc-discovery-provider:1.15.3",
                "trustplane.local/spire-controller-manager:0.6.4",
                "trustplane.local/spiffe-csi-driver:dev",
                "trustplane.local/csi-node-driver-registrar:dev",
            ]
        );
    }

    #[test]
    fn values_of_a_development_cluster_name_the_images_that_are_made() {
        let values = include_str!("../../../../docs/guide/examples/identity-images.yaml");
        for recipe in &RECIPES {
            let (key, repository, tag) = (recipe.key, recipe.repository, recipe.tag().unwrap());
            let line = format!("    {key}: {{registry: {REGISTRY}, repository: {repository}, tag: {tag}}}\n");
            assert!(values.contains(&line), "{line} is not in:\n{values}");
        }
        let workload = include_str!("../../../../docs/guide/examples/identity/workload.yaml");
        let agent = recipe("spire-agent");
        let image = format!(
            "      image: {}\n",
            reference(agent.repository, &agent.tag().unwrap())
        );
        assert!(workload.contains(&image), "{image} is not in:\n{workload}");
    }

    #[test]
    fn images_start_as_those_of_upstream_do() {
        let server = recipe("spire-server").spec(Path::new("/built"), "1");
        assert_eq!(server.entrypoint, ["/opt/spire/bin/spire-server", "run"]);
        assert_eq!(server.user, "1000:1000");
        let driver = recipe("spiffe-csi-driver").spec(Path::new("/built"), "1");
        assert_eq!(driver.entrypoint, ["/spiffe-csi-driver"]);
        assert_eq!(driver.user, "0:0");
    }

    #[test]
    fn directories_belong_to_the_user_up_to_the_root() {
        let directories = recipe("spire-server").owned_directories();
        for path in [
            "/tmp",
            "/tmp/spire-server",
            "/tmp/spire-server/private",
            "/var/lib/spire",
        ] {
            assert!(directories.iter().any(|found| found == path), "{path}");
        }
        assert!(!directories.contains(&"/".to_owned()));
    }
}
