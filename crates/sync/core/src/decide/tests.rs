use proptest::prelude::*;
use serde_json::json;
use trustplane_plan::Class;

use super::world::*;
use super::*;
use crate::data::Value;
use crate::grammar;
use crate::path::Home;
use crate::pod::Pod;
use crate::policy::{Policy, Rules};
use crate::situation::StoreView;

pub(super) const SYNCED: &str = "tell Pod shop/a: SecretSyncSuccess Secret db synced from mock path shop/db";

#[test]
fn a_pod_gets_its_secret_and_then_it_is_quiet() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    assert_eq!(world.look(1), ["create Secret shop/db", SYNCED]);
    let meta = world.meta().clone();
    assert_eq!(meta.labels[state::MANAGED_BY], "jasm");
    assert_eq!(meta.labels[PROVIDER], "mock");
    assert_eq!(meta.annotations[SOURCE_PATH], "shop/db");
    assert_eq!(meta.annotations[VERSION], "v1");
    assert_eq!(meta.annotations[SYNCED_AT], "2023-11-14T22:13:21Z");
    for second in 2..100 {
        assert_eq!(world.look(second), [""; 0]);
    }
    assert_eq!(world.asked, 1, "nothing but a cause makes us ask");
}

#[test]
fn a_restart_asks_nobody_and_writes_nothing() {
    let mut world = World::new(vec![pod("a", 0, "refreshInterval: 1h")]);
    world.look(1);
    for start in [2, 100, 10_000] {
        world.record = Record::new(at(start));
        assert_eq!(world.look(start), [""; 0]);
        assert_eq!(world.asked, 1, "{start}");
    }
    // A pod that came while nobody looked is a cause all the same.
    world.pods.push(pod("a2", 9_990, "refreshInterval: 1h"));
    world.record = Record::new(at(10_000));
    world.look(10_000);
    assert_eq!(world.asked, 2);
}

#[test]
fn a_lost_key_costs_no_write_until_something_else_does() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.look(1);
    world.touch(|body| {
        body["metadata"]["annotations"][trustplane_plan::FINGERPRINT] = "of another key".into();
    });
    assert_eq!(world.look(2), [""; 0]);
    assert_eq!(world.asked, 1);
}

#[test]
fn a_new_pod_is_a_cause_only_when_the_last_look_is_old() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.look(1);
    world.pods.push(pod("a2", 30, ""));
    world.look(30);
    assert_eq!(world.asked, 1, "the value is fresh");
    world.pods.push(pod("a3", 90, ""));
    let told = world.look(90);
    assert!(
        told.len() == 1 && told[0].contains("shop/a3"),
        "the same value is news to the new pod only"
    );
    assert_eq!(world.asked, 2);
    world.look(91);
    assert_eq!(world.asked, 2);
}

#[test]
fn a_new_value_is_written_and_removed_keys_go() {
    let mut world = World::new(vec![pod("a", 0, "refreshInterval: 10s")]);
    world.look(1);
    world.answer = Ok(r#"{"password":"new"}"#);
    let wait = world.plan(2).look_again.unwrap();
    assert!(wait <= Duration::from_secs(10), "{wait:?}");
    assert_eq!(world.look(12), ["update Secret shop/db", SYNCED]);
    assert_eq!(
        world.meta().fields.children(&["data"]).collect::<Vec<_>>(),
        ["password"]
    );
}

#[test]
fn a_forced_sync_happens_once_and_survives_a_restart() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.look(1);
    world.pods[0].asks = asks("", Some("now"));
    assert_eq!(world.look(2), ["update Secret shop/db", SYNCED]);
    assert_eq!(world.look(3), [""; 0]);
    world.record = Record::new(at(4));
    assert_eq!(world.look(4), [""; 0]);
    assert_eq!(world.asked, 2);
}

