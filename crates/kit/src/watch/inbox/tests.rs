use proptest::prelude::*;
use trustplane_plan::{Keep, Meta};

use super::*;

fn object(name: &str, uid: &str, version: u32) -> Arc<Watched<()>> {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    );
    Arc::new(Watched {
        meta: Meta::decode(&json, &Keep::default()).unwrap(),
        value: (),
    })
}

fn name(name: &str) -> ObjectRef {
    ObjectRef::new(Some("ns"), name)
}

/// An inbox together with the truth that fills it.
struct Rig {
    inbox: Inbox<()>,
    truth: BTreeMap<String, Arc<Watched<()>>>,
    versions: Arc<Versions>,
}

impl Rig {
    fn new(known: &[(&str, &str)]) -> Self {
        let known: Vec<_> = known.iter().map(|(n, uid)| (name(n), Arc::from(*uid))).collect();
        Self {
            inbox: Inbox::new(known, Arc::default()),
            truth: BTreeMap::new(),
            versions: Arc::default(),
        }
    }

    fn apply(&mut self, n: &str, uid: &str, version: u32) {
        let object = object(n, uid, version);
        let before = self.truth.insert(n.to_owned(), object.clone());
        let same = before.as_ref().is_some_and(|before| *before.meta.uid == *uid);
        if let Some(before) = before.filter(|_| !same) {
            self.inbox
                .deleted(&name(n), &before.meta.uid, Some(&before), &self.versions);
        }
        self.inbox.applied(&object, same, false, &self.versions);
    }

    fn delete(&mut self, n: &str) {
        if let Some(before) = self.truth.remove(n) {
            self.inbox
                .deleted(&name(n), &before.meta.uid, Some(&before), &self.versions);
        }
    }

    fn take(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.inbox.pop().map(|change| show(&change))).collect()
    }
}

fn show(change: &Change<()>) -> String {
    match change {
        Change::Applied { object, .. } => {
            format!(
                "+{} {}@{}",
                object.meta.object.name(),
                object.meta.uid,
                object.meta.resource_version
            )
        }
        Change::Deleted { object, uid, .. } => format!("-{} {uid}", object.name()),
    }
}

#[test]
fn a_slow_subscriber_hears_the_newest_state_once() {
    let mut rig = Rig::new(&[]);
    rig.apply("a", "1", 1);
    rig.apply("b", "2", 2);
    rig.apply("a", "1", 3);
    assert_eq!(rig.take(), ["+a 1@3", "+b 2@2"]);
}

#[test]
fn what_was_never_heard_of_vanishes() {
    let mut rig = Rig::new(&[]);
    rig.apply("a", "1", 1);
    rig.delete("a");
    assert_eq!(rig.take(), [""; 0]);
    rig.apply("a", "2", 2);
    assert_eq!(rig.take(), ["+a 2@2"]);
    rig.delete("a");
    rig.apply("a", "3", 3);
    rig.delete("a");
    assert_eq!(rig.take(), ["-a 2"], "uid 3 came and went unheard");
}

#[test]
fn the_old_uid_is_deleted_before_the_new_one_is_there() {
    let mut rig = Rig::new(&[]);
    rig.apply("a", "1", 1);
    rig.take();
    rig.apply("a", "1", 2);
    rig.delete("a");
    rig.apply("a", "2", 4);
    assert_eq!(rig.take(), ["-a 1", "+a 2@4"]);
    rig.apply("a", "3", 5);
    assert_eq!(
        rig.take(),
        ["-a 2", "+a 3@5"],
        "also without an event of the deletion"
    );
}

#[test]
fn between_a_deletion_and_its_successor_more_may_happen() {
    let mut rig = Rig::new(&[]);
    rig.apply("a", "1", 1);
    rig.take();
    rig.apply("a", "2", 2);
    assert_eq!(rig.inbox.pop().map(|c| show(&c)).unwrap(), "-a 1");
    rig.delete("a");
    assert_eq!(rig.take(), [""; 0]);
}

