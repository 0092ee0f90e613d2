//! Tools from Go modules: `tool` lines name what is built, go.sum what it is built from.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::progress::Progress;
use crate::subprocess;

/// What a user's shell may hold and would change the binaries.
const INHERITED: [&str; 11] = [
    "GOOS",
    "GOARCH",
    "GOEXPERIMENT",
    "GOAMD64",
    "CC",
    "CGO_CFLAGS",
    "CGO_CPPFLAGS",
    "CGO_LDFLAGS",
    "CFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
];

/// A Go module that exists for the tools it requires.
pub(super) struct Module {
    /// Whose version is the version of the tool.
    path: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
    /// The package with the version variables that clients compare, unless the tool knows its version by itself.
    version_package: Option<&'static str>,
    /// What `go build` names the binaries, and what we name them.
    binaries: &'static [(&'static str, &'static str)],
    /// The program itself, where it is ours: the names of its files and what they hold.
    sources: &'static [(&'static str, &'static str)],
    /// The build tags of a tool with packages in C. It is linked with the C library, and as static as the others.
    cgo_tags: Option<&'static str>,
}

pub(super) const ETCD: Module = Module {
    path: "go.etcd.io/etcd/server/v3",
    go_mod: include_str!("../../../../xtask/tools/etcd/go.mod"),
    go_sum: include_str!("../../../../xtask/tools/etcd/go.sum"),
    version_package: None,
    binaries: &[("server", "etcd")],
    sources: &[],
    cgo_tags: None,
};

pub(super) const KUBERNETES: Module = Module {
    path: "k8s.io/kubernetes",
    go_mod: include_str!("../../../../xtask/tools/kubernetes/go.mod"),
    go_sum: include_str!("../../../../xtask/tools/kubernetes/go.sum"),
    version_package: Some("k8s.io/component-base/version"),
    binaries: &[
        ("kube-apiserver", "kube-apiserver"),
        ("kube-controller-manager", "kube-controller-manager"),
        ("kube-proxy", "kube-proxy"),
        ("kube-scheduler", "kube-scheduler"),
        ("kubectl", "kubectl"),
        ("kubelet", "kubelet"),
    ],
    sources: &[],
    cgo_tags: None,
};

pub(super) const COREDNS: Module = Module {
    path: "github.com/coredns/coredns",
    go_mod: include_str!("../../../../xtask/tools/coredns/go.mod"),
    go_sum: include_str!("../../../../xtask/tools/coredns/go.sum"),
    version_package: None,
    binaries: &[("coredns", "coredns")],
    sources: &[("main.go", include_str!("../../../../xtask/tools/coredns/main.go"))],
    cgo_tags: None,
};

pub(super) const HELM: Module = Module {
    path: "helm.sh/helm/v4",
    go_mod: include_str!("../../../../xtask/tools/helm/go.mod"),
    go_sum: include_str!("../../../../xtask/tools/helm/go.sum"),
    version_package: None,
    binaries: &[("helm", "helm")],
    sources: &[],
    cgo_tags: None,
};

pub(super) const PROBE: Module = Module {
    path: "trustplane.io/tools/probe",
    go_mod: include_str!("../../../../xtask/tools/probe/go.mod"),
    go_sum: "",
    version_package: None,
    binaries: &[("probe", "probe")],
    sources: &[("main.go", include_str!("../../../../xtask/tools/probe/main.go"))],
    cgo_tags: None,
};

/// The stand-in for the CSI driver of SPIFFE and its registrar: one program, which acts by its name.
pub(super) const CSI_STAND_IN: Module = Module {
    path: "trustplane.io/tools/csi-stand-in",
    go_mod: include_str!("../../csi/go.mod"),
    go_sum: include_str!("../../csi/go.sum"),
    version_package: None,
    binaries: &[("csi-stand-in", "csi-stand-in")],
    sources: &[
        ("main.go", include_str!("../../csi/main.go")),
        ("driver.go", include_str!("../../csi/driver.go")),
        ("registrar.go", include_str!("../../csi/registrar.go")),
    ],
    cgo_tags: None,
};

/// SPIRE and its controller manager keep the modules that they were released with: tests look at what they do.
pub(super) const SPIRE: Module = Module {
    path: "github.com/spiffe/spire",
    go_mod: include_str!("../../../../xtask/tools/spire/go.mod"),
    go_sum: include_str!("../../../../xtask/tools/spire/go.sum"),
    version_package: None,
    binaries: &[
        ("spire-server", "spire-server"),
        ("spire-agent", "spire-agent"),
        ("oidc-discovery-provider", "oidc-discovery-provider"),
    ],
    sources: &[],
    // sqlite is in C. Names of users and hosts are looked up by Go, as a static C library cannot load what it needs for that.
    cgo_tags: Some("netgo,osusergo,sqlite_omit_load_extension"),
};

