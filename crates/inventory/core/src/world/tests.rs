use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::index::Excluded;

fn settings() -> Settings {
    Settings {
        per_second: 10,
        burst: 20,
        heartbeat: Duration::from_secs(300),
        full_sync: None,
        excluded: Excluded::new(),
        max_pending: crate::pending::MAX_PENDING,
    }
}

fn projection(namespace: &str, name: &str, content: u32) -> Projection {
    Projection {
        uid: format!("{namespace}-{name}").into(),
        namespace: Some(namespace.into()),
        name: name.into(),
        object: format!(
            r#"{{"content":{content},"name":"{name}","namespace":"{namespace}","uid":"{namespace}-{name}"}}"#
        ),
    }
}

const A: SenderId = SenderId(1);
const B: SenderId = SenderId(2);
const POD: InventoryKind = InventoryKind::Pod;

struct Stage {
    world: World,
    now: Instant,
    version: u64,
}

impl Stage {
    fn new(kinds: &[InventoryKind]) -> Self {
        let now = Instant::now();
        let mut world = World::new(kinds.iter().copied());
        world.add(A, settings(), now);
        Self {
            world,
            now,
            version: 0,
        }
    }

    fn list(&mut self, kind: InventoryKind, objects: &[Projection]) {
        self.version += 10;
        self.world.list_begun(kind);
        for object in objects {
            self.world.applied(kind, object, self.version, true);
        }
        self.world.list_complete(kind, true);
    }

    fn apply(&mut self, kind: InventoryKind, object: &Projection) -> bool {
        self.version += 1;
        self.world.applied(kind, object, self.version, false)
    }

    fn call(&mut self, id: SenderId) -> Option<Call> {
        self.world.step(id, self.now).call
    }

    fn accept(&mut self, id: SenderId, call: &Call) {
        self.answer(id, call, Outcome::Accepted);
    }

    fn answer(&mut self, id: SenderId, call: &Call, outcome: Outcome) {
        let what = match call {
            Call::Heartbeat => Answered::Heartbeat,
            Call::Snapshot(_) => Answered::Snapshot,
            Call::Event(record) => Answered::Event(record.uid.clone()),
        };
        self.world
            .answered(id, &what, outcome, self.now, Timestamp::UNIX_EPOCH);
    }

    fn snapshot(&mut self, id: SenderId) -> Arc<Snapshot> {
        match self.call(id) {
            Some(Call::Snapshot(snapshot)) => snapshot,
            other => panic!("expected a snapshot: {other:?}"),
        }
    }

    /// Sends everything that may be sent now; names and types of the changes.
    fn drain(&mut self, id: SenderId) -> Vec<(String, EventType)> {
        let mut sent = Vec::new();
        while let Some(call) = self.call(id) {
            if let Call::Event(record) = &call {
                sent.push((record.name.to_string(), record.type_));
            }
            self.accept(id, &call);
        }
        sent
    }
}

use crate::snapshot::Snapshot;

#[test]
fn a_start_sends_one_snapshot_and_nothing_of_it_again() {
    let mut stage = Stage::new(&[POD, InventoryKind::Service]);
    stage.list(POD, &[projection("shop", "a", 1), projection("shop", "b", 1)]);
    assert!(stage.call(A).is_none(), "one kind is still to be listed");
    stage.apply(POD, &projection("shop", "b", 2));
    stage.list(InventoryKind::Service, &[]);
    let snapshot = stage.snapshot(A);
    assert_eq!(snapshot.len(), 2);
    assert!(stage.call(A).is_none(), "changes wait for the snapshot");
    stage.accept(A, &Call::Snapshot(snapshot));
    assert_eq!(stage.drain(A), [("shop/b".into(), EventType::Modified)]);
    assert!(stage.world.is_idle(A));
}

#[test]
fn an_unchanged_object_sends_nothing() {
    let mut stage = Stage::new(&[POD]);
    stage.list(POD, &[projection("shop", "a", 1)]);
    stage.drain(A);
    assert!(!stage.apply(POD, &projection("shop", "a", 1)));
    stage.list(POD, &[projection("shop", "a", 1)]);
    assert_eq!(stage.drain(A), []);
}

