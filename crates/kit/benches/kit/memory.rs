//! Resident memory and CPU at rest of a metadata watch of all pods, against kube-runtime's reflector of full pods.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use kube_runtime::{WatchStreamExt, reflector, watcher};
use serde::{Deserialize, Serialize};
use trustplane_kit::watch::{Metadata, Tuning, WatchSpec, Watches};
use trustplane_plan::Keep;
use trustplane_plan::kinds::POD;
use trustplane_process::metrics::Metrics;

use crate::{
    Row,
    pods::{NAMESPACE, PODS},
};

/// The environment variable that makes this program measure one side.
pub const ROLE: &str = "TRUSTPLANE_BENCH_ROLE";
const REST: Duration = Duration::from_secs(20);

#[derive(Serialize, Deserialize)]
struct Measured {
    /// Growth of the resident set by the watch, in MiB.
    resident: f64,
    /// CPU time used while nothing happens, in milliseconds a minute.
    cpu: f64,
}

/// Measures both sides, each in a process of its own.
pub fn compare() -> Vec<Row> {
    let (ours, theirs) = (measure("ours"), measure("theirs"));
    let peer = "kube-runtime's reflector of full pods";
    vec![
        Row {
            what: "watch of 10,000 pods: memory",
            ours: ours.resident,
            theirs: theirs.resident,
            unit: "MiB",
            peer,
            goal: "ratio ≤ 0.20",
        },
        Row {
            what: "watch of 10,000 pods: CPU at rest",
            ours: ours.cpu,
            theirs: theirs.cpu,
            unit: "ms/min",
            peer,
            goal: "",
        },
    ]
}

fn measure(role: &str) -> Measured {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this).env(ROLE, role).output().unwrap();
    assert!(
        output.status.success(),
        "{role}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs one side and prints what it measured.
pub async fn child(role: &str) {
    let client = Client::try_default().await.unwrap();
    client.apiserver_version().await.unwrap();
    let before = resident();
    let deadline = Instant::now() + Duration::from_secs(120);
    match role {
        "ours" => {
            let watches = Watches::new(client, Tuning::default(), &Metrics::new());
            let spec = WatchSpec::new(POD, Metadata(Keep::default())).namespaces([NAMESPACE]);
            let mut subscription = watches.subscribe(spec);
            let store = subscription.store();
            while store.len() < PODS || !store.is_ready() {
                subscription.next().await.unwrap();
                assert!(
                    Instant::now() < deadline,
                    "{} pods after two minutes",
                    store.len()
                );
            }
            report(before, async { while subscription.next().await.is_some() {} }).await;
        }
        _ => {
            let (reader, writer) = reflector::store();
            let api: Api<Pod> = Api::namespaced(client, NAMESPACE);
            let stream = reflector(writer, watcher(api, watcher::Config::default().streaming_lists()));
            let mut stream = stream.default_backoff().touched_objects().boxed();
            // The store fills when the list is complete, which is no event of the stream.
            let mut full = std::pin::pin!(reader.wait_until_ready());
            loop {
                tokio::select! {
                    ready = &mut full => break ready.unwrap(),
                    object = stream.next() => drop(object.unwrap().unwrap()),
                    () = tokio::time::sleep_until(deadline.into()) => panic!("no list after two minutes"),
                }
            }
            assert_eq!(reader.len(), PODS);
            report(before, async { while stream.next().await.is_some() {} }).await;
        }
    }
}

async fn report(before: f64, watch: impl Future<Output = ()>) {
    let (start, cpu) = (Instant::now(), cpu());
    // The watch goes on while we look at what it costs.
    let _ = tokio::time::timeout(REST, watch).await;
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let measured = Measured {
        resident: resident() - before,
        cpu: (self::cpu() - cpu) / minutes,
    };
    println!("{}", serde_json::to_string(&measured).unwrap());
}

fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// CPU time of this process in milliseconds.
fn cpu() -> f64 {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    usage.tv_sec as f64 * 1000.0 + usage.tv_nsec as f64 / 1e6
}
