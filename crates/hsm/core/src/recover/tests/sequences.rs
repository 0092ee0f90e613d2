//! Any sequence of changes, interrupted anywhere, equals a map of paths to secrets; and what the original sees of the token is
//! the same.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::change::{self as core, Terms, change};
use crate::label::Label;
use crate::model::{stamp, tombstone};
use crate::path::KeyName;
use crate::replace::{WriteError, purge};
use crate::version::Stamp;

/// Paths and keys that get in each other's way if boundaries are not exact.
const PATHS: [&str; 7] = ["a", "ab", "a-b", "a.b", "a/b", "a/b/c", "b"];
/// What a stranger adds or removes: of `a`, and of its neighbour.
const LABELS: [&str; 6] = ["a", "a/x", "a/b", "a/new", "a/_metadata", "ab/x"];
const KEYS: [&str; 5] = ["data", "b", "c", "x", "a"];

#[derive(Debug, Clone)]
enum Change {
    Write(usize, BTreeMap<&'static str, String>),
    /// With the version that comes next.
    Count(usize, String),
    Delete(usize),
    DeleteKey(usize, &'static str),
    Purge(usize),
}

/// A change, and after how many steps it and its recovery are interrupted, if they are.
type Event = (Change, Option<usize>, Option<usize>);

fn any_event() -> impl Strategy<Value = Event> {
    let at = 0..PATHS.len();
    let values = prop::collection::btree_map(prop::sample::select(KEYS.to_vec()), "[a-c]{0,2}", 1..4);
    let change = prop_oneof![
        5 => (at.clone(), values).prop_map(|(at, values)| Change::Write(at, values)),
        2 => (at.clone(), "[a-c]{0,2}").prop_map(|(at, value)| Change::Count(at, value)),
        2 => at.clone().prop_map(Change::Delete),
        2 => (at.clone(), prop::sample::select(KEYS.to_vec())).prop_map(|(at, key)| Change::DeleteKey(at, key)),
        1 => at.prop_map(Change::Purge),
    ];
    (
        change,
        prop::option::of(0_usize..22),
        prop::option::of(0_usize..12),
    )
}

type Model = BTreeMap<&'static str, Secret>;

/// Whether a label of this secret is one of another's.
fn collides(model: &Model, at: &str, wish: &Secret) -> bool {
    let above = at
        .rsplit_once('/')
        .and_then(|(above, key)| Some((model.get(above)?, key)));
    let taken = above.is_some_and(|(above, key)| above.data.keys().any(|other| other.as_str() == key));
    let below = |key: &str| key != "data" && model.contains_key(format!("{at}/{key}").as_str());
    taken || wish.data.keys().any(|key| below(key.as_str()))
}

fn version(model: &Model, at: &str) -> u64 {
    model.get(at).map_or(0, |secret| secret.metadata.stamp.version)
}

/// A path, the steps of its change, and what it holds after them.
type Planned = (&'static str, Vec<Op<u64>>, Option<Secret>);

impl Change {
    fn at(&self) -> &'static str {
        match self {
            Self::Write(at, _) | Self::Count(at, _) | Self::DeleteKey(at, _) => PATHS[*at],
            Self::Delete(at) | Self::Purge(at) => PATHS[*at],
        }
    }

    /// What a map would hold after it; nothing if that is refused.
    fn result(&self, model: &Model) -> Option<Secret> {
        let next = version(model, self.at()) + 1;
        match self {
            Self::Write(_, values) => {
                let pairs: Vec<_> = values.iter().map(|(key, value)| (*key, value.as_str())).collect();
                Some(secret(next, &pairs))
            }
            Self::Count(_, value) => Some(secret(next, &[("x", value)])),
            Self::Delete(_) => Some(tombstone(next)),
            Self::DeleteKey(_, key) => {
                let mut left = model.get(self.at())?.clone();
                left.data.remove(&KeyName::parse(key).unwrap())?;
                left.metadata.stamp.version = next;
                Some(if left.data.is_empty() {
                    tombstone(next)
                } else {
                    left
                })
            }
            Self::Purge(_) => None,
        }
    }
}

/// The steps of a change, and what the path holds after it; nothing if it is refused, as it should be.
fn steps(token: &Token, model: &Model, planned: &Change) -> Option<Planned> {
    let list = token.list();
    let contents = Contents::of(&list);
    let (at, limits) = (planned.at(), Limits::default());
    let wish = planned.result(model);
    let counted = Terms::next(Expected::Any);
    let plan = |wanted: core::Change<'_>, terms: Terms| change(&contents, &path(at), &wanted, terms, &limits);
    let plan = match (planned, &wish) {
        (Change::Purge(_), _) => {
            let plan = purge(&contents, &path(at), version(model, at), None, &limits);
            let can = model.get(at).is_some_and(Secret::is_deleted);
            assert_eq!(plan.is_ok(), can, "purge {at}");
            return plan.ok().map(|ops| (at, ops, None));
        }
        (Change::DeleteKey(_, key), _) => {
            let key = KeyName::parse(key).unwrap();
            plan(core::Change::DeleteKey(&key, stamp(77)), counted)
        }
        (Change::Count(_, value), _) => plan(core::Change::Put(&secret(77, &[("x", value)])), counted),
        (_, Some(wish)) => plan(core::Change::Put(wish), Expected::Any.into()),
        (_, None) => return None,
    };
    match plan {
        Ok((ops, result)) => {
            assert_eq!(Some(&result), wish.as_ref(), "{planned:?}");
            assert!(!collides(model, at, &result), "write {at}");
            Some((at, ops, wish))
        }
        Err(WriteError::NoKey { .. }) => {
            assert!(wish.is_none(), "{planned:?}");
            None
        }
        Err(error) => {
            assert!(matches!(error, WriteError::Occupied { .. }), "{error}");
            assert!(collides(model, at, &wish?), "{error}");
            None
        }
    }
}

fn check(token: &Token, model: &Model) {
    let list = token.list();
    let contents = Contents::of(&list);
    let found: Vec<&str> = contents.paths().map(SecretPath::as_str).collect();
    assert_eq!(found, model.keys().copied().collect::<Vec<_>>());
    for (at, secret) in model {
        assert_eq!(contents.read(&path(at)).as_ref(), Ok(secret), "{at}");
    }
    let objects: usize = model.values().map(|secret| secret.data.len() + 1).sum();
    assert_eq!(token.snapshot().len(), objects, "nothing of ours is left");
}

/// What the original lists: metadata is passed over, and the last part of a label is a key.
fn original_lists(token: &Token) -> BTreeSet<String> {
    let labels = token.list().into_iter().map(|found| found.label.to_string());
    let labels = labels.filter(|label| !label.ends_with("/_metadata"));
    labels
        .map(|label| {
            label
                .rsplit_once('/')
                .map_or(label.clone(), |(above, _)| above.to_owned())
        })
        .collect()
}

/// What the original reads, which takes every label that begins with the path.
fn original_reads(token: &Token, at: &str) -> BTreeMap<String, Vec<u8>> {
    let mut data = BTreeMap::new();
    for found in token.list() {
        let label = found.label.to_string();
        let Some(rest) = label.strip_prefix(at).filter(|_| !label.ends_with("/_metadata")) else {
            continue;
        };
        let key = rest.strip_prefix('/').unwrap_or(rest);
        let key = if key.is_empty() { "data" } else { key };
        data.insert(key.to_owned(), found.value.unwrap().expose().to_vec());
    }
    data
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_sequence_of_changes_and_crashes_equals_a_map(
        events in prop::collection::vec(any_event(), 1..14), order: u64, halves: bool,
    ) {
        let mut token = Token { order, halves, ..Token::default() };
        let mut model = Model::new();
        for (change, crash, again) in events {
            let Some((at, ops, wish)) = steps(&token, &model, &change) else { continue };
            let before = token.generation().1;
            let result = token.run(&ops, crash);
            if let Some(steps) = again {
                let list = token.list();
                let recovery = recover(&Contents::of(&list)).ops;
                let _ = token.run(&recovery, Some(steps));
            }
            token.recover().unwrap();
            let found = token.read(at).ok();
            if result.is_ok() || found == wish {
                prop_assert_eq!(&found, &wish);
                prop_assert!(token.generation().1 > before);
                match wish {
                    Some(wish) => model.insert(at, wish),
                    None => model.remove(at),
                };
            }
            prop_assert_eq!(found.as_ref(), model.get(at));
            check(&token, &model);
        }
    }

    /// Whatever a second tool does between crash and recovery, what it wrote stays, and so does every other secret.
    #[test]
    fn what_a_stranger_wrote_is_never_destroyed(
        wish in prop::collection::btree_map(prop::sample::select(KEYS.to_vec()), "[ab]", 1..4), deleted: bool, new: bool,
        steps in 1_usize..12, order: u64,
        strange in prop::collection::vec((prop::sample::select(LABELS.to_vec()), any::<bool>()), 0..4),
    ) {
        let pairs: Vec<_> = wish.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let wish = if deleted { tombstone(2) } else { secret(2, &pairs) };
        let mut token = Token { order, ..Token::default() }.with("ab", &secret(1, &[("data", "a"), ("x", "b")]));
        if !new {
            token = token.with("a", &secret(1, &[("x", "a"), ("b", "b"), ("data", "a")]));
        }
        let ops = write(&token, "a", &wish);
        let _ = token.run(&ops, Some(steps.min(ops.len())));
        for (label, remove) in &strange {
            match remove {
                true => token.remove(label),
                false => token.add(label, Some("strange")),
            }
        }
        let theirs = |token: &Token| {
            let is_theirs = |(label, value): &(Label, Option<Vec<u8>>)| {
                value.as_deref() == Some(b"strange") || label.to_string().starts_with("ab")
            };
            token.snapshot().into_iter().filter(is_theirs).collect::<Vec<_>>()
        };
        let before = theirs(&token);
        let ends = token.recover().unwrap();
        prop_assert_eq!(theirs(&token), before);
        let list = token.list();
        prop_assert_eq!(recover(&Contents::of(&list)).ops, []);
        // Without a stranger there is no doubt.
        let sure = ends.iter().all(|end| matches!(end, End::Finished | End::Undone));
        prop_assert!(sure || !strange.is_empty());
    }

    #[test]
    fn the_original_sees_what_we_write(
        secrets in prop::collection::btree_map("[a-c]{3}", prop::collection::btree_map("[a-z]{1,4}", "[a-z]{0,3}", 1..4), 1..4),
        interrupted in prop::option::of(1_usize..9),
    ) {
        let mut token = Token::default();
        for (version, (at, values)) in (1..).zip(&secrets) {
            let pairs: Vec<_> = values.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let mut wish = secret(version, &pairs);
            wish.metadata.stamp = Stamp { epoch: Some(version), ..wish.metadata.stamp };
            let ops = write(&token, at, &wish);
            token.run(&ops, None).unwrap();
        }
        prop_assert!(token.generation().0 == 1);
        // A journal is nothing to it, nor what is written under another path.
        if let Some(steps) = interrupted {
            let ops = write(&token, "ddd", &secret(9, &[("k", "v"), ("l", "v"), ("m", "v")]));
            token.run(&ops, Some(steps.min(ops.len() - 1))).unwrap_err();
            prop_assert!(token.journals().len() == 1);
        }
        let listed = original_lists(&token).into_iter().filter(|path| path != "ddd");
        let listed: Vec<String> = listed.collect();
        // A path whose only key is `data` is listed by its own name, and so are all others.
        prop_assert_eq!(listed, secrets.keys().cloned().collect::<Vec<_>>());
        for (at, values) in &secrets {
            let expected: BTreeMap<String, Vec<u8>> =
                values.iter().map(|(key, value)| (key.clone(), value.as_bytes().to_vec())).collect();
            prop_assert_eq!(original_reads(&token, at), expected);
        }
    }
}