#[test]
fn a_kind_that_cannot_be_read_is_left_out_and_swept_when_it_can() {
    let mut stage = Stage::new(&[POD, InventoryKind::Secret]);
    stage.list(POD, &[projection("shop", "a", 1)]);
    assert!(
        stage
            .world
            .set_unreadable(InventoryKind::Secret, Some("forbidden".into()))
    );
    let snapshot = stage.snapshot(A);
    assert_eq!(snapshot.kinds().collect::<Vec<_>>(), [POD]);
    stage.accept(A, &Call::Snapshot(snapshot));
    assert_eq!(
        stage.world.report(A).unwrap().left_out,
        [InventoryKind::Secret].into()
    );
    stage.world.set_unreadable(InventoryKind::Secret, None);
    stage.list(InventoryKind::Secret, &[projection("shop", "s", 1)]);
    assert_eq!(stage.drain(A), [("shop/s".into(), EventType::Added)]);
    // The index never had the Secrets that were deleted meanwhile: only a snapshot removes them at the platform.
    assert!(!stage.world.is_idle(A));
    stage.now = stage.world.step(A, stage.now).wake.unwrap();
    let both = [POD, InventoryKind::Secret];
    assert_eq!(stage.world.step(A, stage.now).relist, both);
    stage.list(POD, &[projection("shop", "a", 1)]);
    stage.list(InventoryKind::Secret, &[projection("shop", "s", 1)]);
    let snapshot = stage.snapshot(A);
    assert_eq!(snapshot.kinds().collect::<Vec<_>>(), both);
    stage.accept(A, &Call::Snapshot(snapshot));
    assert!(stage.world.is_idle(A));
}

#[test]
fn a_kind_whose_list_takes_too_long_holds_up_no_other() {
    let mut stage = Stage::new(&[POD, InventoryKind::Secret]);
    stage.list(POD, &[projection("shop", "a", 1)]);
    stage.world.list_begun(InventoryKind::Secret);
    let step = stage.world.step(A, stage.now);
    assert!(step.call.is_none());
    stage.now = step.wake.unwrap();
    let snapshot = stage.snapshot(A);
    assert_eq!(snapshot.kinds().collect::<Vec<_>>(), [POD]);
    stage.accept(A, &Call::Snapshot(snapshot));
    stage.apply(POD, &projection("shop", "a", 2));
    assert_eq!(stage.drain(A), [("shop/a".into(), EventType::Modified)]);
}

#[test]
fn an_object_that_cannot_be_read_is_told_and_sent_when_it_can() {
    let mut stage = Stage::new(&[POD]);
    let (a, b) = (projection("shop", "a", 1), projection("shop", "b", 1));
    stage.list(POD, &[a.clone(), b.clone()]);
    stage.drain(A);
    let odd = ObjectRef::new(Some("shop"), "b");
    assert!(stage.world.undecodable(POD, &odd, "shop-b"));
    assert_eq!(
        stage.world.unreadable(),
        [(POD, "the object shop/b cannot be read".to_owned())].into()
    );
    // In the same state as before: the platform may have lost it by a snapshot.
    stage.apply(POD, &b);
    assert!(stage.world.unreadable().is_empty());
    assert_eq!(stage.drain(A), [("shop/b".into(), EventType::Modified)]);

    assert!(stage.world.undecodable(POD, &odd, "shop-b"));
    stage.list(POD, std::slice::from_ref(&a));
    assert!(stage.world.unreadable().is_empty(), "the list did not show it");
}

