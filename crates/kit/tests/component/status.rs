//! The status of an object: for one uid alone, and beside what others write there.

use anyhow::Result;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;
use trustplane_kit::apply::{WriteError, Writer};
use trustplane_kit::lease::Fence;
use trustplane_plan::kinds::PERSISTENT_VOLUME_CLAIM;
use trustplane_plan::{Meta, Status};
use trustplane_testkit::proxy::{Fault, Gate, Match, Proxy, Rule};
use trustplane_testkit::{DEADLINE, Rules, wait_for};

use crate::write_rig::{MANAGER, Rig, clients};

async fn rig(name: &str) -> Result<(Rig, Api<PersistentVolumeClaim>)> {
    let rules = Rules::default()
        .allow("", "persistentvolumeclaims", &["get"])
        .allow("", "persistentvolumeclaims/status", &["patch"]);
    let rig = Rig::with(name, rules).await?;
    let claims = rig.sandbox.api();
    Ok((rig, claims))
}

async fn create(claims: &Api<PersistentVolumeClaim>) -> Result<String> {
    let claim = serde_json::from_value(json!({
        "metadata": { "name": "a" },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": { "requests": { "storage": "1" } } },
    }))?;
    Ok(claims
        .create(&PostParams::default(), &claim)
        .await?
        .metadata
        .uid
        .unwrap_or_default())
}

fn status(rig: &Rig, uid: &str, condition: &str) -> Status {
    Status {
        target: rig.target(PERSISTENT_VOLUME_CLAIM, "a"),
        uid: uid.into(),
        seen: None,
        status: json!({ "conditions": [{ "type": condition, "status": "True" }] }),
    }
}

async fn conditions(claims: &Api<PersistentVolumeClaim>) -> Result<Vec<String>> {
    let status = claims.get("a").await?.status.unwrap_or_default();
    let mut types: Vec<String> = status
        .conditions
        .unwrap_or_default()
        .into_iter()
        .map(|c| c.type_)
        .collect();
    types.sort();
    Ok(types)
}

#[tokio::test]
async fn a_new_object_never_gets_the_status_of_the_old_one() -> Result<()> {
    let (rig, claims) = rig("status-uid").await?;
    let old = create(&claims).await?;
    claims.delete("a", &DeleteParams::default()).await?;
    wait_for(&claims, "a", DEADLINE, |live| live.is_none()).await?;
    assert!(
        rig.writer
            .status(&status(&rig, &old, "Ours"))
            .await
            .unwrap_err()
            .is_stale()
    );
    create(&claims).await?;
    assert!(
        rig.writer
            .status(&status(&rig, &old, "Ours"))
            .await
            .unwrap_err()
            .is_stale()
    );
    assert_eq!(conditions(&claims).await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_status_that_rests_on_an_old_view_is_refused_and_the_newer_one_stays() -> Result<()> {
    let (rig, claims) = rig("status-seen").await?;
    let uid = create(&claims).await?;
    let seen = claims
        .get("a")
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let resting_on = |version: &str, condition: &str| Status {
        seen: Some(version.into()),
        ..status(&rig, &uid, condition)
    };
    let newer = rig.writer.status(&resting_on(&seen, "Newer")).await?;
    // As one that has not seen its own write.
    let late = rig.writer.status(&resting_on(&seen, "Older")).await;
    assert!(late.unwrap_err().is_stale());
    assert_eq!(conditions(&claims).await?, ["Newer"]);
    rig.writer
        .status(&resting_on(&newer.resource_version, "Newest"))
        .await?;
    assert_eq!(conditions(&claims).await?, ["Newest"]);
    Ok(())
}

/// A write of the status of a new claim that has left us and not yet arrived.
async fn under_way(
    rig: &Rig,
    claims: &Api<PersistentVolumeClaim>,
) -> Result<(Proxy, Gate, JoinHandle<Result<Meta, WriteError>>)> {
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let through = clients(&rig.instance.through(&proxy), Fence::always())?;
    let writer = Writer::new(through.call, MANAGER, &rig.metrics);
    let uid = create(claims).await?;
    let gate = Gate::default();
    let held = proxy.add(Rule::new(Match::writes(), Fault::Hold(gate.clone())).once());
    let wish = status(rig, &uid, "Ours");
    let write = tokio::spawn(async move { writer.status(&wish).await });
    held.fired(1, DEADLINE).await?;
    Ok((proxy, gate, write))
}

#[tokio::test]
async fn an_object_that_is_replaced_while_the_status_is_under_way_does_not_get_it() -> Result<()> {
    let (rig, claims) = rig("status-late").await?;
    let (_proxy, gate, write) = under_way(&rig, &claims).await?;
    claims.delete("a", &DeleteParams::default()).await?;
    wait_for(&claims, "a", DEADLINE, |live| live.is_none()).await?;
    create(&claims).await?;
    gate.open();
    let outcome = write.await?;
    assert!(matches!(outcome, Err(WriteError::Stale(_))), "{outcome:?}");
    assert_eq!(conditions(&claims).await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn conditions_of_others_stay_and_ours_go_when_we_drop_them() -> Result<()> {
    let (rig, claims) = rig("status-others").await?;
    let uid = create(&claims).await?;
    let theirs = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "status": { "conditions": [{ "type": "Theirs", "status": "True" }] },
    });
    let params = kube::api::PatchParams::apply("others");
    claims
        .patch_status("a", &params, &kube::api::Patch::Apply(theirs))
        .await?;
    rig.writer.status(&status(&rig, &uid, "First")).await?;
    assert_eq!(conditions(&claims).await?, ["First", "Theirs"]);
    rig.writer.status(&status(&rig, &uid, "Second")).await?;
    assert_eq!(conditions(&claims).await?, ["Second", "Theirs"]);
    Ok(())
}

#[tokio::test]
async fn a_write_in_between_does_not_lose_the_status() -> Result<()> {
    let (rig, claims) = rig("status-race").await?;
    let (proxy, gate, write) = under_way(&rig, &claims).await?;
    let label = json!({ "metadata": { "labels": { "team": "blue" } } });
    claims
        .patch("a", &Default::default(), &kube::api::Patch::Merge(label))
        .await?;
    gate.open();
    write.await??;
    assert_eq!(conditions(&claims).await?, ["Ours"]);
    assert_eq!(
        proxy.requests(&Match::writes()).len(),
        2,
        "the first met another version"
    );
    Ok(())
}
