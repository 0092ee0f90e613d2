//! What JASM does wrong, one by one: each is tested so that the original would fail.
//!
//! | JASM | here |
//! |---|---|
//! | 1. loops on its own writes | `quiet::a_thousand_pods_at_rest_cost_nothing`, `drift::a_hand_edit_is_put_back_with_one_write` |
//! | 2. keys that are gone stay | `syncs::a_forced_sync_brings_the_new_value_and_removed_keys_go` |
//! | 3. large numbers change | the same, and the tests of `core::shape` |
//! | 4. takes over any Secret | `conflicts::a_foreign_secret_is_never_touched` |
//! | 5. a Secret of another type, bad names and keys: an endless silent retry | here, and the tests of `core::grammar` and `core::shape` |
//! | 6. a failed write gives no event | here |
//! | 7. no binary, no plain text | the tests of `core::shape` |
//! | 8. two requests for one Secret flap | `conflicts::of_two_requests_the_first_wins_until_it_is_gone` |
//! | 9. finished pods count | here |
//! | 10. every change of a pod's status is a fetch | `quiet::changes_of_a_pod_that_mean_nothing_cause_nothing`, `syncs::replicas_share_one_call` |
//! | 11. whole pods and Secrets in memory | `trustplane-manager`: `what_is_not_needed_never_reaches_its_memory` |
//! | 12. request ids make every event another one | the tests of `providers::aws` |
//! | 13. ready before ready; two replicas write | `trustplane-manager`: `of_two_replicas_one_writes_and_the_other_takes_over`; the kit's |
//! | 14. nested JSON changes its bytes | the tests of `core::formats` |
//! | 15. any pod has any path | `policies` |

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{DEADLINE, wait_for};

use crate::stage::{Stage, VALUE};

#[tokio::test]
async fn a_write_that_the_api_server_never_takes_is_told_and_not_repeated_for_ever() -> Result<()> {
    let (stage, instance, _running) = Stage::synced("type").await?;
    stage.mock.set("basic", r#"{"username":"u","password":"p"}"#);
    let mark = Mark::now(stage.sandbox.plane()).await?;
    // The type of a Secret cannot be changed.
    let asks = "provider: mock\npath: basic\nsecretName: db\ntype: kubernetes.io/basic-auth\n";
    stage
        .patch(
            "web",
            json!({"annotations": {"jasm.codnod.io/secret-sync": asks}}),
        )
        .await?;
    let told = stage.told("web", "SecretSyncFailed").await?;
    let text = told.note.unwrap_or_default();
    assert!(text.contains("type") && !text.contains("\"p\""), "{text}");
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    // Others are served meanwhile, and no storm of tries is on its way.
    served(&stage, "other").await?;
    let audit = mark.since().await?.by(&instance);
    let tries = audit.writes();
    let tries = tries.iter().filter(|write| write.name() == "db").count();
    assert!((1..=5).contains(&tries), "{}", audit.story());
    Ok(())
}

#[tokio::test]
async fn a_finished_pod_does_not_bring_its_secret_back() -> Result<()> {
    let (stage, _instance, _running) = Stage::synced("finished").await?;
    let finished = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    stage
        .pods()
        .patch_status("web", &PatchParams::default(), &finished)
        .await?;
    // Pods come in their order, so the one that comes after is served when the end of the first is known.
    served(&stage, "one").await?;
    stage.secrets().delete("db", &DeleteParams::default()).await?;
    wait_for(&stage.secrets(), "db", DEADLINE, |live| live.is_none()).await?;
    served(&stage, "two").await?;
    assert!(stage.secrets().get_opt("db").await?.is_none());
    Ok(())
}

/// Another pod gets its Secret.
async fn served(stage: &Stage, name: &str) -> Result<()> {
    stage.mock.set(name, VALUE);
    stage.pod(name, name, name, "").await?;
    stage.holds(name, &[("password", "p"), ("user", "u")]).await?;
    Ok(())
}
