//! The manager as it ships, started again and again before an API server on which nothing happens.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets};
use serde_json::json;
use trustplane_cluster::control_plane::ControlPlane;

use crate::{
    image::{self, Profile},
    run,
};

/// Where the manifests put it.
const NAMESPACE: &str = "trustplane";
const STARTS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_secs(60);
/// What we promise: ready within 300 ms, at rest below 15 MB.
const READY_GOAL: f64 = 300.0;
const RESIDENT_GOAL: f64 = 15.0;

/// Measures, prints a table, and writes the results as JSON.
pub fn run(plane: &ControlPlane, results: &Path) -> Result<()> {
    let program = image::compile("trustplane-manager", "trustplane-manager", Profile::Release)?;
    install(plane)?;
    let mut ready = Vec::new();
    for _ in 0..STARTS {
        let started = Instant::now();
        let manager = Manager::start(&program, plane)?;
        manager.wait_until_ready()?;
        ready.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    ready.sort_by(f64::total_cmp);

    let manager = Manager::start(&program, plane)?;
    manager.wait_until_ready()?;
    let before = manager.cpu()?;
    thread::sleep(REST);
    let cpu = (manager.cpu()? - before) / REST.as_secs_f64() * 60.0;
    let resident = manager.resident()?;
    drop(manager);

    let rows = [
        ("start to ready, p50", ready[STARTS / 2], "ms", Some(READY_GOAL)),
        (
            "start to ready, slowest of 20",
            ready[STARTS - 1],
            "ms",
            Some(READY_GOAL),
        ),
        ("resident memory at rest", resident, "MB", Some(RESIDENT_GOAL)),
        ("CPU at rest", cpu, "ms/min", None),
    ];
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["", "measured", "", "goal"]);
    for (what, figure, unit, goal) in rows {
        let goal = goal.map_or_else(String::new, |goal| format!("< {goal} {unit}"));
        table.add_row([what, &format!("{figure:.1}"), unit, &goal]);
    }
    println!("{table}");
    let rows: Vec<_> = rows
        .iter()
        .map(|(what, figure, unit, goal)| json!({"what": what, "ours": figure, "unit": unit, "goal": goal}))
        .collect();
    fs::write(results, serde_json::to_string_pretty(&rows)?).context("write the results")
}

/// What the manager finds in its namespace. No node is there, so the only manager that runs is ours.
fn install(plane: &ControlPlane) -> Result<()> {
    let manifests = run::root().join("deploy/manifests/trustplane.yaml");
    let kubectl = || {
        let mut kubectl = Command::new(plane.kubernetes().join("kubectl"));
        kubectl.arg("--kubeconfig").arg(plane.kubeconfig());
        kubectl
    };
    run::output(
        kubectl()
            .args(["apply", "--server-side", "--filename"])
            .arg(manifests),
    )?;
    // The API server takes a moment until it serves new kinds, and refuses whoever asks for them: kubectl waits for it.
    let served = [
        "wait",
        "--for=condition=established",
        "crd",
        "--all",
        "--timeout=30s",
    ];
    run::output(kubectl().args(served))?;
    run::output(kubectl().args(["get", "secretsyncpolicies,secretsyncstores"])).map(drop)
}

/// A manager that runs until this is dropped.
struct Manager {
    child: Child,
    admin: String,
}

impl Manager {
    fn start(program: &Path, plane: &ControlPlane) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["--admin-bind-address=127.0.0.1:0", "--log-format=json"])
            .env_clear()
            .env("KUBECONFIG", plane.kubeconfig())
            .env("POD_NAMESPACE", NAMESPACE)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut log = BufReader::new(child.stderr.take().context("its log is piped")?);
        let mut line = String::new();
        log.read_line(&mut line)?;
        let admin = line
            .split_once("127.0.0.1:")
            .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>())
            .with_context(|| format!("find the admin port in {line:?}"))?;
        // Nobody reads on, but it must not stop writing.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Ok(Self {
            child,
            admin: format!("127.0.0.1:{admin}"),
        })
    }

    fn wait_until_ready(&self) -> Result<()> {
        let started = Instant::now();
        while !self.is_ready()? {
            ensure!(
                started.elapsed() < PATIENCE,
                "the manager is not ready after {PATIENCE:?}"
            );
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn is_ready(&self) -> Result<bool> {
        let mut stream = TcpStream::connect(&self.admin).context("reach the admin port")?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    }

    /// Resident memory in MB.
    fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes: f64 = line
            .context("the kernel tells the resident set")?
            .trim()
            .trim_end_matches(" kB")
            .parse()?;
        Ok(kibibytes * 1024.0 / 1e6)
    }

    /// CPU time so far, in milliseconds.
    fn cpu(&self) -> Result<f64> {
        // The clock of all threads of the process, in nanoseconds.
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        let mut total = 0.0;
        for task in tasks {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            let spent = text.split_ascii_whitespace().next().context("a time")?;
            total += spent.parse::<f64>()? / 1e6;
        }
        Ok(total)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // One that has ended already is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
