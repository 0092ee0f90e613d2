use trustplane_plan::Keep;

use super::*;
use crate::watch::{Change, Versions, inbox::Inbox};

struct Rig {
    shelf: Shelf<()>,
    inboxes: Inboxes<()>,
}

fn read(name: &str, uid: &str, version: u32) -> Read<()> {
    let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#);
    let meta = Meta::decode(&json, &Keep::default()).unwrap();
    Read::Object(Arc::new(Watched { meta, value: () }))
}

/// Objects of these tests are to be found by their uid.
fn by_uid(uid: &str) -> ObjectRef {
    ObjectRef::new(None, uid)
}

fn unreadable(name: &str, uid: &str, version: u32) -> Read<()> {
    let identity = Identity {
        object: ObjectRef::new(None, name),
        uid: uid.into(),
        version: version.to_string().into(),
    };
    Read::Unreadable(identity, "broken".into())
}

impl Rig {
    fn new() -> Self {
        let inbox = Inbox::new([], Arc::default());
        let inboxes = Inboxes {
            all: [(0, inbox)].into(),
            versions: Arc::new(Versions::default()),
        };
        Self {
            shelf: Shelf::new(|meta, ()| vec![by_uid(&meta.uid)]),
            inboxes,
        }
    }

    fn apply(&mut self, read: Read<()>, seen: &str) -> Verdict {
        self.shelf.apply(read, Some(seen), &mut self.inboxes)
    }

    fn commit(&mut self, reads: impl IntoIterator<Item = Read<()>>) {
        let mut staging = Staging::default();
        reads.into_iter().for_each(|read| staging.put(read));
        self.shelf.commit(staging, false, &mut self.inboxes);
    }

    fn heard(&mut self) -> Vec<String> {
        let inbox = self.inboxes.all.get_mut(&0).unwrap();
        let mut heard: Vec<_> = std::iter::from_fn(|| inbox.pop())
            .map(|change| match change {
                Change::Applied { object, .. } => {
                    format!(
                        "+{} {}@{}",
                        object.meta.object, object.meta.uid, object.meta.resource_version
                    )
                }
                Change::Deleted { object, uid, .. } => format!("-{object} {uid}"),
            })
            .collect();
        // A list has no order between objects.
        heard.sort_by_key(|line| line.split_once(' ').map(|(name, _)| name[1..].to_owned()));
        heard
    }
}

#[test]
fn a_list_reports_what_vanished_what_changed_and_nothing_else() {
    let mut rig = Rig::new();
    rig.commit([
        read("a", "1", 1),
        read("b", "1", 1),
        read("c", "1", 1),
        read("d", "1", 1),
    ]);
    rig.heard();
    let kept = rig.shelf.objects[&ObjectRef::new(None, "a")].clone();
    rig.commit([
        read("a", "1", 1),
        read("b", "1", 5),
        read("c", "2", 6),
        read("e", "1", 7),
    ]);
    assert_eq!(rig.heard(), ["+b 1@5", "-c 1", "+c 2@6", "-d 1", "+e 1@7"]);
    assert!(
        Arc::ptr_eq(&kept, &rig.shelf.objects[&ObjectRef::new(None, "a")]),
        "the same is not kept twice"
    );
}

#[test]
fn duplicates_and_echoes_change_nothing() {
    let mut rig = Rig::new();
    rig.apply(read("a", "1", 5), "4");
    rig.heard();
    assert_eq!(
        rig.apply(read("a", "1", 5), "5"),
        Verdict::Taken,
        "the same again"
    );
    assert_eq!(
        rig.apply(read("a", "1", 4), "5"),
        Verdict::Taken,
        "an older state"
    );
    assert_eq!(
        rig.apply(read("a", "0", 3), "5"),
        Verdict::Taken,
        "an older object of the name"
    );
    assert_eq!(rig.heard(), [""; 0]);
    rig.shelf
        .delete(&ObjectRef::new(None, "a"), Some("0"), &mut rig.inboxes);
    assert_eq!(
        rig.heard(),
        [""; 0],
        "the deletion of an older object of the name"
    );
    rig.shelf
        .delete(&ObjectRef::new(None, "a"), Some("1"), &mut rig.inboxes);
    assert_eq!(rig.heard(), ["-a 1"]);
    assert_eq!(
        rig.apply(read("a", "1", 5), "6"),
        Verdict::Doubtful,
        "it may be the echo of what was deleted"
    );
    assert_eq!(rig.heard(), [""; 0]);
}

#[test]
fn an_object_that_cannot_be_read_keeps_its_last_state_and_is_not_deleted() {
    let mut rig = Rig::new();
    rig.commit([read("a", "1", 1), read("b", "1", 1)]);
    rig.heard();
    rig.apply(unreadable("a", "1", 2), "1");
    rig.commit([unreadable("a", "1", 2), read("b", "1", 1)]);
    assert_eq!(rig.heard(), [""; 0]);
    assert_eq!((rig.shelf.objects.len(), rig.shelf.unreadable.len()), (2, 1));
    rig.apply(read("a", "1", 3), "2");
    assert_eq!(rig.heard(), ["+a 1@3"]);
    assert!(rig.shelf.unreadable.is_empty());
    rig.apply(unreadable("a", "2", 4), "3");
    assert_eq!(
        rig.heard(),
        ["-a 1"],
        "the object that was read is gone, its successor cannot be read"
    );
}

#[test]
fn a_list_with_an_object_that_has_no_name_deletes_nothing() {
    let mut rig = Rig::new();
    rig.commit([read("a", "1", 1)]);
    rig.heard();
    let mut staging = Staging::default();
    staging.put_nameless();
    assert!(!rig.shelf.commit(staging, false, &mut rig.inboxes));
    assert_eq!(rig.heard(), [""; 0]);
}

#[test]
fn an_object_is_found_under_its_names_as_long_as_it_has_them() {
    let mut rig = Rig::new();
    let under = |rig: &Rig, uid: &str| {
        let name = by_uid(uid);
        let found = rig.shelf.under(&name);
        found
            .map(|object| object.meta.object.name().to_owned())
            .collect::<Vec<_>>()
    };
    rig.apply(read("b", "1", 1), "0");
    rig.apply(read("a", "1", 2), "1");
    assert_eq!(under(&rig, "1"), ["a", "b"]);
    // Another object takes the name.
    rig.apply(read("a", "2", 3), "2");
    assert_eq!(
        (under(&rig, "1"), under(&rig, "2")),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    rig.shelf
        .delete(&ObjectRef::new(None, "b"), None, &mut rig.inboxes);
    assert!(under(&rig, "1").is_empty());
    rig.commit([read("c", "2", 4)]);
    assert_eq!(under(&rig, "2"), ["c"], "a list strikes what is gone");
}