pub(super) const SPIRE_CONTROLLER_MANAGER: Module = Module {
    path: "github.com/spiffe/spire-controller-manager",
    go_mod: include_str!("../../../../xtask/tools/spire-controller-manager/go.mod"),
    go_sum: include_str!("../../../../xtask/tools/spire-controller-manager/go.sum"),
    version_package: None,
    binaries: &[("cmd", "spire-controller-manager")],
    sources: &[],
    cgo_tags: None,
};

impl Module {
    /// The version that go.mod requires; a program that is ours alone has our version.
    pub(super) fn version(&self) -> Result<&'static str> {
        match required_version(self.go_mod, self.path) {
            Some(version) => Ok(version),
            None if !self.sources.is_empty() => Ok(env!("CARGO_PKG_VERSION")),
            None => bail!("{} is not in its go.mod", self.path),
        }
    }

    /// Everything that the binaries depend on, but the tool chains of Go and C.
    pub(super) fn inputs(&self) -> Result<Vec<String>> {
        let mut inputs = vec![
            std::env::consts::ARCH.to_owned(),
            self.go_mod.into(),
            self.go_sum.into(),
        ];
        inputs.extend(self.sources.iter().map(|(_, content)| (*content).to_owned()));
        inputs.extend(self.flags()?);
        inputs.extend(
            self.binaries
                .iter()
                .map(|(built, named)| format!("{built} {named}")),
        );
        Ok(inputs)
    }

    fn flags(&self) -> Result<Vec<String>> {
        let mut linker = "-s -w".to_owned();
        if let Some(package) = self.version_package {
            let version = self.version()?;
            let mut numbers = version.trim_start_matches('v').split('.');
            let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
                bail!("{version} is not a version");
            };
            for (variable, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
                linker.push_str(&format!(" -X {package}.{variable}={value}"));
            }
        }
        // Nobody debugs the tools: without what a debugger needs they build in five sixths of the time.
        let compiler = "-gcflags=all=-dwarf=false".to_owned();
        // No -trimpath: with it Go's cache tells packages apart by the version that go.mod requires and not by the one that
        // replaces it, and tools would not share the packages of Kubernetes.
        let mut flags = vec![compiler];
        if let Some(tags) = self.cgo_tags {
            flags.extend(["-tags".into(), tags.into()]);
            linker.push_str(" -linkmode=external -extldflags=-static");
        }
        flags.extend(["-ldflags".into(), linker]);
        Ok(flags)
    }

    /// Builds in `staging` and gives the directory with the binaries.
    pub(super) fn build(&self, staging: &Path, progress: &mut Progress) -> Result<PathBuf> {
        fs::write(staging.join("go.mod"), self.go_mod).context("write go.mod")?;
        fs::write(staging.join("go.sum"), self.go_sum).context("write go.sum")?;
        for (file, content) in self.sources {
            fs::write(staging.join(file), content).with_context(|| format!("write {file}"))?;
        }
        progress.note("looking at what is to be built");
        let total = self.count_stale(staging, progress)?;
        progress.set(0, total);
        let raw = staging.join("raw");
        let mut build = self.go(staging, "build");
        build
            .arg("-v")
            .args(self.flags()?)
            .arg("-o")
            .arg(raw.join(""))
            .arg("tool");
        subprocess::stream(&mut build, |line| {
            // `go build -v` names each package when it begins with it; all else is a message.
            if line.contains(' ') {
                progress.note(line);
            } else {
                progress.advance();
                progress.note(line);
            }
        })?;
        let binaries = staging.join("bin");
        fs::create_dir_all(&binaries).context("create the directory of the binaries")?;
        for (built, named) in self.binaries {
            fs::rename(raw.join(built), binaries.join(named)).with_context(|| format!("find {built}"))?;
        }
        Ok(binaries)
    }

    /// Downloads what is missing and counts the packages that Go's own cache does not hold.
    fn count_stale(&self, staging: &Path, progress: &mut Progress) -> Result<u64> {
        let list = staging.join("stale.txt");
        let mut command = self.go(staging, "list");
        command
            .args(["-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"])
            .args(self.flags()?)
            .arg("tool");
        command.stdout(File::create(&list).context("create a list of packages")?);
        subprocess::stream(&mut command, |line| progress.note(line))?;
        let text = fs::read_to_string(&list).context("read a list of packages")?;
        Ok(u64::try_from(
            text.lines().filter(|line| !line.is_empty()).count(),
        )?)
    }

    /// The settings of the user's shell must not change what comes out.
    fn go(&self, dir: &Path, verb: &str) -> Command {
        let mut command = Command::new("go");
        command
            .arg(verb)
            .current_dir(dir)
            .env("CGO_ENABLED", if self.cgo_tags.is_some() { "1" } else { "0" })
            .env("GOWORK", "off")
            .env("GOFLAGS", "-buildvcs=false")
            // The compiler collects garbage less often: memory is at hand, and time is not.
            .env("GOGC", "400");
        for variable in INHERITED {
            command.env_remove(variable);
        }
        command
    }
}

