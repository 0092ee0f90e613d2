//! `cargo xtask tools`: builds the pinned tools and says where they are.

use anyhow::{Result, bail};
use comfy_table::{Table, presets};
use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::{Tool, Toolchain};

/// Arguments of `cargo xtask tools`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask tools             build what is missing\n  \
                        cargo xtask tools helm        build one\n  \
                        cargo xtask tools --list      only say what is pinned and what is built"
)]
pub struct Args {
    /// Only these; all when none is named.
    names: Vec<String>,
    /// Build nothing.
    #[arg(long)]
    list: bool,
}

/// Builds and lists.
pub fn run(args: Args) -> Result<()> {
    let toolchain = Toolchain::new(&Cache::locate()?);
    let tools = chosen(&args.names)?;
    if !args.list {
        toolchain.ensure_all(&tools)?;
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["TOOL", "VERSION", "BINARIES"]);
    for tool in tools {
        let place = toolchain
            .built(tool)?
            .map_or("not built".into(), |dir| dir.display().to_string());
        table.add_row([tool.name(), &tool.version()?, &place]);
    }
    println!("{table}");
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<Tool>> {
    if names.is_empty() {
        return Ok(Tool::ALL.to_vec());
    }
    names
        .iter()
        .map(
            |name| match Tool::ALL.into_iter().find(|tool| tool.name() == name) {
                Some(tool) => Ok(tool),
                None => bail!(
                    "no tool {name}; there are {}",
                    Tool::ALL.map(Tool::name).join(", ")
                ),
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_tool_is_answered_with_the_known_ones() {
        assert_eq!(chosen(&[]).unwrap(), Tool::ALL);
        assert_eq!(chosen(&["helm".into()]).unwrap(), [Tool::Helm]);
        let error = chosen(&["docker".into()]).unwrap_err().to_string();
        assert!(
            error.contains("kubernetes") && error.contains("docker"),
            "{error}"
        );
    }
}
