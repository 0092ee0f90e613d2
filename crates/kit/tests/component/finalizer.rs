//! Finalizers: none of somebody else is ever lost.

use anyhow::Result;
use kube::api::DeleteParams;
use serde_json::json;
use trustplane_kit::apply::Writer;
use trustplane_kit::lease::Fence;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Finalizer, Step};
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{Fault, Gate, Match, Proxy, Rule};
use trustplane_testkit::{DEADLINE, Rules, wait_for};

use crate::write_rig::{MANAGER, Rig, clients};

const OURS: &str = "test.trustplane.io/ours";
const THEIRS: &str = "example.io/theirs";

async fn rig(name: &str) -> Result<Rig> {
    Rig::with(name, Rules::default().allow("", "configmaps", &["get", "patch"])).await
}

fn change(rig: &Rig, uid: &str, name: &'static str, present: bool) -> Finalizer {
    Finalizer {
        target: rig.target(CONFIG_MAP, "a"),
        uid: uid.into(),
        name,
        present,
    }
}

async fn finalizers(rig: &Rig) -> Result<Vec<String>> {
    let mut names = rig
        .live("a")
        .await?
        .map(|live| live.finalizers)
        .unwrap_or_default();
    names.sort();
    Ok(names)
}

/// An object with these finalizers of others; gives its uid.
async fn object(rig: &Rig, others: &[&str]) -> Result<String> {
    rig.stranger("a", json!({})).await?;
    let live = rig
        .meddle("a", "others", json!({ "metadata": { "finalizers": others } }))
        .await?;
    Ok(live.metadata.uid.unwrap_or_default())
}

async fn clear(rig: &Rig) -> Result<()> {
    rig.meddle("a", "others", json!({ "metadata": { "finalizers": null } }))
        .await?;
    Ok(())
}

#[tokio::test]
async fn comes_and_goes_beside_others() -> Result<()> {
    let rig = rig("finalizer").await?;
    for others in [vec![], vec![THEIRS]] {
        let uid = object(&rig, &others).await?;
        let mark = Mark::now(rig.sandbox.plane()).await?;
        for _ in 0..2 {
            rig.writer.finalizer(&change(&rig, &uid, OURS, true)).await?;
        }
        assert_eq!(finalizers(&rig).await?, [others.clone(), vec![OURS]].concat());
        for _ in 0..2 {
            rig.writer.finalizer(&change(&rig, &uid, OURS, false)).await?;
        }
        assert_eq!(finalizers(&rig).await?, others);
        let audit = mark.since().await?.by(&rig.instance);
        assert_eq!(audit.writes().len(), 2, "{}", audit.story());
        clear(&rig).await?;
        rig.maps().delete("a", &DeleteParams::default()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_finalizer_that_comes_while_ours_is_under_way_stays() -> Result<()> {
    let rig = rig("finalizer-race").await?;
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let through = clients(&rig.instance.through(&proxy), Fence::always())?;
    let writer = Writer::new(through.call, MANAGER, &rig.metrics);
    let uid = object(&rig, &[]).await?;
    for present in [true, false] {
        let (gate, others) = (
            Gate::default(),
            if present {
                vec![THEIRS]
            } else {
                vec![THEIRS, OURS, "example.io/more"]
            },
        );
        let held = proxy.add(Rule::new(Match::writes(), Fault::Hold(gate.clone())).once());
        let (writer, wish) = (writer.clone(), change(&rig, &uid, OURS, present));
        let write = tokio::spawn(async move { writer.finalizer(&wish).await });
        held.fired(1, DEADLINE).await?;
        rig.meddle("a", "others", json!({ "metadata": { "finalizers": others } }))
            .await?;
        gate.open();
        write.await??;
    }
    assert_eq!(finalizers(&rig).await?, ["example.io/more", THEIRS]);
    clear(&rig).await
}

#[tokio::test]
async fn writers_at_the_same_moment_all_succeed() -> Result<()> {
    let rig = rig("finalizer-crowd").await?;
    let uid = object(&rig, &[THEIRS]).await?;
    let (a, b, c) = (
        change(&rig, &uid, "test.trustplane.io/1", true),
        change(&rig, &uid, "test.trustplane.io/2", true),
        change(&rig, &uid, "test.trustplane.io/3", true),
    );
    let outcomes = tokio::join!(
        rig.writer.finalizer(&a),
        rig.writer.finalizer(&b),
        rig.writer.finalizer(&c)
    );
    assert_eq!(outcomes, (Ok(()), Ok(()), Ok(())));
    assert_eq!(finalizers(&rig).await?.len(), 4);
    clear(&rig).await
}

#[tokio::test]
async fn an_object_that_is_going_gets_none_and_one_that_is_gone_needs_none() -> Result<()> {
    let rig = rig("finalizer-gone").await?;
    let uid = object(&rig, &[THEIRS]).await?;
    rig.writer.finalizer(&change(&rig, &uid, OURS, true)).await?;
    rig.maps().delete("a", &DeleteParams::default()).await?;
    let late = change(&rig, &uid, "test.trustplane.io/late", true);
    assert!(rig.writer.finalizer(&late).await.unwrap_err().is_stale());
    let live = rig.live("a").await?.unwrap();
    assert!(Finalizer::step::<trustplane_plan::Never>(&CONFIG_MAP, &live, late.name, true).is_none());
    let Some(Step::<trustplane_plan::Never>::Finalizer(remove)) =
        Finalizer::step(&CONFIG_MAP, &live, OURS, false)
    else {
        panic!("nothing to remove")
    };
    rig.writer.finalizer(&remove).await?;
    assert_eq!(finalizers(&rig).await?, [THEIRS]);
    clear(&rig).await?;
    wait_for(&rig.maps(), "a", DEADLINE, |live| live.is_none()).await?;
    rig.writer.finalizer(&remove).await?;
    assert!(rig.writer.finalizer(&late).await.unwrap_err().is_stale());
    // Another object of that name keeps what it has.
    let uid = object(&rig, &[OURS]).await?;
    rig.writer.finalizer(&remove).await?;
    assert_eq!(finalizers(&rig).await?, [OURS]);
    rig.writer
        .finalizer(&change(&rig, &uid, OURS, false))
        .await
        .map_err(Into::into)
}
