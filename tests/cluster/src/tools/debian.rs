//! What comes from Debian, by name.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::progress::Progress;
use crate::subprocess;

/// A package and the reason why it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// As apt knows it.
    pub name: &'static str,
    /// What does not work without it.
    pub purpose: &'static str,
    /// Whether only clusters with nodes need it.
    pub nodes_only: bool,
}

const fn everywhere(name: &'static str, purpose: &'static str) -> Package {
    Package {
        name,
        purpose,
        nodes_only: false,
    }
}

const fn nodes(name: &'static str, purpose: &'static str) -> Package {
    Package {
        name,
        purpose,
        nodes_only: true,
    }
}

/// The one list.
pub const PACKAGES: [Package; 22] = [
    everywhere("ca-certificates", "downloads over TLS"),
    everywhere("chromium", "the console's browser tests"),
    everywhere("gcc", "compiling and linking"),
    everywhere("iproute2", "network namespaces and links"),
    everywhere("libc6-dev", "compiling and linking"),
    everywhere("libclang-common-14-dev", "kryoptic, a token of the tests"),
    everywhere("libclang1-14", "kryoptic, a token of the tests"),
    everywhere("libsqlite3-dev", "kryoptic, a token of the tests"),
    everywhere("libssl-dev", "kryoptic, a token of the tests"),
    everywhere("opensc", "pkcs11-tool, which looks at the tokens of the tests"),
    everywhere("opensc-pkcs11", "OpenSC's module, of the tests with cards"),
    everywhere("pcscd", "card readers, of the tests with cards"),
    everywhere("pkg-config", "kryoptic, a token of the tests"),
    everywhere("python3-venv", "moto, the AWS of the tests"),
    everywhere("softhsm2", "SoftHSM, a token of the tests"),
    everywhere(
        "vsmartcard-vpcd",
        "a card reader that is a process, of the tests with cards",
    ),
    nodes("conntrack", "kube-proxy"),
    nodes("containerd", "running containers"),
    nodes("containernetworking-plugins", "the pod network"),
    nodes("ethtool", "kubelet"),
    nodes("iptables", "kube-proxy and port mappings"),
    nodes("runc", "running containers"),
];

/// Whether packages can be installed here by apt.
pub fn is_debian() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    describes_debian(&release)
}

fn describes_debian(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .any(|value| value.trim_matches('"').split(' ').any(|id| id == "debian"))
}

/// The packages of the list that are not installed.
pub fn missing(with_nodes: bool) -> Result<Vec<Package>> {
    let wanted: Vec<Package> = PACKAGES
        .iter()
        .filter(|package| with_nodes || !package.nodes_only)
        .copied()
        .collect();
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat=${Package} ${db:Status-Status}\\n"])
        .args(wanted.iter().map(|package| package.name))
        .output()
        .context("ask dpkg what is installed")?;
    // Its exit status only says that some package is unknown, which is what we came to ask.
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(wanted
        .into_iter()
        .filter(|package| !is_installed(&report, package.name))
        .collect())
}

fn is_installed(report: &str, name: &str) -> bool {
    report
        .lines()
        .any(|line| line.split_once(' ') == Some((name, "installed")))
}

/// The command that installs packages, for people.
pub fn install_command(packages: &[Package]) -> String {
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    format!("apt-get install -y --no-install-recommends {}", names.join(" "))
}

/// Installs packages; needs root.
pub fn install(packages: &[Package]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    if !is_debian() {
        bail!(
            "this is not Debian: install what {:?} stands for",
            names(packages)
        );
    }
    let mut progress = Progress::begin(format!("install {}", names(packages).join(", ")));
    for verb in ["update", "install"] {
        let mut apt = Command::new("apt-get");
        // Another apt may be at work; it is waited for instead of failing at once.
        apt.args(["-y", "-o", "DPkg::Lock::Timeout=300", verb])
            .env("DEBIAN_FRONTEND", "noninteractive");
        if verb == "install" {
            apt.arg("--no-install-recommends").args(names(packages));
        }
        // Its ordinary output is long and for nobody.
        apt.stdout(std::process::Stdio::null());
        subprocess::stream(&mut apt, |line| progress.note(line))?;
    }
    progress.finish();
    Ok(())
}

fn names(packages: &[Package]) -> Vec<&'static str> {
    packages.iter().map(|package| package.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_its_children_are_known_by_os_release() {
        assert!(describes_debian("PRETTY_NAME=\"x\"\nID=debian\n"));
        assert!(describes_debian("ID=ubuntu\nID_LIKE=debian\n"));
        assert!(!describes_debian("ID=fedora\nID_LIKE=\"rhel centos\"\n"));
    }

    #[test]
    fn removed_packages_with_configuration_left_are_missing() {
        let report = "gcc installed\nrunc config-files\n";
        assert!(is_installed(report, "gcc"));
        assert!(!is_installed(report, "runc"));
        assert!(!is_installed(report, "containerd"));
    }
}
