//! How long reports have been silent, counted only while a new one could have reached us.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A span in which a change of any report would have reached us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Since when the stores that bring reports have been current.
    pub since: Instant,
    /// When the API server was last heard. What has changed since then may be on its way.
    pub heard: Instant,
}

/// When the manager saw the reports of one pool change, on a monotonic clock.
///
/// **Guarantees**: a report is silent for no longer than the stores that bring it have been current, and for no longer than the pool
/// has had its present grace period. So after an outage, after a restart and after a change of the period each report has one whole
/// period. What a report says of its own time is the clock of a node, and has no part in this.
#[derive(Debug, Clone, Default)]
pub struct Hearing {
    period: Option<(Duration, Instant)>,
    reports: BTreeMap<String, (Arc<str>, Instant)>,
}

/// How long reports have been silent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Silence {
    /// How long any report could have been renewed: zero while a store that brings reports is behind.
    pub watched: Duration,
    /// How long each report has not changed within that time, by the name of its pod.
    pub pods: BTreeMap<String, Duration>,
}

impl Hearing {
    /// Takes a look at the reports of all pods, and says how long each has been silent.
    ///
    /// There is no `span` while a store that brings reports is behind.
    pub fn listen<'a>(
        &mut self,
        grace: Duration,
        reports: impl IntoIterator<Item = (&'a str, &'a Arc<str>)>,
        span: Option<Span>,
        now: Instant,
    ) -> Silence {
        let watched = self.watched(grace, span, now);
        let mut seen = BTreeMap::new();
        for (pod, report) in reports {
            let since = match self.reports.remove(pod) {
                Some((known, since)) if known == *report => since,
                _ => now,
            };
            seen.insert(pod.to_owned(), (report.clone(), since));
        }
        self.reports = seen;
        let heard = span.map_or(now, |span| span.heard);
        let silent = |since: &Instant| heard.saturating_duration_since(*since).min(watched);
        let pods = self.reports.iter();
        Silence {
            watched,
            pods: pods
                .map(|(pod, (_, since))| (pod.clone(), silent(since)))
                .collect(),
        }
    }

    /// How long reports could have been renewed within the present period.
    pub fn watched(&mut self, grace: Duration, span: Option<Span>, now: Instant) -> Duration {
        let period_since = match self.period {
            Some((known, since)) if known == grace => since,
            _ => now,
        };
        self.period = Some((grace, period_since));
        span.map_or(Duration::ZERO, |span| {
            span.heard.saturating_duration_since(span.since.max(period_since))
        })
    }
}

impl Silence {
    /// How long the report of a pod has been silent.
    pub(super) fn of(&self, pod: &str) -> Duration {
        self.pods.get(pod).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(300);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A pool of one pod.
    struct Pool {
        hearing: Hearing,
        start: Instant,
        current: Option<u64>,
        report: Arc<str>,
        grace: Duration,
    }

    impl Pool {
        fn new(grace: u64) -> Self {
            Self {
                hearing: Hearing::default(),
                start: Instant::now(),
                current: Some(0),
                report: "first".into(),
                grace: seconds(grace),
            }
        }

        fn silent(&mut self, now: u64) -> u64 {
            self.silent_when_heard(now, now)
        }

        fn silent_when_heard(&mut self, heard: u64, now: u64) -> u64 {
            let start = self.start;
            let instant = |time: u64| start + seconds(time);
            let span = self.current.map(|since| Span {
                since: instant(since),
                heard: instant(heard),
            });
            let reports = [("pod", &self.report)];
            let silence = self.hearing.listen(self.grace, reports, span, instant(now));
            silence.of("pod").as_secs()
        }
    }

    #[test]
    fn report_is_silent_since_it_was_seen_to_change() {
        let mut pool = Pool::new(300);
        assert_eq!(pool.silent(0), 0);
        assert_eq!(pool.silent(100), 100);
        pool.report = "second".into();
        assert_eq!(pool.silent(150), 0);
        assert_eq!(pool.silent(451), 301);
    }

    #[test]
    fn report_does_not_age_during_an_outage_and_has_a_whole_period_after_it() {
        for (grace, outage) in [(300, 630), (20, 25)] {
            let mut pool = Pool::new(grace);
            pool.silent(0);
            assert_eq!(pool.silent(grace - 1), grace - 1);
            pool.current = None;
            assert_eq!(pool.silent(grace), 0);
            let back = grace + outage;
            assert_eq!(pool.silent(back), 0);
            pool.current = Some(back);
            assert_eq!(pool.silent(back + grace - 1), grace - 1);
            assert_eq!(
                pool.silent(back + grace),
                grace,
                "a node that is really gone is found"
            );
        }
    }

    /// The connection froze, and the watch has not ended it yet.
    #[test]
    fn report_does_not_age_while_the_server_is_not_heard() {
        let mut pool = Pool::new(20);
        pool.silent(0);
        assert_eq!(pool.silent_when_heard(10, 35), 10);
        assert_eq!(pool.silent_when_heard(36, 36), 36);
        // Nor does a report that was renewed just before the server fell silent.
        pool.report = "second".into();
        assert_eq!(pool.silent_when_heard(40, 40), 0);
        assert_eq!(pool.silent_when_heard(45, 80), 5);
    }

    /// Nobody looked while the stores were behind.
    #[test]
    fn outage_that_ended_between_two_looks_counts() {
        let mut pool = Pool::new(300);
        pool.silent(0);
        pool.current = Some(900);
        assert_eq!(pool.silent(901), 1);
    }

    #[test]
    fn restart_gives_each_report_a_whole_period() {
        let mut pool = Pool::new(300);
        pool.silent(0);
        pool.silent(299);
        let mut restarted = Pool {
            current: Some(290),
            ..Pool::new(300)
        };
        assert_eq!(restarted.silent(299), 0);
        assert_eq!(restarted.silent(599), 300);
    }

    #[test]
    fn changed_period_begins_anew_for_each_report() {
        let mut pool = Pool::new(300);
        pool.silent(0);
        assert_eq!(pool.silent(200), 200);
        pool.grace = seconds(20);
        assert_eq!(pool.silent(201), 0);
        assert_eq!(pool.silent(221), 20);
        pool.grace = GRACE;
        assert_eq!(pool.silent(222), 0);
    }

    #[test]
    fn pod_that_is_gone_is_forgotten() {
        let mut pool = Pool::new(300);
        pool.silent(0);
        let nobody: [(&str, &Arc<str>); 0] = [];
        let start = pool.start;
        let span = Span {
            since: start,
            heard: start + seconds(10),
        };
        let heard = pool.hearing.listen(GRACE, nobody, Some(span), span.heard);
        assert_eq!((heard.watched, heard.pods.len()), (seconds(10), 0));
        assert!(pool.hearing.reports.is_empty());
    }
}
