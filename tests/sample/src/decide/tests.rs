use serde_json::json;
use trustplane_plan::{FINGERPRINT, Keep};

use super::*;

fn meta(value: Value) -> Meta {
    Meta::decode(&json!({ "metadata": value }).to_string(), &Keep::owned_by("m")).unwrap()
}

fn input(targets: &[&str]) -> Input {
    Input {
        mirror: meta(json!({
            "name": "m", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 3, "finalizers": [FINALIZER],
        })),
        spec: MirrorSpec {
            source: "s".into(),
            targets: targets.iter().map(|name| (*name).to_owned()).collect(),
        },
        status: Value::Null,
        source: Some(json!({ "password": "aHVudGVyMg==" })),
        live: Vec::new(),
        complete: true,
    }
}

fn steps(input: &Input) -> Vec<String> {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let plan = decide(input, &Fingerprinter::new(&[1; 32]), now);
    plan.steps.iter().map(ToString::to_string).collect()
}

/// A live Secret as the API server has it after our apply of the same wish.
fn copy(input: &Input, name: &str) -> (Kind, Meta) {
    let plan = decide(input, &Fingerprinter::new(&[1; 32]), Timestamp::UNIX_EPOCH);
    let applied = plan.steps.into_iter().find_map(|step| match step {
        Step::Apply(apply) if apply.manifest.object().name() == name => Some(apply.manifest.body()),
        _ => None,
    });
    let mut body = applied.unwrap();
    body["metadata"]["uid"] = "u-copy".into();
    body["metadata"]["resourceVersion"] = "9".into();
    body["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Apply", "fieldsV1": {
        "f:data": {"f:password": {}},
        "f:metadata": {
            "f:labels": {"f:app.kubernetes.io/managed-by": {}},
            "f:annotations": {format!("f:{FINGERPRINT}"): {}},
            "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}},
        },
    }}]);
    (
        SECRET,
        Meta::decode(&body.to_string(), &Keep::owned_by("m")).unwrap(),
    )
}

#[test]
fn a_new_mirror_gets_its_finalizer_first_and_its_status_last() {
    let mut input = input(&["a", "b", "a"]);
    input.mirror.finalizers.clear();
    assert_eq!(
        steps(&input),
        [
            "add the finalizer test.trustplane.io/farewell of Mirror ns/m",
            "create Secret ns/a",
            "create Secret ns/b",
            "set the status of Mirror ns/m",
            "tell Mirror ns/m: InStep all copies are in step",
        ]
    );
}

#[test]
fn a_mirror_in_step_is_left_alone() {
    let mut input = input(&["a"]);
    input.live = vec![copy(&input, "a")];
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let plan = decide(&input, &Fingerprinter::new(&[1; 32]), now);
    let Some(Step::Status(status)) = plan.steps.into_iter().next() else {
        panic!("expected a status")
    };
    assert_eq!(status.status["copies"], 1);
    input.status = status.status;
    assert_eq!(steps(&input), [""; 0]);
}

#[test]
fn a_copy_that_left_the_list_is_deleted_but_not_on_a_partial_view() {
    let mut input = input(&["a"]);
    input.live = vec![copy(&input, "a")];
    input.spec.targets.clear();
    assert!(steps(&input).contains(&"delete Secret ns/a (uid u-copy)".to_owned()));
    input.complete = false;
    assert!(!steps(&input).iter().any(|step| step.starts_with("delete")));
}

#[test]
fn without_a_source_nothing_is_emptied() {
    let mut input = input(&["a"]);
    input.live = vec![copy(&input, "a")];
    input.source = None;
    let message = "the source does not exist, or does not offer itself";
    assert_eq!(
        steps(&input),
        [
            "set the status of Mirror ns/m".to_owned(),
            format!("tell Mirror ns/m: SourceMissing {message}")
        ]
    );
}

#[test]
fn a_foreign_secret_is_taken_over_only_when_asked() {
    let mut input = input(&["a"]);
    input.live = vec![(
        SECRET,
        meta(json!({"name": "a", "namespace": "ns", "uid": "x", "resourceVersion": "2"})),
    )];
    assert!(steps(&input).last().unwrap().contains("TargetForeign"));
    assert!(!steps(&input).iter().any(|step| step.contains("Secret ns/a")));
    input.mirror.annotations.insert(ADOPT.into(), "true".into());
    assert_eq!(steps(&input)[0], "update Secret ns/a");
}

#[test]
fn the_copy_of_another_mirror_is_never_taken_over() {
    let mut input = input(&["a"]);
    input.live = vec![copy(&input, "a")];
    input.mirror.uid = "another".into();
    input.mirror.annotations.insert(ADOPT.into(), "true".into());
    let told = steps(&input);
    assert!(told.len() == 2 && told[1].contains("TargetForeign"), "{told:?}");
}

#[test]
fn hostile_names_lead_nowhere() {
    for name in [
        "../x",
        "a/b",
        "",
        ".",
        "A",
        "a_b",
        "-a",
        "a\n",
        "s",
        &"x".repeat(254),
    ] {
        let told = steps(&input(&["fine", name]));
        assert_eq!(told.len(), 2, "{name:?} led to {told:?}");
        assert!(told[1].contains("TargetInvalid"), "{told:?}");
    }
}

#[test]
fn a_mirror_goes_when_its_copies_are_gone() {
    let mut input = input(&["a"]);
    input.live = vec![copy(&input, "a")];
    input.mirror.deleted = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(steps(&input), ["delete Secret ns/a (uid u-copy)"]);
    input.live[0].1.deleted = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(
        steps(&input),
        [""; 0],
        "a copy that is still going holds the mirror back"
    );
    input.live.clear();
    input.complete = false;
    assert_eq!(steps(&input), [""; 0], "what cannot be seen may still be there");
    input.complete = true;
    assert_eq!(
        steps(&input),
        ["remove the finalizer test.trustplane.io/farewell of Mirror ns/m"]
    );
}

#[test]
fn a_copy_that_others_hold_back_is_waited_for_from_the_deletion_on() {
    let mut input = input(&["a"]);
    input.live = vec![copy(&input, "a")];
    let deleted: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    input.mirror.deleted = Some(deleted);
    input.live[0].1.deleted = Some(deleted);
    input.mirror.annotations.insert(PATIENCE.into(), "60".into());
    let at = |text: &str| decide(&input, &Fingerprinter::new(&[1; 32]), text.parse().unwrap());
    let early = at("2026-01-01T00:00:45Z");
    assert!(early.is_empty());
    assert_eq!(early.look_again, Some(Duration::from_secs(15)));
    let late = at("2026-01-01T00:01:00Z");
    assert_eq!(
        late.to_string(),
        "remove the finalizer test.trustplane.io/farewell of Mirror ns/m\n"
    );
}

#[test]
fn an_event_is_told_once_for_each_reason() {
    let mut input = input(&["a"]);
    input.source = None;
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let plan = decide(&input, &Fingerprinter::new(&[1; 32]), now);
    let Some(Step::Status(status)) = plan.steps.into_iter().next() else {
        panic!("expected a status")
    };
    input.status = status.status;
    assert_eq!(steps(&input), [""; 0]);
}