#[test]
fn what_left_the_selection_and_came_back_was_never_gone() {
    let mut rig = Rig::new(&[]);
    rig.apply("a", "1", 1);
    rig.take();
    rig.delete("a");
    rig.apply("a", "1", 5);
    assert_eq!(rig.take(), ["+a 1@5"]);
    rig.delete("a");
    rig.apply("a", "1", 6);
    rig.delete("a");
    assert_eq!(rig.take(), ["-a 1"]);
}

#[test]
fn what_the_subscriber_brought_along_counts_as_heard() {
    let mut rig = Rig::new(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]);
    rig.apply("a", "1", 5);
    rig.apply("b", "2", 6);
    rig.inbox.deleted(&name("c"), "1", None, &rig.versions);
    rig.inbox.deleted(&name("x"), "1", None, &rig.versions);
    rig.inbox.deleted(&name("d"), "other", None, &rig.versions);
    assert_eq!(rig.take(), ["+a 1@5", "-b 1", "+b 2@6", "-c 1"]);
    rig.inbox.settle(|_, _| true, &rig.versions);
    assert_eq!(rig.take(), ["-d 1"]);
}

#[test]
fn versions_stand_still_until_everything_was_handed_out() {
    let mut rig = Rig::new(&[]);
    let at = |version: &str| {
        let mut versions = Versions::default();
        versions.set(None, version);
        Arc::new(versions)
    };
    rig.versions = at("1");
    rig.apply("a", "1", 2);
    rig.versions = at("2");
    rig.apply("b", "1", 3);
    rig.versions = at("3");
    assert_eq!(rig.inbox.versions(&rig.versions), at("1"));
    rig.inbox.pop();
    assert_eq!(rig.inbox.versions(&rig.versions), at("1"));
    rig.inbox.pop();
    assert_eq!(rig.inbox.versions(&rig.versions), at("3"));
}

proptest! {
    /// However slowly the changes are taken: whoever carries them out has the truth in the end, never applies an object
    /// over another uid, never hears of a deletion twice or of an unknown object; and the inbox stays small.
    #[test]
    fn changes_lead_to_the_truth(steps in proptest::collection::vec((0_u8..4, 0_u8..3, 0_u8..3), 0..200)) {
        let mut rig = Rig::new(&[]);
        let mut view: BTreeMap<String, (Arc<str>, String)> = BTreeMap::new();
        let mut heard_at_stall = 0;
        for (version, (action, n, uid)) in (1..).zip(steps) {
            let n = format!("n{n}");
            match action {
                0 | 1 => rig.apply(&n, &format!("u{uid}"), version),
                2 => rig.delete(&n),
                _ => {
                    if let Some(change) = rig.inbox.pop() {
                        carry_out(&change, &mut view)?;
                    }
                    heard_at_stall = view.len();
                }
            }
            prop_assert!(rig.inbox.len() <= rig.truth.len() + heard_at_stall);
            prop_assert_eq!(rig.inbox.len(), rig.inbox.order.len());
        }
        while let Some(change) = rig.inbox.pop() {
            carry_out(&change, &mut view)?;
        }
        let truth: BTreeMap<_, _> = rig.truth.iter()
            .map(|(n, o)| (n.clone(), (o.meta.uid.clone(), o.meta.resource_version.to_string()))).collect();
        prop_assert_eq!(view, truth);
    }
}

fn carry_out(
    change: &Change<()>,
    view: &mut BTreeMap<String, (Arc<str>, String)>,
) -> Result<(), TestCaseError> {
    let n = change.object().name().to_owned();
    match change {
        Change::Applied { object, .. } => {
            let before = view.insert(
                n,
                (object.meta.uid.clone(), object.meta.resource_version.to_string()),
            );
            prop_assert!(
                before.is_none_or(|(uid, _)| uid == object.meta.uid),
                "applied over another uid"
            );
        }
        Change::Deleted { uid, .. } => {
            let before = view.remove(&n).map(|(uid, _)| uid);
            prop_assert_eq!(before.as_ref(), Some(uid));
        }
    }
    Ok(())
}
