use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::status::Status;

fn record(uid: &str, name: &str, digest: i64, created: Option<Millis>) -> Record {
    Record {
        kind: "Pod".to_owned(),
        uid: uid.to_owned(),
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        object: "{}".to_owned(),
        digest,
        status: Status::unknown(),
        link: None,
        occurred: None,
        created,
    }
}

fn upsert(uid: &str, name: &str, digest: i64) -> Op {
    Op::Upsert(record(uid, name, digest, None))
}

fn delete(uid: &str, name: &str) -> Op {
    Op::Delete(Deletion {
        uid: uid.to_owned(),
        kind: "Pod".to_owned(),
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    })
}

/// The database, as far as merging goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Table(BTreeMap<String, Known>);

impl Table {
    fn apply(&mut self, ops: Vec<Op>) -> Writes {
        let by_uid = |known: &Known| ops.iter().any(|op| op.uid() == known.uid);
        let mut names: Vec<ObjectName> = Vec::new();
        names.extend(ops.iter().filter_map(|op| match op {
            Op::Upsert(record) => Some(record.object_name()),
            Op::Delete(_) => None,
        }));
        let reported = names.clone();
        let rows = self.0.values();
        names.extend(rows.filter(|row| by_uid(row)).map(|row| row.object_name.clone()));
        let known = self.0.values().filter(|known| match known.presence {
            Presence::Live => by_uid(known) || reported.contains(&known.object_name),
            Presence::Displaced => by_uid(known) || names.contains(&known.object_name),
            Presence::Swept | Presence::Tombstone => by_uid(known),
        });
        let writes = merge(known.cloned().collect(), ops);
        self.write(&writes);
        writes
    }

    /// In the order of the statements, with the unique index of live names.
    fn write(&mut self, writes: &Writes) {
        for (uid, presence) in &writes.close {
            let row = self.0.get_mut(uid).unwrap();
            assert_ne!(row.presence, Presence::Tombstone);
            row.presence = *presence;
        }
        for deletion in &writes.tombstones {
            let object_name = ObjectName {
                kind: deletion.kind.clone(),
                namespace: deletion.namespace.clone(),
                name: deletion.name.clone(),
            };
            self.insert(&deletion.uid, object_name, 0, None, Presence::Tombstone);
        }
        for (record, presence) in &writes.put {
            self.insert(
                &record.uid,
                record.object_name(),
                record.digest,
                record.created,
                *presence,
            );
        }
        for uid in &writes.revive {
            let row = self.0.get_mut(uid).unwrap();
            assert_eq!(row.presence, Presence::Displaced);
            row.presence = Presence::Live;
            self.live();
        }
        self.check();
    }

    /// The names of live objects.
    fn live(&self) -> Vec<&ObjectName> {
        let live = self.0.values().filter(|row| row.presence == Presence::Live);
        let live: Vec<&ObjectName> = live.map(|row| &row.object_name).collect();
        let mut unique = live.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(live.len(), unique.len(), "two live objects under one name");
        live
    }

    /// A displaced object has a live one of its name beside it.
    fn check(&self) {
        let live = self.live();
        let displaced = self.0.values().filter(|row| row.presence == Presence::Displaced);
        for row in displaced {
            assert!(live.contains(&&row.object_name), "{} is hidden for good", row.uid);
        }
    }

    fn insert(
        &mut self,
        uid: &str,
        object_name: ObjectName,
        digest: i64,
        created: Option<Millis>,
        presence: Presence,
    ) {
        let known = Known {
            uid: uid.to_owned(),
            object_name,
            digest,
            created,
            presence,
        };
        self.0.insert(uid.to_owned(), known);
        self.live();
    }

    fn presence(&self, uid: &str) -> Option<Presence> {
        self.0.get(uid).map(|row| row.presence)
    }
}

#[test]
fn an_object_that_did_not_change_is_not_written() {
    let mut table = Table::default();
    assert_eq!(table.apply(vec![upsert("a", "web", 1)]).changed, ["Pod"]);
    assert_eq!(table.apply(vec![upsert("a", "web", 1)]), Writes::default());
    assert_eq!(table.apply(vec![upsert("a", "web", 2)]).put.len(), 1);
}

