//! `cargo xtask doctor`: what this machine lacks, and the one command that mends it.

use std::process::Command;

use anyhow::{Result, bail};
use trustplane_cluster::cache::Cache;
use trustplane_cluster::site::{self, Site};
use trustplane_cluster::tools::node::{self, Node};
use trustplane_cluster::tools::{Tool, Toolchain, debian};

/// The oldest Go that builds the pinned tools.
const GO: (u32, u32) = (1, 26);
/// What a cold run of everything leaves in the cache, with room to move.
const DISK_GIB: u64 = 15;

/// Arguments of `cargo xtask doctor`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask doctor          say what is missing\n  \
                        cargo xtask doctor --fix    install and build what can be"
)]
pub struct Args {
    /// Install Debian packages, build the tools, end orphaned clusters.
    #[arg(long)]
    fix: bool,
}

/// What came out of a look at one thing.
enum Finding {
    Good(String),
    /// It works without, but less well or later.
    Advice(String, String),
    /// What is wrong, and what mends it.
    Missing(String, String),
}

use Finding::{Advice, Good, Missing};

/// Looks at everything; fails when something is missing that the project cannot do without.
pub fn run(args: Args) -> Result<()> {
    let cache = Cache::locate()?;
    if args.fix {
        fix(&cache)?;
    }
    let findings = [
        ("machine", machine()),
        ("rust", rust()),
        ("go", go()),
        ("node", node()),
        ("packages", packages()?),
        ("root", root()),
        ("disk", disk(&cache)?),
        ("tools", tools(&cache)?),
        ("clusters", clusters(&cache)?),
    ];
    let mut missing = 0;
    for (subject, finding) in findings {
        match finding {
            Good(what) => println!("ok       {subject:<9} {what}"),
            Advice(what, remedy) => println!("advice   {subject:<9} {what}\n{:19}{remedy}", ""),
            Missing(what, remedy) => {
                missing += 1;
                println!("missing  {subject:<9} {what}\n{:19}{remedy}", "");
            }
        }
    }
    if missing > 0 {
        bail!("{missing} of what the project needs is missing");
    }
    Ok(())
}

fn fix(cache: &Cache) -> Result<()> {
    if debian::is_debian() {
        debian::install(&debian::missing(true)?)?;
    }
    for name in site::down_orphans(cache)? {
        println!("ended the orphaned cluster {name}");
    }
    Toolchain::new(cache).ensure_all(&Tool::ALL).map(drop)
}

fn machine() -> Finding {
    let (system, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    match (system, architecture) {
        ("linux", "x86_64" | "aarch64") => Good(format!("{system} on {architecture}")),
        _ => Missing(
            format!("{system} on {architecture}: clusters and images need Linux on x86_64 or aarch64"),
            "use a virtual machine with Debian 12".into(),
        ),
    }
}

/// We run, so a Rust is there; rust-toolchain.toml has chosen which.
fn rust() -> Finding {
    match answer("rustc", &["--version"]) {
        Some(version) => Good(version),
        None => Missing(
            "no rustc on the search path".into(),
            "install it by rustup from https://rustup.rs".into(),
        ),
    }
}

fn go() -> Finding {
    let wanted = format!("Go {}.{} or later", GO.0, GO.1);
    let remedy =
        format!("install {wanted} from https://go.dev/dl and put its bin directory on the search path");
    match answer("go", &["env", "GOVERSION"]) {
        Some(version) if go_version(&version).is_some_and(|found| found >= GO) => Good(version),
        Some(version) => Missing(format!("{version} is too old: the tools need {wanted}"), remedy),
        None => Missing(
            format!("no go on the search path: the tools need {wanted}"),
            remedy,
        ),
    }
}

fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("go")?.split(['.', '-']);
    let minor: String = numbers
        .clone()
        .nth(1)?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    Some((numbers.next()?.parse().ok()?, minor.parse().ok()?))
}

