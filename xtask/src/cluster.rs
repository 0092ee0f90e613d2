//! `cargo xtask cluster`: development clusters, several side by side.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use comfy_table::{Table, presets};
use trustplane_cluster::cache::Cache;
use trustplane_cluster::control_plane::{ControlPlane, Options};
use trustplane_cluster::daemon::log_path;
use trustplane_cluster::node;
use trustplane_cluster::site::{self, Site};
use trustplane_cluster::state::State;
use trustplane_cluster::tools::{Tool, Toolchain};

/// Arguments of `cargo xtask cluster`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask cluster up --nodes 1\n  \
                        cargo xtask cluster exec -- kubectl get pods --all-namespaces\n  \
                        cargo xtask cluster down")]
pub struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start a cluster; one that is up already with the same options stays as it is.
    #[command(
        after_help = "Examples:\n  cargo xtask cluster up\n  cargo xtask cluster up --name two --nodes 2"
    )]
    Up {
        #[command(flatten)]
        cluster: Named,
        /// How many nodes: none is a control plane alone on 127.0.0.1; one or two need root.
        #[arg(long, default_value = "0", value_parser = ["0", "1", "2"])]
        nodes: String,
    },
    /// End a cluster and remove everything that was made for it.
    #[command(after_help = "Examples:\n  cargo xtask cluster down\n  cargo xtask cluster down --all")]
    Down {
        #[command(flatten)]
        cluster: Named,
        /// End every cluster.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Show the clusters, or the processes of one.
    #[command(
        after_help = "Examples:\n  cargo xtask cluster status\n  cargo xtask cluster status --name dev"
    )]
    Status {
        /// Show the processes of this cluster.
        #[arg(long)]
        name: Option<String>,
    },
    /// Print the path of the kubeconfig.
    #[command(after_help = "Example:\n  export KUBECONFIG=$(cargo xtask cluster kubeconfig)")]
    Kubeconfig {
        #[command(flatten)]
        cluster: Named,
    },
    /// Show the end of a process's log, or of all.
    #[command(
        after_help = "Examples:\n  cargo xtask cluster logs\n  cargo xtask cluster logs kube-apiserver --follow\n  \
                            cargo xtask cluster logs audit --lines 5"
    )]
    Logs {
        #[command(flatten)]
        cluster: Named,
        /// The process as `status` names it, or `audit`; all when none is named.
        process: Option<String>,
        /// How many lines.
        #[arg(long, default_value_t = 20)]
        lines: u32,
        /// Go on as the log grows.
        #[arg(long, short)]
        follow: bool,
    },
    /// Run a command with the cluster's kubeconfig, and with its tools on the search path.
    #[command(after_help = "Examples:\n  cargo xtask cluster exec -- kubectl get nodes\n  \
                            cargo xtask cluster exec --name two -- helm list")]
    Exec {
        #[command(flatten)]
        cluster: Named,
        /// The command.
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
}

#[derive(clap::Args)]
struct Named {
    /// The cluster's name.
    #[arg(long, default_value = "dev")]
    name: String,
}

/// Carries out the task.
pub fn run(args: Args) -> Result<()> {
    match args.task {
        Task::Up { cluster, nodes } => up(&cluster.name, &nodes),
        Task::Down { all: true, .. } => {
            let cache = Cache::locate()?;
            Site::all(&cache)?
                .iter()
                .try_for_each(|site| end(&cache, site.name().as_str()))
        }
        Task::Down { cluster, .. } => end(&Cache::locate()?, &cluster.name),
        Task::Status { name: Some(name) } => processes(&name),
        Task::Status { name: None } => overview(),
        Task::Kubeconfig { cluster } => {
            println!("{}", ControlPlane::open(&cluster.name)?.kubeconfig().display());
            Ok(())
        }
        Task::Logs {
            cluster,
            process,
            lines,
            follow,
        } => logs(&cluster.name, process.as_deref(), lines, follow),
        Task::Exec { cluster, command } => execute(&cluster.name, &command),
    }
}

fn up(name: &str, nodes: &str) -> Result<()> {
    let started = Instant::now();
    let (url, kubeconfig, timings) = if nodes == "0" {
        let plane = ControlPlane::up(name, &Options::default())?;
        (plane.url(), plane.kubeconfig(), plane.timings().to_vec())
    } else {
        let cluster = node::up(
            name,
            &node::Options {
                nodes: nodes.parse()?,
                owner: None,
            },
        )?;
        let plane = cluster.control_plane();
        (plane.url(), plane.kubeconfig(), cluster.timings().to_vec())
    };
    for (step, time) in &timings {
        println!("{:>7.2} s  {step}", time.as_secs_f64());
    }
    match timings.iter().map(|(_, time)| *time).sum::<Duration>() {
        Duration::ZERO => println!("cluster {name} was up already: {url}"),
        sum => {
            let waited = started.elapsed().saturating_sub(sum);
            println!("{:>7.2} s  cluster {name} is ready: {url}", sum.as_secs_f64());
            if waited > Duration::from_secs(2) {
                println!(
                    "{:>7.2} s  before that, for tools and locks",
                    waited.as_secs_f64()
                );
            }
        }
    }
    println!("\nexport KUBECONFIG={}", kubeconfig.display());
    Ok(())
}