#[test]
fn a_kind_of_which_nothing_can_be_read_is_not_taken_for_empty() {
    let mut stage = Stage::new(&[POD, InventoryKind::Secret]);
    stage.list(POD, &[projection("shop", "a", 1)]);
    let odd = ObjectRef::new(Some("shop"), "odd");
    stage.world.list_begun(InventoryKind::Secret);
    stage.world.undecodable(InventoryKind::Secret, &odd, "shop-odd");
    stage.world.list_complete(InventoryKind::Secret, true);
    assert_eq!(
        stage.world.unreadable(),
        [(
            InventoryKind::Secret,
            "none of its 1 objects can be read, such as shop/odd".to_owned()
        )]
        .into()
    );
    let snapshot = stage.snapshot(A);
    assert_eq!(snapshot.kinds().collect::<Vec<_>>(), [POD]);
}

#[test]
fn a_snapshot_that_fails_waits_longer_each_time_though_heartbeats_succeed() {
    let mut stage = Stage::new(&[POD]);
    stage.list(POD, &[projection("shop", "a", 1)]);
    let start = stage.now;
    let mut tries = 0;
    while stage.now < start + Duration::from_secs(600) {
        let step = stage.world.step(A, stage.now);
        match step.call {
            Some(call @ Call::Snapshot(_)) => {
                tries += 1;
                stage.answer(A, &call, Outcome::Unreachable("HTTP status 502".into()));
            }
            Some(call) => stage.accept(A, &call),
            None => stage.now = step.wake.unwrap(),
        }
    }
    assert!((10..=17).contains(&tries), "{tries}");
    let report = stage.world.report(A).unwrap();
    assert_eq!(
        report.snapshot_failed.as_deref(),
        Some("failed to send the snapshot: HTTP status 502")
    );
    assert_eq!(report.trouble, None, "heartbeats are taken");
}

#[test]
fn deletions_beyond_the_room_neither_discard_nor_repeat_the_snapshot() {
    let mut stage = Stage::new(&[POD]);
    let small = Settings {
        max_pending: 1_500,
        ..settings()
    };
    stage.world.configure(A, small, stage.now);
    let pods: Vec<_> = (0..30).map(|n| projection("shop", &format!("p{n}"), 1)).collect();
    stage.list(POD, &pods);
    let snapshot = stage.snapshot(A);
    for number in 0..20 {
        stage.world.deleted(POD, &format!("shop-p{number}"));
    }
    assert!(stage.world.report(A).unwrap().lost_deletions > 0);
    stage.accept(A, &Call::Snapshot(snapshot));
    assert!(stage.world.report(A).unwrap().is_live, "the snapshot counts");
    let deletions = stage.drain(A);
    assert!(!deletions.is_empty() && deletions.len() < 20, "{deletions:?}");
    assert!(
        !stage.world.is_idle(A),
        "another snapshot tells of the other deletions"
    );
    stage.now += Duration::from_secs(60);
    assert_eq!(stage.world.step(A, stage.now).relist, [POD]);
}

#[test]
fn an_object_that_is_taken_in_a_replay_is_refused_no_more() {
    let mut stage = Stage::new(&[POD]);
    let hourly = Settings {
        full_sync: Some(Duration::from_secs(100)),
        ..settings()
    };
    stage.world.configure(A, hourly, stage.now);
    stage.list(POD, &[]);
    stage.drain(A);
    let odd = projection("shop", "odd", 1);
    stage.apply(POD, &odd);
    let call = stage.call(A).unwrap();
    stage.answer(A, &call, Outcome::Refused(422, "no".into()));
    stage.now += Duration::from_secs(100);
    assert_eq!(stage.world.step(A, stage.now).relist, [POD]);
    stage.list(POD, &[odd]);
    let snapshot = stage.snapshot(A);
    stage.answer(
        A,
        &Call::Snapshot(snapshot),
        Outcome::Refused(413, "too large".into()),
    );
    assert_eq!(stage.drain(A), [("shop/odd".into(), EventType::Added)]);
    assert_eq!(stage.world.report(A).unwrap().refused, 0);
}

