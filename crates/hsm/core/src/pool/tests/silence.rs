//! Nodes that are not heard, because they are gone, or because nobody could have heard them.

use std::time::Instant;

use trustplane_api::hsm::conditions::phase;

use super::*;
use crate::pool::{Hearing, Span};

/// A manager with a store that may be behind. Its clock is right, and nothing else needs to be.
struct Manager {
    hearing: Hearing,
    start: Instant,
    current: Option<u64>,
}

impl Manager {
    fn new(current: u64) -> Self {
        Self {
            hearing: Hearing::default(),
            start: Instant::now(),
            current: Some(current),
        }
    }

    fn look(&mut self, input: &mut PoolInput, now: u64) -> HsmPoolStatus {
        let start = self.start;
        let instant = |seconds: u64| start + Duration::from_secs(seconds);
        let pods = input.devices[0].pods.iter();
        let reports = pods.filter_map(|pod| Some((pod.name.as_str(), pod.report.as_ref()?)));
        let span = self.current.map(|since| Span {
            since: instant(since),
            heard: instant(now),
        });
        let grace = grace_period(&input.spec);
        input.silence = self.hearing.listen(grace, reports, span, instant(now));
        settle_as_heard(input, at(now.try_into().unwrap()));
        status(input)
    }
}

fn with_grace(seconds: u64) -> PoolInput {
    let mut input = one();
    input.spec.grace_period = format!("{seconds}s");
    input
}

fn renew(input: &mut PoolInput, clock: i64) {
    let devices = json!([seen("e6", "/dev/bus/usb/001/015", at(0))]);
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(clock), devices)));
}

/// The node is gone: it is found silent after one period, and its token is given up after one more.
fn node_is_given_up(manager: &mut Manager, input: &mut PoolInput, since: u64, grace: u64) {
    let made = manager.look(input, since + grace - 1);
    assert!(made.reporting_pods[0].fresh && made.available_devices == 1);
    let made = manager.look(input, since + grace);
    assert!(!made.reporting_pods[0].fresh);
    assert_eq!((made.total_devices, made.available_devices), (1, 0));
    assert_eq!(manager.look(input, since + 2 * grace - 1).total_devices, 1);
    assert_eq!(manager.look(input, since + 2 * grace).total_devices, 0);
}

#[test]
fn outage_longer_than_the_period_costs_no_token() {
    for (grace, outage) in [(300, 630), (20, 25)] {
        let mut input = with_grace(grace);
        let mut manager = Manager::new(0);
        manager.look(&mut input, 0);
        let before = manager.look(&mut input, grace / 3);
        manager.current = None;
        // The API server is back, and the watch is not.
        let back = grace / 3 + outage;
        assert_eq!(manager.look(&mut input, back), before);
        manager.current = Some(back + 1);
        assert_eq!(manager.look(&mut input, back + 1), before);
        // A report that comes within the period changes nothing; without one the node is given up.
        let mut renewed = input.clone();
        renew(&mut renewed, 9_000);
        let mut other = Manager {
            hearing: manager.hearing.clone(),
            ..manager
        };
        assert_eq!(other.look(&mut renewed, back + grace), before);
        node_is_given_up(&mut manager, &mut input, back + 1, grace);
    }
}

#[test]
fn restart_costs_no_token_and_finds_a_node_that_is_gone() {
    let mut input = with_grace(300);
    Manager::new(0).look(&mut input, 0);
    // Nobody ran for a day.
    let mut manager = Manager::new(86_400);
    assert_eq!(manager.look(&mut input, 86_400).available_devices, 1);
    node_is_given_up(&mut manager, &mut input, 86_400, 300);
}

#[test]
fn restart_does_not_bring_back_what_was_given_up() {
    let mut input = with_grace(300);
    let mut manager = Manager::new(0);
    manager.look(&mut input, 0);
    manager.look(&mut input, 300);
    let given_up = manager.look(&mut input, 600);
    assert_eq!(given_up.total_devices, 0);
    let mut restarted = Manager::new(700);
    assert_eq!(restarted.look(&mut input, 700), given_up);
    // Nor does an outage; a report does.
    manager.current = Some(701);
    assert_eq!(manager.look(&mut input, 702), given_up);
    renew(&mut input, 710);
    assert_eq!(manager.look(&mut input, 711).available_devices, 1);
    assert_eq!(restarted.look(&mut input, 711).available_devices, 1);
}

