//! Writes against a real API server: preconditions, ownership, silence.

use anyhow::Result;
use kube::api::DeleteParams;
use serde_json::json;
use trustplane_kit::apply::{HeldField, WriteError};
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{
    Apply, Conflicts, Convergence, Delete, Never, OwnedBy, OwnedSet, Owner, Ownership, Propagation, Step,
    converge_set,
};
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{DEADLINE, wait_for};

use crate::write_rig::{Rig, fingerprinter, ownership, update};

#[tokio::test]
async fn writes_once_and_then_rests() -> Result<()> {
    let rig = Rig::new("rests").await?;
    let mark = Mark::now(rig.sandbox.plane()).await?;
    let wish = rig.wish("a", json!({ "k": "v" }));
    assert!(matches!(
        rig.bring_about(wish.clone(), &ownership()).await?,
        Convergence::Write(_)
    ));
    let version = rig.live("a").await?.unwrap().resource_version;
    for _ in 0..5 {
        assert_eq!(
            rig.bring_about(wish.clone(), &ownership()).await?,
            Convergence::Settled
        );
    }
    let audit = mark.since().await?.by(&rig.instance);
    assert_eq!(audit.writes().len(), 1, "{}", audit.story());
    audit.assert_nothing_denied();
    assert_eq!(rig.live("a").await?.unwrap().resource_version, version);
    Ok(())
}

#[tokio::test]
async fn what_an_apply_answers_is_what_a_read_answers() -> Result<()> {
    let rig = Rig::new("answer").await?;
    let written = rig
        .writer
        .apply(&Apply::create(rig.wish("a", json!({ "k": "v" }))))
        .await?;
    assert_eq!(Some(written), rig.live("a").await?);
    Ok(())
}

#[tokio::test]
async fn a_creation_never_merges_into_a_strangers_object() -> Result<()> {
    let rig = Rig::new("stranger").await?;
    let before = rig
        .stranger("a", json!({ "app.kubernetes.io/managed-by": "Helm" }))
        .await?;
    let outcome = rig
        .writer
        .apply(&Apply::create(rig.wish("a", json!({ "k": "v" }))))
        .await;
    let Err(WriteError::Foreign { holder, .. }) = &outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(holder.as_deref(), Some("Helm"));
    let text = outcome.unwrap_err().to_string();
    assert_eq!(
        text,
        format!(
            "failed to create ConfigMap {}/a: an object of that name belongs to Helm",
            rig.sandbox.namespace()
        )
    );
    assert_eq!(rig.maps().get("a").await?, before);
    Ok(())
}

#[tokio::test]
async fn a_creation_that_a_twin_did_first_is_stale() -> Result<()> {
    let rig = Rig::new("twin").await?;
    let create = Apply::create(rig.wish("a", json!({ "k": "v" })));
    rig.writer.apply(&create).await?;
    assert!(rig.writer.apply(&create).await.unwrap_err().is_stale());
    Ok(())
}

#[tokio::test]
async fn an_update_reaches_only_what_was_seen() -> Result<()> {
    let rig = Rig::new("seen").await?;
    let seen = rig
        .writer
        .apply(&Apply::create(rig.wish("a", json!({ "k": "1" }))))
        .await?;
    let late = update(rig.wish("a", json!({ "k": "late" })), &seen, Conflicts::Force);
    // Somebody writes in between.
    rig.meddle("a", "other", json!({ "data": { "x": "y" } })).await?;
    assert!(rig.writer.apply(&late).await.unwrap_err().is_stale());
    // The object is gone: an update does not bring it back.
    rig.maps().delete("a", &DeleteParams::default()).await?;
    assert!(rig.writer.apply(&late).await.unwrap_err().is_stale());
    assert!(rig.live("a").await?.is_none());
    // Another object has its name.
    rig.stranger("a", json!({})).await?;
    assert!(rig.writer.apply(&late).await.unwrap_err().is_stale());
    assert_eq!(rig.data("a").await?, json!({ "theirs": "1" }));
    Ok(())
}

#[tokio::test]
async fn what_leaves_the_wish_leaves_the_object_and_the_rest_stays() -> Result<()> {
    let rig = Rig::new("leaves").await?;
    rig.bring_about(rig.wish("a", json!({ "keep": "1", "drop": "2" })), &ownership())
        .await?;
    rig.meddle(
        "a",
        "other",
        json!({ "data": { "theirs": "3" }, "metadata": { "labels": { "team": "blue" } } }),
    )
    .await?;
    rig.bring_about(rig.wish("a", json!({ "keep": "1" })), &ownership())
        .await?;
    assert_eq!(rig.data("a").await?, json!({ "keep": "1", "theirs": "3" }));
    let labels = rig.maps().get("a").await?.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("team").map(String::as_str), Some("blue"));
    Ok(())
}

