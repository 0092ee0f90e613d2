//! Lists the files of the console for `src/lib.rs`: the built ones if there are any, else the stub page. It never runs npm.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Names the folder of a built console. A relative path starts at this crate.
const DIST_VARIABLE: &str = "TRUSTPLANE_CONSOLE_DIST";
/// Where `npm run build` leaves its files.
const DIST: &str = "web/dist";
/// The page that stands in until the console is built.
const STUB: &str = "web/stub";
/// Files below this folder have a hash of their content in their name.
const HASHED: &str = "assets/";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed={DIST_VARIABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    let (folder, is_stub) = folder()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths = Vec::new();
    collect(&folder, &folder, &mut paths)?;
    paths.sort();

    let mut code = format!(
        "/// Whether the stub page stands in for the console.\npub const IS_STUB: bool = {is_stub};\n"
    );
    writeln!(code, "static FILES: &[Embedded] = &[")?;
    for path in &paths {
        writeln!(code, "{}", entry(&folder, path)?)?;
    }
    writeln!(code, "];")?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    fs::write(out.join("files.rs"), code)?;
    Ok(())
}

/// The folder to embed, and whether it is the stub.
fn folder() -> Result<(PathBuf, bool), Box<dyn Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    if let Some(named) = std::env::var_os(DIST_VARIABLE).filter(|named| !named.is_empty()) {
        let named = root.join(named);
        if !named.join("index.html").is_file() {
            return Err(format!(
                "{DIST_VARIABLE} names {}, which has no index.html",
                named.display()
            )
            .into());
        }
        return Ok((named, false));
    }
    let dist = root.join(DIST);
    if dist.join("index.html").is_file() {
        return Ok((dist, false));
    }
    // The folder is committed empty, so that cargo sees when a build fills it.
    println!("cargo::rerun-if-changed={}", dist.display());
    Ok((root.join(STUB), true))
}

/// Adds the path of every file below `folder`, relative to `root` and with `/` between its parts.
fn collect(root: &Path, folder: &Path, paths: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, paths)?;
            continue;
        }
        let relative = path
            .strip_prefix(root)?
            .to_str()
            .ok_or("the name of a console file is not UTF-8")?;
        let hidden = relative.split('/').any(|part| part.starts_with('.'));
        if !hidden && !relative.ends_with(".br") {
            paths.push(relative.to_owned());
        }
    }
    Ok(())
}

/// The Rust expression of one file.
fn entry(folder: &Path, path: &str) -> Result<String, Box<dyn Error>> {
    let full = folder.join(path);
    let packed = folder.join(format!("{path}.br"));
    let brotli = if packed.is_file() {
        format!("Some(include_bytes!({packed:?}))")
    } else {
        "None".to_owned()
    };
    Ok(format!(
        "    Embedded {{ path: {path:?}, content_type: {:?}, hashed: {}, digest: \"{:016x}\", plain: include_bytes!({full:?}), brotli: {brotli} }},",
        content_type(path)?,
        path.starts_with(HASHED),
        fnv1a(&fs::read(&full)?),
    ))
}

/// The media type by the ending of the name. An unknown ending fails the build: the hub forbids browsers to guess.
fn content_type(path: &str) -> Result<&'static str, Box<dyn Error>> {
    Ok(match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        Some("woff2") => "font/woff2",
        _ => return Err(format!("no media type is known for the console file {path}").into()),
    })
}

/// FNV-1a with 64 bits. It tells two builds of one file apart and guards nothing.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
