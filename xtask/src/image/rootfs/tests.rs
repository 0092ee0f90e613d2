//! The files of the agent's image, which adds the most: what of it links, and what the recipe promises.

use std::path::PathBuf;
use std::process::Command;

use trustplane_cluster::cache::Cache;
use trustplane_cluster::image_archive::{ImageSpec, write};

use super::*;
use crate::image::recipe::RECIPES;
use crate::run;

/// An image round a small program of this machine, and its files as a container would see them.
struct Unpacked {
    directory: tempfile::TempDir,
    packages: Vec<String>,
    /// Modes, owners and paths as tar lists them.
    listing: String,
}

impl Unpacked {
    fn new(name: &str) -> Self {
        let recipe = RECIPES.iter().find(|recipe| recipe.name == name).unwrap();
        let cache = Cache::locate().unwrap().root().join("debian");
        let rootfs = assemble(recipe, Path::new("/bin/true"), &cache).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("image.tar");
        let spec = ImageSpec {
            reference: recipe.reference(),
            layers: rootfs.layers,
            ..ImageSpec::default()
        };
        write(&spec, &archive).unwrap();
        let blobs = directory.path().join("blobs");
        let root = directory.path().join("root");
        fs::create_dir(&blobs).unwrap();
        fs::create_dir(&root).unwrap();
        run::run(tar(&archive, &blobs).arg("--extract")).unwrap();
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(blobs.join("manifest.json")).unwrap()).unwrap();
        let mut listing = String::new();
        for layer in manifest[0]["Layers"].as_array().unwrap() {
            let layer = blobs.join(layer.as_str().unwrap());
            run::run(tar(&layer, &root).args(["--extract", "--gzip"])).unwrap();
            let list = ["--list", "--verbose", "--numeric-owner", "--gzip"];
            listing += &run::output(tar(&layer, &root).args(list)).unwrap();
        }
        Self {
            directory,
            packages: rootfs.packages,
            listing,
        }
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.directory
            .path()
            .join("root")
            .join(inside.trim_start_matches('/'))
    }

    /// Files and links, but no directories.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut directories = vec![self.path("/")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    directories.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }

    /// The image's own loader, which looks into the image first. It needs no root, as entering the image would.
    fn loader(&self) -> Command {
        let triplet = objects::triplet();
        let directory = self.path(&format!("/lib/{triplet}"));
        let name = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
        };
        let loader = self
            .files()
            .into_iter()
            .find(|path| path.starts_with(&directory) && name(path))
            .unwrap();
        let mut command = Command::new(loader);
        command.args(["--inhibit-cache", "--library-path"]).arg(format!(
            "{}:{}",
            directory.display(),
            self.path(&format!("/usr/lib/{triplet}")).display()
        ));
        command
    }
}

fn tar(archive: &Path, directory: &Path) -> Command {
    let mut command = Command::new("tar");
    command
        .arg("--directory")
        .arg(directory)
        .arg("--file")
        .arg(archive);
    command
}

#[test]
fn everything_in_the_agents_image_links_to_what_is_in_the_image() {
    let image = Unpacked::new("agent");
    let root = image.path("/");
    let mut objects = 0;
    for file in image.files() {
        if file.is_symlink() {
            let target = fs::read_link(&file).unwrap();
            let meant = match target.strip_prefix("/") {
                Ok(absolute) => root.join(absolute),
                Err(_) => file.parent().unwrap().join(target),
            };
            assert!(meant.exists(), "{} leads nowhere", file.display());
        } else if objects::is_object(&file).unwrap() {
            objects += 1;
            let listed = run::output(image.loader().arg("--list").arg(&file)).unwrap();
            for line in listed.lines().filter(|line| line.contains("=>")) {
                let found = line
                    .split("=>")
                    .nth(1)
                    .and_then(|text| text.split_whitespace().next());
                assert!(
                    found.is_some_and(|path| Path::new(path).starts_with(&root)),
                    "{}: {line}",
                    file.display()
                );
            }
        }
    }
    assert!(objects > 20, "only {objects} programs and shared objects");
    for (program, says) in [
        ("/usr/sbin/pcscd", "pcsc-lite version"),
        ("/usr/bin/softhsm2-util", "2."),
    ] {
        let said = run::output(image.loader().arg(image.path(program)).arg("--version")).unwrap();
        assert!(said.contains(says), "{program}: {said}");
    }
    // What is loaded by its path: OpenSC's module by us, the driver by pcscd. A link would do for both.
    let triplet = objects::triplet();
    let driver = "/usr/lib/pcsc/drivers/ifd-ccid.bundle/Contents/Linux/libccid.so";
    for loaded in [&*format!("/usr/lib/{triplet}/opensc-pkcs11.so"), driver] {
        let file = fs::canonicalize(image.path(loaded)).unwrap();
        assert!(objects::is_object(&file).unwrap(), "{loaded}");
    }
    assert!(
        image
            .packages
            .iter()
            .any(|package| package.starts_with("libssl3=")),
        "{:?}",
        image.packages
    );
}

#[test]
fn the_agents_image_knows_the_pico_and_no_pin_pads() {
    let image = Unpacked::new("agent");
    let read = |path: &str| fs::read_to_string(image.path(path)).unwrap();
    let list = read("/etc/libccid_Info.plist");
    let lines = |value: &str| list.lines().filter(|line| line.contains(value)).count();
    assert_eq!((lines("0x2E8A"), lines("0x10FD"), lines("Pico HSM")), (1, 1, 1));
    assert!(read("/etc/opensc/opensc.conf").contains("enable_pinpad = false;"));
    // Without it OpenSC cannot write to such a card.
    assert!(image.path("/usr/share/opensc/sc-hsm.profile").is_file());
}

#[test]
fn the_agents_image_has_directories_for_its_user_and_no_shell() {
    let image = Unpacked::new("agent");
    for directory in ["run/pcscd/", "var/lib/softhsm/tokens/"] {
        let mut lines = image.listing.lines();
        let line = lines.find(|line| line.ends_with(directory)).unwrap();
        assert!(line.starts_with(&format!("drwx------ {UID}/{UID} ")), "{line}");
    }
    let programs: Vec<_> = ["/bin", "/usr/bin", "/usr/sbin"]
        .iter()
        .filter_map(|directory| fs::read_dir(image.path(directory)).ok())
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(programs.len(), 3, "{programs:?}");
    for program in ["trustplane-agent", "softhsm2-util", "pcscd"] {
        assert!(programs.iter().any(|name| name == program), "{programs:?}");
    }
}
