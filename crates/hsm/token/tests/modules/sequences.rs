//! Any sequence of operations on a token equals the same sequence on a map.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use trustplane_hsm_core::change::{Change, Terms};
use trustplane_hsm_core::layout::Description;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::replace::WriteError;
use trustplane_hsm_core::secret::Secret;
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{Store, StoreError};

use crate::secrets::{path, secret, stamp, store};
use crate::stage::Stage;

suite! {
    on every module:
        any_sequence_of_operations_equals_a_map;
}

const PATHS: [&str; 6] = ["a", "ab", "a-b", "a.b", "a/b", "a/b/c"];
const KEYS: [&str; 4] = ["data", "b", "k", "tls.crt"];

#[derive(Debug, Clone)]
enum Step {
    Write(usize, BTreeMap<usize, Vec<u8>>),
    Delete(usize),
    /// With the version that comes next.
    Count(usize, Vec<u8>),
    DeleteKey(usize, usize),
    Purge(usize),
    Refresh,
    /// Ends what was, and begins anew.
    Open,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..PATHS.len();
    let values = prop::collection::btree_map(0..KEYS.len(), prop::collection::vec(any::<u8>(), 0..40), 1..4);
    prop_oneof![
        6 => (at.clone(), values).prop_map(|(at, values)| Step::Write(at, values)),
        2 => at.clone().prop_map(Step::Delete),
        2 => (at.clone(), prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(at, value)| Step::Count(at, value)),
        3 => (at.clone(), 0..KEYS.len()).prop_map(|(at, key)| Step::DeleteKey(at, key)),
        1 => at.prop_map(Step::Purge),
        1 => Just(Step::Refresh),
        1 => Just(Step::Open),
    ]
}

type Model = BTreeMap<SecretPath, Secret>;

fn write(store: &mut Store<'_>, model: &mut Model, at: &SecretPath, secret: Secret) {
    let known = model.get(at).map(|secret| secret.metadata.stamp.version);
    let expected = known.map_or(Expected::Absent, Expected::Version);
    match store.write(at, &secret, expected) {
        Ok(_) => drop(model.insert(at.clone(), secret)),
        // A label that is the key of one secret and the path of another belongs to who had it first.
        Err(StoreError::Write(WriteError::Occupied { .. })) => {}
        Err(error) => panic!("{error}"),
    }
}

fn version(model: &Model, at: &SecretPath) -> u64 {
    model.get(at).map_or(0, |secret| secret.metadata.stamp.version)
}

fn carry_out(store: &mut Store<'_>, model: &mut Model, step: &Step) {
    match step {
        Step::Write(at, values) => {
            let at = path(PATHS[*at]);
            let pairs: Vec<_> = values
                .iter()
                .map(|(key, value)| (KEYS[*key], value.as_slice()))
                .collect();
            let secret = secret(version(model, &at) + 1, &pairs);
            write(store, model, &at, secret);
        }
        Step::Delete(at) => {
            let at = path(PATHS[*at]);
            let tombstone = Secret::tombstone(stamp(version(model, &at) + 1));
            write(store, model, &at, tombstone);
        }
        Step::Count(at, value) => {
            let at = path(PATHS[*at]);
            let mut wish = secret(version(model, &at) + 1, &[("k", value)]);
            let counted = wish.clone();
            wish.metadata.stamp = stamp(0);
            match store.write(&at, &wish, Terms::next(Expected::Any)) {
                Ok(written) => {
                    assert_eq!(written, Description::of(&counted));
                    model.insert(at, counted);
                }
                Err(StoreError::Write(WriteError::Occupied { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
        Step::DeleteKey(at, key) => {
            let (at, key) = (path(PATHS[*at]), KeyName::parse(KEYS[*key]).unwrap());
            let known = model
                .get(&at)
                .filter(|secret| secret.data.contains_key(&key))
                .cloned();
            let change = Change::DeleteKey(&key, stamp(0));
            let left = store.change(&at, &change, Terms::next(Expected::Any));
            assert_eq!(left.is_ok(), known.is_some(), "{left:?}");
            if let Some(mut secret) = known {
                let next = secret.metadata.stamp.version + 1;
                secret.data.remove(&key);
                secret.metadata.stamp = stamp(next);
                if secret.data.is_empty() {
                    secret = Secret::tombstone(stamp(next));
                }
                assert_eq!(left.unwrap(), Description::of(&secret));
                model.insert(at, secret);
            }
        }
        Step::Purge(at) => {
            let at = path(PATHS[*at]);
            let deleted = model.get(&at).is_some_and(Secret::is_deleted);
            let purged = store.purge(&at, version(model, &at), None);
            assert_eq!(purged.is_ok(), deleted, "{purged:?}");
            if deleted {
                model.remove(&at);
            }
        }
        Step::Refresh => store.refresh().unwrap(),
        Step::Open => {}
    }
}

fn compare(store: &mut Store<'_>, model: &Model) {
    let listed = store.list().unwrap();
    assert_eq!(
        listed.keys().collect::<Vec<_>>(),
        model.keys().collect::<Vec<_>>()
    );
    for (path, secret) in model {
        assert_eq!(store.read(path).unwrap(), *secret, "{path}");
        let described = listed[path].as_ref().unwrap();
        assert_eq!(described.metadata, secret.metadata);
    }
}

fn any_sequence_of_operations_equals_a_map(stage: &Stage) {
    let mut module = stage.module();
    stage.provision(&mut module, "model");
    stage.keep();
    let module = RefCell::new(module);
    let config = Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    };
    let steps = prop::collection::vec(step(), 1..14);
    let run = |steps: Vec<Step>| {
        let mut module = module.borrow_mut();
        stage.restore();
        let mut model = Model::new();
        for part in steps.split(|step| matches!(step, Step::Open)) {
            module.initialise_again().unwrap();
            let mut store = store(&module, "model");
            compare(&mut store, &model);
            for step in part {
                carry_out(&mut store, &mut model, step);
                compare(&mut store, &model);
            }
        }
        Ok(())
    };
    TestRunner::new(config).run(&steps, run).unwrap();
}
