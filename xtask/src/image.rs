//! `cargo xtask image`: our binaries as container images, without Docker.
//!
//! An image is the program, the shared objects that it links and the CA certificates of Debian, and one unprivileged
//! user. There is no shell and no package manager in it. The recipes are data ([`recipe`]); what a program links is read
//! from its headers, so nothing has to be listed twice.

mod binary;
mod debian;
mod objects;
pub mod recipe;
mod rootfs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::image_archive::{ImageSpec, write};
use trustplane_cluster::node;

pub use binary::{Profile, compile};
use recipe::{RECIPES, Recipe};

/// Make container images as OCI archives, without Docker.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cargo xtask image manager --load dev\n  cargo xtask image --release")]
pub struct Args {
    /// The image to make; without it, all that ship.
    #[arg(value_parser = PossibleValuesParser::new(recipe::names()))]
    name: Option<String>,
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
    for recipe in RECIPES
        .iter()
        .filter(|recipe| wanted(recipe, args.name.as_deref()))
    {
        let image = build(recipe, profile, &cache, &out)?;
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

fn wanted(recipe: &Recipe, name: Option<&str>) -> bool {
    name.map_or(recipe.shipped, |name| recipe.name == name)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Makes one image: compiles its binary and writes the archive into `out`.
pub fn build(recipe: &Recipe, profile: Profile, cache: &Cache, out: &Path) -> Result<Image> {
    let program = compile(recipe.package, recipe.binary, profile)?;
    fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
    let scratch = tempfile::tempdir_in(out).context("create a scratch directory")?;
    let stripped = scratch.path().join(recipe.binary);
    binary::strip(&program, &stripped)?;

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
    write(&spec, &archive)?;
    let size = fs::metadata(&archive)?.len();
    if profile == Profile::Release {
        ensure!(size <= recipe.budget, over_budget(recipe, size));
    }
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
