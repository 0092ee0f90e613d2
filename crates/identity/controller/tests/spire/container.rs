//! Containers: mounts, user and program as the object of a pod says.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::process::Command;

use crate::node::API_PORT;
use crate::pod::Pod;
use crate::program::Program;
use crate::volume;

/// Makes the mounts of a container and becomes its program. Its words: root directory, control group, user; then source, path and mode of
/// each mount up to `--`; then the program.
const START: &str = r#"
set -eu
root=$1 group=$2 user=$3
shift 3
echo $$ >"$group/cgroup.procs"
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root${2%/*}" && : >>"$root$2"; fi
    mount --bind --options "$3" "$1" "$root$2"
    shift 3
done
shift
mount --rbind /proc "$root/proc"
mount --options remount,bind,ro "$root"
exec chroot --userspec="$user" "$root" "$@"
"#;

/// What is mounted, where, and whether it may be written to.
type Mount<'a> = (PathBuf, &'a str, &'static str);

/// Starts a container of a pod, with its volumes as they are now.
pub async fn start(pod: &Pod, name: &str) -> Result<Program> {
    let container = pod.containers().find(|container| container["name"] == name);
    let container = container.with_context(|| format!("no container {name}"))?;
    let mounts = mounts(pod, container).await?;
    let (root, group) = (root(pod, name)?, pod.group(name)?);
    let log = pod.dir.join(format!("{name}.log"));
    let output = File::options().create(true).append(true).open(&log)?;
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", pod.network.path()))
        .args([
            "unshare",
            "--mount",
            "--propagation=private",
            "sh",
            "-c",
            START,
            "sh",
        ])
        .args([&root, &group])
        .arg(user(pod));
    for (source, path, mode) in mounts {
        command.arg(source).args([path, mode]);
    }
    let child = command
        .arg("--")
        .args(words(pod, container)?)
        .env_clear()
        .envs(environment(container))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()?;
    let probe = &container["readinessProbe"]["httpGet"];
    let probe = match probe["path"].as_str() {
        Some(path) => Some((pod.network.clone(), pod.port(&probe["port"])?, path.to_owned())),
        None => None,
    };
    Ok(Program {
        child,
        log,
        group,
        probe,
    })
}

async fn mounts<'a>(pod: &Pod, container: &'a Value) -> Result<Vec<Mount<'a>>> {
    let sources = volume::prepare(pod).await?;
    let mut mounts: Vec<Mount<'_>> = Vec::new();
    for (files, path) in pod.node.images.files() {
        mounts.push((files.to_owned(), path, "ro"));
    }
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        let volume = mount["name"].as_str().unwrap_or_default();
        let source = sources
            .get(volume)
            .with_context(|| format!("no volume {volume}"))?;
        let source = match mount["subPath"].as_str() {
            Some(file) => source.join(file),
            None => source.clone(),
        };
        let mode = if mount["readOnly"] == true { "ro" } else { "rw" };
        mounts.push((source, mount["mountPath"].as_str().unwrap_or_default(), mode));
    }
    // The mount points of some are in others.
    mounts.sort_by_key(|(_, path, _)| path.len());
    Ok(mounts)
}

/// The root directory of a container. It is mounted so that nothing can be written to it.
fn root(pod: &Pod, container: &str) -> Result<PathBuf> {
    let root = pod.dir.join("roots").join(container);
    for directory in ["proc", "etc"] {
        fs::create_dir_all(root.join(directory))?;
    }
    fs::write(root.join("etc/hosts"), pod.hosts())?;
    Ok(root)
}

/// What a container runs.
fn words(pod: &Pod, container: &Value) -> Result<Vec<String>> {
    let list = |field: &str| -> Option<Vec<String>> {
        let words = container[field].as_array()?.iter();
        Some(
            words
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect(),
        )
    };
    let entrypoint = pod
        .node
        .images
        .entrypoint(container["image"].as_str().unwrap_or_default())?;
    let command = list("command").unwrap_or_else(|| entrypoint.iter().map(ToString::to_string).collect());
    Ok([command, list("args").unwrap_or_default()].concat())
}

/// User and group of the programs.
fn user(pod: &Pod) -> String {
    let context = &pod.spec()["securityContext"];
    let id = |field: &str| context[field].as_u64().unwrap_or_default();
    format!("{}:{}", id("runAsUser"), id("runAsGroup"))
}

/// The variables of a container, and what starts it and where the API server is.
fn environment(container: &Value) -> Vec<(String, String)> {
    let given = container["env"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let given = given.map(|variable| (text(&variable["name"]), text(&variable["value"])));
    let ours = [
        ("PATH", std::env::var("PATH").unwrap_or_default()),
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
        ("KUBERNETES_SERVICE_PORT", API_PORT.to_string()),
    ];
    given
        .chain(ours.map(|(name, value)| (name.to_owned(), value)))
        .collect()
}
