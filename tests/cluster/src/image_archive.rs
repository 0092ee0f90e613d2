//! Writes container images as OCI archives, without Docker, a daemon or a registry.
//!
//! For images that this project makes itself: a handful of files on an empty root. It reads no Dockerfile, runs nothing
//! inside the image and pushes nowhere. The same spec gives the same bytes on every machine: entries are sorted, times are
//! zero, owners are numbers. `ctr images import`, `podman load` and `docker load` accept the result.
//!
//! ```no_run
//! use trustplane_cluster::image_archive::{Entry, ImageSpec, Layer, write};
//!
//! let spec = ImageSpec {
//!     reference: "trustplane.local/hello:dev".into(),
//!     layers: vec![Layer::new([Entry::file("/hello", "target/debug/hello", 0o755)])],
//!     entrypoint: vec!["/hello".into()],
//!     user: "65532:65532".into(),
//!     ..ImageSpec::default()
//! };
//! let digest = write(&spec, "hello.tar".as_ref())?;
//! # anyhow::Ok(())
//! ```

mod layer;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, BufWriter, Seek};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tar::Builder;

use layer::Compressed;
pub use layer::{Entry, Layer};

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// What an image is made of.
#[derive(Clone, Debug, Default)]
pub struct ImageSpec {
    /// The full name by which a pod asks for it: `host/name:tag`.
    pub reference: String,
    /// File systems, the lowest first.
    pub layers: Vec<Layer>,
    /// The program and its fixed arguments.
    pub entrypoint: Vec<String>,
    /// `uid` or `uid:gid`; empty for root.
    pub user: String,
    /// The environment, in the order given.
    pub env: Vec<(String, String)>,
    /// Labels of the image's configuration.
    pub labels: BTreeMap<String, String>,
}

/// The digest of an image's manifest, `sha256:…`: what identifies the image everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDigest(String);

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes the image to `archive`, which appears complete or not at all.
pub fn write(spec: &ImageSpec, archive: &Path) -> Result<ImageDigest> {
    assemble(spec, archive)
        .with_context(|| format!("write image {} to {}", spec.reference, archive.display()))
}

fn assemble(spec: &ImageSpec, archive: &Path) -> Result<ImageDigest> {
    ensure!(tag(&spec.reference).is_some(), "the reference has no tag");
    let directory = archive
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let layers = spec
        .layers
        .iter()
        .map(|layer| layer::compress(layer, directory))
        .collect::<Result<Vec<_>>>()?;
    let config = serde_json::to_vec(&config(spec, &layers))?;
    let manifest = serde_json::to_vec(&manifest(&config, &layers))?;

    let unfinished = tempfile::NamedTempFile::new_in(directory)?;
    let mut tar = Builder::new(BufWriter::new(unfinished));
    layer::append_bytes(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    layer::append_bytes(
        &mut tar,
        "index.json",
        &serde_json::to_vec(&index(spec, &manifest))?,
    )?;
    layer::append_bytes(
        &mut tar,
        "manifest.json",
        &serde_json::to_vec(&docker(spec, &config, &layers))?,
    )?;
    let digest = layer::digest(&manifest);
    layer::append_bytes(&mut tar, &blob(&digest), &manifest)?;
    layer::append_bytes(&mut tar, &blob(&layer::digest(&config)), &config)?;
    // Two equal layers are one blob: by digest, so that no path stands in the archive twice.
    let distinct: BTreeMap<String, Compressed> = layers.into_iter().map(|l| (l.digest.clone(), l)).collect();
    for (digest, mut layer) in distinct {
        layer.file.rewind()?;
        layer::append_reader(&mut tar, &blob(&digest), layer.size, BufReader::new(layer.file))?;
    }
    let unfinished = tar
        .into_inner()?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    unfinished.persist(archive)?;
    Ok(ImageDigest(digest))
}

fn tag(reference: &str) -> Option<&str> {
    let name = reference.rsplit('/').next()?;
    name.split_once(':')
        .map(|(_, tag)| tag)
        .filter(|tag| !tag.is_empty())
}

fn blob(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn config(spec: &ImageSpec, layers: &[Compressed]) -> Value {
    let env: Vec<_> = spec
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "User": spec.user, "Env": env, "Entrypoint": spec.entrypoint, "Labels": spec.labels },
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|l| &l.diff_id).collect::<Vec<_>>() },
    })
}

fn manifest(config: &[u8], layers: &[Compressed]) -> Value {
    let layers: Vec<_> = layers
        .iter()
        .map(|l| json!({ "mediaType": LAYER_TYPE, "digest": l.digest, "size": l.size }))
        .collect();
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": { "mediaType": CONFIG_TYPE, "digest": layer::digest(config), "size": config.len() },
        "layers": layers,
    })
}

