//! What the API server refuses, what is said about it, and what is never said.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use trustplane_kit::apply::{WriteError, Writer};
use trustplane_kit::lease::Fence;
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};
use trustplane_plan::{Apply, Class, Classified, Kind, Manifest, Scope};
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule};
use trustplane_testkit::{DEADLINE, Rules, wait_for};

use crate::write_rig::{MANAGER, Rig, clients};

const NOT_SERVED: Kind = Kind::new("nowhere.example.io", "v1", "Thing", "things", Scope::Namespaced);

fn rules() -> Rules {
    let verbs = &["get", "create", "patch", "delete"];
    Rules::default()
        .allow("", "configmaps", verbs)
        .allow("", "secrets", verbs)
}

#[tokio::test]
async fn a_missing_right_is_for_a_person_to_grant() -> Result<()> {
    let rig = Rig::with("forbidden", Rules::default().allow("", "configmaps", &["get"])).await?;
    let error = rig
        .writer
        .apply(&Apply::create(rig.wish("a", json!({}))))
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::Forbidden { .. }), "{error:?}");
    assert_eq!((error.class(), error.reason()), (Class::User, "Forbidden"));
    assert!(error.to_string().contains("cannot patch resource"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_told_from_an_object_that_is_not_there() -> Result<()> {
    let rules = rules().allow(&NOT_SERVED.group, &NOT_SERVED.plural, &["get", "patch", "create"]);
    let rig = Rig::with("served", rules).await?;
    let wish = Manifest::new(NOT_SERVED, Some(rig.sandbox.namespace()), "a");
    let error = rig.writer.apply(&Apply::create(wish)).await.unwrap_err();
    assert!(matches!(error, WriteError::NotServed(_)), "{error:?}");
    let read = rig
        .writer
        .get_meta(&NOT_SERVED, &rig.object("a"), &Default::default())
        .await;
    assert!(matches!(read, Err(WriteError::NotServed(_))), "{read:?}");
    let read = rig
        .writer
        .get_meta(&CONFIG_MAP, &rig.object("a"), &Default::default())
        .await;
    assert_eq!(read, Ok(None));
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_is_ending_is_left_alone_for_a_while() -> Result<()> {
    let rig = Rig::new("ending").await?;
    let hold = json!({ "metadata": { "finalizers": ["test.trustplane.io/hold"] } });
    rig.stranger("holder", json!({})).await?;
    rig.meddle("holder", "test", hold).await?;
    let namespaces: Api<Namespace> = Api::all(rig.sandbox.client());
    namespaces
        .delete(rig.sandbox.namespace(), &DeleteParams::default())
        .await?;
    wait_for(&namespaces, rig.sandbox.namespace(), DEADLINE, |live| {
        live.is_some_and(|live| live.metadata.deletion_timestamp.is_some())
    })
    .await?;
    // The admission plugin that refuses learns of it by a watch of its own.
    let error = trustplane_testkit::until("the namespace to refuse", DEADLINE, || async {
        Ok(rig
            .writer
            .apply(&Apply::create(rig.wish("a", json!({}))))
            .await
            .err()
            .filter(|error| !error.is_stale()))
    })
    .await?;
    assert!(matches!(error, WriteError::NamespaceEnding(_)), "{error:?}");
    assert_eq!(error.class(), Class::Transient);
    assert!(
        error
            .retry_after()
            .is_some_and(|wait| wait >= Duration::from_secs(10)),
        "no storm"
    );
    rig.meddle("holder", "test", json!({ "metadata": { "finalizers": null } }))
        .await?;
    Ok(())
}

#[tokio::test]
async fn no_value_stands_in_an_error() -> Result<()> {
    let rig = Rig::with("values", rules()).await?;
    let name = rig.sandbox.namespace();
    // Not base64; a key that is none; a value of the wrong type.
    let bad = [
        json!({ "k": "hunter2 is not base64" }),
        json!({ "hunter2 bad key": "aHVudGVyMg==" }),
        json!({ "k": 424_242 }),
    ];
    for data in bad {
        let wish = Manifest::new(SECRET, Some(name), "a").with("data", data);
        let error = rig.writer.apply(&Apply::create(wish)).await.unwrap_err();
        assert!(matches!(error, WriteError::Invalid { .. }), "{error:?}");
        let told = format!("{error} {error:?}");
        for value in ["hunter2 is", "aHVudGVyMg", "424242"] {
            assert!(!told.contains(value), "{told}");
        }
    }
    let label = rig.wish("a", json!({})).label("team", "hunter2 with spaces!");
    let error = rig.writer.apply(&Apply::create(label)).await.unwrap_err();
    assert_eq!((error.class(), error.reason()), (Class::Bug, "Invalid"));
    assert!(
        error.to_string().contains("metadata.labels: Invalid value: …"),
        "{error}"
    );
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_name_that_would_lead_elsewhere_is_never_sent() -> Result<()> {
    let rig = Rig::with("names", rules()).await?;
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let through = clients(&rig.instance.through(&proxy), Fence::always())?;
    let writer = Writer::new(through.call, MANAGER, &rig.metrics);
    for name in ["../secrets/a", "a/status", "a?dryRun=All", ""] {
        let error = writer
            .apply(&Apply::create(rig.wish(name, json!({}))))
            .await
            .unwrap_err();
        assert!(matches!(error, WriteError::Invalid { .. }), "{error:?}");
    }
    assert!(proxy.requests(&Match::any()).is_empty());
    Ok(())
}

#[tokio::test]
async fn too_large_is_said_as_such() -> Result<()> {
    let rig = Rig::new("large").await?;
    for size in [1 << 21, 1 << 22] {
        let wish = rig.wish("a", json!({ "k": "x".repeat(size) }));
        let error = rig.writer.apply(&Apply::create(wish)).await.unwrap_err();
        assert!(matches!(error, WriteError::TooLarge(_)), "{}", error.reason());
    }
    Ok(())
}

#[tokio::test]
async fn outages_are_transient_and_a_wish_to_wait_is_kept() -> Result<()> {
    let rig = Rig::new("outage").await?;
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let through = clients(&rig.instance.through(&proxy), Fence::always())?;
    let writer = Writer::new(through.call, MANAGER, &rig.metrics);
    let outages = [
        (
            Fault::Answer(Answer::too_many_requests(7)),
            "Throttled",
            Some(Duration::from_secs(7)),
        ),
        (Fault::Answer(Answer::unavailable()), "Unavailable", None),
        (Fault::Answer(Answer::internal_error()), "Unavailable", None),
        (Fault::Answer(Answer::unauthorized()), "Unavailable", None),
        (Fault::Cut, "Unavailable", None),
        (Fault::CutAnswer, "Unavailable", None),
    ];
    for (index, (fault, reason, wait)) in outages.into_iter().enumerate() {
        let mark = proxy.mark();
        proxy.add(Rule::new(Match::writes(), fault).once());
        let error = writer
            .apply(&Apply::create(rig.wish(&format!("o{index}"), json!({}))))
            .await
            .unwrap_err();
        assert_eq!(
            (error.class(), error.reason(), error.retry_after()),
            (Class::Transient, reason, wait),
            "{error}"
        );
        assert_eq!(
            proxy.requests_since(mark, &Match::writes()).len(),
            1,
            "no hidden retry: {error}"
        );
    }
    // The last one took effect although its answer was lost; the next try finds that out.
    assert!(
        writer
            .apply(&Apply::create(rig.wish("o5", json!({}))))
            .await
            .unwrap_err()
            .is_stale()
    );
    Ok(())
}