#[tokio::test]
async fn a_value_that_somebody_changed_is_taken_back_or_reported() -> Result<()> {
    let rig = Rig::new("changed").await?;
    let wish = rig.wish("a", json!({ "k": "ours", "other": "1" }));
    rig.bring_about(wish.clone(), &ownership()).await?;
    rig.meddle("a", "kubectl-edit", json!({ "data": { "k": "theirs" } }))
        .await?;

    let error = rig.bring_about(wish.clone(), &ownership()).await.unwrap_err();
    let Some(WriteError::FieldConflict { fields, .. }) = error.downcast_ref() else {
        panic!("{error:?}")
    };
    let held = HeldField {
        field: ".data.k".into(),
        manager: "kubectl-edit".into(),
    };
    assert_eq!(*fields, [held]);
    assert!(
        error.to_string().ends_with("/a: .data.k is held by kubectl-edit"),
        "{error}"
    );
    assert_eq!(rig.data("a").await?["k"], "theirs");

    let force = Ownership {
        conflicts: Conflicts::Force,
        ..ownership()
    };
    assert!(matches!(
        rig.bring_about(wish.clone(), &force).await?,
        Convergence::Write(_)
    ));
    assert_eq!(rig.data("a").await?, json!({ "k": "ours", "other": "1" }));
    assert_eq!(rig.bring_about(wish, &force).await?, Convergence::Settled);
    Ok(())
}

#[tokio::test]
async fn a_key_that_somebody_removed_comes_back() -> Result<()> {
    let rig = Rig::new("removed").await?;
    let wish = rig.wish("a", json!({ "k": "v", "l": "w" }));
    rig.bring_about(wish.clone(), &ownership()).await?;
    rig.meddle("a", "other", json!({ "data": { "k": null } })).await?;
    rig.bring_about(wish, &ownership()).await?;
    assert_eq!(rig.data("a").await?, json!({ "k": "v", "l": "w" }));
    Ok(())
}

#[tokio::test]
async fn adoption_is_only_by_opt_in() -> Result<()> {
    let rig = Rig::new("adopt").await?;
    let before = rig.stranger("a", json!({})).await?;
    let wish = rig.wish("a", json!({ "k": "v" }));
    assert_eq!(
        rig.bring_about(wish.clone(), &ownership()).await?,
        Convergence::Foreign { holder: None }
    );
    assert_eq!(rig.maps().get("a").await?, before);
    let adopt = Ownership {
        adopt: true,
        ..ownership()
    };
    assert!(matches!(
        rig.bring_about(wish.clone(), &adopt).await?,
        Convergence::Write(_)
    ));
    assert_eq!(rig.data("a").await?, json!({ "k": "v", "theirs": "1" }));
    // Once adopted it is ours, with or without the opt-in.
    assert_eq!(rig.bring_about(wish, &ownership()).await?, Convergence::Settled);
    Ok(())
}

#[tokio::test]
async fn a_set_is_applied_and_what_left_it_is_pruned() -> Result<()> {
    let rig = Rig::new("set").await?;
    rig.stranger("owner", json!({})).await?;
    let owner = rig.live("owner").await?.unwrap();
    let child = |name: &str| {
        let link = Owner::controller(&CONFIG_MAP, &owner, owner.object.namespace()).unwrap();
        rig.wish(name, json!({ "k": "v" })).owner(link)
    };
    let round = async |names: &[&str]| -> Result<Vec<String>> {
        let mut live = Vec::new();
        for name in ["a", "b", "c"] {
            live.extend(rig.live(name).await?.map(|meta| (CONFIG_MAP, meta)));
        }
        let set = OwnedSet {
            live: &live,
            complete: true,
            owner: OwnedBy::Reference(&owner.uid),
        };
        let wishes = names.iter().map(|name| child(name)).collect();
        let (steps, held_up) = converge_set::<Never>(wishes, set, &ownership(), &fingerprinter());
        assert!(held_up.is_empty(), "{held_up:?}");
        for step in &steps {
            match step {
                Step::Apply(apply) => drop(rig.writer.apply(apply).await?),
                Step::Delete(delete) => rig.writer.delete(delete).await?,
                other => panic!("{other}"),
            }
        }
        Ok(steps.iter().map(ToString::to_string).collect())
    };
    assert_eq!(round(&["a", "b"]).await?.len(), 2);
    assert_eq!(round(&["a", "b"]).await?, [""; 0]);
    assert_eq!(round(&["b", "c"]).await?.len(), 2);
    wait_for(&rig.maps(), "a", DEADLINE, |live| live.is_none()).await?;
    assert_eq!(round(&["b", "c"]).await?, [""; 0]);
    // The garbage collector takes the children with their owner.
    rig.maps().delete("owner", &DeleteParams::background()).await?;
    wait_for(&rig.maps(), "b", DEADLINE, |live| live.is_none()).await?;
    wait_for(&rig.maps(), "c", DEADLINE, |live| live.is_none()).await?;
    Ok(())
}

#[tokio::test]
async fn a_delete_reaches_only_what_was_meant() -> Result<()> {
    let rig = Rig::new("delete").await?;
    let seen = rig
        .writer
        .apply(&Apply::create(rig.wish("a", json!({ "k": "v" }))))
        .await?;
    let delete = |version: bool| Delete {
        target: rig.target(CONFIG_MAP, "a"),
        uid: seen.uid.clone(),
        resource_version: version.then(|| seen.resource_version.clone()),
        propagation: Propagation::Background,
    };
    rig.meddle("a", "other", json!({ "data": { "x": "y" } })).await?;
    assert!(
        rig.writer.delete(&delete(true)).await.unwrap_err().is_stale(),
        "it has changed since"
    );
    rig.writer.delete(&delete(false)).await?;
    rig.writer.delete(&delete(false)).await?;
    rig.stranger("a", json!({})).await?;
    rig.writer.delete(&delete(false)).await?;
    rig.writer.delete(&delete(true)).await?;
    assert_eq!(
        rig.data("a").await?,
        json!({ "theirs": "1" }),
        "another object of that name is safe"
    );
    Ok(())
}