#[test]
fn a_second_platform_gets_a_snapshot_by_lists_of_its_own() {
    let mut stage = Stage::new(&[POD]);
    stage.list(POD, &[projection("shop", "a", 1)]);
    stage.drain(A);
    stage.world.add(B, settings(), stage.now);
    let step = stage.world.step(B, stage.now);
    assert_eq!(step.relist, [POD]);
    stage.list(POD, &[projection("shop", "a", 1)]);
    assert_eq!(stage.snapshot(B).len(), 1);
    assert_eq!(stage.drain(A), [], "the first one hears nothing of it");
}

#[test]
fn excluded_namespaces_are_neither_in_snapshots_nor_in_changes() {
    let mut stage = Stage::new(&[POD]);
    let excluded = Settings {
        excluded: Excluded::from(["hidden".into()]),
        ..settings()
    };
    stage.world.configure(A, excluded, stage.now);
    assert_eq!(stage.call(A).map(drop), None);
    stage.list(POD, &[projection("shop", "a", 1), projection("hidden", "b", 1)]);
    let snapshot = stage.snapshot(A);
    assert_eq!(snapshot.len(), 1);
    stage.accept(A, &Call::Snapshot(snapshot));
    stage.apply(POD, &projection("hidden", "c", 1));
    stage.world.deleted(POD, "hidden-b");
    assert_eq!(stage.drain(A), []);
}

#[test]
fn a_refused_object_is_told_and_tried_again_when_it_changes() {
    let mut stage = Stage::new(&[POD]);
    stage.list(POD, &[]);
    stage.drain(A);
    stage.apply(POD, &projection("shop", "odd", 1));
    let call = stage.call(A).unwrap();
    stage.answer(A, &call, Outcome::Refused(422, "no".into()));
    let report = stage.world.report(A).unwrap();
    assert_eq!((report.refused, report.trouble), (1, None));
    assert_eq!(report.refused_names, ["Pod shop/odd (422)"]);
    assert!(stage.call(A).is_none());
    stage.apply(POD, &projection("shop", "odd", 2));
    assert_eq!(stage.drain(A).len(), 1);
    assert_eq!(stage.world.report(A).unwrap().refused, 0);
}

#[test]
fn a_snapshot_that_is_too_large_goes_as_changes() {
    let mut stage = Stage::new(&[POD]);
    stage.list(
        POD,
        &[
            projection("shop", "a", 1),
            projection("shop", "b", 1),
            projection("shop", "c", 1),
        ],
    );
    let snapshot = stage.snapshot(A);
    stage.answer(
        A,
        &Call::Snapshot(snapshot),
        Outcome::Refused(413, "too large".into()),
    );
    stage.apply(POD, &projection("shop", "b", 2));
    stage.world.deleted(POD, "shop-c");
    let sent: BTreeMap<_, _> = stage.drain(A).into_iter().collect();
    let names: Vec<_> = sent.keys().map(String::as_str).collect();
    assert_eq!(names, ["shop/a", "shop/b", "shop/c"]);
    assert_eq!(
        (sent["shop/a"], sent["shop/c"]),
        (EventType::Added, EventType::Deleted)
    );
    assert!(stage.world.is_idle(A));
    assert!(stage.world.report(A).unwrap().snapshot_failed.is_some());
}

