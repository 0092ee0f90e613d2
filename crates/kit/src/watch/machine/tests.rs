mod currency;

use super::*;

/// A machine with a clock that stands where the test puts it.
pub(super) struct Rig {
    pub(super) machine: Machine,
    pub(super) now: Instant,
}

fn tuning() -> Tuning {
    Tuning {
        refresh: Some(Duration::from_secs(3600)),
        ..Tuning::default()
    }
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(tuning(), None)
    }

    pub(super) fn resumed(version: &str) -> Self {
        Self::with(tuning(), Some(version))
    }

    fn with(tuning: Tuning, resume: Option<&str>) -> Self {
        Self {
            machine: Machine::new(Arc::new(tuning), resume.map(Arc::from), false),
            now: Instant::now(),
        }
    }

    pub(super) fn on(&mut self, input: Input) -> Effect {
        self.machine.on(input, self.now, 0.5)
    }

    pub(super) fn fail(&mut self, reason: Reason) -> Effect {
        self.on(Input::Failed(Failure::new(reason, "")))
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn step(&self) -> Step {
        self.machine.step(self.now)
    }

    /// Waits as long as the machine wants, then tells what it asks.
    pub(super) fn ask(&mut self) -> Ask {
        if let Step::Wait(until) = self.step() {
            self.now = until;
        }
        match self.step() {
            Step::Send(ask) => ask,
            Step::Wait(_) => panic!("it still waits at the time it named"),
        }
    }

    pub(super) fn waits(&self) -> Duration {
        match self.step() {
            Step::Wait(until) => until - self.now,
            Step::Send(_) => Duration::ZERO,
        }
    }

    pub(super) fn bookmark(&mut self, version: &str, initial_end: bool) -> Effect {
        self.on(Input::Bookmark {
            version: version.into(),
            initial_end,
        })
    }

    pub(super) fn object(&mut self, version: &str) -> Effect {
        self.on(Input::Object {
            version: version.into(),
        })
    }

    fn page(&mut self, version: &str, next: Option<&str>) -> Effect {
        self.on(Input::Page {
            version: version.into(),
            next: next.map(Arc::from),
        })
    }

    /// A machine that has listed up to version 10 and reads on.
    pub(super) fn live() -> Self {
        let mut rig = Self::new();
        rig.on(Input::Accepted);
        assert_eq!(rig.bookmark("10", true), Effect::Commit("10".into()));
        rig
    }
}

fn watch(from: &str) -> Ask {
    Ask::Watch { from: from.into() }
}

#[test]
fn a_streaming_list_is_ready_at_its_end_and_reads_on() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(), Ask::Stream);
    rig.on(Input::Accepted);
    assert_eq!(rig.object("99"), Effect::None);
    assert_eq!(
        rig.bookmark("12", false),
        Effect::None,
        "an ordinary bookmark does not end the list"
    );
    assert_eq!(rig.machine.standing(), Standing::START);
    assert_eq!(rig.bookmark("10", true), Effect::Commit("10".into()));
    assert_eq!(rig.machine.standing(), Standing::BEST);
    assert!(rig.machine.is_open(), "the same connection goes on");
    rig.object("11");
    rig.bookmark("15", false);
    rig.pass(200);
    rig.fail(Reason::Ended);
    assert_eq!(
        rig.step(),
        Step::Send(watch("15")),
        "an ordinary end is followed by the next watch at once"
    );
    assert_eq!(rig.machine.standing(), Standing::BEST);
}

#[test]
fn a_refused_streaming_list_falls_back_to_pages() {
    let mut rig = Rig::new();
    assert_eq!(rig.fail(Reason::Rejected), Effect::Discard);
    let page = |token: Option<&str>| Ask::Page {
        token: token.map(Arc::from),
        size: 500,
    };
    assert_eq!(rig.step(), Step::Send(page(None)), "at once");
    assert_eq!(rig.page("10", Some("t")), Effect::None);
    assert_eq!(rig.ask(), page(Some("t")));
    assert!(!rig.machine.standing().ready, "the first page is not the list");
    assert_eq!(rig.page("10", None), Effect::Commit("10".into()));
    assert_eq!(rig.ask(), watch("10"));
    rig.on(Input::Accepted);
    rig.fail(Reason::Expired);
    assert_eq!(
        rig.ask(),
        page(None),
        "the next list does not try to stream again"
    );
}

