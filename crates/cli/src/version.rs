//! `kubectl trustplane version`: this program's version, and those that run in the cluster.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use crate::cluster::{ClusterArgs, Seen};
use crate::installation::{self, Process};
use crate::output::{self, ListFormat};

/// Show the version of this program and of what runs in the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kubectl trustplane version -o yaml")]
pub struct Args {
    /// How the result looks.
    #[arg(long, short, value_enum, default_value_t)]
    output: ListFormat,
    /// Show this program's version only; ask no cluster.
    #[arg(long)]
    client: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<Process>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    obstacle: Option<String>,
}

/// Runs the command.
pub async fn run(args: &Args, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let seen = if args.client {
        None
    } else {
        Some(installation::processes(&cluster.connect().await?).await)
    };
    let versions = versions(seen);
    render(&versions, args.output, out)?;
    Ok(if versions.obstacle.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn versions(seen: Option<Seen<Vec<Process>>>) -> Versions {
    let client = env!("CARGO_PKG_VERSION");
    match seen {
        None => Versions {
            client,
            processes: None,
            obstacle: None,
        },
        Some(Ok(processes)) => Versions {
            client,
            processes: Some(processes),
            obstacle: None,
        },
        Some(Err(obstacle)) => Versions {
            client,
            processes: None,
            obstacle: Some(obstacle.to_string()),
        },
    }
}

fn render(versions: &Versions, format: ListFormat, out: &mut impl Write) -> Result<()> {
    match format {
        ListFormat::Json => output::json(out, versions),
        ListFormat::Yaml => output::yaml(out, versions),
        ListFormat::Name => {
            for process in versions.processes.iter().flatten() {
                writeln!(out, "{}", process.path())?;
            }
            Ok(())
        }
        ListFormat::Table => people(versions, false, out),
        ListFormat::Wide => people(versions, true, out),
    }
}

fn people(versions: &Versions, wide: bool, out: &mut impl Write) -> Result<()> {
    writeln!(out, "Client version: {}", versions.client)?;
    match (&versions.processes, &versions.obstacle) {
        (_, Some(obstacle)) => writeln!(out, "Cluster: {obstacle}")?,
        (Some(processes), _) if processes.is_empty() => {
            writeln!(out, "Cluster: Trustplane is not installed")?;
        }
        (Some(processes), _) => {
            writeln!(out)?;
            let mut head = vec!["NAMESPACE", "NAME", "VERSION", "READY"];
            if wide {
                head.extend(["CAPABILITIES", "IMAGE"]);
            }
            output::table(
                out,
                &head,
                processes.iter().map(|process| row(process, wide)).collect(),
            )?;
        }
        (None, None) => {}
    }
    Ok(())
}

fn row(process: &Process, wide: bool) -> Vec<String> {
    let mut row = vec![
        process.namespace.clone(),
        process.name.clone(),
        process.version.clone(),
        format!("{}/{}", process.ready, process.desired),
    ];
    if wide {
        row.extend([process.capabilities.join(","), process.image.clone()]);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Obstacle;

    fn shown(seen: Option<Seen<Vec<Process>>>, format: ListFormat) -> String {
        let mut out = Vec::new();
        let versions = Versions {
            client: "0.1.0",
            ..versions(seen)
        };
        render(&versions, format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn two() -> Option<Seen<Vec<Process>>> {
        let process = |name: &str, ready| Process {
            namespace: "trustplane".into(),
            name: name.into(),
            version: "0.1.0".into(),
            image: "localhost/trustplane/manager:0.1.0".into(),
            capabilities: vec!["sync".into(), "hsm".into()],
            ready,
            desired: 2,
            ..Process::default()
        };
        Some(Ok(vec![
            process("trustplane-hsm", 2),
            process("trustplane-manager", 1),
        ]))
    }

    #[test]
    fn people_see_columns() {
        insta::assert_snapshot!(shown(two(), ListFormat::Table), @r"
        Client version: 0.1.0

        NAMESPACE    NAME                 VERSION   READY
        trustplane   trustplane-hsm       0.1.0     2/2
        trustplane   trustplane-manager   0.1.0     1/2
        ");
        insta::assert_snapshot!(shown(two(), ListFormat::Wide), @r"
        Client version: 0.1.0

        NAMESPACE    NAME                 VERSION   READY   CAPABILITIES   IMAGE
        trustplane   trustplane-hsm       0.1.0     2/2     sync,hsm       localhost/trustplane/manager:0.1.0
        trustplane   trustplane-manager   0.1.0     1/2     sync,hsm       localhost/trustplane/manager:0.1.0
        ");
    }

    #[test]
    fn programs_see_documents() {
        insta::assert_snapshot!(shown(two(), ListFormat::Json), @r#"
        {
          "client": "0.1.0",
          "processes": [
            {
              "namespace": "trustplane",
              "name": "trustplane-hsm",
              "version": "0.1.0",
              "image": "localhost/trustplane/manager:0.1.0",
              "capabilities": [
                "sync",
                "hsm"
              ],
              "ready": 2,
              "desired": 2
            },
            {
              "namespace": "trustplane",
              "name": "trustplane-manager",
              "version": "0.1.0",
              "image": "localhost/trustplane/manager:0.1.0",
              "capabilities": [
                "sync",
                "hsm"
              ],
              "ready": 1,
              "desired": 2
            }
          ]
        }
        "#);
        insta::assert_snapshot!(shown(two(), ListFormat::Yaml), @r#"
        client: "0.1.0"
        processes:
        - namespace: trustplane
          name: trustplane-hsm
          version: "0.1.0"
          image: localhost/trustplane/manager:0.1.0
          capabilities:
          - sync
          - hsm
          ready: 2
          desired: 2
        - namespace: trustplane
          name: trustplane-manager
          version: "0.1.0"
          image: localhost/trustplane/manager:0.1.0
          capabilities:
          - sync
          - hsm
          ready: 1
          desired: 2
        "#);
        insta::assert_snapshot!(shown(two(), ListFormat::Name), @r"
        deployment/trustplane-hsm
        deployment/trustplane-manager
        ");
    }

    #[test]
    fn an_empty_cluster_a_refusal_and_no_question_look_different() {
        insta::assert_snapshot!(shown(Some(Ok(vec![])), ListFormat::Table), @r"
        Client version: 0.1.0
        Cluster: Trustplane is not installed
        ");
        insta::assert_snapshot!(shown(Some(Err(Obstacle::Forbidden)), ListFormat::Table), @r"
        Client version: 0.1.0
        Cluster: you may not look at it
        ");
        insta::assert_snapshot!(shown(None, ListFormat::Table), @r"
        Client version: 0.1.0
        ");
    }
}