fn end(cache: &Cache, name: &str) -> Result<()> {
    let started = Instant::now();
    let site = Site::new(cache, name.parse()?);
    if !site.dir().exists() {
        println!("there is no cluster {name}");
        return Ok(());
    }
    site::down(cache, site.name())?;
    println!(
        "{:>7.2} s  cluster {name} has ended",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn overview() -> Result<()> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["CLUSTER", "STATE", "AGE", "PROCESSES", "API SERVER"]);
    let cache = Cache::locate()?;
    for site in Site::all(&cache)? {
        let Some(state) = site.state()? else { continue };
        let (running, all) = count(&state)?;
        let url = ControlPlane::open_in(&cache, site.name().as_str()).map(|plane| plane.url());
        table.add_row([
            site.name().to_string(),
            condition(&state, running, all)?.to_owned(),
            age(&state),
            format!("{running}/{all}"),
            url.unwrap_or_default(),
        ]);
    }
    println!("{table}");
    Ok(())
}

fn processes(name: &str) -> Result<()> {
    let cache = Cache::locate()?;
    let site = Site::new(&cache, name.parse()?);
    let Some(state) = site.state()? else {
        bail!("there is no cluster {name}")
    };
    let (running, all) = count(&state)?;
    println!(
        "{name}: {}, in {}",
        condition(&state, running, all)?,
        site.dir().display()
    );
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["PROCESS", "PID", "STATE", "LOG"]);
    for (process, identity) in state.processes() {
        let state = if identity.alive()? { "running" } else { "ended" };
        let log = log_path(&site.dir(), process);
        table.add_row([
            process.to_owned(),
            identity.pid().to_string(),
            state.into(),
            log.display().to_string(),
        ]);
    }
    println!("{table}");
    Ok(())
}

fn count(state: &State) -> Result<(usize, usize)> {
    let mut count = (0, 0);
    for (_, identity) in state.processes() {
        count.0 += usize::from(identity.alive()?);
        count.1 += 1;
    }
    Ok(count)
}

fn age(state: &State) -> String {
    match state.age().as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}

fn condition(state: &State, running: usize, all: usize) -> Result<&'static str> {
    Ok(match (state.ready(), running == all) {
        _ if state.orphaned()? => "orphaned",
        (true, true) => "up",
        (true, false) => "broken",
        (false, _) => "unfinished",
    })
}

fn logs(name: &str, process: Option<&str>, lines: u32, follow: bool) -> Result<()> {
    let plane = ControlPlane::open(name)?;
    let site = Site::new(&Cache::locate()?, name.parse()?);
    let state = site
        .state()?
        .with_context(|| format!("there is no cluster {name}"))?;
    let known: Vec<&str> = state
        .processes()
        .map(|(process, _)| process)
        .chain(["audit"])
        .collect();
    let wanted = match process {
        Some(process) if known.contains(&process) => vec![process],
        Some(process) => bail!(
            "cluster {name} has no log {process}; there are {}",
            known.join(", ")
        ),
        None => known
            .iter()
            .filter(|process| **process != "audit")
            .copied()
            .collect(),
    };
    let files = wanted.iter().map(|process| match *process {
        "audit" => plane.audit_log(),
        process => log_path(&site.dir(), process),
    });
    let mut tail = Command::new("tail");
    tail.arg(format!("--lines={lines}"))
        .args(follow.then_some("--follow=name"))
        .args(files);
    Err(tail.exec()).context("run tail")
}

fn execute(name: &str, command: &[String]) -> Result<()> {
    let plane = ControlPlane::open(name)?;
    let cache = Cache::locate()?;
    let toolchain = Toolchain::new(&cache);
    let mut tools = vec![Tool::Kubernetes];
    for optional in [Tool::Helm, Tool::CoreDns, Tool::Etcd] {
        if toolchain.built(optional)?.is_some() || command.first().is_some_and(|word| word == optional.name())
        {
            tools.push(optional);
        }
    }
    let (program, arguments) = command.split_first().context("a command is needed")?;
    let path = toolchain.search_path(&tools)?;
    // The program is looked up on the path of this process, so a shell that has the new one does it.
    let error = Command::new("sh")
        .args(["-c", r#"exec "$@""#, "sh", program])
        .args(arguments)
        .env("PATH", path)
        .env("KUBECONFIG", plane.kubeconfig())
        .exec();
    Err(error).with_context(|| format!("run {program}"))
}
