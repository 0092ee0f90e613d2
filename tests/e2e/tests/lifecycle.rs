//! The life of a release on a real node: install, upgrade, rollback, uninstall.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trustplane_cluster::wait;
use trustplane_e2e::chart::Chart;
use trustplane_e2e::scenario::{DEFINITION, PATIENCE};
use trustplane_e2e::{Arena, Release, say};

const DEPLOYMENT: &str = "deployment/life-trustplane-manager";

/// What the process wrote into the objects that the chart made empty.
fn kept(release: &Release<'_>) -> Value {
    let key = release
        .read(&["get", "secret", "trustplane-fingerprint"])
        .unwrap();
    assert!(
        key["data"].is_object(),
        "the process has not filled its Secret: {key}"
    );
    json!({"uid": key["metadata"]["uid"], "data": key["data"]})
}

fn available(release: &Release<'_>) -> i64 {
    let deployment = release.read(&["get", DEPLOYMENT]).unwrap();
    assert_eq!(
        deployment["status"]["observedGeneration"],
        deployment["metadata"]["generation"]
    );
    assert_eq!(deployment["status"]["unavailableReplicas"], Value::Null);
    deployment["status"]["availableReplicas"].as_i64().unwrap()
}

/// The API server itself keeps the process from Secrets of others, whatever its rights say.
fn is_guarded(release: &Release<'_>) {
    let us = format!(
        "--as=system:serviceaccount:{}:life-trustplane-manager",
        release.name()
    );
    let label = "app.kubernetes.io/managed-by";
    say(&mut release.kubectl(&["create", "secret", "generic", "free"])).unwrap();
    say(&mut release.kubectl(&["create", "secret", "generic", "theirs"])).unwrap();
    say(&mut release.kubectl(&["label", "secret", "theirs", &format!("{label}=them")])).unwrap();
    let refused = |arguments: &[&str], why: &str| {
        let output = release.kubectl(arguments).arg(&us).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(why),
            "{arguments:?}: {said}"
        );
    };
    let unlabelled = "writes only Secrets whose label app.kubernetes.io/managed-by is its own";
    let others = "leaves Secrets alone that somebody else manages";
    let patch = |label: &str| {
        format!(r#"{{"metadata": {{"labels": {{"app.kubernetes.io/managed-by": "{label}"}}}}}}"#)
    };
    refused(&["create", "secret", "generic", "plain"], unlabelled);
    refused(
        &[
            "patch",
            "secret",
            "free",
            "--patch",
            r#"{"stringData": {"a": "b"}}"#,
        ],
        unlabelled,
    );
    refused(
        &[
            "patch",
            "secret",
            "theirs",
            "--patch",
            &patch("trustplane-sample"),
        ],
        others,
    );
    refused(&["delete", "secret", "theirs"], others);
    refused(&["delete", "secret", "free"], others);
    // One that nobody manages may be taken over if it consents, unless it is a release of Helm.
    let take = patch("trustplane-sample");
    let adoption = "or whose annotation trustplane.io/adopt-by is not mirror";
    refused(&["patch", "secret", "free", "--patch", &take], adoption);
    let consent = |secret: &str| {
        let consents = "trustplane.io/adopt-by=mirror";
        say(&mut release.kubectl(&["annotate", "secret", secret, consents])).unwrap();
    };
    consent("free");
    say(&mut release.kubectl(&[
        "create",
        "secret",
        "generic",
        "history",
        "--type=helm.sh/release.v1",
    ]))
    .unwrap();
    consent("history");
    let reserved = "never writes credentials of the cluster or releases of Helm";
    refused(&["patch", "secret", "history", "--patch", &take], reserved);
    say(&mut release.kubectl(&["delete", "secret", "history"])).unwrap();
    say(release
        .kubectl(&["patch", "secret", "free", "--patch", &take])
        .arg(&us))
    .unwrap();
    say(release.kubectl(&["delete", "secret", "free"]).arg(&us)).unwrap();
    say(&mut release.kubectl(&["delete", "secret", "theirs"])).unwrap();
}

#[test]
fn a_release_lives_and_leaves_nothing_but_its_definitions() {
    let arena = Arena::enter().unwrap();
    let release = Release::named(&arena, "life").unwrap();
    let chart = Chart::of_the_sample().unwrap();
    let before = arena.census(release.name()).unwrap();

    // The namespace enforces the restricted profile, so a pod that needed more would not be here.
    release.install(&chart, &[]).unwrap();
    assert_eq!(available(&release), 2);
    is_guarded(&release);
    release.mirrors_work("one").unwrap();
    let kept_at_first = kept(&release);

    chart.bump("0.1.1").unwrap();
    release
        .install(&chart, &["deployment.replicas=1", "log.filter=debug"])
        .unwrap();
    assert_eq!(available(&release), 1);
    assert_eq!(
        kept(&release),
        kept_at_first,
        "an upgrade took away what the process wrote"
    );
    release.mirrors_work("two").unwrap();

    say(&mut release
        .helm(&["rollback", release.name(), "1", "--wait", "--timeout", "2m"])
        .unwrap())
    .unwrap();
    assert_eq!(available(&release), 2);
    assert_eq!(
        kept(&release),
        kept_at_first,
        "a rollback took away what the process wrote"
    );
    release.mirrors_work("three").unwrap();

    for name in ["one", "two", "three"] {
        release.mirrors_clean_up(name).unwrap();
    }
    release.uninstall().unwrap();
    let definitions: BTreeSet<String> = BTreeSet::from([
        format!("customresourcedefinition.apiextensions.k8s.io/{DEFINITION}"),
        // The API server registers a group as long as one of its kinds is defined.
        "apiservice.apiregistration.k8s.io/v1.test.trustplane.io".to_owned(),
    ]);
    let mut left = BTreeSet::new();
    wait::until("uninstall to leave nothing but definitions", PATIENCE, || {
        left = arena
            .census(release.name())?
            .difference(&before)
            .cloned()
            .collect();
        Ok((left == definitions).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}; left over: {left:?}"));

    // What uninstall kept, the next installation takes up again.
    release.install(&chart, &["deployment.replicas=1"]).unwrap();
    release.mirrors_work("again").unwrap();
    release.mirrors_clean_up("again").unwrap();
}
