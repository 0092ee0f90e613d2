//! Crashes at every write: the end state is the same, wherever the controller dies.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use trustplane_plan::FINGERPRINT;
use trustplane_sample::api::Mirror;
use trustplane_sample::capability;
use trustplane_testkit::crash::{Picture, Scenario, Subject};
use trustplane_testkit::proxy::Moment;
use trustplane_testkit::{ControlPlane, DEADLINE, wait_for};

use crate::stage::{aim, alone, in_step, mirror, remove, rules, says, set_source, single};

/// Two mirrors: one changes its mind, the other goes.
fn scenario(name: &'static str) -> Scenario {
    let picture = Picture::default()
        .kind::<Mirror>()
        .labelled::<Secret>("app.kubernetes.io/managed-by=trustplane-sample")
        // Its key is made anew in every namespace.
        .without(FINGERPRINT);
    Scenario::new(name, rules(), picture)
        .phase(|sandbox| {
            Box::pin(async move {
                set_source(sandbox, "one").await?;
                mirror(sandbox, "stays", &["a", "b"]).await?;
                mirror(sandbox, "goes", &["c"]).await?;
                says(sandbox, "stays", "InStep").await?;
                says(sandbox, "goes", "InStep").await?;
                Ok(())
            })
        })
        .phase(|sandbox| {
            Box::pin(async move {
                set_source(sandbox, "two").await?;
                for copy in ["a", "b", "c"] {
                    in_step(sandbox, copy, "two").await?;
                }
                Ok(())
            })
        })
        .phase(|sandbox| {
            Box::pin(async move {
                aim(sandbox, "stays", &["b", "d"]).await?;
                says(sandbox, "stays", "InStep").await?;
                in_step(sandbox, "d", "two").await?;
                remove(sandbox, "goes").await?;
                for gone in ["a", "c"] {
                    wait_for(&sandbox.api::<Secret>(), gone, DEADLINE, |live| live.is_none()).await?;
                }
                Ok(())
            })
        })
}

async fn crash<S: Subject>(name: &'static str, subject: &S, moment: Moment) -> Result<()> {
    ControlPlane::shared()
        .await?
        .install(&(capability().crds)())
        .await?;
    let started = std::time::Instant::now();
    let report = scenario(name).crash_at_every_write(subject, moment).await?;
    // The key, two finalizers, four copies made, three changed, two removed, three statuses, one farewell.
    assert!(
        report.crashes >= 16,
        "only {} writes were counted",
        report.crashes
    );
    assert_eq!(report.end.as_array().map(Vec::len), Some(3), "{:#}", report.end);
    println!("{} crashes in {:?}", report.crashes, started.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn in_this_process_after_every_write() -> Result<()> {
    crash("crash-in-after", &alone(), Moment::After).await
}

#[tokio::test(flavor = "multi_thread")]
async fn in_this_process_before_every_write() -> Result<()> {
    crash("crash-in-before", &alone(), Moment::Before).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_binary_after_every_write() -> Result<()> {
    crash("crash-bin-after", &single(), Moment::After).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_binary_before_every_write() -> Result<()> {
    crash("crash-bin-before", &single(), Moment::Before).await
}
