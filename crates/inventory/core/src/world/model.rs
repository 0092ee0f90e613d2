//! A random life of a cluster, its watches and a platform: when all is well again, the platform has what the cluster has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use trustplane_api::inventory::wire::SnapshotHead;

use super::*;
use crate::index::Excluded;

const KINDS: [InventoryKind; 3] = [
    InventoryKind::Namespace,
    InventoryKind::Pod,
    InventoryKind::Secret,
];
const ID: SenderId = SenderId(1);

type State = BTreeMap<(InventoryKind, String), u32>;

#[derive(Debug, Clone)]
enum Act {
    /// Creates, changes or deletes an object.
    Write(usize, u8, Option<u32>),
    /// An object takes a form that cannot be read.
    Garble(usize, u8),
    /// The watch of a kind breaks: nothing is heard until the next list.
    Break(usize),
    /// A list of a kind runs to its end, or is cut off in the middle.
    List(usize, bool),
    /// A right is taken or given.
    Readable(usize, bool),
    /// The process starts again. A platform that merges snapshots never hears of what was deleted meanwhile, so it is spared.
    Restart,
    /// How the platform answers from now on.
    Platform(Answers),
    /// Time passes.
    Pass(u64),
    /// The task of the platform makes requests.
    Drive(usize),
    /// A running request is answered: which one.
    Answer(usize),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Answers {
    Well,
    /// It does not answer; a request may have arrived all the same.
    Away {
        arrives: bool,
    },
    Throttled,
    Unauthorized,
    Forbidden,
    /// It refuses this object, or snapshots.
    Refuses(u8),
    RefusesSnapshots,
}

struct Model {
    world: World,
    settings: Settings,
    cluster: State,
    versions: BTreeMap<(InventoryKind, String), u64>,
    version: u64,
    /// How often each object was deleted.
    lives: BTreeMap<(InventoryKind, u8), u16>,
    heard: BTreeMap<InventoryKind, bool>,
    readable: BTreeMap<InventoryKind, bool>,
    relist: BTreeSet<InventoryKind>,
    platform: State,
    merges: bool,
    answers: Answers,
    running: VecDeque<Call>,
    refused: BTreeSet<(InventoryKind, String)>,
    /// Objects that cannot be read.
    garbled: BTreeSet<(InventoryKind, String)>,
    now: Instant,
}

fn world(settings: &Settings, now: Instant) -> World {
    let mut world = World::new(KINDS);
    world.add(ID, settings.clone(), now);
    world
}

/// No uid is used twice, as on an API server.
fn uid(kind: InventoryKind, number: u8, life: u16) -> String {
    format!("{:08x}-{life:04x}-4000-8000-{number:012x}", kind as u32)
}

/// The number of the object that a uid was made of.
fn number(uid: &str) -> u8 {
    u8::from_str_radix(&uid[34..], 16).unwrap()
}

fn projection(kind: InventoryKind, uid: &str, content: u32) -> Projection {
    Projection {
        uid: uid.into(),
        namespace: (kind != InventoryKind::Namespace).then(|| "shop".into()),
        name: uid.into(),
        object: format!(r#"{{"content":{content},"name":"{uid}","uid":"{uid}"}}"#),
    }
}

fn named(uid: &str) -> ObjectRef {
    ObjectRef::new(Some("shop"), uid)
}

fn content(object: &Value) -> (String, u32) {
    let uid = object["uid"].as_str().unwrap().to_owned();
    (uid, object["content"].as_u64().unwrap() as u32)
}

impl Model {
    fn new(merges: bool, max_pending: usize) -> Self {
        let now = Instant::now();
        let settings = Settings {
            per_second: 10,
            burst: 5,
            heartbeat: Duration::from_secs(30),
            full_sync: None,
            excluded: Excluded::new(),
            max_pending,
        };
        Self {
            world: world(&settings, now),
            settings,
            cluster: State::new(),
            versions: BTreeMap::new(),
            version: 0,
            lives: BTreeMap::new(),
            heard: KINDS.map(|kind| (kind, false)).into(),
            readable: KINDS.map(|kind| (kind, true)).into(),
            relist: KINDS.into(),
            platform: State::new(),
            merges,
            answers: Answers::Well,
            running: VecDeque::new(),
            refused: BTreeSet::new(),
            garbled: BTreeSet::new(),
            now,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Write(kind, number, content) => self.write(KINDS[*kind], *number, *content),
            Act::Garble(kind, number) => self.garble(KINDS[*kind], *number),
            Act::Break(kind) => self.break_watch(KINDS[*kind]),
            Act::List(kind, whole) => self.list(KINDS[*kind], *whole),
            Act::Readable(kind, readable) => {
                let kind = KINDS[*kind];
                self.readable.insert(kind, *readable);
                if !readable {
                    self.break_watch(kind);
                    self.world.set_unreadable(kind, Some("forbidden".into()));
                }
            }
            Act::Restart if !self.merges => self.restart(),
            Act::Restart => {}
            Act::Platform(answers) => self.answers = *answers,
            Act::Pass(seconds) => self.now += Duration::from_secs(*seconds),
            Act::Drive(calls) => self.drive(*calls),
            Act::Answer(which) => self.answer(*which),
        }
    }

    fn write(&mut self, kind: InventoryKind, number: u8, content: Option<u32>) {
        let life = self.lives.entry((kind, number)).or_default();
        let uid = uid(kind, number, *life);
        *life += u16::from(content.is_none());
        let key = (kind, uid.clone());
        self.version += 1;
        self.garbled.remove(&key);
        match content {
            Some(content) => {
                self.cluster.insert(key.clone(), content);
                self.versions.insert(key, self.version);
                if self.heard[&kind] {
                    self.world
                        .applied(kind, &projection(kind, &uid, content), self.version, false);
                }
            }
            None => {
                if self.cluster.remove(&key).is_some() && self.heard[&kind] {
                    self.world.deleted(kind, &uid);
                }
            }
        }
    }

    /// Requests that are on their way are never answered.
    fn restart(&mut self) {
        self.world = world(&self.settings, self.now);
        self.running.clear();
        for kind in KINDS {
            self.break_watch(kind);
            if !self.readable[&kind] {
                self.world.set_unreadable(kind, Some("forbidden".into()));
            }
        }
    }

    fn garble(&mut self, kind: InventoryKind, number: u8) {
        let life = self.lives.get(&(kind, number)).copied().unwrap_or_default();
        let key = (kind, uid(kind, number, life));
        if self.cluster.contains_key(&key) {
            self.version += 1;
            self.versions.insert(key.clone(), self.version);
            if self.heard[&kind] {
                self.world.undecodable(kind, &named(&key.1), &key.1);
            }
            self.garbled.insert(key);
        }
    }

    fn break_watch(&mut self, kind: InventoryKind) {
        self.heard.insert(kind, false);
        self.relist.insert(kind);
    }

    fn list(&mut self, kind: InventoryKind, whole: bool) {
        if !self.readable[&kind] {
            return;
        }
        self.world.set_unreadable(kind, None);
        self.world.list_begun(kind);
        let objects: Vec<_> = self
            .cluster
            .iter()
            .filter(|((of, _), _)| *of == kind)
            .map(|((_, uid), content)| (uid.clone(), *content))
            .collect();
        let shown = if whole { objects.len() } else { objects.len() / 2 };
        for (uid, content) in objects.iter().take(shown) {
            let key = (kind, uid.clone());
            if self.garbled.contains(&key) {
                self.world.undecodable(kind, &named(uid), uid);
                continue;
            }
            self.world
                .applied(kind, &projection(kind, uid, *content), self.versions[&key], true);
        }
        if whole {
            assert!(!self.world.list_complete(kind, true).again);
            self.heard.insert(kind, true);
            self.relist.remove(&kind);
        } else {
            self.world.list_dropped(kind);
            self.break_watch(kind);
        }
    }

    fn drive(&mut self, calls: usize) {
        for _ in 0..calls {
            let step = self.world.step(ID, self.now);
            self.relist.extend(step.relist);
            let Some(call) = step.call else { return };
            self.check(&call);
            self.running.push_back(call);
        }
    }

    /// What must hold whenever a request is made.
    fn check(&self, call: &Call) {
        let snapshot = self.running.iter().any(|one| matches!(one, Call::Snapshot(_)));
        let events = self.running.iter().filter(|one| matches!(one, Call::Event(_)));
        match call {
            Call::Heartbeat => {}
            Call::Snapshot(_) => {
                assert!(!snapshot, "two snapshots at once");
                assert_eq!(events.count(), 0, "a snapshot beside a change");
            }
            Call::Event(record) => {
                assert!(!snapshot, "a change beside a snapshot");
                let same = |one: &Call| matches!(one, Call::Event(other) if other.uid == record.uid);
                assert!(
                    !self.running.iter().any(same),
                    "two changes of one object at once"
                );
                assert!(self.running.len() <= crate::sender::IN_FLIGHT + 1);
            }
        }
    }

    fn answer(&mut self, which: usize) {
        if self.running.is_empty() {
            return;
        }
        let Some(call) = self.running.remove(which % self.running.len()) else {
            return;
        };
        let outcome = self.outcome(&call);
        if outcome == Outcome::Accepted || self.answers == (Answers::Away { arrives: true }) {
            self.arrive(&call);
        }
        let what = match &call {
            Call::Heartbeat => Answered::Heartbeat,
            Call::Snapshot(_) => Answered::Snapshot,
            Call::Event(record) => Answered::Event(record.uid.clone()),
        };
        if let (Call::Event(record), Outcome::Refused(..)) = (&call, &outcome) {
            self.refused.insert((record.kind, record.uid.to_string()));
        }
        self.world
            .answered(ID, &what, outcome, self.now, Timestamp::UNIX_EPOCH);
    }

    fn outcome(&self, call: &Call) -> Outcome {
        match (self.answers, call) {
            (Answers::Away { .. }, _) => Outcome::Unreachable("away".into()),
            (Answers::Throttled, _) => Outcome::Throttled(Some(Duration::from_secs(3))),
            (Answers::Unauthorized, _) => Outcome::Unauthorized("401".into()),
            (Answers::Forbidden, _) => Outcome::Forbidden("403".into()),
            // A deletion that is refused can never be sent in another state: nothing but a sweep mends that.
            (Answers::Refuses(refused), Call::Event(record))
                if number(&record.uid.to_string()) == refused && !record.is_deletion() =>
            {
                Outcome::Refused(422, "no".into())
            }
            (Answers::RefusesSnapshots, Call::Snapshot(_)) => Outcome::Refused(413, "too large".into()),
            _ => Outcome::Accepted,
        }
    }

    fn arrive(&mut self, call: &Call) {
        match call {
            Call::Heartbeat => {}
            Call::Event(record) => {
                let key = (record.kind, record.uid.to_string());
                match &record.object {
                    None => drop(self.platform.remove(&key)),
                    Some(object) => {
                        let (uid, content) = content(&serde_json::from_str(object).unwrap());
                        self.platform.insert((record.kind, uid), content);
                    }
                }
            }
            Call::Snapshot(snapshot) => {
                let body: String = snapshot.body(&SnapshotHead::default()).collect();
                let body: Value = serde_json::from_str(&body).unwrap();
                for kind in KINDS {
                    let Some(objects) = body.get(kind.array()).and_then(Value::as_array) else {
                        continue;
                    };
                    if !self.merges {
                        self.platform.retain(|(of, _), _| *of != kind);
                    }
                    for object in objects {
                        let (uid, content) = content(object);
                        self.platform.insert((kind, uid), content);
                    }
                }
            }
        }
    }

    /// Everything heals, and the task runs until it has nothing to do.
    fn heal(&mut self) {
        self.answers = Answers::Well;
        for kind in KINDS {
            self.readable.insert(kind, true);
        }
        for (kind, uid) in std::mem::take(&mut self.garbled) {
            let content = self.cluster[&(kind, uid.clone())];
            self.write(kind, number(&uid), Some(content));
        }
        for (kind, uid) in std::mem::take(&mut self.refused) {
            let number = number(&uid);
            let changed = self.cluster.get(&(kind, uid)).map(|content| content + 1000);
            if changed.is_some() {
                self.write(kind, number, changed);
            }
        }
        for _ in 0..500 {
            self.drive(usize::MAX);
            while !self.running.is_empty() {
                self.answer(0);
            }
            for kind in std::mem::take(&mut self.relist) {
                self.list(kind, true);
            }
            if self.world.is_idle(ID) && self.relist.is_empty() && self.heard.values().all(|heard| *heard) {
                return;
            }
            let wake = self.world.step(ID, self.now);
            self.relist.extend(wake.relist);
            self.running.extend(wake.call);
            self.now = wake
                .wake
                .unwrap_or(self.now)
                .max(self.now + Duration::from_millis(100));
        }
        panic!("it never ends: {:?}", self.world.report(ID));
    }
}

fn act() -> impl Strategy<Value = Act> {
    let kind = 0..KINDS.len();
    let answers = prop_oneof![
        3 => Just(Answers::Well),
        2 => any::<bool>().prop_map(|arrives| Answers::Away { arrives }),
        1 => Just(Answers::Throttled),
        1 => Just(Answers::Unauthorized),
        1 => Just(Answers::Forbidden),
        1 => (0_u8..6).prop_map(Answers::Refuses),
        1 => Just(Answers::RefusesSnapshots),
    ];
    prop_oneof![
        8 => (kind.clone(), 0_u8..6, proptest::option::weighted(0.7, 0_u32..5)).prop_map(|(k, n, c)| Act::Write(k, n, c)),
        1 => (kind.clone(), 0_u8..6).prop_map(|(k, n)| Act::Garble(k, n)),
        1 => kind.clone().prop_map(Act::Break),
        3 => (kind.clone(), proptest::bool::weighted(0.8)).prop_map(|(k, whole)| Act::List(k, whole)),
        1 => (kind, any::<bool>()).prop_map(|(k, readable)| Act::Readable(k, readable)),
        1 => Just(Act::Restart),
        2 => answers.prop_map(Act::Platform),
        2 => (0_u64..90).prop_map(Act::Pass),
        5 => (1_usize..8).prop_map(Act::Drive),
        6 => (0_usize..8).prop_map(Act::Answer),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_platform_equals_the_cluster_when_all_is_well(
        acts in proptest::collection::vec(act(), 0..120),
        small in any::<bool>(),
    ) {
        // Room for a few changes only, so that changes are lost and listed again.
        let mut model = Model::new(false, if small { 1_500 } else { crate::pending::MAX_PENDING });
        acts.iter().for_each(|act| model.act(act));
        model.heal();
        prop_assert_eq!(&model.platform, &model.cluster);
    }

    #[test]
    fn a_platform_that_never_sweeps_hears_of_every_deletion(acts in proptest::collection::vec(act(), 0..120)) {
        let mut model = Model::new(true, crate::pending::MAX_PENDING);
        acts.iter().for_each(|act| model.act(act));
        model.heal();
        prop_assert_eq!(model.world.report(ID).unwrap().lost_deletions, 0);
        prop_assert_eq!(&model.platform, &model.cluster);
    }
}
