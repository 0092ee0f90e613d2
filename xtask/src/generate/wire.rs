//! The wire code of gRPC services. A program of its own makes it (`xtask/wire`): its dependencies would double the time that
//! the task runner takes to compile.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::generate::tree::Tree;
use crate::{image, run};

/// Adds the code of every service.
pub fn add(tree: &mut Tree) -> Result<()> {
    let generator = image::compile_tool("xtask-wire")?;
    let scratch = tempfile::tempdir()?;
    run::run(Command::new(generator).arg(run::root()).arg(scratch.path()))?;
    take(tree, scratch.path(), scratch.path())
}

/// Adds every file below a directory, under its path below `root`.
fn take(tree: &mut Tree, root: &Path, directory: &Path) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            take(tree, root, &path)?;
        } else {
            let code = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            tree.add(path.strip_prefix(root)?, code);
        }
    }
    Ok(())
}