#[test]
fn a_deleted_object_stays_deleted() {
    let mut table = Table::default();
    table.apply(vec![upsert("a", "web", 1)]);
    table.apply(vec![delete("a", "web")]);
    assert_eq!(table.presence("a"), Some(Presence::Tombstone));
    let writes = table.apply(vec![upsert("a", "web", 2)]);
    assert_eq!((writes.ignored, writes.put.len()), (1, 0));
    assert_eq!(table.apply(vec![delete("a", "web")]), Writes::default());
}

#[test]
fn the_deletion_of_an_unknown_object_is_remembered() {
    let mut table = Table::default();
    assert_eq!(table.apply(vec![delete("a", "web")]).tombstones.len(), 1);
    assert_eq!(table.apply(vec![upsert("a", "web", 1)]).ignored, 1);
}

#[test]
fn a_swept_object_comes_back_and_can_be_deleted() {
    let mut table = Table::default();
    table.apply(vec![upsert("a", "web", 1)]);
    table.0.get_mut("a").unwrap().presence = Presence::Swept;
    assert_eq!(
        table.apply(vec![upsert("a", "web", 1)]).put.len(),
        1,
        "also with the same content"
    );
    assert_eq!(table.presence("a"), Some(Presence::Live));
    table.0.get_mut("a").unwrap().presence = Presence::Swept;
    table.apply(vec![delete("a", "web")]);
    assert_eq!(table.presence("a"), Some(Presence::Tombstone));
}

#[test]
fn a_new_uid_under_a_live_name_displaces_the_old_one() {
    let mut table = Table::default();
    table.apply(vec![upsert("old", "web", 1)]);
    table.apply(vec![upsert("new", "web", 1)]);
    assert_eq!(table.presence("old"), Some(Presence::Displaced));
    assert_eq!(table.presence("new"), Some(Presence::Live));
    assert_eq!(
        table.apply(vec![upsert("old", "web", 2)]).ignored,
        1,
        "late news of the old one"
    );
    table.apply(vec![delete("old", "web")]);
    assert_eq!(table.presence("old"), Some(Presence::Tombstone));
    assert_eq!(table.presence("new"), Some(Presence::Live));
}

#[test]
fn the_older_of_two_by_creation_is_late_news() {
    let mut table = Table::default();
    let at = |uid, created| Op::Upsert(record(uid, "web", 1, Some(created)));
    table.apply(vec![at("new", 20)]);
    assert_eq!(table.apply(vec![at("old", 10)]).ignored, 1);
    assert_eq!(table.presence("new"), Some(Presence::Live));
    table.apply(vec![at("newest", 30)]);
    assert_eq!(table.presence("new"), Some(Presence::Displaced));
    table.apply(vec![at("new", 20)]);
    assert_eq!(table.presence("newest"), Some(Presence::Live));
}

#[test]
fn a_displaced_object_becomes_live_when_the_holder_of_its_name_is_deleted() {
    let at = |uid, created| Op::Upsert(record(uid, "web", 1, Some(created)));
    // The replacement has an earlier creation by the clock of another API server, and its report overtakes the deletion.
    let mut table = Table::default();
    table.apply(vec![at("first", 20)]);
    table.apply(vec![at("second", 19)]);
    assert_eq!(table.presence("second"), Some(Presence::Displaced));
    let writes = table.apply(vec![delete("first", "web")]);
    assert_eq!(writes.revive, ["second"]);
    assert_eq!(writes.changed, ["Pod", "Pod"]);
    assert_eq!(table.presence("second"), Some(Presence::Live));

    // Both were created in the same second, and the report of the older one comes last.
    let mut table = Table::default();
    table.apply(vec![at("second", 20)]);
    table.apply(vec![at("first", 20)]);
    assert_eq!(table.presence("second"), Some(Presence::Displaced));
    table.apply(vec![delete("first", "web")]);
    assert_eq!(table.presence("second"), Some(Presence::Live));
}

#[test]
fn the_newest_of_several_displaced_objects_becomes_live() {
    let mut table = Table::default();
    let at = |uid, created| Op::Upsert(record(uid, "web", 1, Some(created)));
    table.apply(vec![at("a", 40), at("b", 10), at("c", 30), at("d", 20)]);
    table.apply(vec![delete("a", "web")]);
    assert_eq!(table.presence("c"), Some(Presence::Live));
    table.apply(vec![delete("d", "web"), delete("c", "web")]);
    assert_eq!(table.presence("b"), Some(Presence::Live));
    assert_eq!(table.presence("d"), Some(Presence::Tombstone));
}

