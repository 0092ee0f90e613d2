//! The queue on the clock: sleepers, wake-ups, the end. Time is paused, so an hour takes no time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use trustplane_process::metrics::Metrics;

use super::*;

fn queue() -> Queue<ObjectRef> {
    Queue::new("test", Policy::default(), 1, &Metrics::new())
}

/// What `next` answers without waiting.
async fn at_once(queue: &Queue<ObjectRef>) -> Option<String> {
    let work = timeout(Duration::ZERO, queue.next()).await.ok()??;
    let name = work.key().name().to_owned();
    work.done(DONE);
    Some(name)
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_worker_wakes_when_a_delayed_key_comes_due() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after(key("late"), Lane::Normal, Duration::from_secs(60));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            queue
                .next()
                .await
                .map(|work| (work.key().clone(), start.elapsed()))
        }
    });
    tokio::task::yield_now().await;
    queue.add_after(key("soon"), Lane::Normal, Duration::from_secs(20));
    let (first, after) = worker.await.unwrap().unwrap();
    assert_eq!((first, after.as_secs()), (key("soon"), 20));
}

#[tokio::test(start_paused = true)]
async fn a_busy_worker_leaves_the_alarm_clock_to_another() {
    let (queue, start) = (queue(), Instant::now());
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    for _ in 0..2 {
        let (queue, served) = (queue.clone(), served.clone());
        workers.spawn(async move {
            while let Some(work) = queue.next().await {
                served
                    .lock()
                    .unwrap()
                    .push((work.key().name().to_owned(), start.elapsed().as_secs()));
                sleep(Duration::from_secs(50)).await;
                work.done(DONE);
            }
        });
    }
    // One worker at a time hears of an earlier key: the first of "far", the second of "near", and none of "next".
    for (name, seconds) in [("far", 100), ("near", 10), ("next", 20)] {
        tokio::task::yield_now().await;
        queue.add_after(key(name), Lane::Normal, Duration::from_secs(seconds));
    }
    sleep(Duration::from_secs(200)).await;
    queue.close();
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    let expected = [("near", 10), ("next", 20), ("far", 100)].map(|(name, at)| (name.to_owned(), at));
    assert_eq!(*served.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_loses_nothing() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after(key("far"), Lane::Normal, Duration::from_secs(100));
    let mut fickle = Box::pin(queue.next());
    assert!(timeout(Duration::from_secs(1), &mut fickle).await.is_err());
    let steady = tokio::spawn({
        let queue = queue.clone();
        async move {
            queue
                .next()
                .await
                .map(|work| (work.key().clone(), start.elapsed().as_secs()))
        }
    });
    tokio::task::yield_now().await;
    // The one who hears of the earlier key, and then goes away.
    queue.add_after(key("near"), Lane::Normal, Duration::from_secs(10));
    assert!(timeout(Duration::from_secs(1), &mut fickle).await.is_err());
    drop(fickle);
    assert_eq!(steady.await.unwrap(), Some((key("near"), 11)));
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_every_worker_and_lets_running_work_end() {
    let queue = queue();
    queue.add(key("running"), Lane::Normal);
    let work = queue.next().await.unwrap();
    let mut sleepers = JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        sleepers.spawn(async move { queue.next().await.is_none() });
    }
    tokio::task::yield_now().await;
    queue.add_after(key("never"), Lane::Normal, Duration::from_secs(1));
    queue.close();
    while let Some(ended) = sleepers.join_next().await {
        assert!(ended.unwrap());
    }
    work.done(DONE);
    sleep(Duration::from_secs(2)).await;
    assert!(queue.next().await.is_none());
    assert_eq!(queue.depths().running, 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_is_dropped_is_a_bug_and_comes_back() {
    let (queue, start) = (queue(), Instant::now());
    queue.add(key("a"), Lane::Normal);
    drop(queue.next().await.unwrap());
    let state = queue.state();
    assert_eq!(
        state.backoff.worst.map(|worst| (worst.failures, worst.class)),
        Some((1, "bug"))
    );
    let again = queue.next().await.unwrap();
    assert!((24..=36).contains(&start.elapsed().as_secs()));
    assert_eq!(again.failures(), 1);
    again.done(DONE);
    assert_eq!(queue.depths(), Depths::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_never_share_a_key_and_miss_none() {
    let queue = queue();
    let (busy, served) = (
        Arc::new(Mutex::new(BTreeSet::new())),
        Arc::new(Mutex::new(BTreeSet::new())),
    );
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (queue, busy, served) = (queue.clone(), busy.clone(), served.clone());
        workers.spawn(async move {
            while let Some(work) = queue.next().await {
                assert!(
                    busy.lock().unwrap().insert(work.key().clone()),
                    "{} is on two workers",
                    work.key()
                );
                tokio::task::yield_now().await;
                assert!(busy.lock().unwrap().remove(work.key()));
                served.lock().unwrap().insert(work.key().clone());
                work.done(DONE);
            }
        });
    }
    for lane in [Lane::Bulk, Lane::Normal, Lane::Bulk, Lane::Urgent] {
        for name in 0..500 {
            queue.add(key(&name.to_string()), lane);
        }
        tokio::task::yield_now().await;
    }
    let rest = async {
        while queue.depths().keys > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), rest)
        .await
        .expect("the workers come to rest");
    queue.close();
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    assert_eq!(served.lock().unwrap().len(), 500);
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_depth_age_and_waits_of_each_queue() {
    let metrics = Metrics::new();
    let one = Queue::<ObjectRef>::new("one", Policy::default(), 1, &metrics);
    let other = Queue::<ObjectRef>::new("other", Policy::default(), 1, &metrics);
    one.add(key("a"), Lane::Bulk);
    other.add(key("b"), Lane::Normal);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(at_once(&other).await.as_deref(), Some("b"));
    let text = metrics.encode();
    for line in [
        r#"trustplane_queue_depth{queue="one",lane="bulk"} 1.0"#,
        r#"trustplane_queue_depth{queue="other",lane="normal"} 0.0"#,
        r#"trustplane_queue_oldest_seconds{queue="one"} 3.0"#,
        r#"trustplane_queue_keys{queue="other"} 0.0"#,
        r#"trustplane_queue_wait_seconds_sum{queue="other",lane="normal"} 3.0"#,
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    assert_eq!(
        text.matches("# TYPE trustplane_queue_depth ").count(),
        1,
        "{text}"
    );
    drop(one);
    assert!(
        !metrics.encode().contains(r#"queue="one""#),
        "a queue that is gone is not reported"
    );
}
