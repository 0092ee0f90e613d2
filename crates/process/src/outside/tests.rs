use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::sync::Notify;

use super::*;
use crate::backoff::Backoff;
use crate::metrics::Metrics;

const SECOND: Duration = Duration::from_secs(1);

/// A target without jitter: it waits exactly what the backoff allows.
fn target() -> OutsideBuilder {
    let retry = Retry {
        attempts: 3,
        backoff: Backoff {
            first: SECOND,
            max: 8 * SECOND,
        },
    };
    Outside::builder("vault").retry(retry).jitter(|| 1.0)
}

/// Answers from a list, and counts.
#[derive(Clone)]
struct Script {
    answers: Arc<Mutex<Vec<Result<u32, Fault>>>>,
    calls: Arc<AtomicU32>,
}

impl Script {
    fn new(mut answers: Vec<Result<u32, Fault>>) -> Self {
        answers.reverse();
        Self {
            answers: Arc::new(Mutex::new(answers)),
            calls: Arc::default(),
        }
    }

    fn failing(kind: FaultKind, times: usize) -> Self {
        Self::new((0..times).map(|_| Err(Fault::new(kind, "no"))).collect())
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    async fn answer(self, _attempt: Attempt) -> Result<u32, Fault> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.answers.lock().unwrap().pop().expect("the script is over")
    }

    fn op(&self) -> impl Fn(Attempt) -> BoxFuture<'static, Result<u32, Fault>> + Send + Sync + 'static {
        let script = self.clone();
        move |attempt| script.clone().answer(attempt).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn transient_faults_are_tried_again_with_growing_waits() {
    let script = Script::new(vec![
        Err(Fault::transport("cut")),
        Err(Fault::new(FaultKind::Server5xx, "503")),
        Ok(7),
    ]);
    let start = Instant::now();
    assert_eq!(
        target()
            .build(&Metrics::new())
            .call("a", script.op())
            .await
            .unwrap(),
        7
    );
    assert_eq!((script.calls(), start.elapsed()), (3, 3 * SECOND));

    let script = Script::failing(FaultKind::Transport, 9);
    let error = target()
        .build(&Metrics::new())
        .call("a", script.op())
        .await
        .unwrap_err();
    assert_eq!(script.calls(), 3);
    assert_eq!(
        error.to_string(),
        "call to vault failed, 3 attempt(s) made: no (transport)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rejected_call_is_made_once_and_never_opens_the_breaker() {
    let outside = target().build(&Metrics::new());
    let script = Script::failing(FaultKind::Rejected, 50);
    for _ in 0..50 {
        let error = outside.call("a", script.op()).await.unwrap_err();
        assert_eq!(error.kind(), Some(FaultKind::Rejected));
        assert!(!error.is_transient());
    }
    assert_eq!(script.calls(), 50);
}

#[tokio::test(start_paused = true)]
async fn throttling_does_not_open_the_breaker() {
    let outside = target().retry(Retry::NEVER).build(&Metrics::new());
    let script = Script::failing(FaultKind::Throttled, 50);
    for _ in 0..50 {
        assert_eq!(
            outside.call("a", script.op()).await.unwrap_err().kind(),
            Some(FaultKind::Throttled)
        );
    }
    assert_eq!(script.calls(), 50);
}

#[tokio::test(start_paused = true)]
async fn the_targets_wish_to_wait_is_honoured_within_the_deadline() {
    let outside = target()
        .jitter(|| 0.0)
        .deadline(30 * SECOND)
        .build(&Metrics::new());
    let script = Script::new(vec![Err(Fault::throttled(Some(7 * SECOND), "429")), Ok(1)]);
    let start = Instant::now();
    outside.call("a", script.op()).await.unwrap();
    assert_eq!(start.elapsed(), 7 * SECOND);

    let script = Script::new(vec![Err(Fault::throttled(Some(31 * SECOND), "429"))]);
    let start = Instant::now();
    let error = outside.call("a", script.op()).await.unwrap_err();
    assert_eq!(
        start.elapsed(),
        Duration::ZERO,
        "there is no use in waiting for the deadline"
    );
    assert_eq!(error.retry_after(), Some(31 * SECOND));
    assert!(error.is_transient());
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_wait_for_ever_fails_the_call_at_once() {
    let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from(u64::MAX))]);
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY] {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let fault = Fault::from_answer(status, &headers, now).unwrap();
        let outside = target().build(&Metrics::new());
        let (script, start) = (Script::new(vec![Err(fault)]), Instant::now());
        let error = outside.call("a", script.op()).await.unwrap_err();
        assert_eq!((script.calls(), start.elapsed()), (1, Duration::ZERO), "{status}");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(u64::MAX)));
    }
}