#[test]
fn a_changed_request_is_carried_out() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.look(1);
    world.pods[0].asks = asks("keys: {pass: password}", None);
    assert_eq!(world.look(2), ["update Secret shop/db", SYNCED]);
    assert_eq!(
        world.meta().fields.children(&["data"]).collect::<Vec<_>>(),
        ["pass"]
    );
}

#[test]
fn what_somebody_changed_is_put_back_without_reading_it() {
    for (parent, name) in [
        ("/f:data", "f:password"),
        ("/f:metadata/f:labels", "f:jasm.codnod.io/provider"),
    ] {
        let mut world = World::new(vec![pod("a", 0, "")]);
        world.look(1);
        world.touch(|body| lose(body, parent, name));
        let restored = "tell Pod shop/a: SecretRestored Secret db restored from mock path shop/db";
        assert_eq!(world.look(2), ["update Secret shop/db", restored], "{name}");
        assert_eq!(world.look(3), [""; 0]);
    }
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.look(1);
    world.look(2);
    world.live = Live::Absent;
    assert!(world.look(3)[1].contains("SecretRestored"));
}

#[test]
fn an_outage_leaves_the_secret_and_is_told_once() {
    let outage = FetchError::Unavailable {
        what: "no answer".to_owned(),
    };
    let mut world = World::new(vec![pod("a", 0, "refreshInterval: 10s")]);
    world.look(1);
    let before = world.meta().clone();
    let broken = [
        (outage.clone(), "SecretFetchFailed"),
        (FetchError::NotFound, "SecretFetchFailed"),
        (
            FetchError::Denied {
                permission: "secretsmanager:GetSecretValue".to_owned(),
            },
            "SecretFetchFailed",
        ),
        (FetchError::Throttled { retry_after: None }, "ProviderThrottled"),
    ];
    let mut second = 12;
    for (error, reason) in broken {
        world.answer = Err(error);
        world.record = Record::new(at(second - 11));
        let told = world.look(second);
        assert!(told.len() == 1 && told[0].contains(reason), "{told:?}");
        assert_eq!(world.meta(), &before, "the last good content stays");
        let asked = world.asked;
        assert_eq!(world.look(second), [""; 0], "told once");
        assert_eq!(world.asked, asked, "and nobody is asked before the time has come");
        second += 1000;
    }
    for bad in ["", "not json", "{}"] {
        world.answer = Ok(bad);
        world.record = Record::new(at(second - 11));
        let told = world.look(second);
        assert!(
            told.len() == 1 && told[0].contains("SecretDataInvalid"),
            "{told:?}"
        );
        assert_eq!(world.meta(), &before);
        second += 1000;
    }
    // When it ends, nothing has to be said.
    world.answer = Ok(r#"{"user":"u","password":"p"}"#);
    assert_eq!(world.look(second), [""; 0]);
    assert_eq!((world.failures, world.record.failing_since), (0, None));
}

#[test]
fn a_failure_that_could_not_be_told_is_told_without_asking_again() {
    let mut world = World::new(vec![pod("a", 0, ""), pod("b", 0, "")]);
    world.answer = Ok("not json");
    world.deaf = true;
    let refused = world.look(1);
    assert!(
        refused.len() == 2 && refused[0].starts_with("refused: tell Pod shop/a: SecretDataInvalid"),
        "{refused:?}"
    );
    assert_eq!(world.look(2), refused, "it is not remembered as told");
    world.deaf = false;
    let told = world.look(3);
    assert_eq!([&*told[0], &*told[1]], [&refused[0][9..], &refused[1][9..]]);
    assert_eq!(world.look(4), [""; 0], "told once");
    assert_eq!(world.asked, 1);
    assert_eq!(world.record.owed, BTreeMap::new());
}

#[test]
fn a_success_that_could_not_be_told_is_told_at_the_next_look() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.deaf = true;
    let refused = format!("refused: {SYNCED}");
    assert_eq!(world.look(1), ["create Secret shop/db", &refused]);
    assert_eq!(world.look(2), [refused]);
    world.deaf = false;
    assert_eq!(world.look(3), [SYNCED]);
    assert_eq!(world.look(4), [""; 0]);
}