#[test]
fn a_long_backlog_becomes_a_snapshot_with_its_deletions_first() {
    let mut stage = Stage::new(&[POD]);
    let pods: Vec<_> = (0..30).map(|n| projection("shop", &format!("p{n}"), 1)).collect();
    stage.list(POD, &pods);
    stage.drain(A);
    stage.now += Duration::from_secs(120);
    for number in 0..20 {
        stage.world.deleted(POD, &format!("shop-p{number}"));
    }
    let news: Vec<_> = (100..250)
        .map(|n| projection("shop", &format!("p{n}"), 1))
        .collect();
    for new in &news {
        stage.apply(POD, new);
    }
    let step = stage.world.step(A, stage.now);
    assert!(step.call.is_none());
    assert_eq!(step.relist, [POD], "170 changes take longer than ten seconds");
    let all: Vec<_> = pods.into_iter().skip(20).chain(news).collect();
    stage.list(POD, &all);
    let mut deletions = 0;
    let snapshot = loop {
        match stage.call(A) {
            Some(Call::Event(record)) => {
                assert!(record.is_deletion());
                deletions += 1;
                stage.accept(A, &Call::Event(record));
            }
            Some(Call::Snapshot(snapshot)) => break snapshot,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((deletions, snapshot.len()), (20, 160));
}

#[test]
fn an_outage_is_probed_by_one_heartbeat_at_a_time() {
    let mut stage = Stage::new(&[POD]);
    stage.list(POD, &[]);
    stage.drain(A);
    for number in 0..20 {
        stage.apply(POD, &projection("shop", &format!("p{number}"), 1));
    }
    let calls: Vec<_> = std::iter::from_fn(|| stage.call(A)).collect();
    assert_eq!(calls.len(), crate::sender::IN_FLIGHT);
    for call in &calls {
        stage.answer(A, call, Outcome::Unreachable("refused".into()));
    }
    let mut probes = 0;
    let end = stage.now + Duration::from_secs(60);
    while stage.now < end {
        let step = stage.world.step(A, stage.now);
        match step.call {
            Some(Call::Heartbeat) => {
                probes += 1;
                assert!(stage.call(A).is_none(), "one at a time");
                stage.answer(A, &Call::Heartbeat, Outcome::Unreachable("refused".into()));
            }
            Some(other) => panic!("{other:?}"),
            None => stage.now = step.wake.unwrap(),
        }
    }
    assert!((5..=10).contains(&probes), "{probes}");
    stage.now += Duration::from_secs(10);
    let probe = stage.call(A).unwrap();
    assert!(matches!(probe, Call::Heartbeat));
    stage.accept(A, &probe);
    assert_eq!(stage.drain(A).len(), 20, "nothing was lost");
}

#[test]
fn a_throttled_platform_gets_no_request_of_any_kind_until_the_wait_is_over() {
    let mut stage = Stage::new(&[POD]);
    let often = Settings {
        heartbeat: Duration::from_secs(5),
        ..settings()
    };
    stage.world.configure(A, often, stage.now);
    stage.list(POD, &[]);
    stage.drain(A);
    stage.apply(POD, &projection("shop", "a", 1));
    let call = stage.call(A).unwrap();
    let wait = Duration::from_secs(30);
    stage.answer(A, &call, Outcome::Throttled(Some(wait)));
    stage.apply(POD, &projection("shop", "b", 1));
    let end = stage.now + wait;
    for _ in 0..29 {
        stage.now += Duration::from_secs(1);
        let step = stage.world.step(A, stage.now);
        assert!(
            step.call.is_none(),
            "neither changes nor heartbeats: {:?}",
            step.call
        );
        assert_eq!(step.wake, Some(end));
    }
    stage.now = end;
    assert_eq!(stage.drain(A).len(), 2, "nothing was lost");
}

#[test]
fn heartbeats_are_sent_each_interval_and_outside_of_the_rate() {
    let mut stage = Stage::new(&[POD]);
    stage.list(POD, &[]);
    stage.drain(A);
    let mut beats = 0;
    for _ in 0..10 {
        let step = stage.world.step(A, stage.now);
        if let Some(call) = step.call {
            assert!(matches!(call, Call::Heartbeat));
            beats += 1;
            stage.accept(A, &call);
        }
        stage.now = stage.world.step(A, stage.now).wake.unwrap();
    }
    assert!(beats >= 8, "{beats}");
}

#[test]
fn a_full_sync_sends_a_snapshot_although_nothing_changed() {
    let mut stage = Stage::new(&[POD]);
    stage.list(POD, &[projection("shop", "a", 1)]);
    let hourly = Settings {
        full_sync: Some(Duration::from_secs(100)),
        ..settings()
    };
    stage.world.configure(A, hourly, stage.now);
    stage.drain(A);
    let wake = stage.world.step(A, stage.now).wake.unwrap();
    assert_eq!(wake, stage.now + Duration::from_secs(100));
    stage.now = wake;
    assert_eq!(stage.world.step(A, stage.now).relist, [POD]);
}