fn index(spec: &ImageSpec, manifest: &[u8]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [{
            "mediaType": MANIFEST_TYPE,
            "digest": layer::digest(manifest),
            "size": manifest.len(),
            "platform": { "architecture": architecture(), "os": "linux" },
            // containerd names the image after the first, other tools after the second.
            "annotations": {
                "io.containerd.image.name": spec.reference,
                "org.opencontainers.image.ref.name": tag(&spec.reference),
            },
        }],
    })
}

/// What `docker load` reads in versions that know no OCI layout.
fn docker(spec: &ImageSpec, config: &[u8], layers: &[Compressed]) -> Value {
    json!([{
        "Config": blob(&layer::digest(config)),
        "RepoTags": [spec.reference],
        "Layers": layers.iter().map(|l| blob(&l.digest)).collect::<Vec<_>>(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs::{self, File};
    use std::io::Read;

    fn spec() -> ImageSpec {
        ImageSpec {
            reference: "trustplane.local:5000/a/b:v1".into(),
            layers: vec![
                Layer::new([Entry::bytes("/etc/x", "x", 0o644)]),
                Layer::new([
                    Entry::bytes("/bin/run", "run", 0o755),
                    Entry::symlink("/sh", "bin/run"),
                ]),
            ],
            entrypoint: vec!["/bin/run".into(), "--flag".into()],
            user: "65532:65532".into(),
            env: vec![("B".into(), "2".into()), ("A".into(), "1".into())],
            labels: [("l".to_string(), "v".to_string())].into(),
        }
    }

    fn contents(archive: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut tar = tar::Archive::new(File::open(archive).unwrap());
        let mut files = BTreeMap::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(entry.path().unwrap().to_string_lossy().into_owned(), bytes);
        }
        files
    }

    #[test]
    fn the_same_spec_gives_the_same_bytes_whatever_the_order_of_entries() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("1.tar"), directory.path().join("2.tar"));
        let mut turned = spec();
        turned.layers[1] = Layer::new([
            Entry::symlink("/sh", "bin/run"),
            Entry::bytes("/bin/run", "run", 0o755),
        ]);
        assert_eq!(write(&spec(), &one).unwrap(), write(&turned, &two).unwrap());
        assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
        let left: BTreeSet<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        assert_eq!(left, [one, two].into(), "no unfinished file stays behind");
    }

    #[test]
    fn every_digest_in_the_archive_is_that_of_its_blob() {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("image.tar");
        let digest = write(&spec(), &archive).unwrap();
        let files = contents(&archive);
        let json = |path: &str| serde_json::from_slice::<Value>(&files[path]).unwrap();
        let blobs: Vec<_> = files
            .iter()
            .filter(|(path, _)| path.starts_with("blobs/"))
            .collect();
        assert_eq!(blobs.len(), 4, "manifest, config, two layers");
        for (path, bytes) in blobs {
            assert_eq!(*path, blob(&layer::digest(bytes)));
        }
        let described = &json("index.json")["manifests"][0];
        assert_eq!(described["digest"], digest.to_string());
        assert_eq!(
            described["annotations"]["io.containerd.image.name"],
            "trustplane.local:5000/a/b:v1"
        );
        let manifest = json(&blob(&digest.to_string()));
        let config = json(&blob(manifest["config"]["digest"].as_str().unwrap()));
        for (layer, diff_id) in manifest["layers"].as_array().unwrap().iter().zip([0, 1]) {
            let compressed = &files[&blob(layer["digest"].as_str().unwrap())];
            assert_eq!(layer["size"], compressed.len());
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&compressed[..])
                .read_to_end(&mut plain)
                .unwrap();
            assert_eq!(config["rootfs"]["diff_ids"][diff_id], layer::digest(&plain));
        }
        assert_eq!(config["config"]["Env"], json!(["B=2", "A=1"]));
        assert_eq!(json("manifest.json")[0]["Layers"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn an_equal_layer_is_stored_once_and_named_twice() {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("image.tar");
        let mut twice = spec();
        twice.layers[1] = twice.layers[0].clone();
        write(&twice, &archive).unwrap();
        let names: Vec<_> = tar::Archive::new(File::open(&archive).unwrap())
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().into_owned())
            .collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
        assert_eq!(names.len(), 6);
    }

    #[test]
    fn a_failed_write_leaves_the_old_archive_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("image.tar");
        fs::write(&archive, "old").unwrap();
        let mut broken = spec();
        broken.layers.push(Layer::new([Entry::file(
            "/x",
            directory.path().join("absent"),
            0o644,
        )]));
        let error = format!("{:#}", write(&broken, &archive).unwrap_err());
        assert!(error.contains("/x"), "{error}");
        assert_eq!(fs::read(&archive).unwrap(), b"old");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        broken.reference = "host:5000/name".into();
        assert!(write(&broken, &archive).is_err(), "a port is not a tag");
    }
}