#[test]
fn a_failure_is_not_told_when_it_is_over() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    (world.answer, world.deaf) = (Err(FetchError::NotFound), true);
    assert_eq!(world.look(1).len(), 1);
    world.answer = Ok(r#"{"user":"u","password":"p"}"#);
    world.deaf = false;
    assert_eq!(world.look(1000), ["create Secret shop/db", SYNCED]);
    assert_eq!(world.look(1001), [""; 0]);
}

#[test]
fn retries_wait_longer_each_time_up_to_their_limit() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.answer = Err(FetchError::NotFound);
    let mut second = 1;
    let mut waits = Vec::new();
    for _ in 0..8 {
        world.look(second);
        let wait = world.record.retry_at.unwrap().duration_since(at(second));
        waits.push(wait.as_secs_f64());
        // A look that comes before it is time asks nobody, and changes nothing of the wait.
        world.look(second + 1);
        second += wait.as_secs_f64().ceil() as i64;
    }
    assert!(waits.iter().all(|wait| (4.0..=54.0).contains(wait)), "{waits:?}");
    assert!(waits[7] > 30.0, "{waits:?}");
    assert_eq!(world.asked, 8);
}

#[test]
fn in_an_outage_all_who_want_a_path_come_back_together() {
    let back = |second: i64, failures: u32| {
        let mut world = World::new(vec![pod("a", 0, "")]);
        world.answer = Err(FetchError::Unavailable { what: "x".to_owned() });
        world.failures = failures;
        let Ending::Failed(failure) = world.plan(second).ending else {
            panic!("it cannot be fetched");
        };
        assert_eq!(
            (failure.class, failure.reason),
            (Class::Transient, "SecretFetchFailed")
        );
        let wait = failure.retry_in.unwrap();
        assert!(wait <= OUTAGE + Duration::from_secs(2), "{wait:?}");
        (at(second) + wait).as_millisecond()
    };
    let first = back(1, 0);
    for (second, failures) in [(2, 7), (8, 1), (100, 30)] {
        assert_eq!((back(second, failures) - first) % 15_000, 0);
    }
}

#[test]
fn on_missing_delete_is_the_only_way_out() {
    let mut world = World::new(vec![pod("a", 0, "refreshInterval: 10s, onMissing: delete")]);
    world.look(1);
    world.answer = Err(FetchError::Unavailable { what: "x".to_owned() });
    assert!(!world.look(12).iter().any(|step| step.starts_with("delete")));
    world.answer = Err(FetchError::NotFound);
    let gone = world.look(1000);
    assert!(
        gone.iter()
            .any(|step| step.starts_with("delete Secret shop/db (uid uid-db)")),
        "{gone:?}"
    );
    assert_eq!(
        world.look(1001),
        [""; 0],
        "and it does not come back before the secret does"
    );
    world.answer = Ok(r#"{"a":"b"}"#);
    assert!(world.look(2000)[0].starts_with("create"));
}

#[test]
fn what_is_optional_is_missed_in_silence() {
    let mut world = World::new(vec![pod("a", 0, "optional: true")]);
    world.answer = Err(FetchError::NotFound);
    assert_eq!(world.look(1), [""; 0]);
    world.answer = Err(FetchError::Denied {
        permission: "x".to_owned(),
    });
    assert_eq!(world.look(100).len(), 1);
}

#[test]
fn every_pod_is_told_once_that_its_secret_is_there() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.look(1);
    let told = |name: &str| {
        format!("tell Pod shop/{name}: SecretSyncSuccess Secret db synced from mock path shop/db")
    };
    for (second, name) in [(1, "b"), (2, "c"), (500, "d")] {
        world.pods.push(pod(name, second, ""));
        assert_eq!(world.look(second), [told(name)]);
        assert_eq!(world.look(second + 1), [""; 0]);
    }
    // Not a pod that another process has told, nor one that gets nothing.
    world.record = Record::new(at(1000));
    world.pods.push(pod("e", 1000, "keys: [user]"));
    let steps = world.look(1000);
    assert!(
        steps.len() == 1 && steps[0].contains("SecretConflict"),
        "{steps:?}"
    );
    // Nor while the Secret cannot be brought up to date.
    world.answer = Err(FetchError::NotFound);
    world.pods.push(pod("f", 2000, ""));
    let steps = world.look(2000);
    assert!(
        !steps.iter().any(|step| step.contains("SecretSyncSuccess")),
        "{steps:?}"
    );
}

