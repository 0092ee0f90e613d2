//! One test for each rule of the schedule.

use std::time::Instant;

use super::*;

struct Story {
    schedule: Schedule<ObjectRef>,
    now: Instant,
}

impl Story {
    fn new(policy: Policy) -> Self {
        Self {
            schedule: Schedule::new(policy, 1),
            now: Instant::now(),
        }
    }

    fn wait(&mut self, millis: u64) -> &mut Self {
        self.now += Duration::from_millis(millis);
        self
    }

    fn add(&mut self, name: &str, lane: Lane) -> &mut Self {
        self.schedule.add(key(name), lane, self.now);
        self
    }

    fn take(&mut self) -> Option<String> {
        self.schedule
            .take(self.now)
            .map(|turn| turn.key.name().to_owned())
    }

    fn finish(&mut self, name: &str, outcome: Outcome) -> &mut Self {
        self.schedule.finish(&key(name), outcome, self.now);
        self
    }

    /// Takes the key, fails it, and says how long it is then away.
    fn fail(&mut self, name: &str, class: Class) -> Duration {
        assert_eq!(self.take().as_deref(), Some(name));
        self.finish(name, failed(class));
        self.schedule
            .next_due()
            .map_or(Duration::ZERO, |due| due - self.now)
    }
}

fn debounced() -> Story {
    let debounce = Debounce {
        quiet: Duration::from_millis(100),
        longest: Duration::from_millis(250),
    };
    Story::new(Policy {
        debounce: Some(debounce),
        ..Policy::default()
    })
}

#[test]
fn a_key_that_changes_while_it_is_worked_on_runs_once_more_afterwards() {
    let mut story = Story::new(Policy::default());
    story.add("a", Lane::Normal).add("a", Lane::Normal);
    assert_eq!(story.take().as_deref(), Some("a"));
    story.add("a", Lane::Normal).add("a", Lane::Normal);
    assert_eq!(story.take(), None, "it is on a worker already");
    story.finish("a", DONE);
    assert_eq!(story.take().as_deref(), Some("a"));
    story.finish("a", DONE);
    assert_eq!(story.take(), None);
    assert_eq!(
        story.schedule.depths(story.now),
        Depths::default(),
        "nothing is kept of a key at rest"
    );
}

#[test]
fn a_key_moves_up_but_not_down() {
    let mut story = Story::new(Policy::default());
    story
        .add("first", Lane::Bulk)
        .add("second", Lane::Bulk)
        .add("second", Lane::Urgent)
        .add("second", Lane::Bulk);
    assert_eq!(story.take().as_deref(), Some("second"));
    assert_eq!(story.take().as_deref(), Some("first"));
    assert_eq!(story.take(), None);
}

#[test]
fn the_earliest_wish_wins() {
    let mut story = Story::new(Policy::default());
    for wait in [50, 20, 90] {
        story
            .schedule
            .add_after(key("a"), Lane::Normal, Duration::from_millis(wait), story.now);
    }
    assert_eq!(story.wait(19).take(), None);
    assert_eq!(story.wait(1).take().as_deref(), Some("a"));
    story
        .schedule
        .add_after(key("a"), Lane::Bulk, Duration::from_millis(70), story.now);
    story.finish(
        "a",
        Outcome::Success {
            look_again: Some((Duration::from_millis(80), Lane::Normal)),
        },
    );
    assert_eq!(story.wait(69).take(), None);
    assert_eq!(story.wait(1).take().as_deref(), Some("a"));
}

#[test]
fn a_burst_of_events_is_one_piece_of_work_and_cannot_last_for_ever() {
    let mut story = debounced();
    story.add("a", Lane::Normal);
    assert_eq!(
        story.wait(90).add("a", Lane::Normal).wait(90).take(),
        None,
        "the second event extends the window"
    );
    story.add("a", Lane::Normal);
    assert_eq!(story.wait(69).take(), None);
    assert_eq!(story.wait(1).take().as_deref(), Some("a"), "250 ms are the end");
    story.finish("a", DONE);
    assert_eq!(story.wait(1000).take(), None);
}

#[test]
fn a_window_does_not_hold_up_what_is_urgent() {
    let mut story = debounced();
    assert_eq!(
        story
            .add("a", Lane::Normal)
            .add("a", Lane::Urgent)
            .take()
            .as_deref(),
        Some("a")
    );
    story.add("a", Lane::Normal).finish("a", DONE);
    assert_eq!(story.take(), None, "the next event is an ordinary one");
    assert_eq!(story.wait(100).take().as_deref(), Some("a"));
}

#[test]
fn an_event_after_the_window_has_closed_does_not_open_it_again() {
    let mut story = debounced();
    story.add("a", Lane::Normal).wait(100).add("a", Lane::Normal);
    assert_eq!(
        story.take().as_deref(),
        Some("a"),
        "no worker was free, but the key was due"
    );
}

