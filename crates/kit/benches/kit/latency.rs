//! From a write to the worker that hears of it, against kube-runtime's watcher on the same writes.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kube_runtime::{WatchStreamExt, watcher};
use serde_json::json;
use trustplane_kit::{
    controller::feed,
    queue::{Lane, Outcome, Policy, Queue},
    watch::{Metadata, Tuning, WatchSpec, Watches},
};
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Keep, ObjectRef};
use trustplane_process::metrics::Metrics;

use crate::Row;

const ROUNDS: usize = 300;
const LABEL: &str = "trustplane.io/bench=latency";

/// Patches one object again and again, one patch at a time, and notes when each side hears of it.
pub async fn event_to_reconcile(client: &Client) -> Vec<Row> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let object: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "latency", "labels": {"trustplane.io/bench": "latency"}}
    }))
    .unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();

    let (ours, theirs) = (Ear::default(), Ear::default());
    let worker = tokio::spawn(listen_ours(client.clone(), ours.clone()));
    let peer = tokio::spawn(listen_theirs(api.clone(), theirs.clone()));
    ours.wait_past(0).await;
    theirs.wait_past(0).await;
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let before = (ours.count(), theirs.count());
        let patch = Patch::Merge(json!({"data": {"round": round.to_string()}}));
        let sent = Instant::now();
        api.patch("latency", &PatchParams::default(), &patch)
            .await
            .unwrap();
        our_times.push(ours.wait_past(before.0).await - sent);
        their_times.push(theirs.wait_past(before.1).await - sent);
    }
    worker.abort();
    peer.abort();
    let row = |what, percent| Row {
        what,
        ours: percentile(&mut our_times.clone(), percent),
        theirs: percentile(&mut their_times.clone(), percent),
        unit: "ms",
        peer: "kube-runtime's watcher, no queue behind it",
        goal: "",
    };
    vec![
        row("write to reconcile, p50", 50),
        row("write to reconcile, p99", 99),
    ]
}

/// Counts what was heard, and when it was heard last.
#[derive(Clone, Default)]
struct Ear(Arc<(Mutex<Heard>, tokio::sync::Notify)>);

#[derive(Default)]
struct Heard {
    count: usize,
    last: Option<Instant>,
}

impl Ear {
    fn hear(&self) {
        let mut heard = self.0.0.lock().unwrap();
        heard.count += 1;
        heard.last = Some(Instant::now());
        drop(heard);
        self.0.1.notify_one();
    }

    fn count(&self) -> usize {
        self.0.0.lock().unwrap().count
    }

    async fn wait_past(&self, count: usize) -> Instant {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            {
                let heard = self.0.0.lock().unwrap();
                if let (true, Some(last)) = (heard.count > count, heard.last) {
                    return last;
                }
            }
            tokio::time::timeout_at(deadline, self.0.1.notified())
                .await
                .expect("a change was not heard of in 20 s");
        }
    }
}

async fn listen_ours(client: Client, ear: Ear) {
    let metrics = Metrics::new();
    let watches = Watches::new(client, Tuning::default(), &metrics);
    let spec = WatchSpec::new(CONFIG_MAP, Metadata(Keep::default()))
        .namespaces(["default"])
        .labels(LABEL);
    let queue: Queue<ObjectRef> = Queue::new("latency", Policy::default(), 1, &metrics);
    let feed = feed(
        watches.subscribe(spec),
        queue.clone(),
        |_| Lane::Normal,
        |change| [change.object().clone()],
    );
    let work = async {
        while let Some(work) = queue.next().await {
            ear.hear();
            work.done(Outcome::Success { look_again: None });
        }
    };
    tokio::join!(feed, work);
}

async fn listen_theirs(api: Api<ConfigMap>, ear: Ear) {
    let stream = watcher(api, watcher::Config::default().labels(LABEL))
        .default_backoff()
        .applied_objects()
        .boxed();
    let hear = |_| {
        ear.hear();
        std::future::ready(Ok(()))
    };
    let listened = stream.try_for_each(hear).await;
    listened.expect("the peer's watch runs");
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1000.0
}