#[test]
fn a_new_value_is_never_called_restored() {
    let drift = |world: &mut World| world.touch(|body| lose(body, "/f:data", "f:password"));
    let delete = |world: &mut World| world.live = Live::Absent;
    for happens in [drift, delete] {
        let mut world = World::new(vec![pod("a", 0, "")]);
        world.look(1);
        assert_eq!(world.look(2), [""; 0]);
        happens(&mut world);
        world.answer = Ok(r#"{"user":"u","password":"new"}"#);
        assert_eq!(world.look(3)[1], SYNCED);
        assert_eq!(world.look(4), [""; 0]);
        happens(&mut world);
        assert!(world.look(5)[1].contains("SecretRestored"));
    }
}

#[test]
fn a_secret_of_jasm_is_carried_on_without_a_rewrite() {
    for name in ["jasm", "caronte"] {
        let metadata = json!({"labels": {"app.kubernetes.io/managed-by": name},
            "annotations": {SOURCE_PATH: "shop/db", SYNCED_AT: "2023-11-14T22:13:20Z"}});
        let mut world = World::new(vec![pod("a", -5000, "")]);
        world.live = Live::Ours(stranger(metadata, "Opaque", false).meta);
        assert_eq!(world.look(1), [""; 0]);
        assert_eq!(world.asked, 0);
        let data = [("user", "u"), ("password", "p")].map(|(k, v)| (k.to_owned(), Value::new(v)));
        world.inherited = Some(Inherited {
            data: data.into(),
            managed_fields: Some(vec![json!({})]),
        });
        world.pods[0].asks = asks("", Some("now"));
        world.look(2);
        world.look(3);
        assert_eq!(world.asked, 1, "a forced sync is a cause, once");
        // A cause comes: the same content is left as it is.
        world.pods.push(pod("a2", 500, ""));
        assert_eq!(world.look(500), [SYNCED.replace("shop/a:", "shop/a2:")]);
        assert_eq!(world.asked, 2);
        // Another content: first its fields become ours, then it is written.
        world.answer = Ok(r#"{"password":"new"}"#);
        world.pods.push(pod("a3", 1000, ""));
        assert_eq!(world.look(1000), ["inherit"]);
        world.inherited = None;
        world.touch(|body| {
            *body = json!({"metadata": {
                "name": "db", "namespace": "shop", "uid": "u", "labels": {"app.kubernetes.io/managed-by": name},
                "annotations": {SOURCE_PATH: "shop/db"},
                "managedFields": [{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {"f:user": {}}}}],
            }});
        });
        assert_eq!(
            world.look(1001).first().map(String::as_str),
            Some("update Secret shop/db")
        );
        assert_eq!(world.look(1002), [""; 0]);
    }
}

#[test]
fn of_two_workloads_the_first_gets_it_and_the_other_is_told_once() {
    let mut late = pod("b", 5, "");
    late.asks = asks("keys: [user]", None);
    let mut world = World::new(vec![pod("a", 0, ""), late]);
    let told = "tell Pod shop/b: SecretConflict Secret db is made for Deployment/a, which asked first";
    assert_eq!(world.look(6), [told, "create Secret shop/db", SYNCED]);
    assert_eq!(world.look(7), [""; 0]);
    assert_eq!(world.asked, 1);
    // The first one rolls over to new pods and keeps it; when it is gone, the other one gets it.
    world.pods[0] = Pod {
        created: at(10),
        uid: "uid-a2".into(),
        ..pod("a", 0, "")
    };
    assert_eq!(world.look(11), [SYNCED]);
    world.pods.remove(0);
    assert_eq!(world.look(12)[0], "update Secret shop/db");
}

#[test]
fn several_sources_are_put_together() {
    let mut world = World::new(vec![pod("a", 0, "merge: true")]);
    let mut other = pod("b", 1, "");
    let text = "{provider: mock, path: shop/other, secretName: db, merge: true, rename: {'(.*)': 'o.$1'}}";
    other.asks.annotation = Arc::new(grammar::parse(text, &["mock"]));
    world.pods.push(other);
    world.look(2);
    let keys: Vec<_> = world.meta().fields.children(&["data"]).collect();
    assert_eq!(keys, ["o.password", "o.user", "password", "user"]);
    assert_eq!(world.meta().annotations[SOURCE_PATH], "shop/db, shop/other");
}

#[test]
fn what_no_policy_allows_costs_no_call_and_tells_nothing_of_what_exists() {
    let mut world = World::new(vec![pod("a", 0, "path: other/db")]);
    world.pods[0].asks.annotation = Arc::new(grammar::parse(
        "{provider: mock, path: other/db, secretName: db}",
        &["mock"],
    ));
    world.rules = Rules::of(&[], "shop", None);
    let denied = "tell Pod shop/a: PolicyDenied secretName db: no policy allows this request";
    assert_eq!(world.look(1), [denied]);
    assert_eq!(world.look(2), [""; 0]);
    world.pods = vec![pod("b", 0, "")];
    assert_eq!(world.look(3)[0], "create Secret shop/db");
    assert_eq!(world.asked, 1);
}

#[test]
fn missing_keys_are_told_once_and_the_rest_is_written() {
    let mut world = World::new(vec![pod("a", 0, "keys: [user, nothing], refreshInterval: 10s")]);
    let told = "tell Pod shop/a: SecretKeyMissing the secret has no \"nothing\"";
    assert_eq!(world.look(1), [told, "create Secret shop/db", SYNCED]);
    assert_eq!(world.look(2), [""; 0]);
    assert_eq!(
        world.look(14),
        [""; 0],
        "a refresh that changes nothing says nothing"
    );
    assert_eq!(world.asked, 2);
}

#[test]
fn nobody_left_means_nothing_to_do() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.look(1);
    world.pods.clear();
    assert_eq!(world.look(2), [""; 0]);
    assert_eq!(world.record, Record::new(at(2)));
    assert!(matches!(world.live, Live::Ours(_)), "the Secret stays");
}