#[test]
fn failures_back_off_and_a_success_resets_them() {
    let mut story = Story::new(Policy::default());
    story.add("a", Lane::Normal);
    let mut last = Duration::ZERO;
    for expected in [1, 2, 4, 8, 16] {
        let away = story.fail("a", Class::Transient);
        let expected = Duration::from_secs(expected);
        assert!(
            away >= expected.mul_f64(0.8) && away <= expected.mul_f64(1.2),
            "{away:?} for {expected:?}"
        );
        assert!(away > last);
        last = away;
        story.now += away;
    }
    assert_eq!(story.take().as_deref(), Some("a"));
    story.finish("a", DONE).add("a", Lane::Normal);
    assert!(story.fail("a", Class::Transient) <= Duration::from_millis(1200));
}

#[test]
fn one_failing_key_does_not_slow_another() {
    let mut story = Story::new(Policy::default());
    story.add("bad", Lane::Normal);
    story.fail("bad", Class::Bug);
    assert_eq!(story.add("good", Lane::Normal).take().as_deref(), Some("good"));
}

#[test]
fn an_event_shortens_a_backoff_to_the_pause() {
    let mut story = Story::new(Policy::default());
    story.add("a", Lane::Normal);
    story.fail("a", Class::Bug);
    story.add("a", Lane::Normal);
    assert_eq!(
        story.take(),
        None,
        "a key that changes all the time still backs off"
    );
    assert_eq!(story.wait(1000).take().as_deref(), Some("a"));
}

#[test]
fn a_person_who_mends_an_error_does_not_wait() {
    let mut story = Story::new(Policy::default());
    story.add("a", Lane::Normal);
    for _ in 0..10 {
        assert!(story.fail("a", Class::User) >= Duration::from_secs(48 * 60));
        story.add("a", Lane::Normal);
    }
    assert!(
        story.fail("a", Class::Transient) <= Duration::from_millis(1200),
        "errors of the user are no outage"
    );
}

#[test]
fn not_even_an_event_comes_before_the_time_that_the_server_asked_for() {
    let mut story = Story::new(Policy::default());
    story.add("a", Lane::Normal);
    assert_eq!(story.take().as_deref(), Some("a"));
    story.add("a", Lane::Urgent);
    let retry_after = Some(Duration::from_secs(40));
    story.finish(
        "a",
        Outcome::Failed {
            class: Class::Transient,
            retry_after,
            retry_in: None,
        },
    );
    assert_eq!(story.add("a", Lane::Urgent).wait(39_999).take(), None);
    assert_eq!(story.wait(1).take().as_deref(), Some("a"));
}

#[test]
fn a_forgotten_key_is_gone_wherever_it_stood() {
    let mut story = Story::new(Policy::default());
    story.add("ready", Lane::Bulk).add("running", Lane::Urgent);
    story
        .schedule
        .add_after(key("delayed"), Lane::Normal, Duration::from_secs(1), story.now);
    assert_eq!(story.take().as_deref(), Some("running"));
    story.add("running", Lane::Normal);
    for name in ["ready", "running", "delayed", "unknown"] {
        story.schedule.forget(&key(name));
    }
    assert_eq!(story.wait(5000).take(), None);
    story.finish("running", DONE);
    assert_eq!(story.schedule.depths(story.now), Depths::default());
}

#[test]
fn an_endless_wait_does_not_overflow_the_clock() {
    let mut story = Story::new(Policy::default());
    story
        .schedule
        .add_after(key("a"), Lane::Normal, Duration::MAX, story.now);
    story.add("b", Lane::Normal).take();
    story.finish(
        "b",
        Outcome::Success {
            look_again: Some((Duration::MAX, Lane::Normal)),
        },
    );
    assert_eq!(story.take(), None);
    assert_eq!(story.schedule.depths(story.now).delayed, 2);
}

#[test]
fn the_state_names_the_worst_key_and_what_runs() {
    let mut story = Story::new(Policy::default());
    story.add("mild", Lane::Normal);
    story.fail("mild", Class::User);
    story.add("worse", Lane::Normal);
    let away = story.fail("worse", Class::Transient);
    story.now += away;
    story.fail("worse", Class::Bug);
    story.add("run", Lane::Normal).take();
    story.add("wait", Lane::Bulk).wait(1500);
    let state = serde_json::to_value(story.schedule.state(story.now)).unwrap();
    assert_eq!(state["keys"], 4);
    assert_eq!(state["bulk"], 1);
    assert_eq!(state["oldest_seconds"], 1.5);
    assert_eq!(
        state["running_keys"],
        serde_json::json!([{ "key": "ns/run", "seconds": 1.5 }])
    );
    let backoff = &state["backoff"];
    assert_eq!(
        (&backoff["keys"], &backoff["worst"]["key"]),
        (&2.into(), &"ns/worse".into())
    );
    assert_eq!(
        (&backoff["worst"]["failures"], &backoff["worst"]["class"]),
        (&2.into(), &"bug".into())
    );
    assert!(backoff["worst"]["retry_in_seconds"].as_f64().unwrap() > 40.0);
}