fn required_version<'a>(go_mod: &'a str, path: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line
            .trim()
            .trim_start_matches("require ")
            .split_ascii_whitespace();
        (words.next()? == path)
            .then(|| words.next())?
            .filter(|word| word.starts_with('v'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version that a module is built at: that of its replacement, if it has one.
    fn built_version<'a>(go_mod: &'a str, path: &str) -> Option<&'a str> {
        let replaced = go_mod.lines().find_map(|line| {
            let line = line.trim().trim_start_matches("replace ");
            let replacement = line.strip_prefix(path)?.strip_prefix(" => ")?;
            replacement.split_once(' ').map(|(_, version)| version)
        });
        replaced.or_else(|| required_version(go_mod, path))
    }

    #[test]
    fn replacements_decide_the_version_that_is_built() {
        let go_mod = "require (\n\ta v1.0.0\n\ta/b v1.0.0\n)\nreplace a/b => c v0.9.0\nreplace (\n\td => d v2.0.0\n)\n";
        let built = ["a", "a/b", "d", "e"].map(|path| built_version(go_mod, path));
        assert_eq!(built, [Some("v1.0.0"), Some("v0.9.0"), Some("v2.0.0"), None]);
    }

    // Go compiles a package again for each version of a module, and most of helm and CoreDNS is Kubernetes' own code.
    #[test]
    fn tools_share_the_modules_of_kubernetes() {
        // etcd is a release ahead of the client in Kubernetes, and needs a newer OpenTelemetry.
        let ahead: &[&str] = &["go.etcd.io/", "go.opentelemetry.io/"];
        for (tool, own, at_least) in [
            (ETCD, ahead, 30),
            (COREDNS, &[], 30),
            (HELM, &[], 30),
            (CSI_STAND_IN, &[], 8),
        ] {
            let words = tool
                .go_mod
                .lines()
                .filter_map(|line| line.trim().split(' ').next());
            let shared = words.filter(|path| !own.iter().any(|prefix| path.starts_with(prefix)));
            let versions = shared.filter_map(|path| {
                let expected = built_version(KUBERNETES.go_mod, path)?;
                Some((path, expected, built_version(tool.go_mod, path)?))
            });
            let versions: Vec<_> = versions.collect();
            assert!(
                versions.len() >= at_least,
                "{} shares {} modules",
                tool.path,
                versions.len()
            );
            for (path, expected, built) in versions {
                assert_eq!(built, expected, "{path} of {}", tool.path);
            }
        }
    }

    #[test]
    fn versions_come_from_go_mod() {
        let go_mod = "module m\n\ntool a/cmd/x\n\nrequire (\n\ta v1.2.3 // indirect\n\ta/b v9.9.9\n)\nrequire c v0.1.0\n";
        assert_eq!(required_version(go_mod, "a"), Some("v1.2.3"));
        assert_eq!(required_version(go_mod, "c"), Some("v0.1.0"));
        assert_eq!(required_version(go_mod, "d"), None);
    }

    #[test]
    fn kubernetes_is_stamped_with_its_version() {
        let flags = KUBERNETES.flags().unwrap().join(" ");
        let version = KUBERNETES.version().unwrap();
        assert!(
            flags.contains(&format!("version.gitVersion={version}")),
            "{flags}"
        );
        assert!(flags.contains("version.gitMajor=1 "), "{flags}");
        assert!(!ETCD.flags().unwrap().join(" ").contains("-X"));
    }

    #[test]
    fn tools_with_packages_in_c_are_static_and_alone_ask_for_it() {
        let flags = SPIRE.flags().unwrap().join(" ");
        assert!(
            flags.contains("-tags netgo,osusergo,")
                && flags.ends_with("-linkmode=external -extldflags=-static"),
            "{flags}"
        );
        for tool in [
            ETCD,
            KUBERNETES,
            COREDNS,
            HELM,
            PROBE,
            CSI_STAND_IN,
            SPIRE_CONTROLLER_MANAGER,
        ] {
            let flags = tool.flags().unwrap().join(" ");
            assert!(
                !flags.contains("-tags") && !flags.contains("-linkmode"),
                "{flags}"
            );
        }
    }

    #[test]
    fn tools_share_the_compiled_packages_of_kubernetes() {
        let compiler = |module: &Module| {
            let flags = module.flags().unwrap();
            flags
                .into_iter()
                .filter(|flag| !flag.starts_with("-s -w"))
                .collect::<Vec<_>>()
        };
        for tool in [ETCD, COREDNS, HELM, PROBE, CSI_STAND_IN, SPIRE_CONTROLLER_MANAGER] {
            assert_eq!(compiler(&tool), compiler(&KUBERNETES), "{}", tool.path);
        }
        assert!(!compiler(&KUBERNETES).iter().any(|flag| flag == "-trimpath"));
    }
}