proptest! {
    /// Whatever happens in whatever order: the Secret never shrinks by an outage, and all is quiet in the end.
    #[test]
    fn any_story_ends_in_peace(events in proptest::collection::vec(0_u8..8, 0..40)) {
        let mut world = World::new(vec![pod("a", 0, "refreshInterval: 10s")]);
        let mut second = 1;
        for event in events {
            second += 7;
            match event {
                0 => world.answer = Ok(r#"{"user":"u","password":"p"}"#),
                1 => world.answer = Ok(r#"{"user":"v"}"#),
                2 => world.answer = Err(FetchError::NotFound),
                3 => world.answer = Err(FetchError::Unavailable { what: "x".to_owned() }),
                4 => world.live = Live::Absent,
                5 => world.record = Record::new(at(second)),
                6 => world.pods.push(pod("b", second, "keys: [user]")),
                _ => world.pods.truncate(1),
            }
            let before = matches!(world.live, Live::Ours(_));
            world.look(second);
            prop_assert!(!before || matches!(world.live, Live::Ours(_)), "a Secret went away");
        }
        world.answer = Ok(r#"{"user":"u","password":"p"}"#);
        for _ in 0..4 {
            second += 100;
            world.look(second);
        }
        let rest = world.look(second);
        prop_assert!(rest.is_empty(), "{:?}", rest);
        prop_assert!(matches!(world.live, Live::Ours(_)));
    }
}

fn audit_rules(mode: &str, path: &str, more: &str) -> Rules {
    let spec =
        format!(r#"{{"mode": "{mode}", "rules": [{{"paths": ["{path}"]{more}}}], "refreshFloor": "1h"}}"#);
    let policy = Policy::new(&serde_json::from_str(&spec).unwrap());
    Rules::of(&[Arc::new(policy)], "shop", None)
}

#[test]
fn what_is_only_audited_is_served_and_told_once() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.rules = audit_rules("Audit", "other/*", "");
    let told = "tell Pod shop/a: PolicyDenied secretName db: this request is served, and would be denied if all policies \
                were in force";
    assert_eq!(world.look(1)[..2], [told, "create Secret shop/db"]);
    assert_eq!(world.look(2), [""; 0]);
}

#[test]
fn keys_that_no_policy_allows_are_not_written_and_looked_at_again() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.rules = audit_rules("Enforce", "shop/*", r#", "keys": ["user"]"#);
    let denied = "tell Pod shop/a: PolicyDenied secretName db: no policy allows this request";
    assert_eq!(world.look(1), [denied]);
    assert!(world.record.retry_at.is_some());
    world.answer = Ok(r#"{"user":"u"}"#);
    assert_eq!(world.look(60)[0], "create Secret shop/db");
}

#[test]
fn nobody_looks_more_often_than_policies_let_them() {
    let mut world = World::new(vec![pod("a", 0, "refreshInterval: 10s")]);
    world.rules = audit_rules("Enforce", "shop/*", "");
    world.look(1);
    assert_eq!(world.look(600), [""; 0]);
    assert_eq!(world.asked, 1);
    world.look(2 * 3600);
    assert_eq!(world.asked, 2);
}

#[test]
fn a_store_must_be_open_to_the_namespace_and_another_revision_is_another_place() {
    let mut world = World::new(vec![pod("a", 0, "store: prod")]);
    let refused = "tell Pod shop/a: ProviderUnsupported failed to fetch shop/db from prod: there is no such store for this \
                   namespace";
    assert_eq!(world.look(1), [refused]);
    let view = |provider, revision: &str| StoreView {
        provider,
        revision: revision.into(),
        home: Home::default(),
    };
    world.stores.insert("prod".to_owned(), view("mock", "1"));
    assert_eq!(world.look(2)[0], "create Secret shop/db");
    assert_eq!(world.look(3), [""; 0]);
    world.stores.insert("prod".to_owned(), view("mock", "2"));
    world.look(4);
    assert_eq!(world.asked, 2);
    world.stores.insert("prod".to_owned(), view("vault", "3"));
    assert_eq!(
        world.look(5),
        ["tell Pod shop/a: AnnotationInvalid provider: the store is one of vault"]
    );
}

#[test]
fn what_the_provider_says_has_changed_is_fetched_once() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.look(1);
    world.answer = Ok(r#"{"user":"new"}"#);
    assert_eq!(world.look(2), [""; 0]);
    world.news += 1;
    assert_eq!(world.look(3)[0], "update Secret shop/db");
    assert_eq!(world.look(4), [""; 0]);
    assert_eq!(world.asked, 2);
    // Also one that failed, without waiting for its turn.
    world.answer = Err(FetchError::NotFound);
    world.news += 1;
    world.look(5);
    world.answer = Ok(r#"{"user":"back"}"#);
    world.news += 1;
    assert_eq!(world.look(6)[0], "update Secret shop/db");
}