/// Node and npm, for the console of the hub.
fn node() -> Finding {
    match node::look() {
        Node::Good { node, npm } => Good(format!("Node {node}, npm {npm}")),
        Node::Bad(why) => Missing(why, node::remedy()),
    }
}

fn packages() -> Result<Finding> {
    if !debian::is_debian() {
        let list: Vec<String> = debian::PACKAGES
            .iter()
            .map(|package| format!("{} ({})", package.name, package.purpose))
            .collect();
        return Ok(Advice(
            "this is not Debian, so what is installed cannot be looked up".into(),
            format!("install what stands for: {}", list.join(", ")),
        ));
    }
    let missing = debian::missing(true)?;
    if missing.is_empty() {
        return Ok(Good(format!("all {} from Debian", debian::PACKAGES.len())));
    }
    let list: Vec<String> = missing
        .iter()
        .map(|package| format!("{} ({})", package.name, package.purpose))
        .collect();
    let remedy = format!("apt-get update && {}", debian::install_command(&missing));
    let mend = if is_root() {
        "cargo xtask doctor --fix".to_owned()
    } else {
        format!("as root: {remedy}")
    };
    // Without the packages of the nodes a control plane and all component tests still run.
    let what = format!("not installed: {}", list.join(", "));
    let essential = missing.iter().any(|package| !package.nodes_only);
    Ok(if essential || is_root() {
        Missing(what, mend)
    } else {
        Advice(what, mend)
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn root() -> Finding {
    if is_root() {
        return Good("yes: clusters with nodes can be made".into());
    }
    Advice(
        "no: only control planes without nodes can be made".into(),
        "run as root, or give demo and e2e tests a cluster of your own by --kubeconfig".into(),
    )
}

fn disk(cache: &Cache) -> Result<Finding> {
    std::fs::create_dir_all(cache.root())?;
    let place = cache.root().display();
    let statistics = rustix::fs::statvfs(cache.root())?;
    let free = (statistics.f_bavail * statistics.f_frsize) >> 30;
    Ok(if free >= DISK_GIB {
        Good(format!("{free} GiB free for {place}"))
    } else {
        Advice(
            format!("{free} GiB free for {place}: a cold run of everything needs {DISK_GIB}"),
            "make room, or set TRUSTPLANE_CACHE to a directory on a larger disk".into(),
        )
    })
}

fn tools(cache: &Cache) -> Result<Finding> {
    let toolchain = Toolchain::new(cache);
    let mut unbuilt = Vec::new();
    for tool in Tool::ALL {
        if toolchain.built(tool)?.is_none() {
            unbuilt.push(format!("{} {}", tool.name(), tool.version()?));
        }
    }
    Ok(if unbuilt.is_empty() {
        Good(format!("all {} built", Tool::ALL.len()))
    } else {
        Advice(
            format!("not built yet: {}", unbuilt.join(", ")),
            "cargo xtask tools builds them now; whoever needs one builds it then".into(),
        )
    })
}

fn clusters(cache: &Cache) -> Result<Finding> {
    let sites = Site::all(cache)?;
    let mut orphans = Vec::new();
    for site in &sites {
        if let Some(state) = site.state()?
            && state.orphaned()?
        {
            orphans.push(site.name().to_string());
        }
    }
    Ok(if orphans.is_empty() {
        Good(format!("{} kept, none orphaned", sites.len()))
    } else {
        Advice(
            format!("orphaned by a killed run: {}", orphans.join(", ")),
            "cargo xtask doctor --fix".into(),
        )
    })
}

fn answer(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_compared_as_numbers() {
        assert_eq!(go_version("go1.26.8"), Some((1, 26)));
        assert_eq!(go_version("go1.27rc1"), Some((1, 27)));
        assert_eq!(go_version("go1.9"), Some((1, 9)));
        assert!(go_version("go1.9") < Some(GO));
        assert_eq!(go_version("devel +abc"), None);
    }
}
