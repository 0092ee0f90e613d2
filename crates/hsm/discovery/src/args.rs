//! What the process is told.

use std::path::PathBuf;
use std::time::Duration;

use trustplane_hsm_core::usb::{Pattern, Selection};
use trustplane_kit::clients::KubeArgs;
use trustplane_process::args::CommonArgs;

/// Find the tokens of this node, report them in an annotation of this pod, and offer them to kubelet.
///
/// It is told what to look for and asks nobody; the manager puts it onto nodes, one for each HSMDevice.
#[derive(Debug, clap::Parser)]
#[command(
    name = "trustplane-discovery",
    after_help = "Every flag is also an environment variable, and a key of the file that --config names. A flag beats \
                  the environment, and the environment beats the file.\n\n\
                  Example:\n  trustplane-discovery --device-name=pico \\\n    \
                  --selection='{\"usb\":[{\"vendor\":\"20a0\",\"product\":\"4230\"}],\"maxDevices\":10}'"
)]
pub struct Arguments {
    /// What to look for, and where
    #[command(flatten)]
    pub discovery: DiscoveryArgs,
    /// How to reach the API server
    #[command(flatten)]
    pub kube: KubeArgs,
    /// What every process takes
    #[command(flatten)]
    pub common: CommonArgs,
}

impl AsRef<CommonArgs> for Arguments {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// What discovery takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Discovery")]
pub struct DiscoveryArgs {
    /// The HSMDevice that reports are for
    #[arg(long, value_name = "NAME")]
    pub device_name: String,
    /// What to look for, as JSON: usb (a list of vendor, product, serial), path (glob, permissions), auto (ids, ccid),
    /// maxDevices
    #[arg(long, value_name = "JSON", default_value = r#"{"auto":{"ccid":true}}"#, value_parser = selection)]
    pub selection: Selection,
    /// The resource that all tokens of the type are offered as, besides the resource of each token. A pod that requests it gets a
    /// token also while an agent serves that token; without this the type is not offered
    #[arg(long, value_name = "RESOURCE", value_parser = resource)]
    pub type_resource: Option<String>,
    /// How long a lost token is remembered, in seconds; a sign of life is given at each third of it
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub grace_period: Duration,
    /// Where sysfs is; the first that is there counts
    #[arg(long, value_name = "DIR", default_values = ["/host/sys", "/sys"])]
    pub sysfs_root: Vec<PathBuf>,
    /// Where device files are; the first that is there counts
    #[arg(long, value_name = "DIR", default_values = ["/host/dev", "/dev"])]
    pub dev_root: Vec<PathBuf>,
    /// Where the node itself has its device files; kubelet is told of them there
    #[arg(long, value_name = "DIR", default_value = "/dev")]
    pub dev_host_path: String,
    /// Kubelet's directory for device plugins
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/device-plugins")]
    pub plugin_dir: PathBuf,
    /// The node that this pod runs on
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: String,
    /// The name of this pod
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: String,
    /// The namespace of this pod, and of the HSMDevice
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub pod_namespace: String,
    /// The uid of this pod: another pod of the same name is not touched
    #[arg(long, env = "POD_UID", value_name = "UID")]
    pub pod_uid: String,
}

fn selection(text: &str) -> Result<Selection, String> {
    let selection: Selection = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(path) = &selection.path {
        Pattern::parse(&path.glob).map_err(|error| format!("path.glob {error}"))?;
    }
    match selection.is_empty() {
        true => Err("names nothing to look for".to_owned()),
        false => Ok(selection),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: u64 = text.parse().map_err(|_| "want a number of seconds".to_owned())?;
    // A year is as good as for ever, and no sum of times overflows.
    if !(1..=31_536_000).contains(&seconds) {
        return Err("want between 1 and 31536000 seconds".to_owned());
    }
    Ok(Duration::from_secs(seconds))
}

fn resource(text: &str) -> Result<String, String> {
    let name = text.split_once('/').filter(|(domain, name)| {
        let plain = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        };
        let ends =
            |text: &str| !text.is_empty() && !text.starts_with(['-', '.']) && !text.ends_with(['-', '.']);
        [domain, name]
            .iter()
            .all(|part| plain(part) && ends(part) && part.len() <= 63)
    });
    name.map(|_| text.to_owned())
        .ok_or_else(|| "want a resource such as hsm.j5t.io/picohsm".to_owned())
}

#[cfg(test)]
mod tests {
    use trustplane_process::args::parse_from;

    use super::*;

    fn parse(more: &[&str]) -> Result<Arguments, String> {
        let mut argv = vec!["trustplane-discovery", "--device-name=pico"];
        argv.extend(more);
        let env = |name: &str| {
            let value = match name {
                "NODE_NAME" => "n1",
                "POD_NAME" => "pico-discovery-x",
                "POD_NAMESPACE" => "trustplane",
                "POD_UID" => "1-2-3",
                _ => return None,
            };
            Some(value.to_owned())
        };
        parse_from(argv, env).map_err(|error| error.to_string())
    }

    #[test]
    fn the_arguments_of_the_daemonset_are_understood() {
        let selection = r#"--selection={"usb":[{"vendor":"20A0","product":"4230"}],"maxDevices":2}"#;
        let arguments = parse(&[
            selection,
            "--grace-period=60",
            "--sysfs-root=/a",
            "--sysfs-root=/b",
        ])
        .unwrap();
        let discovery = arguments.discovery;
        assert_eq!(discovery.selection.limit(), Some(2));
        assert_eq!(discovery.grace_period, Duration::from_secs(60));
        assert_eq!(discovery.sysfs_root, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(
            (discovery.node_name.as_str(), discovery.pod_uid.as_str()),
            ("n1", "1-2-3")
        );
    }

    #[test]
    fn without_a_word_smart_cards_are_looked_for_under_host_first_and_then_plainly() {
        let discovery = parse(&[]).unwrap().discovery;
        assert_eq!(discovery.type_resource, None);
        assert!(discovery.selection.auto.is_some_and(|auto| auto.ccid));
        let paths = |paths: [&str; 2]| paths.map(PathBuf::from);
        assert_eq!(discovery.sysfs_root, paths(["/host/sys", "/sys"]));
        assert_eq!(discovery.dev_root, paths(["/host/dev", "/dev"]));
    }

    #[test]
    fn what_makes_no_sense_is_refused_at_the_start() {
        for wrong in [
            r#"--selection={"usb":[{"vendor":"20g0","product":"4230"}]}"#,
            r#"--selection={"path":{"glob":"/etc/*"}}"#,
            "--selection=[",
            "--selection={}",
            r#"--selection={"maxDevices":3}"#,
            "--grace-period=0",
            "--grace-period=5m",
        ] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
        for wrong in [
            "picohsm",
            "hsm.j5t.io/",
            "hsm.j5t.io/a/b",
            "../x/y",
            "hsm.j5t.io/..",
        ] {
            assert!(resource(wrong).is_err(), "{wrong}");
        }
    }
}
