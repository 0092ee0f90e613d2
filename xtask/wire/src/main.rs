//! The generator of the gRPC services' wire code, a program of `cargo xtask gen`: `xtask-wire ROOT OUT` reads the
//! descriptions below `ROOT` and writes the code below `OUT`, each file under its path in the work tree.

mod services;

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(root), Some(out), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        anyhow::bail!("xtask-wire takes the root of the work tree and an output directory");
    };
    for (path, code) in services::generate(&root)? {
        let file = out.join(path);
        if let Some(directory) = file.parent() {
            std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        }
        std::fs::write(&file, code).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
