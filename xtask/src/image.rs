//! `cargo xtask image`: our binaries as container images, without Docker.
//!
//! An image is the program, the shared objects that it links and the CA certificates of Debian, and one unprivileged
//! user. There is no shell and no package manager in it. The recipes are data ([`recipe`]); what a program links is read
//! from its headers and found by what Debian's packages depend on, so nothing has to be listed twice.

mod binary;
mod ccid;
mod debian;
mod objects;
pub mod recipe;
mod rootfs;
mod taken;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::image_archive::{ImageSpec, write};
use trustplane_cluster::node;
use trustplane_cluster::progress::Progress;
use trustplane_cluster::tools::Toolchain;

pub use binary::{Profile, compile, compile_tool};
use recipe::{RECIPES, Recipe};
pub use rootfs::UID;

/// Make container images as OCI archives, without Docker.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask image manager agent --load dev\n  cargo xtask image --release"
)]
pub struct Args {
    /// The images to make; without a name, all that ship.
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(recipe::names()))]
    names: Vec<String>,
    /// Compile as for a release, and hold the image to its size budget.
    #[arg(long)]
    release: bool,
    /// Load the images into the nodes of this development cluster.
    #[arg(long, value_name = "CLUSTER")]
    load: Option<String>,
    /// Where the archives go; by default into the cache.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A finished image.
#[derive(Debug)]
pub struct Image {
    /// How a pod asks for it.
    pub reference: String,
    /// The OCI archive.
    pub archive: PathBuf,
    /// The archive's size, which is that of the compressed layers.
    pub size: u64,
}

/// Makes the images that the command line names.
pub fn run(args: Args) -> Result<()> {
    let cache = Cache::locate()?;
    let out = args.out.unwrap_or_else(|| archives(&cache));
    let profile = if args.release {
        Profile::Release
    } else {
        Profile::Test
    };
    for image in build_all(&wanted(&args.names), profile, &cache, &out)? {
        println!(
            "{:<45} {:>6.1} MB  {}",
            image.reference,
            megabytes(image.size),
            image.archive.display()
        );
        if let Some(cluster) = &args.load {
            node::load_image(cluster, &image.archive)?;
            println!("{:<45} loaded into cluster {cluster}", image.reference);
        }
    }
    Ok(())
}

/// Where archives go unless told otherwise.
pub fn archives(cache: &Cache) -> PathBuf {
    cache.root().join("images")
}

fn wanted(names: &[String]) -> Vec<&'static Recipe> {
    if names.is_empty() {
        return recipe::shipped().collect();
    }
    let named = |recipe: &&Recipe| names.iter().any(|name| name == recipe.name);
    RECIPES.iter().filter(named).collect()
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Makes images: builds what their binaries embed, compiles the binaries and writes the archives into `out`.
pub fn build_all(recipes: &[&Recipe], profile: Profile, cache: &Cache, out: &Path) -> Result<Vec<Image>> {
    for recipe in recipes {
        Toolchain::new(cache).ensure_all(recipe.embeds)?;
    }
    let binaries: Vec<_> = recipes
        .iter()
        .map(|recipe| (recipe.package, recipe.binary))
        .collect();
    let programs = binary::compile_all(&binaries, profile)?;
    let pairs = recipes.iter().zip(&programs);
    pairs
        .map(|(recipe, program)| build(recipe, program, profile, cache, out))
        .collect()
}

fn build(recipe: &Recipe, program: &Path, profile: Profile, cache: &Cache, out: &Path) -> Result<Image> {
    let mut progress = Progress::begin(format!("make image {}", recipe.name));
    fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
    let scratch = tempfile::tempdir_in(out).context("create a scratch directory")?;
    let stripped = scratch.path().join(recipe.binary);
    progress.note("strip the program");
    binary::strip(program, &stripped)?;

    progress.note("collect the files of Debian packages");
    let rootfs = rootfs::assemble(recipe, &stripped, &cache.root().join("debian"))
        .with_context(|| format!("put image {} together", recipe.name))?;
    let archive = out.join(format!("{}.tar", recipe.name));
    let spec = ImageSpec {
        reference: recipe.reference(),
        layers: rootfs.layers,
        entrypoint: vec![rootfs::entrypoint(recipe)],
        user: format!("{uid}:{uid}", uid = rootfs::UID),
        env: Vec::new(),
        labels: labels(recipe, &rootfs.packages),
    };
    progress.note("write the archive");
    write(&spec, &archive)?;
    let size = fs::metadata(&archive)?.len();
    if profile == Profile::Release {
        ensure!(size <= recipe.budget, over_budget(recipe, size));
    }
    progress.finish();
    Ok(Image {
        reference: spec.reference,
        archive,
        size,
    })
}

fn over_budget(recipe: &Recipe, size: u64) -> String {
    format!(
        "image {} has {:.1} MB, its budget is {:.1} MB",
        recipe.name,
        megabytes(size),
        megabytes(recipe.budget)
    )
}

/// What a scanner or a person wants to know of an image that has no package database.
fn labels(recipe: &Recipe, packages: &[String]) -> BTreeMap<String, String> {
    [
        (
            "org.opencontainers.image.title",
            format!("trustplane {}", recipe.name),
        ),
        (
            "org.opencontainers.image.version",
            env!("CARGO_PKG_VERSION").to_owned(),
        ),
        ("org.opencontainers.image.licenses", "Apache-2.0".to_owned()),
        ("io.trustplane.image.packages", packages.join(" ")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_all_that_ship_are_made_and_each_named_one_once() {
        let names = |given: &[&str]| {
            let given: Vec<_> = given.iter().map(|name| (*name).to_owned()).collect();
            wanted(&given)
                .iter()
                .map(|recipe| recipe.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["manager", "discovery", "agent", "hub"]);
        assert_eq!(
            names(&["sample-manager", "agent", "agent"]),
            ["agent", "sample-manager"]
        );
    }
}
