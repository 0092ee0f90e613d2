use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

fn supervisor() -> (Supervisor, Shutdown, Metrics) {
    let (metrics, shutdown) = (Metrics::new(), Shutdown::new(Duration::from_secs(25)));
    (Supervisor::new(&metrics, shutdown.clone()), shutdown, metrics)
}

#[tokio::test]
async fn every_end_of_a_critical_task_ends_the_process_and_names_it() {
    let (one, ..) = supervisor();
    one.spawn("watch", async {});
    assert_eq!(
        one.run_until_shutdown().await.unwrap_err().to_string(),
        "task `watch` ended without being asked to"
    );

    let (one, ..) = supervisor();
    one.spawn("watch", async { Err::<(), _>(std::io::Error::other("gone")) });
    assert_eq!(
        one.run_until_shutdown().await.unwrap_err().to_string(),
        "task `watch` failed: gone"
    );

    let (one, _, metrics) = supervisor();
    one.spawn(
        "watch",
        std::future::poll_fn(|_| -> std::task::Poll<()> { panic!("boom {}", 1) }),
    );
    assert_eq!(
        one.run_until_shutdown().await.unwrap_err().to_string(),
        "task `watch` panicked: boom 1"
    );
    let text = metrics.encode();
    assert!(
        text.contains(r#"trustplane_task_ends_total{task="watch",reason="panic"} 1"#),
        "{text}"
    );
}

#[tokio::test]
async fn a_failure_lets_the_other_tasks_drain() {
    let (supervisor, shutdown, _) = supervisor();
    let (stop, drained) = (shutdown.token(), CancellationToken::new());
    let done = drained.clone();
    supervisor.spawn("server", async move {
        stop.cancelled().await;
        done.cancel();
    });
    supervisor.spawn("broken", async { Err::<(), _>("x") });
    assert!(
        matches!(supervisor.run_until_shutdown().await, Err(SupervisorError::Failed { task, .. }) if task == "broken")
    );
    assert!(drained.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn tasks_that_outlive_the_deadline_are_named_and_aborted() {
    struct Witness(CancellationToken);
    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let (supervisor, shutdown, _) = supervisor();
    let aborted = CancellationToken::new();
    let witness = Witness(aborted.clone());
    supervisor.spawn("stubborn", async move {
        let _witness = witness;
        pending::<()>().await;
    });
    let stop = shutdown.token();
    supervisor.spawn("polite", async move { stop.cancelled().await });
    shutdown.request();
    let start = Instant::now();
    let error = supervisor.run_until_shutdown().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "still running when the shutdown ended: stubborn"
    );
    assert_eq!(start.elapsed().as_secs(), 25);
    aborted.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarting_task_comes_back_after_panic_error_and_return() {
    let (supervisor, shutdown, metrics) = supervisor();
    let runs = Arc::new(AtomicU32::new(0));
    let (count, stop) = (runs.clone(), shutdown.clone());
    supervisor.spawn_restarting("poll", Backoff::default(), move || {
        let (run, stop) = (count.fetch_add(1, Ordering::SeqCst), stop.clone());
        async move {
            match run {
                0 => panic!("first"),
                1 => return Err("second"),
                2 => return Ok(()),
                _ => stop.request(),
            }
            stop.requested().await;
            Ok(())
        }
    });
    supervisor.run_until_shutdown().await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    let text = metrics.encode();
    for reason in ["panic", "error", "returned"] {
        let line = format!(r#"trustplane_task_ends_total{{task="poll",reason="{reason}"}} 1"#);
        assert!(text.contains(&line), "{text}");
    }
}

#[tokio::test]
async fn the_list_of_running_tasks_follows_them() {
    let (supervisor, shutdown, _) = supervisor();
    let stop = shutdown.token();
    supervisor.spawn("server", async move { stop.cancelled().await });
    assert_eq!(supervisor.running(), ["server"]);
    shutdown.request();
    supervisor.run_until_shutdown().await.unwrap();
    assert!(supervisor.running().is_empty());
}

#[tokio::test]
async fn an_attendant_ends_after_all_others() {
    let (supervisor, shutdown, _) = supervisor();
    let (order, stop) = (Arc::new(Mutex::new(Vec::new())), shutdown.token());
    let log = order.clone();
    supervisor.spawn_attendant("admin", |stop| async move {
        stop.cancelled().await;
        log.lock().unwrap().push("admin");
    });
    let log = order.clone();
    supervisor.spawn("work", async move {
        stop.cancelled().await;
        tokio::task::yield_now().await;
        log.lock().unwrap().push("work");
    });
    shutdown.request();
    supervisor.run_until_shutdown().await.unwrap();
    assert_eq!(*order.lock().unwrap(), ["work", "admin"]);
}

#[tokio::test]
async fn an_attendant_that_ends_early_ends_the_process() {
    let (supervisor, ..) = supervisor();
    supervisor.spawn_attendant("admin", |_| async {});
    let error = supervisor.run_until_shutdown().await.unwrap_err();
    assert_eq!(error.to_string(), "task `admin` ended without being asked to");
}