#[test]
fn a_streaming_list_that_never_ends_falls_back_to_pages() {
    let mut rig = Rig::new();
    rig.fail(Reason::TimedOut);
    assert_eq!(
        rig.ask(),
        Ask::Stream,
        "no answer at all says nothing about streaming"
    );
    rig.on(Input::Accepted);
    rig.fail(Reason::TimedOut);
    assert!(matches!(rig.ask(), Ask::Page { .. }));
}

#[test]
fn a_page_that_fails_is_asked_for_again_and_an_expired_token_starts_over() {
    let mut rig = Rig::new();
    rig.fail(Reason::Rejected);
    rig.page("10", Some("t"));
    assert_eq!(
        rig.fail(Reason::Server),
        Effect::None,
        "what was gathered is kept"
    );
    assert_eq!(
        rig.ask(),
        Ask::Page {
            token: Some("t".into()),
            size: 500
        }
    );
    assert_eq!(rig.fail(Reason::Expired), Effect::Discard);
    assert_eq!(
        rig.ask(),
        Ask::Page {
            token: None,
            size: 1000
        },
        "in larger steps"
    );
    assert_eq!(rig.fail(Reason::TooLarge), Effect::None);
    assert_eq!(
        rig.step(),
        Step::Send(Ask::Page {
            token: None,
            size: 500
        }),
        "in smaller steps, at once"
    );
}