#[test]
fn lowered_period_begins_anew_for_a_healthy_node() {
    let mut input = with_grace(300);
    let mut manager = Manager::new(0);
    manager.look(&mut input, 0);
    let before = manager.look(&mut input, 99);
    input.spec.grace_period = "20s".to_owned();
    assert_eq!(manager.look(&mut input, 99), before);
    node_is_given_up(&mut manager, &mut input, 99, 20);
}

/// A token that its node has reported as lost, and that came back while nobody could hear of it.
#[test]
fn lost_token_has_a_whole_period_after_an_outage() {
    let mut input = with_grace(300);
    let mut manager = Manager::new(0);
    manager.look(&mut input, 0);
    let gone = json!([lost("e6", "/dev/bus/usb/001/015", at(10))]);
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(10), gone)));
    manager.look(&mut input, 10);
    manager.current = None;
    assert_eq!(manager.look(&mut input, 640).total_devices, 1);
    manager.current = Some(640);
    assert_eq!(manager.look(&mut input, 939).total_devices, 1);
    assert_eq!(manager.look(&mut input, 940).total_devices, 0);
}

#[test]
fn clock_of_a_node_decides_nothing() {
    for clock in [-86_400, 86_400] {
        let mut input = with_grace(300);
        renew(&mut input, clock);
        let mut manager = Manager::new(0);
        let before = manager.look(&mut input, 0);
        assert!(before.reporting_pods[0].fresh && before.reporting_pods[0].error.is_none());
        for beat in 1..10 {
            renew(&mut input, clock + 100 * i64::try_from(beat).unwrap());
            let made = manager.look(&mut input, 100 * beat);
            assert_eq!(made.reporting_pods, before.reporting_pods, "{clock}");
            assert_eq!(made.aggregated_devices, before.aggregated_devices, "{clock}");
        }
        node_is_given_up(&mut manager, &mut input, 900, 300);
        let mut restarted = Manager::new(2_000);
        assert_eq!(restarted.look(&mut input, 2_000).total_devices, 0, "{clock}");
    }
}

#[test]
fn loss_is_counted_from_when_it_was_heard_whatever_the_clock_of_the_node() {
    let mut input = with_grace(300);
    let mut manager = Manager::new(0);
    manager.look(&mut input, 0);
    let gone = json!([lost("e6", "/dev/bus/usb/001/015", at(-86_400))]);
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(-86_400), gone)));
    let made = manager.look(&mut input, 400);
    assert_eq!(made.aggregated_devices[0].last_seen, at(400));
    assert_eq!(manager.look(&mut input, 699).total_devices, 1);
}

#[test]
fn token_that_its_agent_serves_stays_while_its_node_is_silent() {
    let mut input = with_grace(20);
    let mut manager = Manager::new(0);
    manager.look(&mut input, 0);
    serves(&mut input, "n1");
    let made = manager.look(&mut input, 1_000);
    assert_eq!(
        (made.available_devices, made.phase.as_deref()),
        (1, Some(phase::PARTIAL))
    );
    assert!(!made.reporting_pods[0].fresh);
    // Its discovery is gone altogether.
    input.devices[0].pods.clear();
    let served = manager.look(&mut input, 2_000);
    assert_eq!(served.available_devices, 1);
    assert_eq!(served.aggregated_devices, made.aggregated_devices);
    // Its agent no longer serves, or is said to serve elsewhere.
    serves(&mut input, "n2");
    assert_eq!(manager.look(&mut input, 2_001).available_devices, 0);
    assert_eq!(manager.look(&mut input, 2_021).total_devices, 0);
}

/// Its selector has changed, or it was pulled out and its agent has not noticed yet.
#[test]
fn token_that_its_node_reports_as_gone_goes_though_its_agent_serves() {
    let mut input = with_grace(20);
    let mut manager = Manager::new(0);
    manager.look(&mut input, 0);
    serves(&mut input, "n1");
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(5), json!([]))));
    assert_eq!(manager.look(&mut input, 5).available_devices, 0);
}