#[test]
fn a_displaced_object_keeps_the_content_that_was_reported_last() {
    let mut table = Table::default();
    let at = |uid, digest, created| Op::Upsert(record(uid, "web", digest, Some(created)));
    table.apply(vec![at("holder", 1, 20)]);
    table.apply(vec![at("late", 1, 10)]);
    assert_eq!(table.apply(vec![at("late", 2, 10)]).put.len(), 1);
    let again = table.apply(vec![at("late", 2, 10)]);
    assert_eq!((again.put.len(), again.changed.len()), (0, 0));
    table.apply(vec![delete("holder", "web")]);
    assert_eq!(table.0["late"].digest, 2);
}

#[test]
fn a_rename_frees_the_old_name_for_a_displaced_object() {
    let mut table = Table::default();
    table.apply(vec![upsert("old", "web", 1)]);
    table.apply(vec![upsert("new", "web", 1)]);
    table.apply(vec![upsert("new", "api", 1)]);
    assert_eq!(table.presence("old"), Some(Presence::Live));
    assert_eq!(table.presence("new"), Some(Presence::Live));
}

#[test]
fn one_batch_may_replace_and_delete() {
    let mut table = Table::default();
    table.apply(vec![
        upsert("a", "web", 1),
        upsert("b", "web", 1),
        delete("b", "web"),
        upsert("c", "web", 1),
        upsert("c", "web", 2),
    ]);
    assert_eq!(table.presence("a"), Some(Presence::Displaced));
    assert_eq!(table.presence("b"), Some(Presence::Tombstone));
    assert_eq!(table.presence("c"), Some(Presence::Live));
    assert_eq!(table.0["c"].digest, 2);
}

#[test]
fn names_that_change_hands_in_one_batch_never_clash() {
    let mut table = Table::default();
    table.apply(vec![upsert("a", "x", 1), upsert("b", "y", 1)]);
    table.apply(vec![
        upsert("b", "z", 2),
        upsert("c", "y", 1),
        upsert("a", "w", 2),
        upsert("d", "x", 1),
    ]);
    for uid in ["a", "b", "c", "d"] {
        assert_eq!(table.presence(uid), Some(Presence::Live), "{uid}");
    }
}

fn any_op() -> impl Strategy<Value = Op> {
    let uid = prop::sample::select(vec!["a", "b", "c", "d", "e"]);
    let name = prop::sample::select(vec!["x", "y"]);
    let created = prop::option::of(1_i64..4);
    (uid, name, 0_i64..3, created, 0..4).prop_map(|(uid, name, digest, created, what)| match what {
        0 => delete(uid, name),
        _ => Op::Upsert(record(uid, name, digest, created)),
    })
}

proptest! {
    #[test]
    fn batches_of_any_size_come_to_the_same(ops in prop::collection::vec(any_op(), 0..30), size in 1_usize..30) {
        let (mut single, mut batched) = (Table::default(), Table::default());
        for op in ops.clone() {
            single.apply(vec![op]);
        }
        for some in ops.chunks(size) {
            batched.apply(some.to_vec());
        }
        prop_assert_eq!(single, batched);
    }

    #[test]
    fn a_tombstone_is_for_good(ops in prop::collection::vec(any_op(), 0..30)) {
        let mut table = Table::default();
        let mut deleted = Vec::new();
        for op in ops {
            if let Op::Delete(deletion) = &op {
                deleted.push(deletion.uid.clone());
            }
            table.apply(vec![op]);
            for uid in &deleted {
                prop_assert_eq!(table.presence(uid), Some(Presence::Tombstone));
            }
        }
    }

    #[test]
    fn the_same_batch_twice_changes_nothing_more(ops in prop::collection::vec(any_op(), 0..12)) {
        // Of one uid and one name an agent sends one state at a time; histories are another matter.
        let mut seen = std::collections::HashSet::new();
        let ops: Vec<Op> = ops.into_iter().filter(|op| {
            let name = match op { Op::Upsert(record) => record.name.clone(), Op::Delete(deletion) => deletion.name.clone() };
            seen.insert(op.uid().to_owned()) && seen.insert(format!("name {name}"))
        }).collect();
        let mut table = Table::default();
        table.apply(ops.clone());
        let once = table.clone();
        table.apply(ops);
        prop_assert_eq!(table, once);
    }
}
