//! How many keys pass through the queue, against a plain deque behind a mutex.

use std::{collections::VecDeque, sync::Mutex, time::Instant};

use trustplane_kit::queue::{Lane, Outcome, Policy, Queue};
use trustplane_plan::ObjectRef;
use trustplane_process::metrics::Metrics;

use crate::Row;

const NAMESPACES: usize = 50;
const KEYS: usize = 200_000;

/// Adds every key, then takes and finishes every key.
pub async fn throughput() -> Row {
    let name = |n: usize| ObjectRef::new(Some(&format!("ns-{}", n % NAMESPACES)), &format!("object-{n}"));
    let keys: Vec<_> = (0..KEYS).map(name).collect();

    let queue = Queue::new("bench", Policy::default(), 1, &Metrics::new());
    let start = Instant::now();
    for key in &keys {
        queue.add(key.clone(), Lane::Normal);
    }
    for _ in 0..KEYS {
        queue
            .next()
            .await
            .unwrap()
            .done(Outcome::Success { look_again: None });
    }
    let ours = start.elapsed();

    let floor = Mutex::new(VecDeque::new());
    let start = Instant::now();
    for key in &keys {
        floor.lock().unwrap().push_back(key.clone());
    }
    for _ in 0..KEYS {
        std::hint::black_box(floor.lock().unwrap().pop_front());
    }
    let theirs = start.elapsed();

    let rate = |took: std::time::Duration| KEYS as f64 / took.as_secs_f64() / 1000.0;
    Row {
        what: "queue: keys through",
        ours: rate(ours),
        theirs: rate(theirs),
        unit: "k/s",
        peer: "a deque behind a mutex: no dedup, no order",
        goal: "",
    }
}