/// What a target answers that wants a pause of 7 s.
fn pause(status: StatusCode) -> Fault {
    let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static("7"))]);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    Fault::from_answer(status, &headers, now).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_back_every_call_to_the_target() {
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let outside = target()
            .jitter(|| 0.0)
            .retry(Retry::NEVER)
            .deadline(30 * SECOND)
            .build(&Metrics::new());
        let script = Script::new(vec![Err(pause(status)), Ok(1), Ok(2)]);
        let start = Instant::now();
        outside.call("a", script.op()).await.unwrap_err();
        let (one, two) = tokio::join!(outside.call("b", script.op()), outside.call_alone(script.op()));
        assert_eq!([one.unwrap(), two.unwrap()], [1, 2], "{status}");
        assert_eq!(start.elapsed(), 7 * SECOND, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_call_without_time_to_wait_says_when_to_come_back() {
    let metrics = Metrics::new();
    let outside = target().retry(Retry::NEVER).deadline(5 * SECOND).build(&metrics);
    let script = Script::new(vec![Err(pause(StatusCode::TOO_MANY_REQUESTS)), Ok(1)]);
    outside.call("a", script.op()).await.unwrap_err();
    tokio::time::advance(SECOND).await;
    let start = Instant::now();
    let error = outside.call("a", script.op()).await.unwrap_err();
    assert_eq!((start.elapsed(), script.calls()), (Duration::ZERO, 1));
    assert_eq!((error.kind(), error.retry_after()), (None, Some(6 * SECOND)));
    assert!(error.is_transient());
    assert_eq!(
        error.to_string(),
        "vault asked for a pause: not called, next call in 6s"
    );
    let held = r#"trustplane_outside_calls_total{target="vault",outcome="held"} 1"#;
    assert!(metrics.encode().contains(held));

    tokio::time::advance(6 * SECOND).await;
    assert_eq!(outside.call("a", script.op()).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_turn_meets_a_hold_that_began_meanwhile() {
    let one = NonZeroU32::MIN;
    let outside = target()
        .retry(Retry::NEVER)
        .limit(Limit {
            per_second: one,
            burst: one,
        })
        .deadline(30 * SECOND)
        .build(&Metrics::new());
    let script = Script::new(vec![Err(pause(StatusCode::TOO_MANY_REQUESTS)), Ok(1)]);
    let start = Instant::now();
    // The first call is answered after half a second; the second waits for the limit until a second has passed.
    let slow = {
        let script = script.clone();
        move |attempt| {
            let answer = script.clone().answer(attempt);
            async move {
                sleep(SECOND / 2).await;
                answer.await
            }
        }
    };
    let (first, second) = tokio::join!(outside.call_alone(slow), outside.call_alone(script.op()));
    first.unwrap_err();
    assert_eq!(second.unwrap(), 1);
    assert_eq!(start.elapsed(), 7 * SECOND + SECOND / 2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_one_call_alone_holds_back_no_other() {
    for fault in [
        Fault::transport("cut").after(7 * SECOND),
        pause(StatusCode::BAD_GATEWAY),
        Fault::throttled(None, "429"),
    ] {
        let outside = target().retry(Retry::NEVER).build(&Metrics::new());
        let script = Script::new(vec![Err(fault), Ok(1)]);
        let start = Instant::now();
        outside.call("a", script.op()).await.unwrap_err();
        assert_eq!(outside.call("a", script.op()).await.unwrap(), 1);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_outlives_its_deadline() {
    let hang = |_| std::future::pending::<Result<(), Fault>>();
    let start = Instant::now();
    let error = target()
        .deadline(5 * SECOND)
        .build(&Metrics::new())
        .call("a", hang)
        .await
        .unwrap_err();
    assert_eq!(
        (start.elapsed(), error.kind()),
        (5 * SECOND, Some(FaultKind::Timeout))
    );

    // Two attempts of 2 s with 1 s between them, then no time for a third.
    let outside = target()
        .deadline(6 * SECOND)
        .attempt_deadline(2 * SECOND)
        .build(&Metrics::new());
    let start = Instant::now();
    let error = outside.call("a", hang).await.unwrap_err();
    assert_eq!(start.elapsed(), 5 * SECOND);
    assert!(error.to_string().contains("2 attempt(s)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_failing_target_is_left_alone_but_for_a_probe_within_ten_seconds() {
    let metrics = Metrics::new();
    let breaker = BreakerPolicy {
        faults: 3,
        probe_after: 3600 * SECOND,
    };
    let outside = target().retry(Retry::NEVER).breaker(breaker).build(&metrics);
    let script = Script::new(
        [FaultKind::Transport, FaultKind::Timeout, FaultKind::Server5xx]
            .map(|kind| Err(Fault::new(kind, "no")))
            .into_iter()
            .chain([Ok(1), Ok(2)])
            .collect(),
    );
    for _ in 0..3 {
        assert!(outside.call("a", script.op()).await.unwrap_err().kind().is_some());
    }
    let error = outside.call("a", script.op()).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(10 * SECOND));
    assert_eq!(script.calls(), 3, "not called while open");
    assert!(
        metrics
            .encode()
            .contains(r#"trustplane_outside_breaker_state{target="vault"} 2"#)
    );

    tokio::time::advance(10 * SECOND).await;
    assert_eq!(outside.call("a", script.op()).await.unwrap(), 1);
    assert_eq!(outside.call("a", script.op()).await.unwrap(), 2);
    let text = metrics.encode();
    for line in [
        r#"trustplane_outside_breaker_state{target="vault"} 0"#,
        r#"trustplane_outside_calls_total{target="vault",outcome="open"} 1"#,
        r#"trustplane_outside_calls_total{target="vault",outcome="ok"} 2"#,
        r#"trustplane_outside_attempts_total{target="vault",outcome="server5xx"} 1"#,
        r#"trustplane_outside_call_seconds_count{target="vault"} 6"#,
        r#"trustplane_outside_in_flight{target="vault"} 0"#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_ends_the_retries_with_the_fault_itself() {
    let breaker = BreakerPolicy {
        faults: 2,
        probe_after: 10 * SECOND,
    };
    let outside = target().breaker(breaker).build(&Metrics::new());
    let script = Script::failing(FaultKind::Transport, 9);
    let error = outside.call("a", script.op()).await.unwrap_err();
    assert_eq!((script.calls(), error.kind()), (2, Some(FaultKind::Transport)));
}

/// A call that tells when it runs, and ends when it is told to.
struct Gate {
    entered: Arc<Notify>,
    release: Arc<Notify>,
    calls: Arc<AtomicU32>,
}

impl Gate {
    fn new() -> Self {
        Self {
            entered: Arc::default(),
            release: Arc::default(),
            calls: Arc::default(),
        }
    }

    fn op(&self) -> impl Fn(Attempt) -> BoxFuture<'static, Result<u32, Fault>> + Send + Sync + 'static {
        let (entered, release, calls) = (self.entered.clone(), self.release.clone(), self.calls.clone());
        move |_| {
            let (entered, release) = (entered.clone(), release.clone());
            let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                entered.notify_one();
                release.notified().await;
                Ok(number)
            }
            .boxed()
        }
    }
}

#[tokio::test]
async fn calls_of_one_key_are_one_call_and_survive_the_one_who_began() {
    let outside = target().build(&Metrics::new());
    let gate = Gate::new();
    let spawn = |key: &'static str| {
        let (outside, op) = (outside.clone(), gate.op());
        tokio::spawn(async move { outside.call(key, op).await })
    };
    let leader = spawn("a");
    gate.entered.notified().await;
    let mut followers = [
        outside.call("a", gate.op()).boxed(),
        outside.call("a", gate.op()).boxed(),
    ];
    for follower in &mut followers {
        assert!(follower.now_or_never().is_none());
    }
    leader.abort();
    assert!(leader.await.unwrap_err().is_cancelled());
    gate.release.notify_one();
    for follower in followers {
        assert_eq!(follower.await.unwrap(), 1);
    }
    assert_eq!(gate.calls.load(Ordering::SeqCst), 1);

    // A later call of the same key, and one of another key, are calls of their own.
    gate.release.notify_one();
    assert_eq!(outside.call("a", gate.op()).await.unwrap(), 2);
    gate.release.notify_one();
    assert_eq!(outside.call("b", gate.op()).await.unwrap(), 3);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_ends() {
    let metrics = Metrics::new();
    let outside = target().build(&metrics);
    let gate = Gate::new();
    let mut call = outside.call("a", gate.op()).boxed();
    assert!((&mut call).now_or_never().is_none());
    assert!(
        metrics
            .encode()
            .contains(r#"outside_in_flight{target="vault"} 1"#)
    );
    drop(call);
    let text = metrics.encode();
    assert!(text.contains(r#"outside_in_flight{target="vault"} 0"#), "{text}");
    assert!(
        text.contains(r#"outside_calls_total{target="vault",outcome="cancelled"} 1"#),
        "{text}"
    );
}

#[tokio::test]
async fn one_key_with_two_result_types_is_two_calls() {
    let outside = target().build(&Metrics::new());
    let (number, text) = tokio::join!(
        outside.call("a", |_| async { Ok(1_u32) }),
        outside.call("a", |_| async { Ok("one".to_owned()) }),
    );
    assert_eq!((number.unwrap(), text.unwrap()), (1, "one".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_limit_spreads_calls_and_refuses_what_would_come_too_late() {
    let one = NonZeroU32::MIN;
    let outside = target()
        .limit(Limit {
            per_second: one,
            burst: one,
        })
        .deadline(10 * SECOND)
        .build(&Metrics::new());
    let start = Instant::now();
    for _ in 0..3 {
        outside.call_alone(|_| async { Ok(()) }).await.unwrap();
    }
    assert_eq!(start.elapsed().as_secs(), 2);

    let short = target()
        .limit(Limit {
            per_second: one,
            burst: one,
        })
        .deadline(SECOND / 2)
        .build(&Metrics::new());
    short.call_alone(|_| async { Ok(()) }).await.unwrap();
    let start = Instant::now();
    let error = short.call_alone(|_| async { Ok(()) }).await.unwrap_err();
    assert!(matches!(error, OutsideError::Saturated { .. }), "{error}");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[test]
fn an_http_answer_is_sorted_by_what_to_do() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let kind = |status: u16| {
        let status = StatusCode::from_u16(status).unwrap();
        Fault::from_answer(status, &HeaderMap::new(), now).map(|fault| fault.kind())
    };
    assert_eq!(kind(200), None);
    assert_eq!(kind(304), None);
    assert_eq!(kind(403), Some(FaultKind::Rejected));
    assert_eq!(kind(408), Some(FaultKind::Timeout));
    assert_eq!(kind(429), Some(FaultKind::Throttled));
    assert_eq!(kind(503), Some(FaultKind::Server5xx));

    let after = |text: &'static str| {
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(text))]);
        retry_after(&headers, now)
    };
    assert_eq!(after("120"), Some(120 * SECOND));
    assert_eq!(after("Thu, 01 Jan 2026 00:01:00 GMT"), Some(60 * SECOND));
    assert_eq!(after("Wed, 31 Dec 2025 00:00:00 GMT"), Some(Duration::ZERO));
    assert_eq!(after("soon"), None);
}