#[test]
fn an_expired_version_is_listed_at_once_but_not_for_ever_at_full_speed() {
    let mut rig = Rig::live();
    rig.fail(Reason::Expired);
    assert_eq!(rig.step(), Step::Send(Ask::Stream));
    assert_eq!(
        rig.machine.standing(),
        Standing::BEST,
        "the store stays what it was"
    );
    let started = rig.now;
    let mut lists = 0;
    while rig.now - started < Duration::from_secs(600) {
        match rig.ask() {
            Ask::Stream => {
                lists += 1;
                rig.on(Input::Accepted);
                rig.bookmark("20", true);
                rig.fail(Reason::Expired);
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(lists < 60, "{lists} lists in ten minutes");
}

#[test]
fn each_failure_waits_longer_until_events_flow() {
    let mut rig = Rig::live();
    let mut waits = Vec::new();
    for _ in 0..10 {
        rig.fail(Reason::Connection);
        waits.push(rig.waits());
        rig.ask();
    }
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!(
        (waits[0], waits[9]),
        (Duration::from_millis(250), Duration::from_secs(15))
    );
    rig.on(Input::Accepted);
    rig.object("11");
    rig.fail(Reason::Connection);
    assert_eq!(rig.waits(), Duration::from_millis(250));
}

#[test]
fn a_watch_that_ends_at_once_again_and_again_is_backed_off() {
    let mut rig = Rig::live();
    for _ in 0..8 {
        rig.fail(Reason::Ended);
        rig.ask();
        rig.on(Input::Accepted);
    }
    rig.fail(Reason::Ended);
    assert!(rig.waits() > Duration::from_secs(10), "{:?}", rig.waits());
    assert_eq!(rig.machine.standing(), Standing::BEST);
}

#[test]
fn the_server_says_when_to_come_back_within_reason() {
    let mut rig = Rig::live();
    let mut failure = Failure::new(Reason::Throttled, "");
    failure.retry_after = Some(Duration::from_secs(7));
    rig.on(Input::Failed(failure.clone()));
    assert_eq!(rig.waits(), Duration::from_secs(7));
    failure.retry_after = Some(Duration::from_secs(86_400));
    rig.on(Input::Failed(failure));
    assert_eq!(rig.waits(), MAX_RETRY_AFTER);
}

#[test]
fn health_names_what_is_wrong_and_since_when() {
    let mut rig = Rig::live();
    rig.fail(Reason::Connection);
    assert_eq!(
        rig.machine.standing().health,
        Health::Ready,
        "a connection that breaks is nothing yet"
    );
    rig.pass(1);
    let since = rig.now;
    rig.fail(Reason::Connection);
    rig.pass(1);
    rig.fail(Reason::Unauthorized);
    assert_eq!(
        rig.machine.standing().health,
        Health::Failing {
            since,
            reason: Reason::Unauthorized
        }
    );
    assert!(rig.machine.standing().ready && rig.machine.standing().complete);
    assert_eq!(rig.ask(), watch("10"), "it goes on where it was");
    rig.on(Input::Accepted);
    assert_eq!(rig.machine.standing().health, Health::Ready);
}

#[test]
fn a_kind_that_is_not_served_or_forbidden_is_probed_and_starts() {
    for (reason, health) in [
        (Reason::NotServed, Health::NotServed),
        (Reason::Forbidden, Health::Forbidden),
    ] {
        let mut rig = Rig::new();
        for _ in 0..20 {
            rig.fail(reason);
            assert_eq!(rig.machine.standing().health, health);
            assert!(rig.waits() <= tuning().probe.max);
            assert_eq!(rig.ask(), Ask::Stream);
        }
        rig.on(Input::Accepted);
        rig.bookmark("10", true);
        assert_eq!(rig.machine.standing(), Standing::BEST);
    }
}

#[test]
fn a_kind_that_vanished_is_listed_when_it_is_back() {
    let mut rig = Rig::live();
    rig.fail(Reason::NotServed);
    assert_eq!(rig.ask(), Ask::Stream);
    assert!(
        rig.machine.standing().ready,
        "what the store had is not thrown away"
    );
}

#[test]
fn a_stored_version_is_ready_when_taken_and_complete_when_listed() {
    let mut rig = Rig::with(tuning(), Some("5"));
    assert_eq!(rig.ask(), watch("5"));
    assert!(!rig.machine.standing().ready);
    rig.on(Input::Accepted);
    assert_eq!(
        rig.machine.standing(),
        Standing {
            complete: false,
            ..Standing::BEST
        }
    );
    assert_eq!(rig.on(Input::Relist), Effect::Discard);
    assert!(!rig.machine.is_open());
    assert_eq!(rig.step(), Step::Send(Ask::Stream));
    rig.on(Input::Accepted);
    rig.bookmark("9", true);
    assert_eq!(rig.machine.standing(), Standing::BEST);
}

#[test]
fn a_stored_version_that_is_nonsense_is_listed() {
    let mut rig = Rig::with(tuning(), Some("nonsense"));
    rig.fail(Reason::Rejected);
    assert_eq!(rig.ask(), Ask::Stream);
}

#[test]
fn a_stale_list_is_refused_until_it_is_clearly_the_truth() {
    let mut rig = Rig::live();
    rig.object("50");
    rig.fail(Reason::Expired);
    for _ in 0..MAX_STALE_LISTS {
        assert_eq!(rig.ask(), Ask::Stream);
        rig.on(Input::Accepted);
        assert_eq!(rig.bookmark("40", true), Effect::Discard);
        assert!(!rig.machine.is_open());
    }
    rig.ask();
    rig.on(Input::Accepted);
    assert_eq!(rig.bookmark("40", true), Effect::Commit("40".into()));
    assert_eq!(rig.machine.version().map(|v| &**v), Some("40"));
}

#[test]
fn a_bookmark_from_the_past_leads_to_a_list() {
    let mut rig = Rig::live();
    rig.object("50");
    assert_eq!(rig.bookmark("40", false), Effect::Discard);
    assert_eq!(rig.ask(), Ask::Stream);
}

#[test]
fn a_server_that_never_reaches_our_version_is_listed() {
    let mut rig = Rig::live();
    for _ in 0..=MAX_AHEAD {
        assert_eq!(rig.ask(), watch("10"));
        rig.fail(Reason::Ahead);
    }
    assert_eq!(rig.ask(), Ask::Stream);
}

#[test]
fn everything_is_listed_anew_from_time_to_time() {
    let mut rig = Rig::live();
    rig.pass(200);
    rig.fail(Reason::Ended);
    assert_eq!(rig.ask(), watch("10"));
    rig.on(Input::Accepted);
    rig.pass(3600);
    rig.fail(Reason::Ended);
    assert_eq!(rig.step(), Step::Send(Ask::Stream));
}

#[test]
fn a_list_is_under_way_from_its_first_answer_to_its_end() {
    let mut rig = Rig::new();
    assert!(!rig.machine.is_amid_list(), "nothing has been told yet");
    rig.on(Input::Accepted);
    assert!(rig.machine.is_amid_list());
    rig.bookmark("5", true);
    assert!(!rig.machine.is_amid_list());

    let mut rig = Rig::new();
    rig.fail(Reason::Rejected);
    assert!(!rig.machine.is_amid_list());
    rig.page("5", Some("t"));
    assert!(rig.machine.is_amid_list());
    rig.fail(Reason::Connection);
    assert!(rig.machine.is_amid_list(), "the next page goes on with it");
    rig.page("5", None);
    assert!(!rig.machine.is_amid_list());
}
