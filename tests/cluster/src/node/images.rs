//! The images that a node needs before anything else runs on it: the sandbox of every pod, and the cluster's DNS.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::image_archive::{self, Entry, ImageSpec, Layer};
use crate::tools::{Tool, Toolchain};

/// The image of `probe`: the sandbox of every pod, and a small server, client and reader for tests.
pub const PROBE: &str = "trustplane.local/probe:dev";
/// The image of CoreDNS.
pub(super) const COREDNS: &str = "trustplane.local/coredns:dev";

/// The archives of both, and the one program of them that is also run outside of pods.
pub(super) struct Archives {
    pub(super) probe_binary: PathBuf,
    pub(super) probe: PathBuf,
    pub(super) coredns: PathBuf,
}

/// Makes the archives that are not there yet.
pub(super) fn archives(cache: &Cache) -> Result<Archives> {
    Ok(Archives {
        probe_binary: Toolchain::new(cache).ensure(Tool::Probe)?.join("probe"),
        probe: archive(cache, Tool::Probe, "probe", PROBE)?,
        coredns: archive(cache, Tool::CoreDns, "coredns", COREDNS)?,
    })
}

/// An image of one static binary, kept as long as the binary. It lies beside the tool under the same name, which
/// changes with all that the binary is made of.
fn archive(cache: &Cache, tool: Tool, binary: &str, reference: &str) -> Result<PathBuf> {
    let built = Toolchain::new(cache).ensure(tool)?;
    let directory = directory(cache)?;
    let name = built.file_name().context("a tool has a directory")?;
    let archive = directory.join(Path::new(name).with_extension("tar"));
    if !archive.exists() {
        image_archive::write(&spec(&built.join(binary), binary, reference), &archive)?;
    }
    Ok(archive)
}

/// Where archives are kept.
pub(super) fn directory(cache: &Cache) -> Result<PathBuf> {
    let directory = cache.root().join("images");
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    Ok(directory)
}

fn spec(source: &Path, binary: &str, reference: &str) -> ImageSpec {
    let path = format!("/{binary}");
    ImageSpec {
        reference: reference.to_owned(),
        layers: vec![Layer::new([Entry::file(path.clone(), source, 0o755)])],
        entrypoint: vec![path],
        user: "65532:65532".into(),
        ..ImageSpec::default()
    }
}
